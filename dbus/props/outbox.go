package props

import (
	"sync"

	godbus "github.com/godbus/dbus/v5"
)

// compactAt is the length at which the outbox looks for signals that a later
// one has made pointless. A bus that takes what it is sent never lets it get
// there.
const compactAt = 1024

type kind uint8

const (
	reply kind = iota
	changed
	added
	removed
)

// outgoing is one message in the outbox.
type outgoing struct {
	kind  kind
	msg   *godbus.Message   // nil: nothing, for the sake of sent
	path  godbus.ObjectPath // of the object, for signals
	field string            // interface and property, for changed
	sent  func()            // called once the message has been written or dropped
}

// outbox is the queue of everything that a connection sends. Writers never
// wait; while the bus does not read, the queue is kept short by dropping
// signals that a later one in it has overtaken.
type outbox struct {
	mu      sync.Mutex
	items   []outgoing
	compact int // length at which to compact next
	closed  bool
	wake    chan struct{} // holds a token while there may be work
}

func newOutbox() *outbox {
	return &outbox{compact: compactAt, wake: make(chan struct{}, 1)}
}

// put appends a message.
func (o *outbox) put(item outgoing) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		item.done()
		return
	}
	o.items = append(o.items, item)
	if len(o.items) >= o.compact {
		o.items = compacted(o.items)
		o.compact = max(compactAt, 2*len(o.items))
	}
	o.mu.Unlock()
	o.signal()
}

// take removes the first message.
func (o *outbox) take() (item outgoing, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.items) == 0 {
		o.items = nil
		o.compact = compactAt
		return outgoing{}, false
	}
	item, o.items[0] = o.items[0], outgoing{}
	o.items = o.items[1:]
	return item, true
}

// close refuses further messages. What is in the queue stays to be taken.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (i *outgoing) done() {
	if i.sent != nil {
		i.sent()
	}
}

type signalKey struct {
	path  godbus.ObjectPath
	field string
}

// compacted drops each change that a later change of the same property has
// overtaken, and everything about objects that come and go within the queue.
// Who listens then misses values in between, never the last one.
func compacted(items []outgoing) []outgoing {
	newest := make(map[signalKey]bool)
	going := make(map[godbus.ObjectPath]int) // index of a later removal
	drop := make([]bool, len(items))
	for i := len(items) - 1; i >= 0; i-- {
		item := &items[i]
		switch item.kind {
		case changed:
			key := signalKey{item.path, item.field}
			_, gone := going[item.path]
			drop[i] = gone || newest[key]
			newest[key] = true
		case removed:
			going[item.path] = i
		case added:
			if at, gone := going[item.path]; gone {
				drop[i], drop[at] = true, true
				delete(going, item.path)
			}
		case reply:
		}
	}
	kept := make([]outgoing, 0, len(items))
	for i := range items {
		if !drop[i] {
			kept = append(kept, items[i])
		}
	}
	return kept
}
