package sequence

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// The outputs that plans drive, by the names of power-sequencing.md §3.1.
const (
	PowerOut = "PowerOut"
	ResetOut = "ResetOut"
	slotOut  = "SlotPower"
)

// Goal is what a step waits for.
type Goal uint8

// The goals.
const (
	GoalNone        Goal = iota // never met
	GoalRelease                 // the step's own pulse has ended
	GoalTime                    // the step's time has passed
	GoalPowerOn                 // power good seen
	GoalPowerOff                // power good gone
	GoalSIOGood                 // SIO power good seen
	GoalHostRunning             // the host runs
	GoalResetSeen               // a reset was seen
	GoalPassage                 // power, or the host, was seen off since the launch, or a reset was
	GoalOffSeen                 // power was seen off since the launch
	GoalCameBack                // the OS was seen to restart and to come up again, with power on
	GoalSlotOn                  // the slot is supplied
	GoalSlotOff                 // the slot is not
	GoalNotHeld                 // a level-type PowerOut does not hold the power on
	goalInput                   // the first of [GoalInput]'s
)

// GoalInput is the goal that input i of a power-on sequence shows on.
func GoalInput(i int, on bool) Goal {
	g := goalInput + Goal(2*i)
	if on {
		g++
	}
	return g
}

// Show is what CurrentHostState and CurrentPowerState show while a step runs,
// unless the target is reached already.
type Show uint8

// The shows.
const (
	ShowSeen      Show = iota // what is observed
	ShowStopping              // host going to Off, power as observed
	ShowCutting               // host and power going to Off
	ShowPowering              // power and host coming up
	ShowStarting              // power as observed, host coming up
	ShowSupplying             // power coming up, host as observed
)

// Timeout is what happens when a step's deadline passes.
type Timeout uint8

// The time-outs.
const (
	TimeoutNext    Timeout = iota // go on with step Else
	TimeoutFail                   // the request ends FAILED with the step's Reason
	TimeoutUnknown                // UNKNOWN, then reconciliation (DESIGN.md §3.5)
)

// End is a step index that ends the plan with success.
const End = -1

// Step is one step of a plan. It is journalled by index and name before it
// acts.
type Step struct {
	_ [0]func() // no ==: its code is half a kilobyte

	Name  string
	Phase Phase // of the ten; 0 = the step belongs to none

	Pulse string        // output to pulse, "" for a wait
	Width time.Duration // of the pulse
	Hold  bool          // a force-off hold: may be repeated and may take over a held power button

	Set string // level-type output to drive, "" for none
	To  bool   // the level

	Unit string // systemd unit to start, "" for none
	Mode string // its job mode

	Goal   Goal          // of a unit: ends the step even if its job goes on
	Within time.Duration // deadline from the step's start; for a pulse: after Width
	Then   int           // next step when the goal is met, End = success

	// Short ends the step early, a pulse by releasing its line, and leads to
	// ShortTo. A step that starts with Short met does not act at all.
	Short   Goal
	ShortTo int

	// Abort ends the request FAILED with AbortReason while the step waits.
	Abort       Goal
	AbortReason string

	OnTimeout Timeout
	Else      int    // next step for TimeoutNext
	Reason    string // of the failure

	Show     Show
	Graceful bool // the OS was asked; nobody is hurt when this wait is abandoned
	Raising  bool // applies power

	// Withdraws says that the step belongs to the end of a sequence that failed:
	// the plan ends FAILED after it, with the reason of the wait that failed or,
	// where a restart has forgotten that, with its own.
	Withdraws bool

	// AfterOff says that the step stands between the off and the on of a cycle.
	AfterOff bool
	// AfterPassage says that the step only comes after the passage (off, or a
	// reset) that confirms a cycle, a reboot or a reset.
	AfterPassage bool
}

// Waits reports whether the step acts on nothing.
func (s *Step) Waits() bool { return s.Pulse == "" && s.Unit == "" && s.Set == "" }

