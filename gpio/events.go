package gpio

import "sync"

// buttonBacklog bounds the edges of one button that wait for the consumer.
const buttonBacklog = 64

// eventQueue hands events to a consumer that may be slow. Of a plain input at
// most two wait: enough to tell that it changed and came back. Of a button all
// wait, in order, up to buttonBacklog.
type eventQueue struct {
	out  chan Event
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pending []Event
}

func newEventQueue() *eventQueue {
	q := &eventQueue{
		out:  make(chan Event),
		wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	go q.run()
	return q
}

// push adds an event. It never blocks.
func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	if signalKinds[e.Signal] == kindButton {
		q.pending = addButton(q.pending, e)
	} else {
		q.pending = addInput(q.pending, e)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close stops the delivery and closes the channel.
func (q *eventQueue) close() {
	close(q.stop)
	<-q.done
}

func (q *eventQueue) run() {
	defer close(q.done)
	defer close(q.out)
	for {
		e, ok := q.head()
		if !ok {
			select {
			case <-q.wake:
				continue
			case <-q.stop:
				return
			}
		}
		select {
		case q.out <- e:
		case <-q.stop:
			return
		}
	}
}

// head takes the oldest event off the queue. What is being handed over no
// longer coalesces, so the consumer gets one event more rather than one less.
func (q *eventQueue) head() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		return Event{}, false
	}
	e := q.pending[0]
	q.pending = append(q.pending[:0], q.pending[1:]...)
	return e, true
}

// addInput adds an edge of a plain input. Two waiting edges and a third
// collapse into the third: the level is where the first of them took it.
func addInput(pending []Event, e Event) []Event {
	var at []int
	for i, p := range pending {
		if p.Signal == e.Signal {
			at = append(at, i)
			e.Gap = e.Gap || p.Gap
		}
	}
	if len(at) == 0 {
		return append(pending, e)
	}
	last := &pending[at[len(at)-1]]
	if last.Asserted == e.Asserted {
		last.Gap = e.Gap
		return pending
	}
	if len(at) == 1 {
		return append(pending, e)
	}
	kept := pending[:0]
	for _, p := range pending {
		if p.Signal != e.Signal {
			kept = append(kept, p)
		}
	}
	return append(kept, e)
}

// addButton adds an edge of a button; beyond the backlog the oldest go and the
// loss is marked.
func addButton(pending []Event, e Event) []Event {
	first, n := -1, 0
	for i, p := range pending {
		if p.Signal == e.Signal {
			if first < 0 {
				first = i
			}
			n++
		}
	}
	if n >= buttonBacklog {
		pending = append(pending[:first], pending[first+1:]...)
		e.Gap = true
	}
	return append(pending, e)
}
