package sequence

import (
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
	GoalStarted                 // power good seen: a press that met a board without power has started it
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
	_ state.Incomparable

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

	// Doubt, where not 0, takes the place of Then in a wait for power off if no
	// power was seen on since the newest press was asserted: it may have met a
	// board that was off, and starts it.
	Doubt int

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

// Asks reports whether the step is the press that asks the OS to shut down. It
// keeps its width whatever is seen meanwhile.
func (s *Step) Asks() bool { return s.Pulse != "" && !s.Hold && s.Short == GoalPowerOff }

// SeesPress reports whether the step waits for what a press leads to that may
// have met a board without power.
func (s *Step) SeesPress() bool { return s.Goal == GoalStarted || s.Abort == GoalStarted }

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

// Seen is what has been observed since a launch.
type Seen struct {
	_ state.Incomparable

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
	case GoalPowerOn, GoalStarted:
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
