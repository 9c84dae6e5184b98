package engine

import "sync"

// inbox is the engine's queue of events. It is unbounded, as dropping an event
// would lose a request or a level; what fills it is bounded at its sources.
type inbox struct {
	mu     sync.Mutex
	events []Event
	wake   chan struct{} // capacity 1
}

func (b *inbox) put(ev Event) {
	b.mu.Lock()
	b.events = append(b.events, ev)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}
