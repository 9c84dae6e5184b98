package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
)

// jobNews is how long a clean end of a unit waits for the news of the job that
// ordered it: systemd's two signals come in any order.
const jobNews = 300 * time.Millisecond

// freshWithin bounds the wait for a reading of a unit after its job.
const freshWithin = 2 * time.Second

// unitWatch is what the loop knows of one unit. It turns systemd's states and
// jobs into deaths, and into what an operator did (fault-monitor.md §2.5).
type unitWatch struct {
	unit string
	name string // of the resource

	known     bool // a state was read
	last      systemd.UnitState
	up        bool   // the instance with this invocation was seen up
	ours      bool   // our own restart is under way
	before    string // invocation when that began
	adopt     bool   // the next invocation is that of our restart
	foreign   string // type of somebody else's job since the last settled state
	pulled    bool   // a job in the transaction of one of ours
	operator  bool   // an operator stopped it
	verdictAt time.Duration
	read      chan struct{} // has a token after each reading
}

// watchUnits begins to watch. It runs in the loop's goroutine.
func (l *Loop) watchUnits() {
	for i := range l.opts.Resources {
		r := &l.opts.Resources[i]
		if r.Unit == "" {
			continue
		}
		w := &unitWatch{unit: r.Unit, name: r.Config.Name, read: make(chan struct{}, 1)}
		if res, ok := l.mon.Resource(w.name); ok {
			w.operator = res.Snapshot().OperatorOff
		}
		l.watches[r.Unit] = w
		l.opts.Units.Watch(r.Unit)
	}
}

// unitEvent takes what systemd tells.
func (l *Loop) unitEvent(ev systemd.Event) {
	switch ev := ev.(type) {
	case systemd.LinkChanged:
		if ev.Up {
			return // every unit is read again
		}
		for _, w := range l.watches {
			l.step(w.name, monitor.LostSight{Reason: fmt.Sprintf("systemd does not answer: %v", ev.Err)})
		}
	case systemd.UnitChanged:
		if w := l.watches[ev.State.Name]; w != nil {
			l.unitChanged(w, ev)
		}
	case systemd.JobQueued:
		if w := l.watches[ev.Job.Unit]; w != nil {
			l.tellUnit(w, w.job(ev.Job))
		}
	case systemd.JobEnded:
		w := l.watches[ev.Job.Unit]
		if w != nil && ev.Job.Foreign() && ev.Result != systemd.ResultDone && w.up && running(w.last) {
			w.foreign = "" // an order that came to nothing explains no death
		}
	}
}

func (l *Loop) unitChanged(w *unitWatch, ev systemd.UnitChanged) {
	if ev.Err != nil {
		l.step(w.name, monitor.LostSight{Reason: ev.Err.Error()})
		return
	}
	events := w.changed(ev.State, l.opts.Now().Boot)
	select {
	case w.read <- struct{}{}:
	default:
	}
	l.tellUnit(w, events)
}

func (l *Loop) tellUnit(w *unitWatch, events []monitor.Event) {
	for _, ev := range events {
		l.step(w.name, ev)
	}
}

// job notes who ordered what.
func (w *unitWatch) job(j systemd.JobInfo) []monitor.Event {
	switch {
	case j.Foreign() && j.Type == "":
		w.foreign = unreadJob
	case j.Foreign():
		w.foreign = j.Type
	case !j.Own:
		w.pulled = true
	}
	if w.verdictAt != 0 {
		return w.verdict()
	}
	return nil
}

// running reports whether an instance is there. One that waits for its automatic
// restart is not.
func running(s systemd.UnitState) bool {
	return s.Active == "active" || s.Active == "reloading" || s.Active == "activating" && s.Sub != "auto-restart"
}

// changed compares a reading with the last one.
func (w *unitWatch) changed(s systemd.UnitState, now time.Duration) []monitor.Event {
	before, first := w.last, !w.known
	w.last, w.known = s, true
	if w.adopt && s.InvocationID != before.InvocationID {
		w.adopt, w.up = false, true
		before.InvocationID, before.NRestarts = s.InvocationID, s.NRestarts
	}
	switch {
	case s.Load != "" && s.Load != "loaded":
		w.up, w.verdictAt = false, 0
		return []monitor.Event{monitor.Absent{Reason: "the unit is " + s.Load}}
	case w.ours:
		return nil // what happens is ours until the restart has ended
	case first:
		return w.found(s)
	case running(s):
		return w.running(before, s)
	case s.Active == "deactivating" || s.Active == "activating":
		return nil // on its way: its end tells
	case !w.up:
		return nil
	case !w.ordered() && !w.pulled && (s.Active == "inactive" || before.Job != 0):
		if w.verdictAt == 0 {
			w.verdictAt = now + jobNews
		}
		return nil
	}
	return w.verdict()
}

