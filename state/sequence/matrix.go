package sequence

// Phase is where a host is in the power sequence: one of the ten states of
// power-sequencing.md §2.1, which a launched plan's step names and which
// otherwise follows from what is seen.
type Phase uint8

// The phases. The zero value is a step that is in none, as of systemd targets.
const (
	PhaseOn            Phase = iota + 1
	PhaseAwaitPowerOK        // power was asked for, or comes by other hands
	PhaseAwaitSIO            // power is good, SIO power good is not
	PhaseOff                 // power is off
	PhaseToOff               // power is being cut, or the OS has gone to S5
	PhaseGracefulOff         // the OS was asked to power off
	PhaseCycleOff            // the dwell between off and on
	PhaseToCycleOff          // power is being cut, and comes again
	PhaseGracefulCycle       // the OS was asked to power off, and power comes again
	PhaseWarmReset           // the host is being reset with power on
)

// Phases lists every phase.
func Phases() []Phase {
	return []Phase{PhaseOn, PhaseAwaitPowerOK, PhaseAwaitSIO, PhaseOff, PhaseToOff, PhaseGracefulOff,
		PhaseCycleOff, PhaseToCycleOff, PhaseGracefulCycle, PhaseWarmReset}
}

var phaseNames = [...]string{
	PhaseOn: "On", PhaseAwaitPowerOK: "AwaitPowerOK", PhaseAwaitSIO: "AwaitSIO", PhaseOff: "Off", PhaseToOff: "ToOff",
	PhaseGracefulOff: "GracefulOff", PhaseCycleOff: "CycleOff", PhaseToCycleOff: "ToCycleOff",
	PhaseGracefulCycle: "GracefulCycle", PhaseWarmReset: "WarmReset",
}

// String returns a short name of the phase.
func (p Phase) String() string { return phaseNames[p] }

// Event is one of the 23 events of power-sequencing.md §2.2.
type Event uint8

// The events: edges of inputs, buttons, timers and requests.
const (
	PowerOKAssert Event = iota + 1
	PowerOKDeassert
	SIOGoodAssert
	SIOGoodDeassert
	S5Assert
	S5Deassert
	PlatformResetAssert
	PlatformResetDeassert
	PostCompleteAssert
	PostCompleteDeassert
	PowerButtonPressed
	ResetButtonPressed
	PowerCycleTimer
	PowerOKWatchdog
	SIOWatchdog
	GracefulTimer
	WarmResetTimer
	RequestOn            // Host On, Chassis On
	RequestCut           // Chassis Off
	RequestCycle         // Chassis PowerCycle
	RequestReset         // Host ForceWarmReboot
	RequestGracefulOff   // Host Off
	RequestGracefulCycle // Host GracefulWarmReboot
)

// Events lists every event.
func Events() []Event {
	all := make([]Event, 0, int(RequestGracefulCycle))
	for e := PowerOKAssert; e <= RequestGracefulCycle; e++ {
		all = append(all, e)
	}
	return all
}

var eventNames = [...]string{
	PowerOKAssert: "powerOKAssert", PowerOKDeassert: "powerOKDeAssert",
	SIOGoodAssert: "sioPowerGoodAssert", SIOGoodDeassert: "sioPowerGoodDeAssert",
	S5Assert: "sioS5Assert", S5Deassert: "sioS5DeAssert",
	PlatformResetAssert: "pltRstAssert", PlatformResetDeassert: "pltRstDeAssert",
	PostCompleteAssert: "postCompleteAssert", PostCompleteDeassert: "postCompleteDeAssert",
	PowerButtonPressed: "powerButtonPressed", ResetButtonPressed: "resetButtonPressed",
	PowerCycleTimer: "powerCycleTimerExpired", PowerOKWatchdog: "powerOKWatchdogTimerExpired",
	SIOWatchdog: "sioPowerGoodWatchdogTimerExpired", GracefulTimer: "gracefulPowerOffTimerExpired",
	WarmResetTimer: "warmResetDetected", RequestOn: "powerOnRequest", RequestCut: "powerOffRequest",
	RequestCycle: "powerCycleRequest", RequestReset: "resetRequest",
	RequestGracefulOff: "gracefulPowerOffRequest", RequestGracefulCycle: "gracefulPowerCycleRequest",
}

// String returns the event's name in power-sequencing.md.
func (e Event) String() string { return eventNames[e] }

// EventOf returns the event of an input's edge, 0 if it is none.
func EventOf(signal string, asserted bool) Event {
	pair, ok := edges[signal]
	switch {
	case !ok:
		return 0
	case asserted:
		return pair[0]
	default:
		return pair[1]
	}
}

var edges = map[string][2]Event{
	"PowerOk": {PowerOKAssert, PowerOKDeassert}, "SioPowerGood": {SIOGoodAssert, SIOGoodDeassert},
	"SIOS5": {S5Assert, S5Deassert}, "PlatformReset": {PlatformResetAssert, PlatformResetDeassert},
	"PostComplete": {PostCompleteAssert, PostCompleteDeassert},
	"PowerButton":  {PowerButtonPressed, 0}, "ResetButton": {ResetButtonPressed, 0},
}

// Reaction is what an event leads to. Every edge also has the levels read
// again; what is published follows from that reading, in every cell.
type Reaction uint8

