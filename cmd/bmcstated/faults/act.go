package faults

import (
	"context"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// carryOut does what the monitor wants, in order. Nothing here blocks but the
// snapshot, which must be on its file before the restart that it counts.
func (l *Loop) carryOut(actions []monitor.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case monitor.Save:
			l.save()
		case monitor.StartProbe:
			l.startProbe(a)
		case monitor.CancelProbe:
			if cancel := l.probes[probeKey{a.Resource, a.Tag}]; cancel != nil {
				cancel()
			}
		case monitor.Restart:
			l.restart(a)
		case monitor.CancelRestart:
			if cancel := l.restarts[restartKey{a.Resource, a.Generation}]; cancel != nil {
				cancel(ErrWithdrawn)
			}
		case monitor.Escalate:
			l.escalate(a)
		case monitor.LogEvent:
			l.log(a)
		case monitor.Publish:
			l.opts.Show.ShowFault(a.View, monitor.WallOf(l.opts.Now(), a.View.LastFailure))
		case monitor.Refused:
			l.refused = a.Reason
		case monitor.Removed:
			l.opts.Show.RemoveFault(a.Resource)
		}
	}
}

// log keeps a decision with all that it was made from, so that it can be made
// again.
func (l *Loop) log(ev monitor.LogEvent) {
	attrs := []any{
		systemd.LogMessageID, systemd.MsgFault, "resource", ev.Resource, "decision", ev.Decision.String(), "text", ev.Text,
	}
	if ev.Row != "" {
		in := ev.Inputs
		attrs = append(attrs, "row", ev.Row, "status", in.Status, "sum", in.Sum, "restarts", in.Restarts,
			"retryCount", in.RetryCount, "retryInterval", in.RetryInterval, "mode", in.Mode.String(),
			"escalation", in.Escalation.String())
	}
	l.opts.Log.Log(l.ctx, slog.LevelWarn, "fault monitor", attrs...)
}

// until returns a context that ends at a boot time. An expired one still lets a
// worker say so.
func (l *Loop) until(at time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.ctx, max(0, at-l.opts.Now().Boot))
}

func (l *Loop) startProbe(a monitor.StartProbe) {
	r := l.byName[a.Resource]
	if r.Probe == nil {
		l.probeUnit(r, a.Tag)
		return
	}
	key, began := probeKey{a.Resource, a.Tag}, l.opts.Now().Boot
	// A probe that gives up in time can say what it has seen; one that does not is
	// counted by the monitor.
	ctx, cancel := l.until(a.Deadline - (a.Deadline-began)/50)
	l.probes[key] = cancel
	l.workers.Go(func() {
		res := r.Probe.Probe(ctx, a.Thorough)
		cancel()
		elapsed := l.opts.Now().Boot - began
		l.post(func() {
			delete(l.probes, key)
			if w := l.watches[r.Unit]; w != nil && res.Status > 0 && w.ordered(l.opts.Now().Boot) {
				res = Result{monitor.ProbeMonitorError, "the unit may be stopped or restarted by others: " + res.Detail}
			}
			l.step(a.Resource, monitor.ProbeResult{Tag: a.Tag, Status: res.Status, Elapsed: elapsed, Detail: res.Detail})
		})
	})
}

func (l *Loop) restart(a monitor.Restart) {
	r := l.byName[a.Resource]
	do := r.Restart
	a.Intent = l.intents[r.Domain]
	switch {
	case do != nil:
	case r.Host:
		do = func(ctx context.Context, a monitor.Restart) monitor.RestartDone { return l.restartHost(ctx, r, a) }
	default:
		if r.Unit == "" {
			l.answer(a.Resource, monitor.RestartDone{Generation: a.Generation, Outcome: monitor.RestartFailed,
				Reason: "the resource has no unit to restart"})
			return
		}
		w := l.watches[r.Unit]
		if w.ordered(l.opts.Now().Boot) { // ours would take the order's place
			l.answer(a.Resource, monitor.RestartDone{Generation: a.Generation, Outcome: monitor.RestartCancelled})
			return
		}
		w.ours, w.before = true, w.last.InvocationID
		do = func(ctx context.Context, a monitor.Restart) monitor.RestartDone { return l.restartUnit(ctx, w, a) }
	}
	limited, stop := l.until(a.Deadline)
	ctx, cancel := context.WithCancelCause(limited)
	key := restartKey{a.Resource, a.Generation}
	l.restarts[key] = cancel
	l.workers.Go(func() {
		done := do(ctx, a)
		cancel(nil)
		stop()
		done.Generation = a.Generation
		l.post(func() {
			delete(l.restarts, key)
			l.step(a.Resource, done)
			if w := l.watches[r.Unit]; w != nil && r.Restart == nil && !r.Host {
				s, read := l.opts.Units.State(w.unit)
				l.tellUnit(w, w.restarted(s, read, done.Outcome, l.opts.Now().Boot))
			}
		})
	})
}

func (l *Loop) escalate(a monitor.Escalate) {
	r := l.byName[a.Resource]
	ctx, cancel := l.until(a.Deadline)
	a.Intent = l.intents[r.Domain]
	l.workers.Go(func() {
		defer cancel()
		answer, reason := monitor.Denied, "nothing here can escalate"
		switch {
		case a.Kind == monitor.EscalateUnit || a.Kind == monitor.EscalateQuiesce:
			answer, reason = l.startUnit(ctx, a.Target)
		case a.Kind == monitor.EscalateTransition:
			answer, reason = l.request(ctx, r.Domain, a)
		case a.Kind == monitor.EscalateFailover && l.opts.Failover != nil:
			answer, reason = l.opts.Failover(ctx)
		}
		l.answer(a.Resource, monitor.EscalationAnswer{Attempt: a.Attempt, Answer: answer, Reason: reason})
	})
}

// startUnit starts the unit or target of an escalation: accepted once systemd
// has the job.
func (l *Loop) startUnit(ctx context.Context, unit string) (monitor.Answer, string) {
	if unit == "" {
		return monitor.Accepted, ""
	}
	if l.opts.Units == nil {
		return monitor.Denied, "there is no systemd to start " + unit + " with"
	}
	if _, err := l.opts.Units.Start(ctx, unit, systemd.ModeReplace); err != nil {
		return monitor.Denied, err.Error()
	}
	return monitor.Accepted, ""
}
