package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// Sign passes on what the engine sees of a domain. The order of calls is the
// order in which the resources are told.
func (l *Loop) Sign(s engine.Sign) {
	if s.Kind == engine.SignFirmware {
		l.Inhibit("firmware update", s.On)
		return
	}
	l.post(func() {
		l.intents[s.Domain] = s.Intent
		ev := eventOf(s)
		for i := range l.opts.Resources {
			if r := &l.opts.Resources[i]; r.Host && r.Domain == s.Domain {
				l.step(r.Config.Name, ev)
			}
		}
	})
}

func eventOf(s engine.Sign) monitor.Event {
	switch s.Kind {
	case engine.SignIntent:
		return monitor.Intent{Generation: s.Intent}
	case engine.SignOff:
		return monitor.OffSign{What: s.What}
	case engine.SignOperatorOff:
		return monitor.OperatorOff{Reason: s.What}
	case engine.SignOperatorOn:
		return monitor.OperatorOn{}
	default:
		return monitor.PowerGood{On: s.On}
	}
}

// transition asks the engine for an operation and returns the first answer that
// is a refusal or enough. When ctx ends before, what was asked for is withdrawn,
// as soon as it can be.
func (l *Loop) transition(ctx context.Context, domain int, op state.Operation, intent uint64, enough func(state.Status) bool) (engine.Answer, error) {
	answers := make(chan engine.Answer, 8) // no request has more statuses
	withdraw := func(seq uint64) {
		l.opts.Post(engine.Cancel{Domain: domain, Seq: seq, Reply: func(engine.Answer) {}})
	}
	l.opts.Post(engine.Internal{
		Domain: domain, Op: op, Cause: state.RestartCauseHostCrash, Intent: intent,
		Follow: func(a engine.Answer) {
			if ctx.Err() != nil && a.Err == nil && !a.Status.Final() {
				withdraw(a.Seq)
			}
			select {
			case answers <- a:
			default:
			}
		},
	})
	var last engine.Answer
	for {
		select {
		case last = <-answers:
			if refused(last) || last.Status.Final() || enough(last.Status) {
				return last, nil
			}
		case <-ctx.Done():
			if last.Seq != 0 && l.ctx.Err() == nil {
				withdraw(last.Seq)
			}
			return last, context.Cause(ctx)
		}
	}
}

func refused(a engine.Answer) bool { return a.Err != nil }

// waitsFor says what has to pass before a refused request may be made again, ""
// if the refusal is a no. What holds only for now says nothing of the host: no
// room, and a gate (an update of firmware, an error that blocks power, a BMC that
// is passive or not Ready), however long it stays closed.
func waitsFor(r *engine.Refusal) string {
	switch {
	case r == nil:
		return ""
	case r.Code == engine.CodeFull || r.Code == engine.CodeBusy:
		return "room in the queue"
	case r.Code == engine.CodeUnavailable || r.Code == engine.CodeBMCNotReady:
		return r.Text
	default:
		return ""
	}
}

// reasonOf says why a request did not end well.
func reasonOf(a engine.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Text
	case len(a.Requests) > 0 && a.Requests[0].Reason != "":
		return fmt.Sprintf("%s: %s", a.Status, a.Requests[0].Reason)
	default:
		return a.Status.String()
	}
}

// restartHost restarts a host by its operation and waits for the end of that.
func (l *Loop) restartHost(ctx context.Context, r *Resource, a monitor.Restart) monitor.RestartDone {
	answer, err := l.transition(ctx, r.Domain, r.Op, a.Intent, state.Status.Final)
	done := monitor.RestartDone{Outcome: monitor.RestartFailed, Reason: reasonOf(answer)}
	switch {
	case errors.Is(err, ErrWithdrawn):
		done.Outcome = monitor.RestartCancelled
	case err != nil:
		done.Reason = "the transition did not end in time"
	case waitsFor(answer.Err) != "":
		done.Outcome, done.Reason = monitor.RestartPostponed, waitsFor(answer.Err)
	case answer.Err != nil:
	case answer.Status == state.Success || answer.Status == state.Noop:
		done.Outcome = monitor.RestartOK
	case answer.Status == state.Cancelled || answer.Status == state.Superseded:
		done.Outcome = monitor.RestartCancelled
	}
	return done
}

// request makes an escalation's transition: accepted once it is under way.
func (l *Loop) request(ctx context.Context, domain int, e monitor.Escalate) (monitor.Answer, string) {
	op, err := state.ParseOperation(e.Target)
	if err != nil {
		return monitor.Denied, err.Error()
	}
	answer, err := l.transition(ctx, domain, op, e.Intent, func(s state.Status) bool { return s == state.Running })
	switch {
	case err != nil:
		return monitor.Denied, "the transition was not launched in time"
	case waitsFor(answer.Err) != "":
		return monitor.Postponed, waitsFor(answer.Err)
	case answer.Err != nil:
		return monitor.Denied, answer.Err.Text
	case answer.Status == state.Cancelled || answer.Status == state.Superseded:
		return monitor.Cancelled, ""
	case answer.Status == state.Running || answer.Status == state.Success || answer.Status == state.Noop:
		return monitor.Accepted, ""
	default:
		return monitor.Denied, reasonOf(answer)
	}
}
