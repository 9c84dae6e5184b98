package systemd

import (
	"sync"
	"time"
)

// UnitState is a unit as it was read from systemd at one moment.
type UnitState struct {
	_ [0]func() // see state.Incomparable

	Name         string // as given to [Units.Watch]
	Load         string // LoadState: "loaded", "not-found", "masked", "bad-setting", "error"
	Active       string // ActiveState: "active", "activating", "inactive", "failed", "deactivating", "reloading"
	Sub          string // SubState
	Result       string // services only: "success", "exit-code", "signal", "timeout", "core-dump", "watchdog", …
	InvocationID string // 32 hex digits, new with every start; "" if never started
	NRestarts    uint32 // services only: automatic restarts since the last manual start
	MainPID      uint32 // services only: 0 = no process
	Job          uint32 // queued job, 0 = none
	// StateChangeMonotonic is the time of the last change of Sub on
	// CLOCK_MONOTONIC since boot; 0 = never.
	StateChangeMonotonic time.Duration
}

// Up reports whether the unit counts as reached: active, or on its way there
// (openbmc-state-manager.md §2.1 accepts both).
func (s UnitState) Up() bool { return s.Active == "active" || s.Active == "activating" }

// JobInfo is a systemd job on a watched unit.
type JobInfo struct {
	_ [0]func() // see state.Incomparable

	ID   uint32
	Unit string // as given to [Units.Watch]
	// Type is read from the job object: "start", "stop", "restart",
	// "verify-active", …; "" if the job was gone before it could be read.
	Type string
	// Own is true for a job that one of our calls asked for by name.
	Own bool
	// Parent is the own job in whose transaction systemd queued this one (a
	// dependency or a conflict of ours). 0 with Own false = a foreign job. It is
	// told by when the job was announced: one that somebody else queued in the
	// very moment of our call may be among them.
	Parent uint32
	// ParentUnit is the unit that the call for Parent named.
	ParentUnit string
}

// Foreign reports whether somebody else queued the job.
func (j JobInfo) Foreign() bool { return !j.Own && j.Parent == 0 }

// The results of a job, as systemd spells them. [ResultLost] is ours.
const (
	ResultDone       = "done"
	ResultCanceled   = "canceled"
	ResultTimeout    = "timeout"
	ResultFailed     = "failed"
	ResultDependency = "dependency"
	ResultSkipped    = "skipped"
	// ResultLost ends a job that systemd no longer knows but whose end was
	// not announced to us (re-execution, lost connection). Only the unit's
	// state tells what became of it.
	ResultLost = "lost"
)

// Event is a value on [Units.Events]: one of [UnitChanged], [JobQueued],
// [JobEnded], [LinkChanged] and [Reloading].
type Event interface{ isEvent() }

// UnitChanged carries a watched unit's state after it was read: the first time
// in any case, later when it differs.
type UnitChanged struct {
	_ [0]func() // see state.Incomparable

	State UnitState
	// Err is set, and all but State.Name empty, when the unit cannot be read
	// (an invalid name, for example).
	Err error
	// MissedJobs counts job events of this unit that were dropped because
	// nobody took the events away.
	MissedJobs int
	// JobComes says that there was a job on the unit whose [JobQueued] is still to
	// come: State may be what it has led to.
	JobComes bool
}

// JobQueued announces a job on a watched unit, also one that was there before
// we looked.
type JobQueued struct{ Job JobInfo }

// JobEnded follows every [JobQueued].
type JobEnded struct {
	_ [0]func() // see state.Incomparable

	Job    JobInfo
	Result string
}

// LinkChanged says that systemd answers, or why it does not. While the link is
// down, the last states stand as they were read.
type LinkChanged struct {
	_ [0]func() // see state.Incomparable

	Up  bool
	Err error
}

// Reloading says that systemd began or ended a daemon-reload. Every watched
// unit is read again after its end.
type Reloading struct{ Active bool }

