package sequence

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

// Build returns the plan for a verdict that launches. A chassis operation is
// confirmed by power alone, a host operation by the host. powerUp says that
// power may still be coming up from an earlier press (a force-off then waits
// for it, defect 3 of power-sequencing.md §2.3).
func Build(v state.Verdict, op state.Operation, t Timings, o Options, powerUp bool) Plan {
	b := builder{t: t, o: o, chassis: op.Kind() == state.KindChassis}
	switch v {
	case state.VerdictPowerOn:
		b.powerOn()
	case state.VerdictStartHost:
		b.hostRunning()
	case state.VerdictGracefulOff:
		b.gracefulOff(v)
	case state.VerdictPowerOff, state.VerdictCutPower:
		if powerUp && !o.PowerLevel {
			b.awaitPowerUp()
		}
		b.cutPower(false)
	case state.VerdictReboot, state.VerdictGracefulWarm:
		b.gracefulOff(v)
		b.onAgain()
	case state.VerdictPowerCycle:
		b.cutPower(true)
		b.onAgain()
	case state.VerdictReset:
		b.reset()
	case state.VerdictSlotOn, state.VerdictSlotOff, state.VerdictSlotCycle:
		b.slot(v)
	case state.VerdictTakeBack:
		b.takeAway(PhaseToOff)
	default:
		panic(fmt.Sprintf("sequence: no plan for verdict %q", v))
	}
	b.finish()
	return Plan{Verdict: v, Steps: b.steps}
}

type builder struct {
	t Timings
	o Options

	chassis bool // the operation is a chassis'
	steps   []Step
}

// next is the index of the step that will be added after the one being added.
func (b *builder) next() int { return len(b.steps) + 1 }

func (b *builder) add(s Step) {
	if s.Then == 0 {
		s.Then = b.next()
	}
	b.steps = append(b.steps, s)
}

// finish makes every step that leads past the last one end the plan.
func (b *builder) finish() { b.finishFrom(0) }

func (b *builder) finishFrom(first int) {
	for i := first; i < len(b.steps); i++ {
		if b.steps[i].Then >= len(b.steps) {
			b.steps[i].Then = End
		}
		if b.steps[i].ShortTo >= len(b.steps) {
			b.steps[i].ShortTo = End
		}
		if b.steps[i].OnTimeout == TimeoutNext && b.steps[i].Else >= len(b.steps) {
			b.steps[i].Else = End
		}
	}
}

func (b *builder) hostRunning() {
	b.add(Step{Name: "wait for the host", Phase: PhaseOn, Goal: GoalHostRunning, Within: b.t.PostTimeout, OnTimeout: TimeoutFail,
		Reason: fmt.Sprintf("power is good, but the host did not come up within postTimeout (%s)", b.t.PostTimeout),
		Abort:  GoalPowerOff, AbortReason: lostPower, Show: ShowStarting, Raising: true})
}

func (b *builder) gracefulOff(v state.Verdict) {
	phase := PhaseGracefulCycle
	if v == state.VerdictGracefulOff {
		phase = PhaseGracefulOff
	}
	if b.o.PowerLevel {
		b.levelOff(phase)
		return
	}
	first := len(b.steps)
	b.ask(v, phase, "")
	b.add(Step{Name: "see what the press met", Phase: phase, Goal: GoalStarted, Within: b.t.PowerOKWatchdog, OnTimeout: TimeoutNext, Show: ShowStopping})
	if b.o.ForceAfterGraceful {
		b.steps[first+1].OnTimeout, b.steps[first+1].Else = TimeoutNext, len(b.steps)
		b.cutPower(phase == PhaseGracefulCycle)
		b.leadTo(first, first+3+perTry*b.tries())
		return
	}
	b.ask(v, phase, " again")
	b.add(Step{Name: "see what that press met", Phase: phase, Within: b.t.PowerOKWatchdog, OnTimeout: TimeoutNext, Show: ShowStopping,
		Abort: GoalStarted, AbortReason: "the host powered off by itself as it was asked to, twice, and the press has started it again"})
	b.leadTo(first, len(b.steps))
	b.undo(phase)
}

// ask presses the power button and waits for the OS. A press that meets a board
// without power starts it: the step after these sees whether it has.
func (b *builder) ask(v state.Verdict, phase Phase, again string) {
	b.add(Step{Name: "ask the OS" + again, Phase: phase, Pulse: PowerOut, Width: b.t.PowerPulse, Goal: GoalRelease,
		Within: stuckAfter, OnTimeout: TimeoutFail, Reason: "stuck: the power button line did not come back",
		Short: GoalPowerOff, Show: ShowStopping})
	wait := Step{Name: "wait for the OS" + again, Phase: phase, Goal: GoalPowerOff, Within: b.t.GracefulTimeout, OnTimeout: TimeoutFail,
		Reason: fmt.Sprintf("the OS did not power off within gracefulTimeout (%s)", b.t.GracefulTimeout),
		Show:   ShowStopping, Graceful: true, Doubt: b.next(),
		Abort: GoalCameBack, AbortReason: "the OS restarted instead of powering off"}
	if v == state.VerdictGracefulWarm { // DESIGN.md §3.2: a reset seen, then running, is what was asked for
		wait.Abort, wait.AbortReason = GoalNone, ""
		wait.Short, wait.ShortTo = GoalCameBack, End
	}
	b.add(wait)
}