// Line returns the output that the step drives, "" for none.
func (s *Step) Line() string { return s.Pulse + s.Set }

// Plan is what one launch does, step by step.
type Plan struct {
	Verdict state.Verdict
	Steps   []Step

	// Off and On are where the steps begin that units have us drive for power
	// off and on; the plan proper ends before Off. 0 = there are none.
	Off, On int
}

// Timings are the sequencer's times (power-sequencing.md §3.1, DESIGN.md §3.2).
type Timings struct {
	PowerPulse       time.Duration // PowerPulseMs
	ForceOffPulse    time.Duration // ForceOffPulseMs
	ResetPulse       time.Duration // ResetPulseMs
	PowerCycle       time.Duration // PowerCycleMs: dwell between off and on
	SlotCycle        time.Duration // SlotPowerCycleMs: dwell of a slot
	PowerOKWatchdog  time.Duration // PowerOKWatchdogMs
	SIOWatchdog      time.Duration // SioPowerGoodWatchdogMs
	PowerOff         time.Duration // from the end of a force-off hold to power good gone
	GracefulTimeout  time.Duration // gracefulTimeout, GracefulPowerOffS
	WarmResetCheck   time.Duration // WarmResetCheckMs: how long a reset by others is shown
	PostTimeout      time.Duration // postTimeout: host running after power good
	JobTimeout       time.Duration // of a systemd job that a plan waits for
	ConfirmTimeout   time.Duration // confirmTimeout
	ReconcileTimeout time.Duration // reconcileTimeout
}

// DefaultTimings are the defaults of x86-power-control and of DESIGN.md.
func DefaultTimings() Timings {
	return Timings{
		PowerPulse:       200 * time.Millisecond,
		ForceOffPulse:    15 * time.Second,
		ResetPulse:       500 * time.Millisecond,
		PowerCycle:       5 * time.Second,
		SlotCycle:        200 * time.Millisecond,
		PowerOKWatchdog:  8 * time.Second,
		SIOWatchdog:      time.Second,
		PowerOff:         time.Second,
		GracefulTimeout:  300 * time.Second,
		WarmResetCheck:   500 * time.Millisecond,
		PostTimeout:      300 * time.Second,
		JobTimeout:       300 * time.Second,
		ConfirmTimeout:   120 * time.Second,
		ReconcileTimeout: 20 * time.Second,
	}
}

// Options select between the behaviours that DESIGN.md §3.2 leaves to the
// configuration, and say what the board has.
type Options struct {
	ForceAfterGraceful bool // onGracefulTimeout: "force"
	StrictRunning      bool // hostRunning: "postComplete"
	Lines              bool // targets whose units have us drive the lines
	HasSIO             bool
	ResetVisible       bool
	ForceOffTries      int // holds before a force-off fails; at least 1
	// PowerLevel says that PowerOut is a level-type output: asserted, it holds
	// the power on.
	PowerLevel bool
	// PowerOn is what applies power, in this order, before power good is waited
	// for. Nil: PowerOut is pressed or, with PowerLevel, asserted.
	PowerOn []Action
	// WarmResetSource is the input that shows a warm reset: "PostComplete",
	// "PlatformReset" or "none"; "" is PostComplete where the board has it.
	WarmResetSource string
}

const lostPower = "power good was lost while the host came up"

