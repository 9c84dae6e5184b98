package props

import (
	"context"
	"errors"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// Bounds on what clients may have open at once. They are far above what a
// client needs and keep a flood from using up memory or others' time. Memory is
// what they are about: GOMEMLIMIT of the unit file leaves room for maxOpenTotal.
const (
	maxOpen      = 20 << 20  // bytes of one sender's calls: queued, unanswered or unsent
	maxOpenTotal = 24 << 20  // bytes of all senders' calls; above it, each has
	fairShare    = 192 << 10 // this much
	callCost     = 3 << 10   // more than an open call takes beside its message
	maxUnsent    = 16        // replies of one sender that the bus has not taken yet
	maxRefusals  = 64        // unsent LimitsExceeded replies to one sender

	// identifyTimeout bounds the wait for the bus driver.
	identifyTimeout = 5 * time.Second
)

// senders sorts calls by sender. Each sender has two lanes: writes, handled one
// after the other in the order sent, and reads. So nobody waits for another
// client's calls, and no read waits for a write.
type senders struct {
	svc    *Service
	mu     sync.Mutex
	all    map[string]*sender
	open   int // bytes, as sender.open
	closed bool
	wg     sync.WaitGroup // lanes

	identifying func(sender string) // a test's place to interfere
	patience    time.Duration       // identifyTimeout, but in a test
}

// sender is one connection on the bus, from its first call until it has left
// and its calls are done. All fields are under senders.mu.
type sender struct {
	name     string
	uid      uint32
	known    bool // uid is valid
	gone     bool // left the bus
	reads    lane
	writes   lane
	open     int // bytes that its calls take, 0 = it has none
	unsent   int
	refusals int
	room     *sync.Cond // fewer unsent
}

// lane is calls waiting in order. A goroutine runs while there are some.
type lane struct {
	queue   []*Call
	running bool
}

func newSenders(svc *Service) *senders {
	return &senders{svc: svc, all: make(map[string]*sender), patience: identifyTimeout}
}

// accept takes a call into its sender's lane. It is called in the order in
// which the bus delivered the calls, and does not wait.
func (s *senders) accept(c *Call) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	f := s.all[c.Sender]
	if f == nil {
		f = &sender{name: c.Sender, room: sync.NewCond(&s.mu)}
		s.all[c.Sender] = f
	}
	c.from = f
	if f.open >= maxOpen || s.open >= maxOpenTotal && f.open >= fairShare {
		s.refuse(c)
		return
	}
	defer s.mu.Unlock()
	f.open += c.cost
	s.open += c.cost
	l := &f.reads
	if c.write {
		l = &f.writes
	}
	l.queue = append(l.queue, c)
	if !l.running {
		l.running = true
		s.wg.Add(1)
		go s.run(f, l)
	}
}

// refuse tells a sender that it has too much open. One that does not read even
// that is told no more. It releases s.mu.
func (s *senders) refuse(c *Call) {
	c.refused = true
	told := !c.noReply && c.from.refusals < maxRefusals
	if told {
		c.from.refusals++
	}
	s.mu.Unlock()
	if told {
		c.Fail(Errorf(ErrLimitsExceeded, "Too many calls of this connection are unanswered. Wait for replies before calling again."))
	}
}

// run handles the calls of a lane until none is left.
func (s *senders) run(f *sender, l *lane) {
	defer s.wg.Done()
	for {
		c := s.next(f, l)
		if c == nil {
			return
		}
		if c.write && !s.authorise(f, c) {
			continue
		}
		c.guard(func() { s.svc.serve(c) })
	}
}

// next waits until the sender has taken its replies and removes the lane's
// first call. Nil ends the lane.
func (s *senders) next(f *sender, l *lane) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f.unsent >= maxUnsent && !s.closed {
		f.room.Wait()
	}
	if s.closed {
		l.queue = nil
	}
	if len(l.queue) == 0 {
		l.queue, l.running = nil, false
		s.forget(f)
		return nil
	}
	c := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	return c
}

// authorise makes sure that the sender may write, and answers the call if not.
func (s *senders) authorise(f *sender, c *Call) bool {
	uid, err := s.identify(f)
	if err != nil {
		s.svc.warn(&s.svc.refused, "refused a write of a sender that the bus could not identify",
			"sender", c.Sender, "path", c.Path, "member", c.member, "error", err)
		name, advice := ErrAccessDenied, ""
		if errors.Is(err, context.DeadlineExceeded) { // nobody was denied anything
			name, advice = ErrTimeout, " in time. Nothing was done; try again"
		}
		c.Fail(Errorf(name, "The bus could not tell the uid of %s%s.", c.Sender, advice))
		return false
	}
	if !s.svc.allowed(uid) {
		c.Fail(Errorf(ErrAccessDenied, "Access denied: uid %d is neither root nor allowed by the configuration.", uid))
		return false
	}
	c.UID = uid
	return true
}

// errGone is why a sender that left before it was identified is refused.
var errGone = errors.New("it has left the bus")

// identify returns the sender's uid, from the bus driver the first time.
func (s *senders) identify(f *sender) (uint32, error) {
	s.mu.Lock()
	uid, known, gone, patience := f.uid, f.known, f.gone, s.patience
	s.mu.Unlock()
	if known {
		return uid, nil
	}
	if gone {
		return 0, errGone
	}
	if s.identifying != nil {
		s.identifying(f.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.svc.conn.BusObject().CallWithContext(ctx, driver+".GetConnectionUnixUser", 0, f.name).Store(&uid)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.uid, f.known = uid, true
	return uid, nil
}

// replying counts a reply that goes to the outbox.
func (s *senders) replying(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.replying = true
	c.from.unsent++
}

// finished counts a call that needs nothing more: its reply was written or
// dropped, or none was wanted.
func (s *senders) finished(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := c.from
	if c.replying {
		f.unsent--
		f.room.Broadcast()
	}
	if c.refused {
		f.refusals--
	} else {
		f.open -= c.cost
		s.open -= c.cost
	}
	s.forget(f)
}

// departed notes that a connection has left the bus. Its calls are still
// handled: they were sent before.
func (s *senders) departed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.all[name]; f != nil {
		f.gone = true
		s.forget(f)
	}
}

// forget drops a sender that nothing has to be kept of.
func (s *senders) forget(f *sender) {
	idle := f.open == 0 && f.refusals == 0 && !f.reads.running && !f.writes.running
	if idle && (f.gone || !f.known) && s.all[f.name] == f {
		delete(s.all, f.name)
	}
}

// close drops what is queued and ends the lanes; wait waits for them.
func (s *senders) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, f := range s.all {
		f.room.Broadcast()
	}
}

func (s *senders) wait() { s.wg.Wait() }

// DeliverSignal implements godbus.SignalHandler. It runs in the reader
// goroutine, in the order of the bus.
func (s *senders) DeliverSignal(iface, member string, sig *godbus.Signal) {
	if sig.Sender != driver || iface != driver || member != "NameOwnerChanged" || len(sig.Body) != 3 {
		return
	}
	name, _ := sig.Body[0].(string)
	if owner, ok := sig.Body[2].(string); ok && owner == "" {
		s.departed(name)
	}
}