// The reactions.
const (
	Observe    Reaction = iota + 1 // the levels are read; nothing else begins or ends
	Advance                        // the running step's goal is met: the plan goes on
	Lose                           // the running plan ends FAILED: power went while the host came up
	Settle                         // what other hands began has ended: the observed state is the state
	HandsUp                        // other hands switch on: requests wait, nothing is pressed
	HandsDown                      // other hands, or the OS, switch off: requests wait, nothing is forced
	HandsReset                     // the host is reset by others: it is shown, with its cause
	SkipPress                      // the host comes up by other hands in the dwell: no press, power good is waited for
	Contrary                       // noted: an equal write that follows is a new intent
	Passage                        // the passage through reset that confirms a plan is noted
	CameBack                       // the OS restarts instead of powering off: seen up again, the wait falls back
	Fail                           // the running plan ends FAILED by its watchdog
	Escalate                       // a graceful time-out: power is cut, or the request fails
	Launch                         // judged and launched
	Noop                           // judged: already so
	Invalid                        // judged: makes no sense in this state
	Queue                          // waits for what runs, then judged
	Join                           // a repeat of what runs
	Overtake                       // supersedes the graceful wait
	TakeOver                       // supersedes whatever waits, at once
	NoTimer                        // cannot occur: that timer runs in another phase only
)

var reactionNames = [...]string{
	Observe: "observe", Advance: "advance", Lose: "lose", Settle: "settle", HandsUp: "hands up", HandsDown: "hands down",
	HandsReset: "hands reset", SkipPress: "skip press", Contrary: "contrary", Passage: "passage", CameBack: "came back",
	Fail: "fail", Escalate: "escalate", Launch: "launch", Noop: "noop", Invalid: "invalid", Queue: "queue", Join: "join",
	Overtake: "overtake", TakeOver: "take over", NoTimer: "no timer",
}

// String returns a short name of the reaction.
func (r Reaction) String() string { return reactionNames[r] }

// React is the matrix: what an event leads to in a phase. Every cell is set.
func React(p Phase, e Event) Reaction {
	if int(p) >= len(matrix[0])+1 || p == 0 || e == 0 {
		return Observe
	}
	return matrix[e][p-1]
}

// matrix has a row per event and a column per phase, in the phases' order: On,
// AwaitPowerOK, AwaitSIO, Off, ToOff, GracefulOff, CycleOff, ToCycleOff,
// GracefulCycle, WarmReset.
//
// The requests' cells are those of a phase that a launched plan is in, except
// On, Off and WarmReset, which stand for themselves. In a phase that other
// hands began a Normal or Graceful request waits and a Forced one does not.
var matrix = [...][10]Reaction{
	PowerOKAssert:   {Observe, Advance, Observe, Observe, Observe, Observe, Advance, Observe, Observe, Observe},
	PowerOKDeassert: {Observe, Observe, Lose, Observe, Advance, Advance, Observe, Advance, Advance, Settle},
	// SIO power good before PowerOk is a level like another: it is not lost, as
	// it was in x86-power-control.
	SIOGoodAssert:   {Observe, Observe, Advance, Observe, Observe, Observe, SkipPress, Observe, Observe, Observe},
	SIOGoodDeassert: {Observe, Observe, Observe, Observe, Observe, Observe, Observe, Observe, Observe, Observe},
	// Where a plan runs, its goals and deadlines decide; S5 alone proves nothing.
	S5Assert:   {HandsDown, Observe, Observe, Observe, Observe, Observe, Observe, Observe, Observe, HandsDown},
	S5Deassert: {Observe, Observe, Observe, HandsUp, Observe, Observe, SkipPress, Observe, Observe, Observe},
	// PLT_RST or POST complete shows a warm reset, whichever is configured.
	PlatformResetAssert:   {HandsReset, Observe, Observe, Observe, Observe, CameBack, Observe, Observe, CameBack, Passage},
	PlatformResetDeassert: {Observe, Observe, Observe, Observe, Observe, CameBack, Observe, Observe, CameBack, Observe},
	PostCompleteAssert:    {Observe, Observe, Observe, Observe, Observe, CameBack, Observe, Observe, CameBack, Observe},
	PostCompleteDeassert:  {HandsReset, Observe, Observe, Observe, Observe, CameBack, Observe, Observe, CameBack, Passage},
	PowerButtonPressed:    {HandsDown, Contrary, Contrary, HandsUp, Contrary, Contrary, SkipPress, Contrary, Contrary, HandsDown},
	ResetButtonPressed:    {HandsReset, Contrary, Contrary, Observe, Contrary, Contrary, Contrary, Contrary, Contrary, Contrary},
	PowerCycleTimer:       {NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, Advance, NoTimer, NoTimer, NoTimer},
	PowerOKWatchdog:       {NoTimer, Fail, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer},
	SIOWatchdog:           {NoTimer, NoTimer, Fail, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer},
	GracefulTimer:         {NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, Escalate, NoTimer, NoTimer, Escalate, NoTimer},
	WarmResetTimer:        {NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, NoTimer, Settle},
	RequestOn:             {Noop, Join, Join, Launch, Queue, Queue, Queue, Queue, Queue, Queue},
	RequestCut:            {Launch, TakeOver, TakeOver, Noop, Join, TakeOver, TakeOver, TakeOver, TakeOver, Launch},
	RequestCycle:          {Launch, Queue, Queue, Invalid, Queue, Overtake, Join, Join, Overtake, Launch},
	RequestReset:          {Launch, Queue, Queue, Invalid, Queue, Overtake, Queue, Queue, Overtake, Launch},
	RequestGracefulOff:    {Launch, Queue, Queue, Noop, Queue, Join, Queue, Queue, Queue, Queue},
	RequestGracefulCycle:  {Launch, Queue, Queue, Invalid, Queue, Queue, Queue, Queue, Join, Queue},
}
