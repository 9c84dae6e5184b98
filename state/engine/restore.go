package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// restorePhase is how far the power restore policy of a domain has come in this
// boot of the BMC. It is journalled: a daemon that restarts goes on where the
// one before stopped, and never decides twice.
type restorePhase uint8

const (
	restoreDone restorePhase = iota // decided, or there was nothing to decide
	restoreLook                     // power has not read the same for long enough
	restoreWait                     // power is off; settings, delay or supplies are waited for
)

// restoreClient is the internal client of the policy.
const restoreClient = "restore"

// wish is what the machine was last asked for, as the policy Restore sees it.
type wish uint8

const (
	wishUnknown wish = iota // nobody has asked since this is recorded
	wishOff
	wishOn
)

// look is how power reads since the BMC has booted. A line that is read before
// its board is set up must neither cost a host nor start one
// (bug-reports.md 9, 17).
type look struct {
	_ state.Incomparable

	on    bool
	since time.Duration // 0 = it is not known, or has just moved
	probe uint64        // the settled reading that ends the look
}

// bootSeen compares the BMC's boot with that of the journal. In another one the
// policy has to be looked at.
func (d *domain) bootSeen(id string) {
	s := &d.values.saved
	if s.Boot == id || !d.cfg.Driven {
		return
	}
	s.Boot, s.Restore, s.OffAt, s.Void, s.Lost, s.OutputsReset = id, restoreLook, 0, false, false, false
	s.WasOn = s.PowerOn != nil && *s.PowerOn
}

// looking reports whether a level may still be one of a board that is being set
// up. What was stored is not given up for it.
func (d *domain) looking() bool { return d.values.saved.Restore == restoreLook }

// lookAt takes a reading while power must settle.
func (d *domain) lookAt(probe uint64, agreed bool) {
	if !d.looking() {
		return
	}
	l := &d.look
	on, known := d.powered()
	switch {
	case !known:
		*l = look{}
	case l.since == 0 || on != l.on:
		*l = look{on: on, since: d.boot()}
	case l.probe == 0 || probe != l.probe:
	case !agreed:
		*l = look{}
	default:
		d.looked(on)
	}
}

// looked takes the power state as it settled after a boot.
func (d *domain) looked(on bool) {
	s := &d.values.saved
	s.Restore = restoreDone
	lost, wasOn := s.WasOn && !on, d.values.wasOn()
	d.powerNoted(on)
	if on {
		return // a host that is up is left alone, and a one-time policy kept
	}
	d.values.hostGone()
	d.clearOneTime(wasOn)
	s.Exhausted = false
	s.Restore, s.OffAt, s.Lost = restoreWait, max(d.look.since, 1), lost
	if lost {
		d.core.emit(incidentEffect{Incident{Kind: IncidentPowerLost, Domain: d.cfg.ID}})
	}
	if d.core.cfg.RestoreNotAfter[d.core.cfg.RebootCause] {
		s.Restore = restoreDone
	}
}

// endLook takes the power state as it is: somebody does not wait for it to
// settle, and a settled reading has just said so.
func (d *domain) endLook() {
	if on, known := d.powered(); known && d.looking() {
		d.looked(on)
	}
}

// restore does what the policy says, once power is known to be off and nothing
// holds it back.
func (d *domain) restore() {
	d.resupply()
	s := &d.values.saved
	switch s.Restore {
	case restoreLook:
		if l := &d.look; l.since != 0 && l.probe == 0 && d.boot() >= l.since+d.core.cfg.Times.RestoreSettle {
			l.probe = d.probe(d.core.cfg.Times.Settle)
		}
	case restoreWait:
		on, powerKnown := d.powered()
		set, known := d.settings()
		switch {
		case !powerKnown || !known || len(d.recovered) > 0:
			d.free = 0
		case on || s.Void:
			d.restorePolicy(set)
		case !d.restoreFree(set):
			d.free = 0
		case d.free == 0 && d.cfg.RestoreStagger > 0:
			d.free = d.boot()
		case d.boot() >= d.free+d.cfg.RestoreStagger:
			d.applyPolicy(d.restorePolicy(set))
		}
	}
}

// restoreFree reports whether nothing but the stagger holds the policy back, not
// even a Chassis Off that is not in the journal yet, which refuses what raises.
// The stagger counts from here: what holds all domains back, as the settings, the supplies or
// the BMC that is not ready, would otherwise start them all at once.
func (d *domain) restoreFree(set state.Settings) bool {
	return d.barrier == 0 && d.core.stops(state.HostOn) == nil && d.powerStatus == state.PowerStatusGood && d.boot() >= d.restoreAt(set)
}

