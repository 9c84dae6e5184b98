package monitor

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Event is something that a [Resource] is told.
type Event interface{ isEvent() }

// Tag identifies one probe: a result counts only with the tag of the probe in
// flight. Generation is that of the instance probed, Serial counts probes.
type Tag struct {
	Generation uint64
	Serial     uint64
}

// Tick says that time has passed, perhaps to NextDeadline.
type Tick struct{}

// ProbeResult answers a [StartProbe].
type ProbeResult struct {
	_ state.Incomparable

	Tag     Tag
	Status  int           // 0, 1–99, 100 or 201; ProbeMonitorError if no probe could be made
	Elapsed time.Duration // 0 = until now
	Detail  string        // for messages, for example "connection refused"
}

// Died says that the watched process tree has ended without anybody's order.
type Died struct {
	_ state.Incomparable

	N          int           // deaths since the last report; 0 is 1. More than 1 after coalesced signals
	Invocation string        // systemd's InvocationID of the instance that died, "" = not known
	Generation uint64        // of the [Restart] that made the instance, 0 = not known
	At         time.Duration // boot time of the death, 0 = now
	Restarted  bool          // the service manager has restarted it already (NRestarts rose by N)
	Detail     string        // for messages, for example "signal 9"
}

// Started says that others have started a new instance: its failures are
// counted from a clean F and after a start grace. It ends an absence, not an
// operator's Off.
type Started struct{ Invocation string }

// RestartDone answers a [Restart].
type RestartDone struct {
	_ state.Incomparable

	Generation uint64
	Outcome    RestartOutcome
	Invocation string // of the new instance, "" = not known
	Reason     string // why it did not succeed
}

// EscalationAnswer answers an [Escalate].
type EscalationAnswer struct {
	_ state.Incomparable

	Attempt uint64
	Answer  Answer
	Reason  string // of a denial
}

// Suspend stops all actions, not the probing, in the owner's name. The same
// owner again sets a new expiry.
type Suspend struct {
	_ state.Incomparable

	Owner string
	For   time.Duration // 0 = until Resume
}

// Resume ends the owner's suspension. The last one to end clears both
// histories.
type Resume struct {
	_ state.Incomparable

	Owner string
	All   bool // root: end every owner's
}

// Reset clears histories, back-off, denials, and an accepted escalation or
// quiesce. It ends neither a suspension nor an Off.
type Reset struct{}

// ProbeNow asks for a thorough probe at once.
type ProbeNow struct{}

// OperatorOff says that somebody has turned the resource off on purpose:
// nothing is a failure until [OperatorOn].
type OperatorOff struct{ Reason string }

// OperatorOn says that somebody has turned it on from outside: it is watched
// afresh. It also ends a quiesce and an accepted escalation.
type OperatorOn struct{}

// Absent says that there is nothing to watch and that this is right (a unit
// that is not loaded, a host whose guest has shut down): OFFLINE until Started.
type Absent struct{ Reason string }

// LostSight says that the monitor cannot observe the resource (bus gone):
// UNKNOWN, never a failure.
type LostSight struct{ Reason string }

// Intent says that the domain's intent generation has moved: an operator
// wants something newer than what was decided before it.
type Intent struct{ Generation uint64 }

// OffSign is a sign of an intended Off: a request for it with any final
// status, a button, S5, a guest's shutdown.
type OffSign struct{ What string }

// PowerGood is the observed level of power good. Only a fall from on to off is
// a loss; the first level after a start is where it begins.
type PowerGood struct{ On bool }

// ParentBad says that a resource which this one depends on is bad.
type ParentBad struct{ Parent string }

// ParentGood says that it is good again, or no longer a parent.
type ParentGood struct{ Parent string }

// Inhibit holds all actions back for a reason of the whole BMC (code update,
// boot transition, failover in progress, passive role); "" releases them.
type Inhibit struct{ Reason string }

// Precheck is whether the escalation would be refused anyway, for example
// FailoversNotAllowedReason; "" = it may be asked.
type Precheck struct{ Refusal string }

// Configure changes the configuration and keeps the histories. Name must stay.
type Configure struct{ Config Config }

// retryLaunch lets a held decision try again: a slot of the limiter is free.
type retryLaunch struct{}

func (Tick) isEvent()             {}
func (ProbeResult) isEvent()      {}
func (Died) isEvent()             {}
func (Started) isEvent()          {}
func (RestartDone) isEvent()      {}
func (EscalationAnswer) isEvent() {}
func (Suspend) isEvent()          {}
func (Resume) isEvent()           {}
func (Reset) isEvent()            {}
func (ProbeNow) isEvent()         {}
func (OperatorOff) isEvent()      {}
func (OperatorOn) isEvent()       {}
func (Absent) isEvent()           {}
func (LostSight) isEvent()        {}
func (Intent) isEvent()           {}
func (OffSign) isEvent()          {}
func (PowerGood) isEvent()        {}
func (ParentBad) isEvent()        {}
func (ParentGood) isEvent()       {}
func (Inhibit) isEvent()          {}
func (Precheck) isEvent()         {}
func (Configure) isEvent()        {}
func (retryLaunch) isEvent()      {}
