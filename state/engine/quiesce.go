package engine

import "github.com/bmcstate/bmcstate/state"

// rebootClient is the internal client of automatic reboots.
const rebootClient = "autoreboot"

// IncidentKind says what an [Incident] is.
type IncidentKind uint8

// The kinds of incidents.
const (
	IncidentPowerLost    IncidentKind = iota + 1 // power went while the BMC was away
	IncidentQuiesced                             // the host has used up its attempts
	IncidentOverdue                              // a schedule was dropped: it is later than overdueMax
	IncidentGatesUnknown                         // nobody has said in time whether a gate is closed: requests go on
)

// Incident is something for the BMC's event log.
type Incident struct {
	_ state.Incomparable

	Kind   IncidentKind
	Domain int
}

type incidentEffect struct{ incident Incident }

func (incidentEffect) isEffect() {}

// HostCrashed says that the host's crash target was started.
type HostCrashed struct{ Domain int }

func (HostCrashed) isEvent() {}

// crashed takes an attempt from a host that was running
// (openbmc-state-manager.md §2.3).
func (d *domain) crashed() {
	s := &d.values.saved
	if d.hostState() == state.HostStateRunning && s.AttemptsLeft > 0 {
		s.AttemptsLeft--
	}
}

// quiesceSeen takes the host's quiesce unit. That it is reached is one failure,
// however long it stays; one that was reached before the daemon came says
// nothing new.
func (d *domain) quiesceSeen(before state.Level) {
	if before == state.LevelOff && d.levels.Quiesced == state.LevelOn {
		d.hostFailed = true
	}
}

// bootFailed takes the end of a launch that should have brought the host up.
// Where units do the work, theirs is the word on it.
func (d *domain) bootFailed(r *launch) {
	if d.cfg.Targets == nil && !r.adopted && r.op.Kind() == state.KindHost && r.op.Raising() && r.moved {
		d.hostFailed = true
	}
}

// autoReboot decides about a host that has failed: another attempt, or none.
func (d *domain) autoReboot() {
	if !d.hostFailed || d.run != nil || len(d.recovered) > 0 || d.core.stops(state.HostReboot) != nil {
		return
	}
	d.hostFailed = false
	s := &d.values.saved
	set, known := d.settings()
	if _, waits := d.q.Head(); waits || s.Exhausted || !known || !set.AutoReboot || !set.AutoRebootOnce {
		return // somebody is at it, or nobody wants it
	}
	if s.AttemptsLeft > 0 {
		d.rebooting = d.request(rebootClient, d.object(state.HostReboot), state.HostReboot, state.RestartCauseHostCrash, func(Answer) {})
		return
	}
	s.AttemptsLeft, s.Exhausted = s.Retry, true
	d.core.emit(incidentEffect{Incident{Kind: IncidentQuiesced, Domain: d.cfg.ID}})
}

// quiesced reports whether the host is shown as Quiesced: its unit says so, or
// it has used up its attempts. One that is about to be rebooted is not.
func (d *domain) quiesced() bool {
	return d.values.saved.Exhausted || d.levels.Quiesced == state.LevelOn && !d.toReboot()
}

// toReboot reports whether an automatic reboot is on its way.
func (d *domain) toReboot() bool {
	req, ok := d.q.Get(d.rebooting)
	return ok && !req.Status.Final()
}

// operated ends the quiesced state of a host that somebody operates.
func (d *domain) operated(req state.Request) {
	if !selfMade(req) {
		d.values.saved.Exhausted = false
	}
}

// clearOneTime puts the one-time reboot policy back when power goes.
func (d *domain) clearOneTime(wasOn bool) {
	if set, known := d.settings(); wasOn && known && !set.AutoRebootOnce {
		d.writeSetting(state.SettingAutoRebootOnce, 1)
	}
}