// found takes the first reading.
func (w *unitWatch) found(s systemd.UnitState) []monitor.Event {
	switch {
	case running(s):
		return w.cameUp(s)
	case s.Active == "failed":
		return []monitor.Event{monitor.Died{Invocation: s.InvocationID, Detail: s.Result}}
	default:
		return []monitor.Event{monitor.Absent{Reason: "the unit is " + s.Active}}
	}
}

// running takes a reading that shows an instance.
func (w *unitWatch) running(before, s systemd.UnitState) []monitor.Event {
	w.verdictAt = 0
	same := s.InvocationID == before.InvocationID
	var deaths uint32 // a decrease of NRestarts is a new baseline
	if s.NRestarts > before.NRestarts {
		deaths = s.NRestarts - before.NRestarts
	}
	switch {
	case deaths > 0 && w.up:
		w.settled()
		return []monitor.Event{monitor.Died{
			N: int(deaths), Invocation: before.InvocationID, Restarted: true, Detail: "restarted by systemd",
		}}
	case !same || !w.up:
		return w.cameUp(s)
	}
	w.settled()
	return nil
}

// cameUp takes an instance that others have started.
func (w *unitWatch) cameUp(s systemd.UnitState) []monitor.Event {
	var events []monitor.Event
	if w.operator || w.foreign != "" && w.known {
		events = append(events, monitor.OperatorOn{})
	}
	w.operator, w.up, w.adopt = false, true, false
	w.settled()
	return append(events, monitor.Started{Invocation: s.InvocationID})
}

// unreadJob stands for the type of a job that was gone before it could be read.
const unreadJob = "?"

// ordered reports whether somebody else has a job that ends an instance. An
// unread one explains a clean end only.
func (w *unitWatch) ordered() bool {
	if w.foreign == unreadJob {
		return w.last.Active == "inactive"
	}
	return w.foreign == "stop" || w.foreign == "restart" || w.foreign == "try-restart"
}

func (w *unitWatch) settled() { w.foreign, w.pulled, w.verdictAt = "", false, 0 }

// verdict says why a unit that was up is down.
func (w *unitWatch) verdict() []monitor.Event {
	s, ordered, pulled := w.last, w.ordered(), w.pulled
	if running(s) || s.Active == "deactivating" || !w.up {
		w.verdictAt = 0
		return nil
	}
	w.up = false
	w.settled()
	switch {
	case ordered:
		w.operator = true
		return []monitor.Event{monitor.OperatorOff{Reason: "stopped by an operator"}}
	case pulled:
		return []monitor.Event{monitor.Absent{Reason: "stopped together with another unit"}}
	default:
		detail := s.Result
		if detail == "" || detail == "success" {
			detail = "the service ended by itself"
		}
		return []monitor.Event{monitor.Died{Invocation: s.InvocationID, Detail: detail}}
	}
}

// restarted takes the end of our own restart. A death that came while it was
// still called ours is told now.
func (w *unitWatch) restarted(units *systemd.Units, ok bool) []monitor.Event {
	w.ours = false
	if s, read := units.State(w.unit); read {
		w.last, w.known = s, true
	}
	w.adopt = ok && w.last.InvocationID == w.before // the new instance was not read yet
	if w.adopt {
		w.settled()
		return nil
	}
	w.up = ok || running(w.last) || w.ordered()
	return w.verdict()
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

// unitProbe reads what systemd says of a unit. Deaths come from the watch; the
// probe is what sees that a unit is still down.
type unitProbe struct {
	units *systemd.Units
	unit  string
}

// Probe implements [Prober].
func (p unitProbe) Probe(context.Context, bool) Result {
	if p.units == nil || p.unit == "" {
		return Result{}
	}
	s, ok := p.units.State(p.unit)
	switch {
	case !ok:
		return Result{Status: monitor.ProbeMonitorError, Detail: "the unit was not read yet"}
	case running(s):
		return Result{}
	case s.Active == "failed":
		return Result{Status: monitor.ProbeCompleteFailure, Detail: "the unit has failed: " + s.Result}
	default:
		return Result{Status: monitor.ProbeMonitorError, Detail: "the unit is " + s.Active}
	}
}
