package sequence

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// ActionKind is what one [Action] does.
type ActionKind uint8

// The kinds of actions.
const (
	ActionSet   ActionKind = iota + 1 // drive a level-type output
	ActionPulse                       // pulse an output
	ActionDelay                       // wait
	ActionAwait                       // wait for an input
)

// Action is one step of what applies power on a board that needs more than a
// press: rails that come up in an order, a reset that is let go in between.
// Power off takes the outputs that were set back, the last first; so does a
// sequence that fails.
type Action struct {
	_ state.Incomparable

	Kind   ActionKind
	Signal string
	On     bool          // the level to drive or to wait for
	Time   time.Duration // width of a pulse, length of a delay, deadline of a wait
	Input  int           // of ActionAwait: its number, see [GoalInput]
}

// actions are what applies power on this board.
func (b *builder) actions() []Action {
	switch {
	case len(b.o.PowerOn) > 0:
		return b.o.PowerOn
	case b.o.PowerLevel:
		return []Action{{Kind: ActionSet, Signal: PowerOut, On: true}}
	default:
		return []Action{{Kind: ActionPulse, Signal: PowerOut, Time: b.t.PowerPulse}}
	}
}

// powerOn applies power and waits for the host. A level-type output that holds
// the power on although there is none, as after a fault, is taken back first:
// only an edge switches such a supply on again.
func (b *builder) powerOn() {
	if b.o.PowerLevel {
		b.add(Step{Name: "let go of power", Phase: PhaseAwaitPowerOK, Set: PowerOut, Goal: GoalRelease, Within: stuckAfter,
			OnTimeout: TimeoutFail, Reason: stuckLevel(PowerOut),
			Short: GoalNotHeld, ShortTo: b.next() + 1, Show: ShowPowering})
		b.add(Step{Name: "pause", Phase: PhaseAwaitPowerOK, Goal: GoalTime, Within: b.t.PowerCycle,
			OnTimeout: TimeoutNext, Else: b.next(), Show: ShowPowering})
	}
	b.applyPower()
}

func stuckLevel(signal string) string { return "stuck: line " + signal + " did not take its level" }

// applyPower runs the board's actions and waits for what they lead to. Where an
// action or power good fails, the outputs that were set are taken back.
func (b *builder) applyPower() {
	first := len(b.steps)
	sets := false
	for _, a := range b.actions() {
		b.action(a)
		sets = sets || a.Kind == ActionSet
	}
	b.add(Step{Name: "wait for power good", Phase: PhaseAwaitPowerOK, Goal: GoalPowerOn, Within: b.t.PowerOKWatchdog, OnTimeout: TimeoutFail,
		Reason: fmt.Sprintf("no power good within PowerOKWatchdogMs (%s) after the press", b.t.PowerOKWatchdog),
		Show:   ShowPowering, Raising: true})
	last := len(b.steps)
	if !b.chassis {
		if b.o.HasSIO {
			b.add(Step{Name: "wait for SIO power good", Phase: PhaseAwaitSIO, Goal: GoalSIOGood, Within: b.t.SIOWatchdog, OnTimeout: TimeoutFail,
				Reason: fmt.Sprintf("no SIO power good within SioPowerGoodWatchdogMs (%s) after power good", b.t.SIOWatchdog),
				Abort:  GoalPowerOff, AbortReason: lostPower, Show: ShowStarting, Raising: true})
		}
		b.hostRunning()
	}
	if sets {
		b.withdraw(first, last)
	}
}

func (b *builder) action(a Action) {
	s := Step{Phase: PhaseAwaitPowerOK, Goal: GoalRelease, Within: stuckAfter, OnTimeout: TimeoutFail, Show: ShowPowering, Raising: true}
	switch a.Kind {
	case ActionSet:
		s.Name, s.Set, s.To, s.Reason = fmt.Sprintf("set %s %t", a.Signal, a.On), a.Signal, a.On, stuckLevel(a.Signal)
	case ActionPulse:
		s.Name, s.Pulse, s.Width = "pulse "+a.Signal, a.Signal, a.Time
		s.Reason = "stuck: line " + a.Signal + " did not come back"
		if a.Signal == PowerOut { // another press would switch off what is on by itself
			s.Name, s.Reason = "press power", "stuck: the power button line did not come back"
			s.Short, s.ShortTo = GoalPowerOn, b.next()
		}
	case ActionDelay:
		s.Name, s.Goal, s.Within, s.OnTimeout, s.Else = "delay", GoalTime, a.Time, TimeoutNext, b.next()
	case ActionAwait:
		s.Name, s.Goal, s.Within = fmt.Sprintf("wait for %s %t", a.Signal, a.On), GoalInput(a.Input, a.On), a.Time
		s.Reason = fmt.Sprintf("the power-on sequence stopped: %s did not become %t within %s", a.Signal, a.On, a.Time)
	}
	b.add(s)
}

// withdraw ends the plan with the steps that take back what was set, and has
// the steps first to last, where they fail, lead there.
func (b *builder) withdraw(first, last int) {
	b.finish() // what is complete by now ends the plan
	for i := first; i < last; i++ {
		if st := &b.steps[i]; st.OnTimeout == TimeoutFail {
			st.OnTimeout, st.Else = TimeoutNext, len(b.steps)
		}
	}
	from := len(b.steps)
	b.undo(PhaseToOff)
	for i := from; i < len(b.steps); i++ {
		b.steps[i].Withdraws = true
		b.steps[i].Reason = "the power-on sequence failed"
	}
}

// undo takes back what a power-on sequence set, the last first.
func (b *builder) undo(phase Phase) {
	acts := b.actions()
	for i := len(acts) - 1; i >= 0; i-- {
		if a := acts[i]; a.Kind == ActionSet {
			b.add(Step{Name: fmt.Sprintf("take %s back", a.Signal), Phase: phase, Set: a.Signal, To: !a.On, Hold: true,
				Goal: GoalRelease, Within: stuckAfter, OnTimeout: TimeoutFail, Reason: stuckLevel(a.Signal), Show: ShowCutting})
		}
	}
}

// takeAway cuts the power that a level-type output holds on.
func (b *builder) takeAway(phase Phase) {
	b.undo(phase)
	b.add(Step{Name: "wait for power off", Phase: phase, Goal: GoalPowerOff, Within: b.t.ForceOffPulse, OnTimeout: TimeoutFail,
		Reason: fmt.Sprintf("power good stays on %s after %s was taken back", b.t.ForceOffPulse, PowerOut), Show: ShowCutting})
}

// levelOff is a graceful power off where power is held by a level: no line of
// such a board asks the OS, so there is nothing to wait for.
func (b *builder) levelOff(phase Phase) {
	if b.o.ForceAfterGraceful {
		b.cutPower(phase == PhaseGracefulCycle)
		return
	}
	b.add(Step{Name: "ask the OS", Phase: phase, Goal: GoalPowerOff, Within: 1, OnTimeout: TimeoutFail,
		Reason: PowerOut + ` is a level: no line asks the OS to shut down, and onGracefulTimeout is "fail"`})
}

func (b *builder) dwell() {
	st := Step{Name: "dwell", Phase: PhaseCycleOff, Goal: GoalTime, Within: b.t.PowerCycle, OnTimeout: TimeoutNext, Else: b.next(), Show: ShowSeen}
	if !b.o.PowerLevel && len(b.o.PowerOn) == 0 {
		st.Short, st.ShortTo = GoalPowerOn, b.next()+1 // a host that powers itself up needs no press
	}
	b.add(st)
}
