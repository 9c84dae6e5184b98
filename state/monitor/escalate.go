package monitor

import (
	"fmt"
	"time"
)

// escalation is what the last step needs to remember.
type escalation struct {
	_ [0]func() // see state.Incomparable

	attempt     uint64
	kind        Escalation // of the last attempt
	precheck    string     // why it would be refused, "" = it may be asked
	denials     int        // since stable; apart from F and R, which a denial purges
	deniedAt    time.Duration
	quiesceDone bool          // the quiesce unit has been started
	quiesceAt   time.Duration // not tried again before
}

// escalate gives over, unless it is known that the answer would be no.
func (r *Resource) escalate(kind Escalation, target string, o observation) {
	e := &r.escalation
	e.attempt++
	e.kind = kind
	r.begin(escalating, r.cfg.EscalateTimeout, o)
	if kind == EscalateFailover && e.precheck != "" {
		r.answered(EscalationAnswer{Attempt: e.attempt, Answer: Denied, Reason: e.precheck})
		return
	}
	why := r.describe(o)
	r.emit(Escalate{
		Resource: r.cfg.Name, Attempt: e.attempt, Kind: kind, Target: target,
		Intent: r.intent, Deadline: r.work.deadline.at, Reason: why,
	})
	if kind != EscalateQuiesce {
		r.set(StatusFaulted, fmt.Sprintf("escalating (%s): %s", kind, why))
	}
}

func (r *Resource) answered(ev EscalationAnswer) {
	e := &r.escalation
	if ev.Attempt != e.attempt || r.phase != escalating && !r.happensAfterAll(ev) {
		r.counters.Stale++
		return
	}
	r.dirty = true
	if r.phase != escalating {
		r.dropPending("the escalation was accepted after all")
		r.cancelWork()
		r.abandonProbe()
	}
	o := r.work.seen
	r.phase = watching
	r.scheduleProbes()
	if ev.Answer != Postponed {
		r.postponed = ""
	}
	switch {
	case e.kind == EscalateQuiesce:
		r.quiesceAnswered(ev)
	case ev.Answer == Accepted:
		r.counters.Accepted++
		r.phase = ended
		r.power.lostAt = never
		r.log(GaveOver, "%s %s", e.kind, r.cfg.Target)
		r.set(StatusFaulted, r.gaveOverMessage())
	case ev.Answer == Denied:
		r.denied(ev.Reason, o)
	case ev.Answer == Postponed:
		r.postpone(DoEscalate, o, ev.Reason)
	default:
		r.log(WasCancelled, "escalation dropped: a newer intent of an operator")
		r.set(StatusFaulted, "escalation cancelled by an operator's newer intent")
	}
}

// happensAfterAll is an acceptance that came so late that it was taken for a
// denial.
func (r *Resource) happensAfterAll(ev EscalationAnswer) bool {
	return ev.Answer == Accepted && ev.Attempt != 0 && r.escalation.kind != EscalateQuiesce && r.phase != ended && r.presence == present
}

func (r *Resource) gaveOverMessage() string {
	m := "gave over: " + r.escalation.kind.String()
	if r.cfg.Target != "" {
		m += " " + r.cfg.Target
	}
	return m
}

// denied purges both histories, so that the next complete failure is met by a
// restart. After a death nobody waits for that: the restart follows at once.
// The denials themselves are counted apart and end in quiesce.
func (r *Resource) denied(reason string, o observation) {
	e := &r.escalation
	r.hist.clear()
	r.counters.Denied++
	e.denials++
	e.deniedAt = r.now.Boot
	if reason == "" {
		reason = "no reason given"
	}
	r.log(WasDenied, "%s refused (%d of %s): %s", e.kind, e.denials, r.denialLimit(), reason)
	r.set(StatusFaulted, fmt.Sprintf("%s refused: %s", e.kind, reason))
	suspended := len(r.suspensions) > 0
	switch {
	case r.cfg.DenialLimit > 0 && e.denials >= r.cfg.DenialLimit && !suspended:
		r.quiesce(reason, o)
	case o.death && !suspended && r.cfg.RetryCount != 0:
		r.judge(observation{status: ProbeCompleteFailure, n: 1, cause: o.cause, detail: o.detail, death: true, local: true})
	}
}

func (r *Resource) denialLimit() string {
	if r.cfg.DenialLimit < 0 {
		return "unlimited"
	}
	return fmt.Sprint(r.cfg.DenialLimit)
}

// quiesce ends all actions of this resource until an operator resets it or
// turns it on.
func (r *Resource) quiesce(reason string, o observation) {
	r.quiesced = true
	r.escalation.quiesceDone = r.cfg.QuiesceTarget == ""
	r.log(Quiesce, "after %d refused escalations", r.escalation.denials)
	r.set(StatusFaulted, fmt.Sprintf("quiesced after %d refused escalations: %s", r.escalation.denials, reason))
	r.startQuiesce(o)
}

// startQuiesce starts the quiesce unit unless that is done or held back.
func (r *Resource) startQuiesce(o observation) {
	e := &r.escalation
	if e.quiesceDone || !r.mayAct() || r.now.Boot < e.quiesceAt || r.phase != watching {
		return
	}
	r.escalate(EscalateQuiesce, r.cfg.QuiesceTarget, o)
}

// quiesceAgain is a report to a quiesced resource. The status stays; a quiesce
// unit that did not start is tried again.
func (r *Resource) quiesceAgain(in Inputs) {
	if in.Status != ProbeOK && in.Sum >= threshold {
		r.startQuiesce(observation{status: in.Status, n: 1, detail: "still failing"})
	}
}

func (r *Resource) quiesceAnswered(ev EscalationAnswer) {
	e := &r.escalation
	if ev.Answer == Accepted {
		e.quiesceDone = true
		r.log(GaveOver, "%s started", r.cfg.QuiesceTarget)
		return
	}
	e.quiesceAt = r.now.Boot + max(r.cfg.Backoff.Max, r.cfg.ThoroughProbe, time.Second)
	r.log(WasDenied, "%s not started (%s): %s", r.cfg.QuiesceTarget, ev.Answer, ev.Reason)
}