func (UnitChanged) isEvent() {}
func (JobQueued) isEvent()   {}
func (JobEnded) isEvent()    {}
func (LinkChanged) isEvent() {}
func (Reloading) isEvent()   {}

// maxJobEvents bounds the job events that wait per unit.
const maxJobEvents = 16

// eventQueue keeps the order of events and is bounded by coalescing: one state
// per unit, one link state, one reload state, [maxJobEvents] job events per
// unit. A newer value takes the place behind everything that went before it.
type eventQueue struct {
	out  chan Event
	wake chan struct{}

	mu     sync.Mutex
	queue  []Event
	hand   Event          // the one that is being handed out
	missed map[string]int // dropped job events by unit
}

func newEventQueue() *eventQueue {
	return &eventQueue{
		out:    make(chan Event),
		wake:   make(chan struct{}, 1),
		missed: make(map[string]int),
	}
}

// put never blocks.
func (q *eventQueue) put(e Event) {
	q.mu.Lock()
	q.makeRoom(e)
	if c, ok := e.(UnitChanged); ok {
		c.MissedJobs += q.missed[c.State.Name]
		delete(q.missed, c.State.Name)
		e = c
	}
	q.queue = append(q.queue, e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// makeRoom takes out what e makes stale; callers hold mu.
func (q *eventQueue) makeRoom(e Event) {
	switch e := e.(type) {
	case UnitChanged:
		if i := q.first(func(o Event) bool { c, ok := o.(UnitChanged); return ok && c.State.Name == e.State.Name }); i >= 0 {
			q.missed[e.State.Name] += q.queue[i].(UnitChanged).MissedJobs
			q.remove(i)
		}
	case LinkChanged:
		if i := q.first(func(o Event) bool { _, ok := o.(LinkChanged); return ok }); i >= 0 {
			q.remove(i)
		}
	case Reloading:
		if i := q.first(func(o Event) bool { _, ok := o.(Reloading); return ok }); i >= 0 {
			q.remove(i)
		}
	case JobQueued:
		q.limitJobs(e.Job.Unit)
	case JobEnded:
		q.limitJobs(e.Job.Unit)
	}
}

func (q *eventQueue) limitJobs(unit string) {
	ofUnit := func(o Event) bool { u, ok := jobUnit(o); return ok && u == unit }
	n := 0
	for _, o := range q.queue {
		if ofUnit(o) {
			n++
		}
	}
	if n >= maxJobEvents {
		q.remove(q.first(ofUnit))
		q.missed[unit]++
	}
}

func jobUnit(e Event) (string, bool) {
	switch e := e.(type) {
	case JobQueued:
		return e.Job.Unit, true
	case JobEnded:
		return e.Job.Unit, true
	default:
		return "", false
	}
}

func (q *eventQueue) first(match func(Event) bool) int {
	for i, e := range q.queue {
		if match(e) {
			return i
		}
	}
	return -1
}

func (q *eventQueue) remove(i int) { q.queue = append(q.queue[:i], q.queue[i+1:]...) }

// take returns the oldest event.
func (q *eventQueue) take() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hand = nil
	if len(q.queue) == 0 {
		return nil, false
	}
	e := q.queue[0]
	q.queue = append(q.queue[:0], q.queue[1:]...)
	q.hand = e
	return e, true
}

// holds reports whether an event of a unit waits to be taken.
func (q *eventQueue) holds(unit string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.queue {
		if isOf(e, unit) {
			return true
		}
	}
	return isOf(q.hand, unit)
}

func isOf(e Event, unit string) bool {
	c, ok := e.(UnitChanged)
	name, job := jobUnit(e)
	return ok && c.State.Name == unit || job && name == unit
}

// pump hands the events out until stop; it closes the channel.
func (q *eventQueue) pump(stop <-chan struct{}) {
	defer close(q.out)
	for {
		e, ok := q.take()
		if !ok {
			select {
			case <-q.wake:
				continue
			case <-stop:
				return
			}
		}
		select {
		case q.out <- e:
		case <-stop:
			return
		}
	}
}
