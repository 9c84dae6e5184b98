package engine

import (
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// acted takes the end of a pulse or of a unit's job.
func (d *domain) acted(ev acted) {
	r := d.run
	if r != nil && r.seq == ev.request && r.outer != nil && r.outer.step == ev.step {
		d.outerActed(ev)
		return
	}
	if r == nil || r.seq != ev.request || r.step != ev.step || r.mode != modeAct {
		return
	}
	r.pulsing, r.job, r.jobOver = "", false, false
	r.moved = r.moved || ev.moved
	if d.pulseEnded() {
		return
	}
	d.again = true // what it led to may show no edge: POST complete stays off when a reset meets POST
	if ev.err != nil {
		if !ev.moved {
			d.press = openPress{}
		}
		d.giveUp(ev.err.Error())
		return
	}
	if d.preempt != 0 {
		r.mode = modeWait // nothing more of this launch runs: see takeOver
		return
	}
	switch st := r.current(); {
	case r.short:
		d.begin(st.ShortTo)
	case st.Unit != "" && !d.met(st.Goal):
		d.begin(r.step + 1) // the job is done; what it should lead to is not seen yet
	default:
		d.begin(st.Then)
	}
}

// out is where a wait leads that power off has ended: to next, or, where the
// press may have met a board that was off already, to where that is looked at.
// Until then the press may bring power up, and no other may follow it.
func (d *domain) out(st *sequence.Step, next int) int {
	if st.Doubt == 0 || d.run.heldOn {
		return next
	}
	d.press = openPress{until: d.boot() + d.cfg.Timings.ConfirmTimeout, raising: true, at: d.boot()}
	return st.Doubt
}

// met reports whether a goal is met by what was seen since the launch.
func (d *domain) met(g sequence.Goal) bool {
	return g.Met(d.run.seen, d.cfg.Options.StrictRunning)
}

// observed lets the launch see a new reading.
func (d *domain) observed(probe uint64, agreed bool) {
	r := d.run
	r.see(d.levels)
	on, known := d.powered()
	r.heldOn = r.heldOn || r.heldFrom != 0 && probe >= r.heldFrom && known && on
	switch r.mode {
	case modeCheck:
		if probe == r.reread {
			d.checked(agreed)
		}
	case modeAct:
		if st := r.current(); st.Unit != "" {
			d.watchJob(st)
			return
		}
		if st := r.current(); !r.short && !st.Asks() && d.met(st.Short) && (r.heldOn || !st.Hold) {
			r.short = true
			d.core.emit(releaseEffect{domain: d.cfg.ID, signal: r.pulsing})
		}
	case modeWait:
		d.waited(probe)
	case modeUnknown:
		if d.confirmed() {
			d.succeed()
		}
	}
}

// watchJob looks whether what a unit is to lead to is seen before its job ends.
func (d *domain) watchJob(st *sequence.Step) {
	if d.met(st.Goal) {
		d.begin(st.Then)
	}
}

// confirmed reports whether every goal that is left is met.
func (d *domain) confirmed() bool {
	for i := d.run.step; i != sequence.End; i = d.run.plan.Steps[i].Then {
		if !d.met(d.run.plan.Steps[i].Goal) {
			return false
		}
	}
	return true
}

// see adds a reading to what was seen since the launch.
func (r *launch) see(l state.Levels) {
	on, known := l.Power()
	r.seen.Levels = l
	anew := l.HostActive == state.LevelOn && l.HostSince > r.since
	r.seen.HostWent = r.seen.HostWent || l.HostActive == state.LevelOff || anew
	r.seen.WentOff = r.seen.WentOff || known && (!on || l.PowerSince > r.since)
	r.unproven = r.unproven && !(known && on && !l.InReset())
	r.seen.WentReset = r.seen.WentReset || r.driven() && !r.unproven && known && on && l.InReset()
}

// asserted takes the sign that a pulse has reached its line. A press for power
// off may meet a board that went off by itself meanwhile, and then starts it: a
// force-off hold has to go on until the board is on and cut again, and what
// follows a press that asks the OS is looked at, see [domain.out].
func (d *domain) asserted(signal string) {
	if r := d.run; r != nil && r.mode == modeAct && r.pulsing == signal && r.heldFrom == 0 {
		r.heldFrom = d.probe(0)
	}
}

// checked goes on with a pulse whose inputs were read again.
func (d *domain) checked(agreed bool) {
	if !agreed {
		d.run.reread = d.probe(d.core.cfg.Times.Settle)
		return
	}
	if st := d.run.current(); d.met(st.Short) {
		d.begin(st.ShortTo)
		return
	}
	d.journalStep()
}

// waited looks whether a wait has ended.
func (d *domain) waited(probe uint64) {
	st := d.run.current()
	switch {
	case d.met(st.Short):
		d.begin(st.ShortTo)
	case d.met(st.Goal):
		d.begin(d.out(st, st.Then))
	case d.met(st.Abort):
		d.fail(st.AbortReason)
	case d.run.reread != 0 && probe == d.run.reread:
		d.expire()
	}
}
