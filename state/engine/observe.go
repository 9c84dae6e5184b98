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
	old := d.boot() >= d.pollAt()
	if d.core.probes == 0 || !d.asked || old || d.again && d.inFlight == 0 {
		d.asked = true
		d.probe(0)
	}
}

// pollAt is when a reading is old. What could not be read is tried again much
// sooner: a request may be waiting for it.
func (d *domain) pollAt() time.Duration {
	if _, known := d.powered(); !known {
		return d.sentRead + d.core.cfg.Times.Poll/10
	}
	return d.sentRead + d.core.cfg.Times.Poll
}

// phase is where the host is in the power sequence.
func (d *domain) phase() sequence.Phase {
	if r := d.run; r != nil && r.mode != modeUnknown && r.current().Phase != 0 {
		return r.current().Phase
	}
	on, _ := d.powered()
	switch {
	case d.hands.phase != 0:
		return d.hands.phase
	case !on:
		return sequence.PhaseOff
	case d.levels.SIOGood == state.LevelOff:
		return sequence.PhaseAwaitSIO
	default:
		return sequence.PhaseOn
	}
}

// edge takes a hint that an input moved. The level is read again; beyond that,
// [sequence.React] says what the edge leads to.
func (d *domain) edge(ev edge) {
	d.again = true
	if ev.asserted {
		d.asserted(ev.signal)
	}
	if b, ok := buttons[ev.signal]; ok {
		d.controls.pressed[b] = ev.asserted
		if d.controls.masked[b] {
			return // a masked button is shown, and begins nothing
		}
		if ev.asserted && maskOutputs[b] != "" {
			d.intervened() // also before power is known
		}
		d.buttonMoved(b, ev.asserted)
	}
	e := sequence.EventOf(ev.signal, ev.asserted)
	if e == sequence.PowerOKAssert || e == sequence.PowerOKDeassert {
		d.look = look{}
	}
	if _, known := d.powered(); e == 0 || !known {
		return
	}
	d.hinted(e)
	switch sequence.React(d.phase(), e) {
	case sequence.HandsUp:
		d.handsBegin(e, sequence.PhaseAwaitPowerOK, d.cfg.Timings.PowerOKWatchdog+d.cfg.Timings.SIOWatchdog)
	case sequence.HandsDown:
		if e == sequence.S5Assert {
			d.handsBegin(e, sequence.PhaseToOff, d.cfg.Timings.PowerOKWatchdog)
		} else {
			d.handsBegin(e, sequence.PhaseGracefulOff, d.cfg.Timings.GracefulTimeout)
		}
	case sequence.HandsReset:
		d.resetSeen(e)
	case sequence.SkipPress:
		d.skipPress(e)
	case sequence.Contrary:
		d.contrary()
		d.pressedByHand(e)
	case sequence.Passage:
		d.passage()
	case sequence.CameBack:
		d.guestMoved(e)
	}
}

// handsBegin notes a transition that somebody else began. It must settle before
// anything is launched, and nothing is forced.
func (d *domain) handsBegin(e sequence.Event, phase sequence.Phase, within time.Duration) {
	d.contrary()
	if d.run != nil {
		return
	}
	if e == sequence.PowerButtonPressed {
		d.values.saved.Wish = wishOff
		if phase == sequence.PhaseAwaitPowerOK {
			d.values.saved.Wish = wishOn
		}
	}
	d.hands = otherHands{phase: phase, up: phase == sequence.PhaseAwaitPowerOK, until: d.boot() + max(within, 1)}
	d.addCause(handsCauses[e])
}

var handsCauses = [256]state.RestartCause{
	sequence.PowerButtonPressed: state.RestartCausePowerButton, sequence.ResetButtonPressed: state.RestartCauseResetButton,
	sequence.S5Assert: state.RestartCauseSoftReset, sequence.PostCompleteDeassert: state.RestartCauseSoftReset,
	sequence.PlatformResetAssert: state.RestartCauseSoftReset,
}

// resetSeen takes a sign of a reset that we did not cause. Inputs fall as power
// goes, too, so one that is not a button counts only if power stays.
func (d *domain) resetSeen(e sequence.Event) {
	if e == sequence.ResetButtonPressed {
		d.handsBegin(e, sequence.PhaseWarmReset, d.cfg.Timings.WarmResetCheck)
		return
	}
	if source := d.warmResetSource(); d.run == nil && e == source {
		d.reset = resetSign{event: source, probe: d.probe(d.core.cfg.Times.Settle)}
	}
}

// resetSign is an edge that shows a warm reset if power stays.
type resetSign struct {
	_ state.Incomparable

	event sequence.Event
	probe uint64 // the reading that decides; 0 = no sign
}

// warmResetSource is the event that shows a warm reset on this board.
func (d *domain) warmResetSource() sequence.Event {
	switch d.cfg.Options.WarmResetSource {
	case "PlatformReset":
		return sequence.PlatformResetAssert
	case "none":
		return 0
	default:
		return sequence.PostCompleteDeassert
	}
}

// skipPress goes on with a cycle whose dwell was ended by other hands: the host
// powers itself up, and our press would switch it off again.
func (d *domain) skipPress(e sequence.Event) {
	d.contrary()
	r := d.run
	if r == nil || r.mode != modeWait || r.current().Short == sequence.GoalNone {
		return
	}
	d.addCause(handsCauses[e])
	d.begin(r.current().ShortTo)
}

