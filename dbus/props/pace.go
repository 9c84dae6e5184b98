package props

import (
	"sync"
	"time"
)

// laggards are the objects with paced properties that have not signalled their
// newest value yet.
type laggards struct {
	mu      sync.Mutex
	objects map[*Object]time.Time // when each may signal
}

// add notes that o may signal at a time, or earlier if it was noted before.
func (l *laggards) add(o *Object, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.objects == nil {
		l.objects = make(map[*Object]time.Time)
	}
	if old, ok := l.objects[o]; !ok || at.Before(old) {
		l.objects[o] = at
	}
}

// next returns how long it is until the first object may signal.
func (l *laggards) next() (wait time.Duration, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.objects {
		if left := max(time.Until(at), 0); !any || left < wait {
			wait, any = left, true
		}
	}
	return wait, any
}

// wake has each object signal whose time has come.
func (l *laggards) wake() {
	now := time.Now()
	var due []*Object
	l.mu.Lock()
	for o, at := range l.objects {
		if !at.After(now) {
			due = append(due, o)
			delete(l.objects, o)
		}
	}
	l.mu.Unlock()
	for _, o := range due {
		o.catchUp(now)
	}
}