// stuckAfter is how long a pulse may outlast its width before its line counts
// as stuck.
const stuckAfter = 5 * time.Second

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
	b.add(Step{Name: "ask the OS", Phase: phase, Pulse: PowerOut, Width: b.t.PowerPulse, Goal: GoalRelease,
		Within: stuckAfter, OnTimeout: TimeoutFail, Reason: "stuck: the power button line did not come back",
		Show: ShowStopping})
	wait := Step{Name: "wait for the OS", Phase: phase, Goal: GoalPowerOff, Within: b.t.GracefulTimeout, OnTimeout: TimeoutFail,
		Reason: fmt.Sprintf("the OS did not power off within gracefulTimeout (%s)", b.t.GracefulTimeout),
		Show:   ShowStopping, Graceful: true,
		Abort: GoalCameBack, AbortReason: "the OS restarted instead of powering off"}
	if v == state.VerdictGracefulWarm { // DESIGN.md §3.2: a reset seen, then running, is what was asked for
		wait.Abort, wait.AbortReason = GoalNone, ""
		wait.Short, wait.ShortTo = GoalCameBack, End
	}
	if !b.o.ForceAfterGraceful {
		b.add(wait)
		b.undo(phase)
		return
	}
	wait.OnTimeout = TimeoutNext
	wait.Else = b.next()
	wait.Then = b.next() + 2*b.tries()
	b.add(wait)
	b.cutPower(phase == PhaseGracefulCycle)
}

func (b *builder) tries() int { return max(1, b.o.ForceOffTries) }

// cutPower adds one hold and one short wait per try; P3 counts the repeats. A
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
	after := len(b.steps) + 2*b.tries()
	for i := range b.tries() {
		b.add(Step{Name: fmt.Sprintf("force off, hold %d", i+1), Phase: phase, Pulse: PowerOut, Width: b.t.ForceOffPulse, Hold: true,
			Goal: GoalRelease, Within: stuckAfter, OnTimeout: TimeoutFail,
			Reason: "stuck: the power button line did not come back",
			Short:  GoalPowerOff, ShortTo: after, Show: ShowCutting})
		wait := Step{Name: fmt.Sprintf("wait for power off %d", i+1), Phase: phase, Goal: GoalPowerOff, Within: b.t.PowerOff, Then: after,
			OnTimeout: TimeoutNext, Else: b.next(), Show: ShowCutting}
		if i == b.tries()-1 {
			wait.OnTimeout = TimeoutFail
			wait.Reason = fmt.Sprintf("power good stays on after %d force-off holds of %s", b.tries(), b.t.ForceOffPulse)
		}
		b.add(wait)
	}
}

// awaitPowerUp waits for what an earlier press may still bring: with nothing
// on there is nothing to cut, and another press would switch on.
func (b *builder) awaitPowerUp() {
	b.add(Step{Name: "wait for an earlier press", Phase: PhaseToOff, Goal: GoalPowerOn, Within: b.t.PowerOKWatchdog,
		OnTimeout: TimeoutNext, Else: b.next() + 2*b.tries(), Show: ShowCutting})
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

// Seen is what has been observed since a launch.
type Seen struct {
	Levels    state.Levels
	WentOff   bool // power was seen off
	WentReset bool // the host was seen in reset
	HostWent  bool // the host's unit was seen stopped, or started anew
	Fell      bool // the OS was seen to leave, with power on
	CameBack  bool // and to come up again
}

// Met reports whether the goal is met by what was seen. [GoalRelease] and
// [GoalTime] are never met by levels.
func (g Goal) Met(s Seen, strict bool) bool {
	on, known := s.Levels.Power()
	switch g {
	case GoalPowerOn:
		return known && on && s.Levels.PowerGood != state.LevelOff
	case GoalPowerOff:
		return known && !on && s.Levels.HostActive != state.LevelOn
	case GoalSIOGood:
		return s.Levels.SIOGood == state.LevelOn
	case GoalHostRunning:
		return s.Levels.HostRunning(strict)
	case GoalResetSeen:
		return s.WentReset
	case GoalPassage:
		return s.WentOff || s.WentReset || s.HostWent
	case GoalOffSeen:
		return s.WentOff
	case GoalCameBack:
		return s.CameBack && known && on
	case GoalSlotOn:
		return s.Levels.Slot == state.LevelOn
	case GoalSlotOff:
		return s.Levels.Slot == state.LevelOff
	case GoalNotHeld:
		return s.Levels.PowerOut != state.LevelOn
	default:
		if g < goalInput {
			return false
		}
		return s.Levels.Input(int(g-goalInput)/2) == state.LevelOf((g-goalInput)%2 == 1)
	}
}
