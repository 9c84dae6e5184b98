package monitor

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Action is something that the caller is to do for a [Resource].
type Action interface{ isAction() }

// Save asks to store a snapshot before the rest of the list is carried out.
type Save struct{ Resource string }

// StartProbe asks for one probe, which must answer with a [ProbeResult].
type StartProbe struct {
	_ state.Incomparable

	Resource string
	Tag      Tag
	Thorough bool          // false = the cheap one
	Deadline time.Duration // boot time
}

// CancelProbe says that nobody waits for a probe any more. Its result is still
// due, since it shows that the probe has ended.
type CancelProbe struct {
	_ state.Incomparable

	Resource string
	Tag      Tag
}

// Restart asks for a stop and start of this resource only.
type Restart struct {
	_ state.Incomparable

	Resource    string
	Generation  uint64 // of the new instance
	Intent      uint64 // ends CANCELLED at launch if the domain's has moved
	Deadline    time.Duration
	ResetFailed bool // clear the service manager's start limit first
	Reason      string
}

// CancelRestart asks to stop a restart in flight: an operator wants it off.
type CancelRestart struct {
	_ state.Incomparable

	Resource   string
	Generation uint64
}

// Escalate asks for the next step.
type Escalate struct {
	_ state.Incomparable

	Resource string
	Attempt  uint64
	Kind     Escalation
	Target   string
	Intent   uint64
	Deadline time.Duration
	Reason   string
}

// LogEvent is one decision or outcome, with what it was made from.
type LogEvent struct {
	_ state.Incomparable

	Resource string
	At       state.Instant
	Decision Decision
	Row      string // of the decision table; "" = not from the table
	Inputs   Inputs // what the table was asked; with Row only
	Text     string
}

// Publish is what the resource's object shows. It comes on change only.
type Publish struct{ View View }

// Refused tells the sender of the event why it had no effect.
type Refused struct {
	_ state.Incomparable

	Resource string
	Reason   string
}

// Removed says that a resource is no longer configured: its object goes.
type Removed struct{ Resource string }

func (Save) isAction()          {}
func (StartProbe) isAction()    {}
func (CancelProbe) isAction()   {}
func (Restart) isAction()       {}
func (CancelRestart) isAction() {}
func (Escalate) isAction()      {}
func (LogEvent) isAction()      {}
func (Publish) isAction()       {}
func (Refused) isAction()       {}
func (Removed) isAction()       {}

// View is what a resource shows. It is comparable.
type View struct {
	_ state.Incomparable

	Name               string
	Status             Status
	Message            string
	NextAction         string // what a complete failure now would lead to
	LastDecision       string
	FailureSum         uint32
	RestartsInInterval uint32
	RetryCount         int32
	RetryInterval      int64         // seconds, −1 = never ages
	LastFailure        time.Duration // boot time, −1 = none; see WallOf
	Flapping           bool
	RefusedEscalations uint32
	SuspendedBy        string // owners, separated by ", "
}

// WallOf returns when boot time at was, by today's wall clock, in microseconds
// since the epoch; 0 for a negative at. It is worked out anew at each call, so
// a step of the wall clock moves what is displayed and nothing else.
func WallOf(now state.Instant, at time.Duration) uint64 {
	if at < 0 || now.Wall.IsZero() {
		return 0
	}
	return uint64(now.Wall.Add(at - now.Boot).UnixMicro())
}
