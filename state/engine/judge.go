package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// judging is a head of the queue that waits for a settled reading.
type judging struct {
	seq   uint64
	probe uint64
	since time.Duration
}

// judgeHead moves the head of the queue on. It reports whether another head may
// be looked at.
func (d *domain) judgeHead() bool {
	head, ok := d.q.Head()
	if !ok {
		d.unjudge()
		return false
	}
	if d.outdated(head.Seq) {
		d.unjudge()
		return true
	}
	if len(d.recovered) > 0 {
		return d.tooLongUnknown(head)
	}
	if _, known := d.powered(); !known || !d.cfg.Driven {
		d.unjudge()
		return d.tooLongUnknown(head)
	}
	if d.refusedByBarrier(head) {
		return true
	}
	if d.core.gated(head.Op) {
		d.unjudge()
		return false
	}
	if r := d.core.lateRefusal(&head); r != nil {
		d.unjudge()
		d.decided = true
		d.finish(head.Seq, state.Failed, r.Text)
		return true
	}
	if d.parked == head.Seq {
		return false
	}
	if d.mustSettle(head) {
		d.unjudge()
		return false
	}
	if d.judging == nil || d.judging.seq != head.Seq {
		d.judging = &judging{seq: head.Seq, since: d.boot(), probe: d.probe(d.core.cfg.Times.Settle)}
		return false
	}
	if d.boot() >= d.judging.since+d.core.cfg.Times.Judge {
		d.unjudge()
		d.finish(head.Seq, state.Failed, "the power inputs contradict each other or cannot be read: "+d.readText())
		return true
	}
	return false
}

// tooLongUnknown ends a request that has waited knownTimeout for the power
// state (DESIGN.md P7), not for its turn: one reading that fails ends nothing.
func (d *domain) tooLongUnknown(head state.Request) bool {
	if !d.cfg.Driven {
		d.finish(head.Seq, state.Failed, "nothing is driven: this daemon has no lines and no targets configured")
		return true
	}
	if d.boot() < d.knownDeadline(head) {
		return false
	}
	d.finish(head.Seq, state.Failed, "the power state is not known: "+d.readText())
	return true
}

func (d *domain) knownDeadline(head state.Request) time.Duration {
	return max(head.Accepted.Boot, d.lostAt) + d.core.cfg.Times.Known
}

func (d *domain) readText() string {
	if d.readErr != nil {
		return d.readErr.Error()
	}
	return "no input says on or off"
}

// mustSettle reports whether a request has to wait until something settles that
// others began, or a press of ours that nothing has confirmed. What begins with
// a hold or a reset needs no press, and is not made safer by waiting for an OS
// that shuts down.
func (d *domain) mustSettle(req state.Request) bool {
	if d.hands.until != 0 && (d.hands.up || req.Op.Class() < state.Forced) {
		return true
	}
	if d.others.waits() && req.Op.Class() < state.Emergency {
		return true
	}
	return d.press.until != 0 && presses[d.verdict(req)]
}

// verdict judges a request by what is seen now.
func (d *domain) verdict(req state.Request) state.Verdict {
	if req.Object.Kind == state.KindSystem {
		return state.JudgeSlot(req.Op, d.levels.Slot == state.LevelOn, d.core.cfg.RebootWhenOff)
	}
	v := state.Judge(req.Op, d.column(), d.core.cfg.RebootWhenOff || req.Internal())
	switch {
	case v != state.VerdictNoop || req.Op.Raising():
		return v
	case d.levels.PowerOut == state.LevelOn:
		return state.VerdictCutPower // held on without power, as after a fault: it may come back at any time
	case d.levels.Applied == state.LevelOn:
		return state.VerdictTakeBack // a sequence that was overtaken has left it
	default:
		return v
	}
}

// mayComeUp reports whether power that is off may come up by what we did: a
// press that nothing has confirmed, or a level that holds it on.
func (d *domain) mayComeUp() bool { return d.press.raising || d.levels.PowerOut == state.LevelOn }

// settleOthers forgets a transition that somebody else began, and a press that
// nothing has confirmed, when their time is over.
func (d *domain) settleOthers() {
	if d.due(d.hands.until) {
		d.hands = otherHands{}
		if on, _ := d.powered(); on && d.shown.host.Current == state.HostStateRunning {
			d.values.causes = 0 // it came to nothing
		}
	}
	if d.due(d.press.until) {
		d.press = openPress{}
	}
}

// unjudge gives the judging up. Calls that waited for it may have an answer.
func (d *domain) unjudge() {
	d.decided = d.decided || d.judging != nil
	d.judging = nil
}

// judged takes the settled reading that the head has waited for.
func (d *domain) judged(agreed bool) {
	if !agreed {
		d.judging.probe = d.probe(d.core.cfg.Times.Settle)
		return
	}
	seq := d.judging.seq
	d.unjudge()
	req, ok := d.q.Get(seq)
	if !ok || req.Status != state.Pending || d.outdated(seq) {
		return
	}
	v := d.verdict(req)
	switch {
	case d.mustSettle(req):
		return
	case v == state.VerdictNoop:
		if !req.Op.Raising() {
			d.operated(req)
		}
		d.finish(seq, state.Noop, "")
		d.keepOff(req)
	case v == state.VerdictInvalid:
		d.finish(seq, state.Invalid, "it makes no sense while the power is off")
	case d.core.system.holds(d, seq):
		d.parked = seq
	default:
		d.launch(req, v, false, false)
	}
}