// pressedByHand ends the look at what our press has met: power that comes up now
// is a person's.
func (d *domain) pressedByHand(e sequence.Event) {
	r := d.run
	if e != sequence.PowerButtonPressed || r == nil || r.mode != modeWait || !r.current().SeesPress() {
		return
	}
	d.noStart(r.current())
	d.handsBegin(e, sequence.PhaseAwaitPowerOK, d.cfg.Timings.PowerOKWatchdog+d.cfg.Timings.SIOWatchdog)
}

// passage notes a reset that an edge shows.
func (d *domain) passage() {
	if r := d.run; r != nil && r.driven() {
		on, known := d.powered()
		r.seen.WentReset = r.seen.WentReset || known && on
	}
}

// guestMoved notes an OS that leaves and one that comes up again, while it was
// asked to power off.
func (d *domain) guestMoved(e sequence.Event) {
	r := d.run
	if r == nil || !r.driven() || !d.levels.ResetVisible() {
		return
	}
	switch e {
	case sequence.PostCompleteDeassert, sequence.PlatformResetAssert:
		r.seen.Fell = true
	default:
		r.seen.CameBack = r.seen.CameBack || r.seen.Fell
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
	d.fading = d.fading && d.again // unless the reading is older than the edge
	if ev.err == nil {
		d.lastRead = d.boot()
	}
	before, knownBefore := d.powered()
	quiescedBefore, upBefore := d.levels.Quiesced, unitsUp(&d.levels)
	d.levels.Pressed = ev.levels.Pressed // a button is no change of the host
	moved := ev.levels != d.levels
	d.levels = ev.levels
	d.buttonsSeen()
	d.quiesceSeen(quiescedBefore)
	if upBefore && d.levels.HostActive == state.LevelOff && !unitsUp(&d.levels) {
		d.values.hostGone() // with the power still on, as in a warm reboot
	}
	on, known := d.powered()
	if known && (!knownBefore || on != before) {
		d.powerMoved(on)
	}
	if !known && knownBefore {
		d.lostAt = d.boot()
	}
	if moved {
		d.clearHints()
	}
	d.postMoved()
	d.confirmReset(ev)
	agreed := ev.agreed && ev.err == nil && known
	d.lookAt(ev.id, agreed)
	d.driveSeen(ev.id, agreed)
	if d.run != nil {
		d.observed(ev.id, agreed)
	}
	if d.judging != nil && d.judging.probe == ev.id {
		d.judged(agreed)
	}
}

// unitsUp reports whether the host's units show it as anything but off.
func unitsUp(l *state.Levels) bool {
	return l.HostActive == state.LevelOn || l.Quiesced == state.LevelOn || l.Diagnostic == state.LevelOn
}

// powerMoved takes a change of the power state, the first known one included.
func (d *domain) powerMoved(on bool) {
	d.powerSign(on)
	d.hoursMoved(on)
	d.press = openPress{}
	d.hands = otherHands{}
	if r := d.run; r != nil && !r.op.Passes() && on != r.op.Raising() {
		d.contrary()
	}
	if d.looking() {
		return
	}
	wasOn := d.values.wasOn()
	d.powerNoted(on)
	if !on {
		d.values.saved.Exhausted = d.values.saved.Exhausted && !wasOn
		d.clearOneTime(wasOn)
		d.values.hostGone()
	}
}

// powerNoted takes a power state that counts. Power that moves by itself has no
// cause.
func (d *domain) powerNoted(on bool) {
	first, asked := d.values.saved.PowerOn == nil, d.powerAsked(on)
	if moved := d.values.powerSeen(on, d.now()); !moved || first {
		return
	}
	d.powerNotice(on, asked)
	if !asked {
		d.values.noCause()
	}
}

// powerAsked reports whether a change of power is what something here is for: the
// running request, one that an earlier daemon left, a button or the guest.
func (d *domain) powerAsked(on bool) bool {
	if r := d.run; r != nil {
		return r.verdict != state.VerdictReset && (r.op.Passes() || r.op.Raising() == on)
	}
	return len(d.recovered) > 0 || d.values.causes != 0
}

// confirmReset takes the reading that tells a warm reset from a loss of power.
func (d *domain) confirmReset(ev seen) {
	if d.reset.probe == 0 || d.reset.probe != ev.id {
		return
	}
	sign := d.reset
	d.reset = resetSign{}
	if on, known := d.powered(); known && on && ev.err == nil && d.run == nil && d.hands.phase == 0 {
		d.handsBegin(sign.event, sequence.PhaseWarmReset, d.cfg.Timings.WarmResetCheck)
		d.sign(Sign{Kind: SignOff, What: "the OS has left"}) // for a reboot, or for power off
	}
}

// postMoved lets POST complete set the state of the operating system.
func (d *domain) postMoved() {
	post := d.levels.PostComplete
	if on, known := d.powered(); known && !on && post.Known() {
		if d.looking() {
			return // power that has not settled tells nothing about the host on it
		}
		// Without power POST is not complete, whatever the line shows. When
		// power returns the line counts again, though it had no edge.
		post = state.LevelOff
	}
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
