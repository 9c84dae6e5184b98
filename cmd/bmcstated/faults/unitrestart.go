package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
)

// freshWithin bounds the wait for a reading of a unit after its job.
const freshWithin = 2 * time.Second

// restarted takes the end of our own restart. A death that came while it was
// still called ours is told now.
func (w *unitWatch) restarted(s systemd.UnitState, read bool, outcome monitor.RestartOutcome, now time.Duration) []monitor.Event {
	if w.ours, w.verdictAt = false, 0; read {
		w.last, w.known = s, true
	}
	ok := outcome == monitor.RestartOK
	isUp := running(w.last)
	w.cancelled = outcome == monitor.RestartCancelled && !isUp
	w.adopt = w.last.InvocationID == w.before && (ok || !w.cancelled && !isUp) // the new instance was not read yet
	w.adoptUp = ok
	if (w.adopt && ok || isUp) && !(w.order.done && (w.order.typ == "stop" || w.order.typ == "")) {
		w.settled() // a stop that was done came behind it
	}
	if w.adopt && ok {
		return nil
	}
	w.up = ok || w.cancelled || isUp || w.order.explains(w.last, now)
	if isUp || w.last.Active == "deactivating" || !w.up {
		return nil
	}
	return w.down(true, now)
}

// restartUnit restarts a unit and waits for its job.
func (l *Loop) restartUnit(ctx context.Context, w *unitWatch, a monitor.Restart) monitor.RestartDone {
	failed := func(err error) monitor.RestartDone {
		return monitor.RestartDone{Outcome: monitor.RestartFailed, Reason: err.Error()}
	}
	units := l.opts.Units
	if a.ResetFailed {
		if err := units.ResetFailed(ctx, w.unit); err != nil && systemd.ErrorName(err) != systemd.NameNoSuchUnit {
			return failed(err)
		}
	}
	before, _ := units.State(w.unit)
	job, err := units.Restart(ctx, w.unit, systemd.ModeReplace)
	if err != nil {
		return failed(err)
	}
	var result string
	select {
	case result = <-job.Result:
	case <-ctx.Done():
		return l.giveUp(ctx, units, job)
	}
	s := l.fresh(ctx, w, func(s systemd.UnitState) bool {
		if result == systemd.ResultDone {
			return s.InvocationID != before.InvocationID
		}
		return s.Active == "failed"
	})
	switch {
	case result == systemd.ResultDone || result == systemd.ResultLost && running(s):
		done := monitor.RestartDone{Outcome: monitor.RestartOK}
		if s.InvocationID != before.InvocationID {
			done.Invocation = s.InvocationID
		}
		return done
	case result == systemd.ResultCanceled:
		return monitor.RestartDone{Outcome: monitor.RestartCancelled, Reason: "the job was cancelled by somebody else"}
	case s.Result == "start-limit-hit":
		return monitor.RestartDone{Outcome: monitor.RestartStartLimit, Reason: s.Result}
	default:
		return failed(fmt.Errorf("the job ended with %s, the unit is %s (%s)", result, s.Active, s.Result))
	}
}

// fresh returns the unit's state once a reading fits, or the last one when none
// does in time.
func (l *Loop) fresh(ctx context.Context, w *unitWatch, fits func(systemd.UnitState) bool) systemd.UnitState {
	ctx, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	l.opts.Units.Refresh(w.unit)
	for {
		s, ok := l.opts.Units.State(w.unit)
		if ok && fits(s) {
			return s
		}
		select {
		case <-w.read:
		case <-ctx.Done():
			return s
		}
	}
}

// giveUp withdraws a job that nobody waits for any more. The daemon's own end
// leaves it alone.
func (l *Loop) giveUp(ctx context.Context, units *systemd.Units, job systemd.Job) monitor.RestartDone {
	if l.ctx.Err() == nil {
		if err := units.Cancel(l.ctx, job.ID); err != nil {
			l.opts.Log.Warn("a restart that nobody wants any more goes on", "unit", job.Unit, "err", err)
		}
	}
	if errors.Is(context.Cause(ctx), ErrWithdrawn) {
		return monitor.RestartDone{Outcome: monitor.RestartCancelled, Reason: "an operator wants it off"}
	}
	return monitor.RestartDone{Outcome: monitor.RestartFailed, Reason: "the restart did not end in time"}
}
