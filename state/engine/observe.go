package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// probe asks for a reading and returns its id. Readings that are asked for
// while one is under way are asked for all the same: a decision needs one that
// began after the question.
func (d *domain) probe(settle time.Duration) uint64 {
	d.core.probes++
	d.inFlight, d.again, d.sentRead = d.core.probes, false, d.boot()
	d.core.emit(probeEffect{d.cfg.ID, d.core.probes, settle})
	return d.core.probes
}

// poll reads the levels again when something moved, when the last reading is
// old, and at start.
func (d *domain) poll() {
	if !d.cfg.Driven {
		return
	}
	old := d.boot() >= d.sentRead+d.core.cfg.Times.Poll
	if d.core.probes == 0 || !d.asked || old || d.again && d.inFlight == 0 {
		d.asked = true
		d.probe(0)
	}
}

// edge takes a hint that an input moved. The level is read again; what the
// edge alone proves is a passage too short for a reading.
func (d *domain) edge(ev edge) {
	d.again = true
	switch ev.signal {
	case "PowerButton":
		if ev.asserted {
			d.button()
		}
	case "ResetButton":
		if ev.asserted {
			d.contrary()
		}
	case "PostComplete":
		d.passage(!ev.asserted)
	case "PlatformReset":
		d.passage(ev.asserted)
	}
}

// passage notes a reset that an edge shows.
func (d *domain) passage(reset bool) {
	if r := d.run; r != nil && reset && r.driven() {
		on, known := d.powered()
		r.seen.WentReset = r.seen.WentReset || known && on
	}
}

// button takes a press of the front power button: another pair of hands has
// begun a transition, which must settle before anything is launched.
func (d *domain) button() {
	d.contrary()
	on, known := d.powered()
	if !known || d.run != nil {
		return
	}
	d.hands = otherHands{up: !on, until: d.boot() + d.cfg.Timings.PowerOKWatchdog}
	if on {
		d.hands.until = d.boot() + d.cfg.Timings.GracefulTimeout
	}
}

// contrary keeps later property writes from joining the running request.
func (d *domain) contrary() {
	if d.run != nil {
		d.q.Contrary(d.run.seq)
	}
}

// seen takes a reading.
func (d *domain) seen(ev seen) {
	if ev.id == d.inFlight {
		d.inFlight = 0
	}
	d.readErr = ev.err
	if ev.err == nil {
		d.lastRead = d.boot()
	}
	before, knownBefore := d.powered()
	moved := ev.levels != d.levels
	d.levels = ev.levels
	on, known := d.powered()
	if known && (!knownBefore || on != before) {
		d.powerMoved(on)
	}
	if moved {
		d.clearHints()
	}
	d.postMoved()
	agreed := ev.agreed && ev.err == nil && known
	if d.run != nil {
		d.observed(ev.id, agreed)
	}
	if d.judging != nil && d.judging.probe == ev.id {
		d.judged(agreed)
	}
}

// powerMoved takes a change of the power state, the first known one included.
func (d *domain) powerMoved(on bool) {
	d.press = openPress{}
	d.hands = otherHands{}
	if r := d.run; r != nil && !r.op.Passes() && on != r.op.Raising() {
		d.contrary()
	}
	d.values.powerSeen(on, d.now())
	if !on {
		d.quiesced = false
		d.values.hostGone()
	}
}

// postMoved lets POST complete set the state of the operating system.
func (d *domain) postMoved() {
	post := d.levels.PostComplete
	if post == d.post || !post.Known() {
		return
	}
	first := !d.post.Known()
	d.post = post
	switch {
	case post == state.LevelOn:
		d.values.osStandby(first)
	case !first:
		d.values.hostGone()
	}
}

// hostState is what CurrentHostState shows.
func (d *domain) hostState() state.HostState {
	if h := d.values.hostHint; h.until != 0 {
		return state.HostState(h.value)
	}
	on, known := d.powered()
	if !known {
		return d.values.lastHost
	}
	running := d.running()
	if d.run != nil && d.run.mode != modeUnknown {
		switch d.run.current().Show {
		case sequence.ShowStopping, sequence.ShowCutting:
			if on && d.values.lastHost != state.HostStateOff {
				return state.HostStateTransitioningToOff
			}
			return state.HostStateOff
		case sequence.ShowPowering, sequence.ShowStarting:
			if !running || d.run.verdict == state.VerdictReset {
				return state.HostStateTransitioningToRunning
			}
		}
	}
	switch {
	case !on:
		return state.HostStateOff
	case d.quiesced:
		return state.HostStateQuiesced
	case running:
		return state.HostStateRunning
	default:
		return state.HostStateOff
	}
}

// powerState is what CurrentPowerState shows.
func (d *domain) powerState() state.PowerState {
	if h := d.values.powerHint; h.until != 0 {
		return state.PowerState(h.value)
	}
	on, known := d.powered()
	if !known {
		return d.values.lastPower
	}
	if d.run != nil && d.run.mode != modeUnknown {
		switch show := d.run.current().Show; {
		case show == sequence.ShowCutting && on:
			return state.PowerStateTransitioningToOff
		case show == sequence.ShowPowering && !on:
			return state.PowerStateTransitioningToOn
		}
	}
	if on {
		return state.PowerStateOn
	}
	return state.PowerStateOff
}
