package dbus

import (
	"context"
	"log/slog"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// Backend takes what clients ask for. Calls come from several goroutines, but
// those of one client to one service come in the order in which it sent them.
// Post should not block: what it delays is the client's later calls.
type Backend interface {
	Post(engine.Event)
}

// Options says what a [Server] serves and to whom.
type Options struct {
	// Address is the bus to connect to, for example
	// "unix:path=/run/dbus/system_bus_socket". Empty means
	// $DBUS_SYSTEM_BUS_ADDRESS, then the system bus.
	Address string
	// Backend gets every write and every method call.
	Backend Backend
	// Hosts and Chassis are the instance numbers that get objects; Domains
	// those of the transition queues (the lowest chassis of each domain).
	Hosts, Chassis, Domains []int
	// AllowedUIDs may write and call methods, beside root and our own uid.
	AllowedUIDs []uint32
	// Logger gets what no client can be told. Nil means slog.Default().
	Logger *slog.Logger
}

// Server is all the bus services of the daemon. Its methods are safe for
// concurrent use.
type Server struct {
	opts Options
	done chan struct{}
}

var _ engine.Publisher = (*Server)(nil)

// New makes the objects without touching the bus; what is published before
// [Server.Start] is what clients see first. When ctx ends, the connections
// close as if the bus had gone.
func New(ctx context.Context, opts Options) (*Server, error) {
	return &Server{opts: opts, done: make(chan struct{})}, nil
}

// Start connects one connection per service, exports the objects, signals them
// and then owns the names. A name that is taken is an error that says which.
// ctx bounds only the start.
func (s *Server) Start(ctx context.Context) error { return nil }

// Done is closed when a connection is lost or the server was closed; [Server.Err]
// says why.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns nil until Done is closed, then the reason.
func (s *Server) Err() error { return nil }

// Close gives the names up, closes the connections and waits for all
// goroutines of the server. Calls still unanswered get no answer.
func (s *Server) Close() error { return nil }

// PublishHost implements engine.Publisher.
func (s *Server) PublishHost(index int, h state.Host) {}

// PublishChassis implements engine.Publisher.
func (s *Server) PublishChassis(index int, c state.Chassis) {}

// PublishBMC implements engine.Publisher.
func (s *Server) PublishBMC(b state.BMC) {}

// PublishSchedule implements engine.Publisher.
func (s *Server) PublishSchedule(index int, sc state.Schedule) {}

// PublishQueue implements engine.Publisher.
func (s *Server) PublishQueue(domain int, q state.Queue) {}

// PublishRequest implements engine.Publisher.
func (s *Server) PublishRequest(domain int, r state.Request) {}

// RemoveRequest implements engine.Publisher.
func (s *Server) RemoveRequest(domain int, seq uint64) {}
