package monitor

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// pending is a decision that waits for its back-off, a free slot, or the end
// of an inhibition. It is judged again before it is carried out.
type pending struct {
	_ state.Incomparable

	verb Decision // DoRestart or DoEscalate
	seen observation
	due  time.Duration
	held string // what it waits for, "" = nothing
	gate bool   // it waits for the limiter or an inhibition, not for its back-off
}

// work is the restart or escalation in flight.
type work struct {
	deadline   timer
	since      time.Duration
	seen       observation
	limitTried bool   // the service manager's start limit has been reset once
	early      []Died // of the new instance, before the restart's answer
}

// want makes d the pending decision and carries it out if nothing holds it.
func (r *Resource) want(d Decision, o observation) {
	r.health.bad = true
	if p := r.pending; p != nil && p.verb == d {
		p.seen.death = p.seen.death || o.death
		return
	}
	r.dropPending("replaced by " + d.String())
	delay := r.delay(d)
	r.pending = &pending{verb: d, seen: o, due: r.now.Boot + delay}
	if delay > 0 {
		r.pending.held = fmt.Sprintf("back-off %v", delay.Round(time.Millisecond))
		r.log(Held, "%s waits for %s", d, r.pending.held)
	}
	r.showPending()
	r.launch()
}

func (r *Resource) showPending() {
	p := r.pending
	if p.verb == DoRestart {
		r.set(StatusDegraded, "restart due: "+r.describe(p.seen))
		return
	}
	r.set(StatusFaulted, "escalation due: "+r.describe(p.seen))
}

// delay is the back-off: a restart's grows with the restarts since the
// resource was stable, an escalation's with the denials.
func (r *Resource) delay(d Decision) time.Duration {
	if r.cfg.Backoff.Min == 0 {
		return 0
	}
	if d == DoRestart {
		return r.cfg.Backoff.delay(r.step, r.rand())
	}
	e := &r.escalation
	if e.denials == 0 || e.deniedAt == unset {
		return 0
	}
	wait := r.cfg.Backoff.delay(e.denials-1, r.rand())
	return max(0, e.deniedAt+wait-r.now.Boot)
}

// dropPending forgets the pending decision, for example because a good probe
// came first.
func (r *Resource) dropPending(why string) {
	if r.pending == nil {
		return
	}
	r.log(WasCancelled, "%s dropped: %s", r.pending.verb, why)
	r.pending = nil
	r.gate.leave(r.cfg.Name)
}

// hold lets the pending decision wait until at, or for retryLaunch.
func (r *Resource) hold(at time.Duration, why string) {
	p := r.pending
	p.due, p.gate = at, true
	if p.held != why {
		p.held = why
		r.log(Held, "%s waits for %s", p.verb, why)
	}
}

// releaseHold lets a held decision try at once.
func (r *Resource) releaseHold() {
	if p := r.pending; p != nil && p.gate {
		p.due = r.now.Boot
	}
}

// launch carries the pending decision out if it is due, still right, and
// nothing holds it.
func (r *Resource) launch() {
	p := r.pending
	if p == nil || r.now.Boot < p.due || r.phase != watching {
		return
	}
	r.prune()
	if d := Decide(r.inputs(p.seen)); d != p.verb {
		r.dropPending("no longer right")
		r.judge(p.seen)
		return
	}
	if r.inhibit != "" {
		r.hold(never, r.inhibit)
		return
	}
	if p.verb == DoEscalate {
		r.pending = nil
		r.escalate(r.cfg.Escalation, r.cfg.Target, p.seen)
		return
	}
	if ok, at, why := r.gate.admit(r.now.Boot, r.cfg.Name); !ok {
		r.hold(at, why)
		return
	}
	r.pending = nil
	r.restart(p.seen)
}

func (r *Resource) begin(p phase, span time.Duration, o observation) {
	r.abandonProbe()
	r.phase = p
	r.work = work{deadline: timer{at: r.now.Boot + span}, since: r.now.Boot, seen: o}
	r.dirty = true
}

func (r *Resource) restart(o observation) {
	r.hist.addRestart(r.mark())
	r.flap.add(r.now.Boot)
	r.step = min(r.step+1, maxStep)
	r.generation++
	r.instance++
	r.power.lostAt = never // a loss still in its debounce is repaired along
	r.begin(restarting, r.cfg.RestartTimeout, o)
	r.emitRestart(false)
	r.set(StatusDegraded, fmt.Sprintf("restart %d of %s: %s", len(r.hist.restarts), r.limit(), r.describe(o)))
}

