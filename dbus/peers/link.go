package peers

import (
	"context"
	"errors"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/outgoing"
	"github.com/bmcstate/bmcstate/state/slog"
)

const (
	busDriver  = "org.freedesktop.DBus"
	properties = "org.freedesktop.DBus.Properties"
	ownerMoved = busDriver + ".NameOwnerChanged"

	// callTimeout bounds every call, and redial the pace of new connections.
	callTimeout = 5 * time.Second
	redial      = time.Second
	queued      = 256
)

var errNoBus = errors.New("not connected to the bus")

// Link is a connection to the bus. Its methods are safe for concurrent use.
type Link struct {
	address string
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	adding  sync.WaitGroup // rules on their way to the bus

	mu    sync.Mutex
	conn  *godbus.Conn // nil = none at present
	rules [][]godbus.MatchOption
	wakes []func(*godbus.Signal)
}

// Open starts to connect to the bus at address, by default as the daemon's own
// services do, until Close. It waits for nothing.
func Open(address string, log *slog.Logger) *Link {
	l := &Link{address: outgoing.Address(address), log: log, ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l
}

// Close ends the connection.
func (l *Link) Close() {
	l.cancel()
	<-l.ended
	l.adding.Wait()
}

// Watch has wake called with every signal that the connection gets, which are
// those that anybody's rules ask for, and with nil whenever a connection was
// made or lost. It must not block.
func (l *Link) Watch(wake func(*godbus.Signal), rules ...[]godbus.MatchOption) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, rules...)
	l.wakes = append(l.wakes, wake)
	if l.conn != nil {
		conn := l.conn
		l.adding.Go(func() { // the bus answers in its own time; the caller does not wait
			for _, r := range rules {
				_ = conn.AddMatchSignal(r...)
			}
			wake(nil)
		})
	}
}

func (l *Link) tell(sig *godbus.Signal) {
	l.mu.Lock()
	wakes := l.wakes
	l.mu.Unlock()
	for _, w := range wakes {
		w(sig)
	}
}

func (l *Link) run() {
	defer close(l.ended)
	for l.ctx.Err() == nil {
		_ = l.connection() // why it ended says nothing that the next attempt does not
		select {
		case <-time.After(redial):
		case <-l.ctx.Done():
		}
	}
}

// connection runs one connection until it is lost.
func (l *Link) connection() error {
	conn, err := outgoing.Dial(l.ctx, l.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	signals := make(chan *godbus.Signal, queued)
	conn.Signal(signals)
	l.mu.Lock()
	l.conn = conn
	rules := l.rules
	l.mu.Unlock()
	for _, r := range rules {
		if err := conn.AddMatchSignalContext(l.ctx, r...); err != nil {
			break // the loop below sees it
		}
	}
	l.tell(nil)
	for sig := range signals { // closed with the connection
		l.tell(sig)
	}
	l.mu.Lock()
	l.conn = nil
	l.mu.Unlock()
	l.tell(nil)
	return errNoBus
}

// Call calls a method; out, where not nil, takes the first value of its answer.
func (l *Link) Call(service, path, method string, out any, args ...any) error {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return errNoBus
	}
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
	defer cancel()
	call := conn.Object(service, godbus.ObjectPath(path)).CallWithContext(ctx, method, godbus.FlagNoAutoStart, args...)
	if out == nil {
		return call.Err
	}
	return call.Store(out)
}

// Get reads a property.
func (l *Link) Get(service, path, iface, name string) (any, error) {
	var v godbus.Variant
	err := l.Call(service, path, properties+".Get", &v, iface, name)
	return v.Value(), err
}

// Set writes a property.
func (l *Link) Set(service, path, iface, name string, value any) error {
	return l.Call(service, path, properties+".Set", nil, iface, name, godbus.MakeVariant(value))
}

// Owner returns the unique name of a service, "" while it has none.
func (l *Link) Owner(service string) (owner string, err error) {
	err = l.Call(busDriver, "/org/freedesktop/DBus", busDriver+".GetNameOwner", &owner, service)
	var e godbus.Error
	if errors.As(err, &e) && e.Name == busDriver+".Error.NameHasNoOwner" {
		return "", nil
	}
	return owner, err
}

// changesOf asks for the property changes of an interface, or of a service.
func changesOf(options ...godbus.MatchOption) []godbus.MatchOption {
	return append([]godbus.MatchOption{godbus.WithMatchInterface(properties), godbus.WithMatchMember("PropertiesChanged")}, options...)
}

// comings asks for the coming and going of a service.
func comings(service string) []godbus.MatchOption {
	return []godbus.MatchOption{godbus.WithMatchSender(busDriver), godbus.WithMatchInterface(busDriver),
		godbus.WithMatchMember("NameOwnerChanged"), godbus.WithMatchArg(0, service)}
}
