package engine

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// runOverdue does what a passed deadline calls for.
func (d *domain) runOverdue() {
	r := d.run
	if r == nil || !d.due(r.deadline) {
		return
	}
	switch r.mode {
	case modeWait:
		if r.reread == 0 && r.current().Goal != sequence.GoalTime {
			// One more look before the wait is given up: an edge may have
			// been missed.
			r.reread, r.deadline = d.probe(0), d.boot()+d.core.cfg.Times.Read
			return
		}
		d.expire()
	case modeAct:
		if r.current().Unit != "" {
			d.expire()
			return
		}
		d.giveUp(fmt.Sprintf("stuck: line %s did not answer within %s", r.pulsing, r.deadline-r.stepAt))
	case modeCheck:
		d.fail("the power inputs contradict each other or cannot be read: " + d.readText())
	case modeUnknown:
		if r.resumed {
			d.interrupt("effect not proven")
			return
		}
		d.fail("not confirmed: no " + goalTexts[r.current().Goal] + " was seen")
	}
}

var goalTexts = map[sequence.Goal]string{
	sequence.GoalPowerOn: "power good", sequence.GoalPowerOff: "power off", sequence.GoalHostRunning: "running host",
	sequence.GoalResetSeen: "reset", sequence.GoalPassage: "passage through off or reset", sequence.GoalOffSeen: "passage through off",
}

// expire ends a wait whose goal was not met in time.
func (d *domain) expire() {
	r := d.run
	st := r.current()
	switch {
	case st.Goal == sequence.GoalPowerOn && st.Raising:
		d.tell(NoticeNoPowerGood)
	case st.Goal == sequence.GoalSIOGood:
		d.tell(NoticeNoSIOGood)
	}
	switch st.OnTimeout {
	case sequence.TimeoutNext:
		if r.withdraws() {
			d.press = openPress{}
			d.giveUp(st.Reason)
			return
		}
		d.noStart(st)
	case sequence.TimeoutFail:
		d.press = openPress{} // the sequence's own watchdog settles the press
		d.fail(st.Reason)
	case sequence.TimeoutUnknown:
		if err := d.q.Unknown(r.seq); err != nil {
			panic(fmt.Sprintf("engine: unknown %d: %v", r.seq, err))
		}
		d.journalStatus(r.seq)
		d.touch(r.seq)
		r.mode, r.deadline = modeUnknown, d.boot()+d.cfg.Timings.ReconcileTimeout
		d.probe(0)
	}
}

// noStart goes on from a step whose time is over, or that a person has ended. A
// press that has not started the board by then does not start it any more.
func (d *domain) noStart(st *sequence.Step) {
	if st.SeesPress() {
		d.press = openPress{}
	}
	d.begin(st.Else)
}

// withdraws reports whether the plan takes back what it has set if the present
// step fails.
func (r *launch) withdraws() bool {
	st := r.current()
	return st.OnTimeout == sequence.TimeoutNext && st.Else != sequence.End && r.plan.Steps[st.Else].Withdraws
}

// giveUp ends a launch whose step failed, after what it has set is taken back.
// One output that cannot be taken back does not keep the others.
func (d *domain) giveUp(reason string) {
	r := d.run
	switch {
	case r.withdraws() && d.preempt == 0:
		r.failing, r.pulsing = reason, ""
		d.begin(r.current().Else)
	case r.current().Withdraws && d.preempt == 0:
		r.failing, r.pulsing = r.failing+"; "+reason, ""
		d.begin(r.current().Then)
	default:
		d.fail(reason)
	}
}

// planEnded ends the launch whose plan is through.
func (d *domain) planEnded() {
	if d.run.failing != "" {
		d.fail(d.run.failing)
		return
	}
	d.succeed()
}

// succeed ends the launch with success.
func (d *domain) succeed() {
	r := d.run
	switch {
	case r.outer != nil:
		d.driven("")
		return
	case d.jobsGoOn():
		if r.mode != modeWait {
			r.mode, r.deadline = modeWait, d.boot()+d.cfg.Timings.JobTimeout
		}
		return
	}
	on, known := d.powered()
	if r.verdict == state.VerdictReset && !(known && on) {
		d.fail("power good was lost at the reset")
		return
	}
	reason := ""
	switch {
	case d.cfg.Targets != nil && !d.cfg.Options.Lines: // units show what they have done, and power that never came up has a job that ended
	case r.verdict == state.VerdictReset && !d.levels.ResetVisible():
		reason = "reset not observable"
	case r.verdict.Cuts() && !r.moved:
		reason = "power did not come up"
	}
	d.press = openPress{}
	d.end(state.Success, reason)
}

// fail ends the launch without success. What it did not begin is given back: no
// line moved, and no job was queued or may have been.
func (d *domain) fail(reason string) {
	if d.run.outer != nil {
		d.driven(reason)
		return
	}
	if f := d.run.fault; f != "" && f != reason {
		reason = f + "; " + reason
	}
	if !d.run.moved && d.run.pulsing == "" && !d.run.job {
		d.refundAttempt()
	}
	d.values.causes = 0 // what comes now has a cause of its own
	d.bootFailed(d.run)
	d.end(state.Failed, reason)
}

func (d *domain) end(status state.Status, reason string) {
	seq := d.run.seq
	d.finish(seq, status, reason)
	if status == state.Success {
		d.run.job, d.run.started = false, false // what is left of it does no harm
	}
	d.abandon()
}

// abandon frees the executor. A pulse that is still asserted ends by itself;
// jobs that go on are cancelled, and helpers that wait are stopped.
func (d *domain) abandon() {
	r := d.run
	d.touch(r.seq)
	if r.outer != nil {
		d.answerDrives(r.outer.on(r), "the operation that it belongs to has ended")
	}
	if r.job || r.started {
		d.core.emit(abandonEffect{d.cfg.ID, r.seq})
	}
	if !r.op.Raising() {
		d.others.guardUntil = d.boot() + d.core.cfg.Times.OffGuard
	}
	d.run, d.barrierAt = nil, 0
	d.afterRun(r)
}