func (r *Resource) emitRestart(resetFailed bool) {
	r.emit(Restart{
		Resource: r.cfg.Name, Generation: r.generation, Intent: r.intent, Deadline: r.work.deadline.at,
		ResetFailed: resetFailed, Reason: r.describe(r.work.seen),
	})
}

// mayAct reports whether nobody has forbidden actions meanwhile.
func (r *Resource) mayAct() bool { return r.inhibit == "" && len(r.suspensions) == 0 }

// workOverdue answers for an executor that does not.
func (r *Resource) workOverdue() {
	switch {
	case r.phase == restarting && r.expired(&r.work.deadline, r.cfg.RestartTimeout):
		r.restartDone(RestartDone{Generation: r.generation, Outcome: RestartFailed,
			Reason: fmt.Sprintf("not finished within %v", r.cfg.RestartTimeout)})
	case r.phase == escalating && r.expired(&r.work.deadline, r.cfg.EscalateTimeout):
		r.answered(EscalationAnswer{Attempt: r.escalation.attempt, Answer: Denied,
			Reason: fmt.Sprintf("no answer within %v", r.cfg.EscalateTimeout)})
	}
}

func (r *Resource) restartDone(ev RestartDone) {
	if r.phase != restarting || ev.Generation != r.generation {
		r.counters.Stale++
		return
	}
	o := r.work.seen
	if ev.Outcome == RestartStartLimit && !r.work.limitTried && r.mayAct() {
		r.work.limitTried = true
		r.emitRestart(true)
		return
	}
	r.counters.restart(ev.Outcome)
	if ev.Outcome != RestartPostponed {
		r.postponed = ""
	}
	ran := ev.Outcome != RestartCancelled && ev.Outcome != RestartPostponed
	early := r.endRestart(ran)
	switch ev.Outcome {
	case RestartOK:
		r.restarted(ev.Invocation, early)
	case RestartCancelled:
		r.log(WasCancelled, "restart dropped: a newer intent of an operator")
		r.set(r.health.status, "restart cancelled by an operator's newer intent")
	case RestartPostponed:
		r.postpone(DoRestart, o, ev.Reason)
	default:
		r.dead = ev.Invocation // its death is this failure
		o.restartFailed, o.detail = true, ev.Reason
		if ev.Reason == "" {
			o.detail = ev.Outcome.String()
		}
		r.judge(o)
	}
}

// endRestart returns to watching, whatever became of the restart. The window
// clock runs again from where it stood.
func (r *Resource) endRestart(ran bool) (early []Died) {
	early = r.work.early
	r.frozen += r.now.Boot - r.work.since
	r.phase = watching
	r.gate.release(r.cfg.Name, ran)
	r.scheduleProbes()
	if !ran {
		r.hist.undoRestart()
		r.flap.undo()
		r.step = max(0, r.step-1)
	}
	r.dirty = true
	return early
}

// restarted is a successful restart: F is purged, R stays.
func (r *Resource) restarted(invocation string, early []Died) {
	r.hist.forgive()
	r.setInvocation(invocation)
	r.startGrace()
	r.log(Restarted, "restart %d of %s", len(r.hist.restarts), r.limit())
	r.set(StatusDegraded, "restarted, not probed yet")
	for _, d := range early {
		r.died(d)
	}
}

// postpone makes d pending again: what refuses it for now says nothing about it.
// It is tried again and again, and logged once for each reason in a row.
func (r *Resource) postpone(d Decision, o observation, why string) {
	r.pending = &pending{verb: d, seen: o, due: r.now.Boot + postponedRetry, held: why}
	if r.postponed != why {
		r.postponed = why
		r.log(WasPostponed, "%s tried again every %v: %s", d, postponedRetry, why)
	}
	r.showPending()
}

// cancelWork gives up what is in flight: an operator wants something else.
func (r *Resource) cancelWork() {
	switch r.phase {
	case restarting:
		r.emit(CancelRestart{Resource: r.cfg.Name, Generation: r.generation})
		r.endRestart(true)
	case escalating:
		r.phase = watching
		r.escalation.attempt++ // its answer is nobody's any more
	}
}
