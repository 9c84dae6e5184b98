package props

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
)

// closeGrace is how long [Service.Close] lets the bus take what is queued.
const closeGrace = time.Second

// ErrNameTaken says that another process owns a name that we need.
var ErrNameTaken = errors.New("bus name is taken")

// ErrClosed is the reason of a service that was closed by its owner.
var ErrClosed = errors.New("closed")

// Options describes a [Service].
type Options struct {
	// Names are the well-known names, in the order in which they are owned.
	Names []string
	// Managers are the paths that have an object manager.
	Managers []godbus.ObjectPath
	// AllowedUIDs may write and call methods, beside root and our own uid.
	AllowedUIDs []uint32
	// Replaceable lets another connection take the names over; see
	// [Service.UniqueName] for how to notice.
	Replaceable bool
	// Pace is the least time between two signals of a paced property. Zero
	// means one second.
	Pace time.Duration
	// Logger gets what no client can be told. Nil means nobody.
	Logger *slog.Logger
}

// Service is one connection to the bus with its names and objects. Its methods
// are safe for concurrent use.
type Service struct {
	names       []string
	managers    []godbus.ObjectPath
	allowedUIDs []uint32
	ownFlags    godbus.RequestNameFlags
	pace        time.Duration
	log         *slog.Logger
	machineID   string
	dropped     throttle // of the log, for messages dropped from the wire
	refused     throttle // and for senders that could not be identified

	tree      *tree
	mu        sync.Mutex // orders Add, Remove and Connect
	announced bool       // objects are signalled

	out     *outbox
	senders *senders
	laggard laggards
	socket  net.Conn
	wire    *wire
	conn    *godbus.Conn
	wg      sync.WaitGroup // writer and watcher

	// stockDispatch sorts calls where godbus would run them, not in the reader
	// goroutine. Only a test sets it, to prove that it can see the difference.
	stockDispatch bool

	once sync.Once
	done chan struct{}
	err  error // valid once done is closed
}

// New makes a service that is not on the bus yet. Objects can be added.
func New(o Options) *Service {
	s := &Service{
		names:       o.Names,
		managers:    o.Managers,
		allowedUIDs: append([]uint32{0, uint32(os.Geteuid())}, o.AllowedUIDs...),
		ownFlags:    godbus.NameFlagDoNotQueue,
		pace:        o.Pace,
		log:         o.Logger,
		out:         newOutbox(),
		done:        make(chan struct{}),
	}
	if o.Replaceable {
		s.ownFlags |= godbus.NameFlagAllowReplacement
	}
	if s.pace == 0 {
		s.pace = time.Second
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	// A missing machine id is told to who asks for it.
	id, _ := os.ReadFile("/etc/machine-id")
	s.machineID = string(id)
	s.senders = newSenders(s)
	s.tree = newTree(s.managers)
	return s
}

// Connect connects to the bus at address (see dial for the default), serves the
// objects and signals InterfacesAdded for each. ctx bounds only the connecting.
// It may be called once.
func (s *Service) Connect(ctx context.Context, address string) error {
	socket, err := dial(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to the bus: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	conn, err := s.handshake(ctx, socket)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = socket.Close()
		if conn != nil {
			_ = conn.Close()
		}
		return fmt.Errorf("connect to the bus at %s: %w", socket.RemoteAddr(), err)
	}
	s.wg.Add(2)
	go s.write()
	go s.watch()
	s.announce()
	return nil
}

func (s *Service) handshake(ctx context.Context, socket net.Conn) (*godbus.Conn, error) {
	h := handler{s}
	s.wire = newWire(socket, s.refuse)
	conn, err := godbus.NewConn(s.wire, godbus.WithHandler(h), godbus.WithSignalHandler(s.senders),
		godbus.WithIncomingInterceptor(s.intercept))
	if err != nil {
		return nil, err
	}
	s.socket, s.conn = socket, conn
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return conn, err
	}
	if err := conn.Hello(); err != nil {
		return conn, err
	}
	return conn, conn.AddMatchSignalContext(ctx, godbus.WithMatchSender(driver), godbus.WithMatchInterface(driver),
		godbus.WithMatchMember("NameOwnerChanged"), godbus.WithMatchArg(2, ""))
}

// refuse tells who sent a message that was not taken, in its turn among the
// sender's reads, and the log.
func (s *Service) refuse(e envelope, why *godbus.Error) {
	s.warn(&s.dropped, "refused a message from the bus", "sender", e.sender, "reason", why.Error())
	if e.answers {
		s.senders.accept(&Call{svc: s, Sender: e.sender, serial: e.serial, refusal: why})
	}
}