// restoreAt is when the policy's delay is over.
func (d *domain) restoreAt(set state.Settings) time.Duration {
	return d.values.saved.OffAt + set.RestoreDelay
}

// restorePolicy ends the decision and returns the policy that it falls by. A
// one-time policy is used up by the boot that finds power off, whatever became
// of it.
func (d *domain) restorePolicy(set state.Settings) state.RestorePolicy {
	d.values.saved.Restore, d.free = restoreDone, 0
	if set.RestoreOnce == state.RestoreNone {
		return set.Restore
	}
	d.writeSetting(state.SettingRestoreOnce, uint64(state.RestoreNone))
	return set.RestoreOnce
}

func (d *domain) applyPolicy(p state.RestorePolicy) {
	onlyLost := d.core.cfg.RestoreOnlyLost && !d.values.saved.Lost
	switch {
	case p == state.RestoreAlwaysOn:
		d.restoreOn(state.RestartCausePowerPolicyAlwaysOn)
	case onlyLost:
	case p == state.RestorePrevious && d.wantedOn():
		d.restoreOn(state.RestartCausePowerPolicyPreviousState)
	case p == state.RestoreAlwaysOff:
		d.values.saved.Wish = wishOff
		d.restoreOff()
	}
}

// restoreOn asks for power. The cause is there before the request is seen.
func (d *domain) restoreOn(cause state.RestartCause) {
	d.addCause(cause)
	d.request(restoreClient, d.object(state.HostOn), state.HostOn, cause, func(Answer) {})
}

// restoreOff records that the host is to be off (openbmc-state-manager.md §4.3,
// 1fc48456). It is off, so nothing is driven.
func (d *domain) restoreOff() {
	if d.host().Requested == state.HostOff {
		return
	}
	d.request(restoreClient, d.object(state.HostOff), state.HostOff, state.RestartCauseUnknown, func(Answer) {})
}

// wantedOn reports what the policy Restore brings back.
func (d *domain) wantedOn() bool {
	switch d.values.saved.Wish {
	case wishOff:
		return false
	case wishOn:
		return true
	default:
		return d.values.saved.WasOn || d.host().Requested != state.HostOff
	}
}

// wished takes a request that was accepted. A forced off says nothing about what
// is to come back, unless the configuration says that it does
// (openbmc/phosphor-state-manager#3).
func (d *domain) wished(op state.Operation) {
	s := &d.values.saved
	switch {
	case op == state.HostOff, op == state.ChassisOff && !d.core.cfg.RestoreAfterForcedOff:
		s.Wish = wishOff
	case op.Kind() == state.KindHost:
		s.Wish = wishOn
	}
}

// intervened makes the policy void: somebody has begun to operate the machine.
func (d *domain) intervened() { d.values.saved.Void = d.values.saved.Restore != restoreDone }

// supplied takes what the power supplies say. When they are good again with
// power off, the policy is looked at as after a boot
// (openbmc-state-manager.md §2.5).
func (d *domain) supplied(status state.PowerStatus) {
	if status == state.PowerStatusGood && d.powerStatus != state.PowerStatusGood && d.powerStatus != state.PowerStatusUndefined {
		d.resupplied = true
	}
	d.powerStatus = status
}

// resupply begins the policy anew once supplies are good again and power is known:
// one reading that fails does not lose it.
func (d *domain) resupply() {
	on, known := d.powered()
	if !d.resupplied || !known {
		return
	}
	d.resupplied = false
	if s := &d.values.saved; !on && d.run == nil && s.Restore == restoreDone {
		s.Restore, s.OffAt, s.Void = restoreWait, d.boot(), false
	}
}

// restoreDeadline is when the policy has something to do by time alone.
func (d *domain) restoreDeadline() time.Duration {
	switch d.values.saved.Restore {
	case restoreLook:
		if d.look.since != 0 && d.look.probe == 0 {
			return d.look.since + d.core.cfg.Times.RestoreSettle
		}
	case restoreWait:
		if d.free != 0 && d.boot() < d.free+d.cfg.RestoreStagger {
			return d.free + d.cfg.RestoreStagger
		}
		if set, known := d.settings(); known {
			if at := d.restoreAt(set); at > d.boot() {
				return at
			}
		}
	}
	return 0
}
