package monitor

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// maxRecords bounds the record of decisions that GetHistory shows.
const maxRecords = 64

// health is the published status and what it follows from.
type health struct {
	_ state.Incomparable

	status      Status
	message     string
	since       time.Duration // boot time of the last change of status
	lastFailure time.Duration // boot time, or unset
	decision    Decision      // last one worth a log line
	decided     bool
	ill         bool // DEGRADED or FAULTED since the last OK
	bad         bool // a complete failure since the last OK: children are suppressed
}

// Record is one line of the history that operators can read.
type Record struct {
	_ state.Incomparable

	At       time.Duration `json:"at"` // boot time, see WallOf
	Decision Decision      `json:"decision"`
	Status   int           `json:"status,omitempty"` // of the probe, 100 for a death; 0 where there was none
	Sum      int           `json:"sum"`
	Restarts int           `json:"restarts"`
	Text     string        `json:"text"`
}

// logKey is what makes a repeated decision the same one.
type logKey struct {
	decision Decision
	restarts int
}

// Counters count since the daemon started.
type Counters struct {
	Probes           uint64
	Timeouts         uint64
	Stale            uint64 // results, deaths and answers that came too late
	MonitorErrors    uint64
	Failures         [causeCount]uint64 // by Cause
	Restarts         [RestartPostponed + 1]uint64
	RestartsByOthers uint64
	Accepted         uint64 // escalations
	Denied           uint64
	// Duration counts probes by their upper bound in DurationBounds; the last
	// one is for longer ones.
	Duration [len(DurationBounds) + 1]uint64
	// In is the time spent in each Status, up to its last change.
	In [statusCount]time.Duration
}

// DurationBounds are the inclusive upper bounds of Counters.Duration.
var DurationBounds = [...]time.Duration{
	10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second,
}

func (c *Counters) observe(elapsed time.Duration) {
	i := 0
	for i < len(DurationBounds) && elapsed > DurationBounds[i] {
		i++
	}
	c.Duration[i]++
}

func (c *Counters) restart(o RestartOutcome) {
	if int(o) < len(c.Restarts) {
		c.Restarts[o]++
	}
}

// Counters returns the counters so far.
func (r *Resource) Counters() Counters { return r.counters }

// Records returns the newest n decisions, oldest first; n ≤ 0 is all.
func (r *Resource) Records(n int) []Record {
	if n <= 0 || n > len(r.records) {
		n = len(r.records)
	}
	return append([]Record(nil), r.records[len(r.records)-n:]...)
}

// Failures returns F, oldest first, as of the last step.
func (r *Resource) Failures() []Failure { return append([]Failure(nil), r.hist.failures...) }

// Restarts returns R, oldest first, as of the last step.
func (r *Resource) Restarts() []Mark { return append([]Mark(nil), r.hist.restarts...) }

// Bad reports whether children must be left alone: their failures are likely
// this resource's.
func (r *Resource) Bad() bool {
	return r.health.bad || r.presence != present || r.phase == ended || r.quiesced || len(r.badParents) > 0
}

// View returns what the resource shows, as of the last step.
func (r *Resource) View() View {
	h := &r.health
	last := ""
	if h.decided {
		last = h.decision.String()
	}
	return View{
		Name: r.cfg.Name, Status: h.status, Message: r.message(), NextAction: r.nextAction(), LastDecision: last,
		FailureSum: uint32(r.hist.sum()), RestartsInInterval: uint32(len(r.hist.restarts)),
		RetryCount: int32(r.cfg.RetryCount), RetryInterval: int64(r.cfg.RetryInterval / time.Second),
		LastFailure: h.lastFailure, Flapping: r.flap.on, RefusedEscalations: uint32(r.escalation.denials),
		SuspendedBy: r.owners(),
	}
}

func (r *Resource) message() string {
	m := r.health.message
	if p := r.pending; p != nil && p.held != "" {
		m += " (waiting for " + p.held + ")"
	}
	if r.flap.on {
		m = join(m, "; ", "flapping")
	}
	if len(r.suspensions) > 0 {
		m = join("suspended by "+r.owners(), ": ", m)
	}
	return m
}

func join(a, sep, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// nextAction says what a complete failure now would lead to.
func (r *Resource) nextAction() string {
	switch {
	case r.presence != present, r.phase == ended, r.quiesced, len(r.suspensions) > 0, len(r.badParents) > 0:
		return "NONE"
	case r.phase == restarting:
		return "RESTARTING"
	case r.phase == escalating:
		return "ESCALATING"
	case r.pending != nil:
		return r.pending.verb.String()
	}
	in := r.inputs(observation{status: ProbeCompleteFailure})
	in.Sum = threshold
	if d := Decide(in); d != Exhausted {
		return d.String()
	}
	return "NONE"
}

func (r *Resource) set(s Status, message string) {
	h := &r.health
	if s != h.status {
		r.counters.In[h.status] += r.now.Boot - h.since
		h.status, h.since = s, r.now.Boot
		r.dirty = true
	}
	h.message = message
	switch s {
	case StatusFaulted:
		h.bad, h.ill = true, true
	case StatusDegraded:
		h.ill = true
	case StatusOK:
		h.ill = false
	}
}

func (r *Resource) refuse(format string, args ...any) {
	r.emit(Refused{Resource: r.cfg.Name, Reason: fmt.Sprintf(format, args...)})
}

// log reports something that did not come from the table.
func (r *Resource) log(d Decision, format string, args ...any) {
	ev := LogEvent{Resource: r.cfg.Name, At: r.now, Decision: d, Text: fmt.Sprintf(format, args...)}
	ev.Inputs.Sum, ev.Inputs.Restarts = r.hist.sum(), len(r.hist.restarts)
	r.record(ev)
}

// logRow reports a decision of the table. One that only repeats the last is
// left out: LOG_ONLY says WOULD_RESTART once, not at every probe.
func (r *Resource) logRow(row string, d Decision, in Inputs, o observation) {
	if d == Nothing || in.Status == ProbeOK {
		return
	}
	key := logKey{d, in.Restarts}
	repeats := d != Partial && d != DoRestart && d != DoEscalate && d != RestartGaveUp
	if repeats && key == r.logged {
		return
	}
	r.record(LogEvent{
		Resource: r.cfg.Name, At: r.now, Decision: d, Row: row, Inputs: in, Text: r.describe(o),
	})
	r.logged = key
}

func (r *Resource) record(ev LogEvent) {
	if ev.Decision != SlowProbe && ev.Decision != LateLoop { // remarks, not decisions
		r.logged = logKey{}
		r.health.decision, r.health.decided = ev.Decision, true
	}
	if n := len(r.records) - maxRecords + 1; n > 0 {
		r.records = append(r.records[:0], r.records[n:]...)
	}
	r.records = append(r.records, Record{
		At: ev.At.Boot, Decision: ev.Decision, Status: ev.Inputs.Status,
		Sum: ev.Inputs.Sum, Restarts: ev.Inputs.Restarts, Text: ev.Text,
	})
	r.emit(ev)
}