func (s *Service) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = true
	for _, o := range s.tree.below("/") {
		o.announce()
	}
}

// Own requests the names. The first that another connection owns is the error;
// it wraps [ErrNameTaken].
func (s *Service) Own(ctx context.Context) error {
	for _, name := range s.names {
		var answer uint32
		err := s.conn.BusObject().CallWithContext(ctx, driver+".RequestName", 0, name, s.ownFlags).Store(&answer)
		if err != nil {
			return fmt.Errorf("own bus name %s: %w (does the bus policy allow it?)", name, err)
		}
		switch godbus.RequestNameReply(answer) {
		case godbus.RequestNameReplyPrimaryOwner, godbus.RequestNameReplyAlreadyOwner:
		default:
			return fmt.Errorf("%w: %s is owned by %s; stop that service first", ErrNameTaken, name, s.owner(ctx, name))
		}
	}
	return nil
}

// owner describes who has a name, for an error message.
func (s *Service) owner(ctx context.Context, name string) string {
	var unique string
	var pid uint32
	bus := s.conn.BusObject()
	if bus.CallWithContext(ctx, driver+".GetNameOwner", 0, name).Store(&unique) != nil {
		return "another connection"
	}
	if bus.CallWithContext(ctx, driver+".GetConnectionUnixProcessID", 0, unique).Store(&pid) != nil {
		return unique
	}
	return fmt.Sprintf("%s (process %d)", unique, pid)
}

// UniqueName returns the connection's name on the bus. It is valid after
// [Service.Connect].
func (s *Service) UniqueName() string { return s.conn.Names()[0] }

// Done is closed when the connection is lost or was closed.
func (s *Service) Done() <-chan struct{} { return s.done }

// Err returns nil until Done is closed, then why.
func (s *Service) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close lets the bus take what is queued, for at most a second, closes the
// connection and waits for all goroutines. Unanswered calls stay unanswered.
func (s *Service) Close() error {
	s.end(ErrClosed)
	s.senders.close()
	s.out.close()
	if s.conn == nil {
		return nil
	}
	_ = s.socket.SetWriteDeadline(time.Now().Add(closeGrace))
	s.wg.Wait()
	s.senders.wait()
	return nil
}

func (s *Service) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// watch ends the service when its connection has ended.
func (s *Service) watch() {
	defer s.wg.Done()
	<-s.conn.Context().Done()
	s.end(fmt.Errorf("the connection of %v to the bus was lost", s.names))
	s.senders.close()
	s.out.close()
}

// write sends the outbox, message by message, and wakes paced properties.
func (s *Service) write() {
	defer s.wg.Done()
	defer s.hangUp()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for item, ok := s.out.take(); ok; item, ok = s.out.take() {
			// What cannot be sent has no one to be told to; a lost
			// connection shows in watch.
			if item.msg != nil {
				s.conn.Send(item.msg, make(chan *godbus.Call, 1))
			}
			item.done()
		}
		if s.out.isClosed() {
			return
		}
		if wait, any := s.laggard.next(); any {
			timer.Reset(wait)
		}
		select {
		case <-s.out.wake:
		case <-timer.C:
			s.laggard.wake()
		}
	}
}

// Flush returns when the bus has taken every message that was queued before: what
// another connection of ours sends from then on comes after them. It gives up when
// ctx ends or the service does.
func (s *Service) Flush(ctx context.Context) {
	written := make(chan struct{})
	s.out.put(outgoing{sent: func() { close(written) }})
	select {
	case <-written:
	case <-ctx.Done():
		return
	}
	if s.Err() == nil { // the bus reads a connection in order: an answer says that it has come so far
		_ = s.conn.BusObject().CallWithContext(ctx, driver+".GetId", 0).Err
	}
}

// hangUp closes the socket first: godbus waits for a write that hangs.
func (s *Service) hangUp() {
	_ = s.socket.Close()
	_ = s.conn.Close()
}

func (s *Service) allowed(uid uint32) bool { return state.Contains(s.allowedUIDs, uid) }

// warn logs what a client may cause, at most once a second.
func (s *Service) warn(t *throttle, msg string, args ...any) {
	if ok, skipped := t.pass(time.Now()); ok {
		s.log.Warn(msg, append(args, "unlogged", skipped)...)
	}
}

// throttle lets one event pass per second and counts the others.
type throttle struct {
	_ state.Incomparable

	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (t *throttle) pass(now time.Time) (ok bool, skipped int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < time.Second {
		t.skipped++
		return false, 0
	}
	t.last, skipped, t.skipped = now, t.skipped, 0
	return true, skipped
}
