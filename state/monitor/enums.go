package monitor

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

// Mode is DSDL's Failover_mode. For a monitor NONE, SOFT and HARD are the
// same: they differ only in what a failed start or stop method outside the
// monitor leads to.
type Mode uint8

// The modes. ModeNone is DSDL's default.
const (
	ModeNone        Mode = iota // restart, then escalate
	ModeSoft                    // as NONE
	ModeHard                    // as NONE
	ModeRestartOnly             // restart within the limit, never escalate
	ModeLogOnly                 // decide and log, do nothing
)

var modeNames = []string{
	ModeNone: "NONE", ModeSoft: "SOFT", ModeHard: "HARD",
	ModeRestartOnly: "RESTART_ONLY", ModeLogOnly: "LOG_ONLY",
}

// String returns the mode as DSDL spells it, for example "RESTART_ONLY".
func (m Mode) String() string { return name(modeNames, m, "Mode") }

// ParseMode is the inverse of [Mode.String].
func ParseMode(s string) (Mode, error) { return parse[Mode](modeNames, s, "failover mode") }

// Status is how a resource is doing.
type Status uint8

// The statuses. The zero value is StatusUnknown.
const (
	StatusUnknown  Status = iota // not probed yet, or the monitor cannot tell
	StatusOK                     // the last probe was good
	StatusDegraded               // partial failures, being restarted, or a parent is bad
	StatusFaulted                // failed, and not (or no longer) being restarted
	StatusOffline                // off on purpose, or absent
)

const statusCount = int(StatusOffline) + 1

var statusNames = []string{
	StatusUnknown: "UNKNOWN", StatusOK: "OK", StatusDegraded: "DEGRADED",
	StatusFaulted: "FAULTED", StatusOffline: "OFFLINE",
}

// String returns the status as DSDL spells it, for example "DEGRADED".
func (s Status) String() string { return name(statusNames, s, "Status") }

// Escalation is what follows when restarting has not helped.
type Escalation uint8

// The escalations.
const (
	EscalateNone       Escalation = iota // stay FAULTED, restart again once restarts have aged out
	EscalateUnit                         // start a unit or target, for example a quiesce target
	EscalateTransition                   // request a transition through the queue
	EscalateFailover                     // Control.Failover.StartFailover, never forced
	EscalateQuiesce                      // last step, after the denial budget: not configurable as first
)

var escalationNames = []string{
	EscalateNone: "none", EscalateUnit: "unit", EscalateTransition: "transition",
	EscalateFailover: "failover", EscalateQuiesce: "quiesce",
}

// String returns the escalation as the configuration spells it.
func (e Escalation) String() string { return name(escalationNames, e, "Escalation") }

// ParseEscalation is the inverse of [Escalation.String].
func ParseEscalation(s string) (Escalation, error) {
	return parse[Escalation](escalationNames, s, "escalation")
}

// Cause is where a failure was seen.
type Cause uint8

// The causes.
const (
	CauseProbe   Cause = iota + 1 // a probe said so
	CauseTimeout                  // a probe did not answer in time
	CauseStuck                    // a cancelled probe still has not returned
	CauseDeath                    // the watched process ended
	CausePower                    // power good went away without a sign of an intended Off
)

const causeCount = int(CausePower) + 1

var causeNames = []string{
	CauseProbe: "probe", CauseTimeout: "timeout", CauseStuck: "stuck probe",
	CauseDeath: "death", CausePower: "power good lost",
}

// String returns a short name of the cause.
func (c Cause) String() string { return name(causeNames, c, "Cause") }

// RestartOutcome is how a restart ended.
type RestartOutcome uint8

// The outcomes. The last three restarted nothing.
const (
	RestartOK         RestartOutcome = iota + 1
	RestartFailed                    // stop or start failed
	RestartStartLimit                // refused by the service manager's own start limit
	RestartCancelled                 // a newer intent of an operator ended it at launch
	RestartPostponed                 // refused for now: no room in the transition queue, or a gate
)

var restartOutcomeNames = []string{
	RestartOK: "ok", RestartFailed: "failed", RestartStartLimit: "start limit hit",
	RestartCancelled: "cancelled", RestartPostponed: "postponed",
}

// String returns a short name of the outcome.
func (o RestartOutcome) String() string { return name(restartOutcomeNames, o, "RestartOutcome") }

// Answer is what became of an escalation.
type Answer uint8

// The answers. A full queue is not a denial (DESIGN.md §5), nor is a gate that is
// closed for a while, as during a firmware update: both say nothing of the resource.
const (
	Accepted  Answer = iota + 1
	Denied           // refused, or could not be asked
	Cancelled        // a newer intent of an operator ended it at launch
	Postponed        // refused for now: no room in the transition queue, or a gate
)

var answerNames = []string{Accepted: "accepted", Denied: "denied", Cancelled: "cancelled", Postponed: "postponed"}

// String returns a short name of the answer.
func (a Answer) String() string { return name(answerNames, a, "Answer") }

func name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

func parse[T ~uint8](names []string, s, what string) (T, error) {
	i := state.Index(names, s)
	if s == "" || i < 0 {
		return 0, fmt.Errorf("unknown %s %q: want one of %q", what, s, names)
	}
	return T(i), nil
}
