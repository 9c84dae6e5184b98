package monitor

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// The statuses that a probe may report (fault-monitor.md §1.1). 1 to 99 is a
// partial failure; everything else than these is a monitor error.
const (
	ProbeOK                = 0
	ProbeCompleteFailure   = 100
	ProbeImmediateFailover = 201
	// ProbeMonitorError is what an executor reports when the probe itself
	// could not be made (no descriptor left, no bus): it never counts.
	ProbeMonitorError = -1
)

// threshold is the sum of weights that makes a complete failure.
const threshold = ProbeCompleteFailure

func validStatus(s int) bool {
	return s >= ProbeOK && s <= ProbeCompleteFailure || s == ProbeImmediateFailover
}

// Inputs is all that a decision depends on. A log event carries it, so that
// every decision can be made again: Decide(ev.Inputs) == ev.Decision.
type Inputs struct {
	_ state.Incomparable

	Status        int           // of the probe, or 100 for a death; 0 to 100 or 201
	Sum           int           // weights in F, the new failure included
	Restarts      int           // instants in R
	RetryCount    int           // −1 = unlimited
	RetryInterval time.Duration // for the record: Sum and Restarts are pruned by it already
	Mode          Mode
	Escalation    Escalation
	DryRun        bool

	Grace         bool // a probe that started inside the start grace
	Suppressed    bool // a parent is bad
	Suspended     bool
	Quiesced      bool
	RestartFailed bool // the restart that this decides about has failed
	LocalRetry    bool // the one local restart after a denied escalation
}

func (in Inputs) escalates() bool {
	switch in.Mode {
	case ModeRestartOnly, ModeLogOnly:
		return false
	default:
		return in.Escalation != EscalateNone
	}
}

func (in Inputs) mayRestart() bool {
	return in.RetryCount < 0 || in.Restarts < in.RetryCount
}

// rule is one row of the decision table.
type rule struct {
	row  string // row of fault-monitor.md §1.4, or a name of our own
	when func(Inputs) bool
	then Decision
}

// rules is fault-monitor.md §1.4, evaluated top to bottom. Rows with a word
// are ours. Row 1 comes before row 0 because a status without a meaning cannot
// be recorded; row 3 has no line since 201 weighs 100 in F and falls through.
var rules = []rule{
	{"1", func(in Inputs) bool { return !validStatus(in.Status) }, MonitorError},
	{"grace", func(in Inputs) bool { return in.Grace && in.Status > 0 }, InGrace},
	{"parent", func(in Inputs) bool { return in.Suppressed && in.Status > 0 }, Suppressed},
	{"0", func(in Inputs) bool { return in.Suspended }, Suspended},
	{"quiesced", func(in Inputs) bool { return in.Quiesced }, IsQuiesced},
	{"local 7b", func(in Inputs) bool { return in.RestartFailed && in.LocalRetry }, RestartGaveUp},
	{"7a", func(in Inputs) bool { return in.RestartFailed && in.escalates() }, DoEscalate},
	{"7b", func(in Inputs) bool { return in.RestartFailed }, RestartGaveUp},
	{"local 7", func(in Inputs) bool { return in.LocalRetry && in.mayRestart() && in.Mode != ModeLogOnly }, DoRestart},
	{"local 8", func(in Inputs) bool { return in.LocalRetry }, Exhausted},
	{"2", func(in Inputs) bool { return in.Status == ProbeImmediateFailover && in.escalates() }, DoEscalate},
	{"4", func(in Inputs) bool { return in.Status == ProbeOK }, Nothing},
	{"5", func(in Inputs) bool { return in.Sum < threshold }, Partial},
	{"6 restart", func(in Inputs) bool { return in.Mode == ModeLogOnly && in.mayRestart() }, WouldRestart},
	{"6 escalate", func(in Inputs) bool { return in.Mode == ModeLogOnly && in.Escalation != EscalateNone }, WouldEscalate},
	{"6", func(in Inputs) bool { return in.Mode == ModeLogOnly }, Exhausted},
	{"7", func(in Inputs) bool { return in.mayRestart() }, DoRestart},
	{"8", func(in Inputs) bool { return !in.escalates() }, Exhausted},
	{"9", func(Inputs) bool { return true }, DoEscalate},
}

// Decide applies the decision table.
func Decide(in Inputs) Decision {
	_, d := decide(in)
	return d
}

// decide also names the row.
func decide(in Inputs) (string, Decision) {
	for _, r := range rules {
		if r.when(in) {
			return r.row, dry(in, r.then)
		}
	}
	return "", Nothing // the last rule always holds
}

func dry(in Inputs, d Decision) Decision {
	switch {
	case in.DryRun && d == DoRestart:
		return WouldRestart
	case in.DryRun && d == DoEscalate:
		return WouldEscalate
	default:
		return d
	}
}