// leadTo sets where the steps of a graceful power off from first on lead to when
// power is off.
func (b *builder) leadTo(first, after int) {
	for i := first; i < after; i++ {
		switch st := &b.steps[i]; {
		case st.SeesPress():
			st.Else = after
		case st.Doubt != 0:
			st.Then = after
		case st.Asks():
			st.ShortTo = after
		}
	}
}

func (b *builder) tries() int { return max(1, b.o.ForceOffTries) }

// perTry are the steps of one try to cut power.
const perTry = 3

// cutPower adds per try one hold, one short wait, and a look at what the hold has
// met: a board that was off already is started by it. P3 counts the repeats. A
// level-type output is driven once: driving it again would change nothing.
func (b *builder) cutPower(cycle bool) {
	phase := PhaseToOff
	if cycle {
		phase = PhaseToCycleOff
	}
	if b.o.PowerLevel {
		b.takeAway(phase)
		return
	}
	defer b.undo(phase)
	after := len(b.steps) + perTry*b.tries()
	for i := range b.tries() {
		last := i == b.tries()-1
		b.add(Step{Name: fmt.Sprintf("force off, hold %d", i+1), Phase: phase, Pulse: PowerOut, Width: b.t.ForceOffPulse, Hold: true,
			Goal: GoalRelease, Within: stuckAfter, OnTimeout: TimeoutFail,
			Reason: "stuck: the power button line did not come back",
			Short:  GoalPowerOff, ShortTo: after, Show: ShowCutting})
		wait := Step{Name: fmt.Sprintf("wait for power off %d", i+1), Phase: phase, Goal: GoalPowerOff, Within: b.t.PowerOff, Then: after, Doubt: b.next(),
			OnTimeout: TimeoutNext, Else: b.next() + 1, Show: ShowCutting}
		see := Step{Name: fmt.Sprintf("see what hold %d met", i+1), Phase: phase, Goal: GoalStarted, Within: b.t.PowerOKWatchdog,
			OnTimeout: TimeoutNext, Else: after, Show: ShowCutting}
		if last {
			wait.OnTimeout = TimeoutFail
			wait.Reason = fmt.Sprintf("power good stays on after %d force-off holds of %s", b.tries(), b.t.ForceOffPulse)
			see.Goal, see.Abort = GoalNone, GoalStarted
			see.AbortReason = "power was off as it was to be cut, and the hold has started the host"
		}
		b.add(wait)
		b.add(see)
	}
}

// awaitPowerUp waits for what an earlier press may still bring: with nothing
// on there is nothing to cut, and another press would switch on.
func (b *builder) awaitPowerUp() {
	b.add(Step{Name: "wait for an earlier press", Phase: PhaseToOff, Goal: GoalPowerOn, Within: b.t.PowerOKWatchdog,
		OnTimeout: TimeoutNext, Else: b.next() + perTry*b.tries(), Show: ShowCutting})
}

// onAgain is the second half of a cycle.
func (b *builder) onAgain() {
	first := len(b.steps)
	b.dwell()
	b.applyPower()
	for i := first; i < len(b.steps); i++ {
		st := &b.steps[i]
		st.AfterPassage = !st.Withdraws
		st.AfterOff = st.Show == ShowSeen || st.Show == ShowPowering
	}
}

func (b *builder) reset() {
	b.add(Step{Name: "pulse reset", Phase: PhaseWarmReset, Pulse: ResetOut, Width: b.t.ResetPulse, Goal: GoalRelease,
		Within: stuckAfter, OnTimeout: TimeoutFail, Reason: "stuck: the reset line did not come back",
		Show: ShowStarting})
	if !b.o.ResetVisible {
		return // DESIGN.md §3.2: a completed pulse with power still good confirms
	}
	b.add(Step{Name: "wait for the reset", Phase: PhaseWarmReset, Goal: GoalResetSeen, Within: b.t.ConfirmTimeout, OnTimeout: TimeoutUnknown,
		Abort: GoalPowerOff, AbortReason: lostPower, Show: ShowStarting})
	b.add(Step{Name: "wait for the host", Phase: PhaseWarmReset, Goal: GoalHostRunning, Within: b.t.ConfirmTimeout, OnTimeout: TimeoutUnknown,
		Abort: GoalPowerOff, AbortReason: lostPower, Show: ShowStarting, AfterPassage: true})
}
