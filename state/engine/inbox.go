package engine

import "sync"

// inbox is the engine's queue of events. It is unbounded, as dropping an event
// would lose a request or a level; what fills it is bounded at its sources.
//
// What the world answers goes before what callers ask: a flood of calls must
// not make the journal look slow, or keep a level from being seen.
type inbox struct {
	mu    sync.Mutex
	world ring
	calls ring
	wake  chan struct{} // capacity 1
}

// ring is a first-in, first-out queue.
type ring struct {
	events []Event
	head   int
}

func (r *ring) put(ev Event) { r.events = append(r.events, ev) }

func (r *ring) take() (Event, bool) {
	if r.head == len(r.events) {
		return nil, false
	}
	ev := r.events[r.head]
	r.events[r.head] = nil
	if r.head++; r.head == len(r.events) {
		r.events, r.head = r.events[:0], 0
	}
	return ev, true
}

func isCall(ev Event) bool {
	switch ev.(type) {
	case Write, Submit, Internal, Lookup, Cancel, Dismiss, History, Deliveries, Set:
		return true
	default:
		return false
	}
}

func (b *inbox) put(ev Event) {
	b.mu.Lock()
	if isCall(ev) {
		b.calls.put(ev)
	} else {
		b.world.put(ev)
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns the next event.
func (b *inbox) take() (Event, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ev, ok := b.world.take(); ok {
		return ev, true
	}
	return b.calls.take()
}
