package dbus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
)

// Backend takes what clients ask for. Calls come from several goroutines, but
// those of one client to one service come in the order in which it sent them.
// Post should not block: what it delays is the client's later calls.
type Backend interface {
	Post(engine.Event)
}

// ErrNameTaken says that another process owns one of our bus names; the error
// that wraps it says which.
var ErrNameTaken = props.ErrNameTaken

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
	// Systems are the numbers of the chassis_system objects: 0 is the whole
	// machine, another the slot of that host. They are on the service of the
	// chassis of that number, where their clients look for them.
	Systems []int
	// Hypervisor says that host 0 runs a hypervisor, which has an object then.
	Hypervisor bool
	// Panels are the front panels and outputs that hosts have beside that.
	Panels []Panel
	// FaultResources are the fault monitor's, and Faults takes what clients ask
	// of them. It must not block.
	FaultResources []string
	Faults         func(FaultCall)
	// AllowedUIDs may write and call methods, beside root and our own uid.
	AllowedUIDs []uint32
	// Logger gets what no client can be told. Nil means nobody.
	Logger *slog.Logger
}

// Server is all the bus services of the daemon. Its methods are safe for
// concurrent use.
type Server struct {
	opts     Options
	log      *slog.Logger
	ctx      context.Context // of the connections' life
	services []*props.Service
	objects  map[state.Object]*props.Object
	queueSvc *props.Service
	queues   map[int]*props.Object
	faults   map[string]*props.Object

	mu       sync.Mutex // guards requests
	requests map[requestKey]*props.Object

	panels map[int][]panelObject // by host; read-only once made

	settings   settingsServer
	hypervisor *props.Object // nil where none is served

	wg      sync.WaitGroup
	endOnce sync.Once
	done    chan struct{}
	err     error // valid once done is closed
}

var _ engine.Publisher = (*Server)(nil)

// New makes the objects without touching the bus; what is published before
// [Server.Start] is what clients see first. When ctx ends, the connections
// close as if the bus had gone.
func New(ctx context.Context, opts Options) (*Server, error) {
	if opts.Backend == nil {
		return nil, errors.New("dbus: Options.Backend is needed: it takes what clients ask for")
	}
	s := &Server{
		opts:     opts,
		log:      opts.Logger,
		ctx:      ctx,
		objects:  make(map[state.Object]*props.Object),
		queues:   make(map[int]*props.Object),
		faults:   make(map[string]*props.Object),
		requests: make(map[requestKey]*props.Object),
		panels:   make(map[int][]panelObject),
		settings: settingsServer{values: make(map[int]state.Settings)},
		done:     make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(s.addStates(), s.addHypervisor(), s.addPanels(), s.addQueues(), s.addFaults()); err != nil {
		return nil, err
	}
	return s, nil
}

// addStates makes a service per state object.
func (s *Server) addStates() error {
	objects := []state.Object{{Kind: state.KindBMC}}
	for _, n := range s.opts.Chassis {
		objects = append(objects, state.Object{Kind: state.KindChassis, Index: n})
	}
	for _, n := range s.opts.Hosts {
		objects = append(objects, state.Object{Kind: state.KindHost, Index: n}, state.Object{Kind: state.KindSchedule, Index: n})
	}
	for _, n := range s.opts.Systems {
		objects = append(objects, state.Object{Kind: state.KindSystem, Index: n})
	}
	chassis := map[int]*props.Service{}
	for _, o := range objects {
		impls := s.impls(o)
		svc := chassis[o.Index]
		if o.Kind != state.KindSystem || svc == nil {
			svc = s.addService(impls[0].Interface.Name, o.Index, managerOf(o))
		}
		if o.Kind == state.KindChassis {
			chassis[o.Index] = svc
		}
		object, err := svc.Add(openbmc.ObjectPath(o), impls...)
		if err != nil {
			return err
		}
		s.objects[o] = object
	}
	return nil
}

func managerOf(o state.Object) godbus.ObjectPath {
	if o.Kind == state.KindSchedule {
		return openbmc.ScheduledRoot
	}
	return openbmc.StateRoot
}

func (s *Server) addQueues() error {
	if len(s.opts.Domains) == 0 {
		return nil
	}
	s.queueSvc = s.addService(openbmc.IfaceQueue, 0, openbmc.StateRoot)
	for _, domain := range s.opts.Domains {
		object, err := s.queueSvc.Add(openbmc.QueuePath(domain), s.queueImpl(domain))
		if err != nil {
			return err
		}
		s.queues[domain] = object
	}
	return nil
}

func (s *Server) addService(iface string, index int, manager godbus.ObjectPath) *props.Service {
	svc := props.New(props.Options{
		Names:       openbmc.ServiceNames(iface, index),
		Managers:    []godbus.ObjectPath{manager},
		AllowedUIDs: append([]uint32(nil), s.opts.AllowedUIDs...),
		Logger:      s.log,
	})
	s.services = append(s.services, svc)
	return svc
}

// Start connects one connection per service, exports the objects, signals them
// and then owns the names. A name that is taken is an error that says which; it
// wraps [ErrNameTaken]. ctx bounds only the start. It may be called once.
func (s *Server) Start(ctx context.Context) error {
	err := s.start(ctx)
	if err != nil {
		s.end(err)
		s.closeServices()
		return fmt.Errorf("dbus: %w", err)
	}
	for _, svc := range s.services {
		s.wg.Add(1)
		go s.watch(svc)
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	for _, svc := range s.services {
		if err := svc.Connect(ctx, s.opts.Address); err != nil {
			return err
		}
	}
	for _, svc := range s.services {
		if err := svc.Own(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the server with the first of its connections. What is left of the
// others would be half a daemon.
func (s *Server) watch(svc *props.Service) {
	defer s.wg.Done()
	select {
	case <-svc.Done():
		s.end(svc.Err())
	case <-s.ctx.Done():
		s.end(context.Cause(s.ctx))
	case <-s.done:
	}
	if s.ctx.Err() != nil {
		_ = svc.Close()
	}
}

// Told returns when the bus has taken what was published of the BMC, or when ctx
// ends.
func (s *Server) Told(ctx context.Context) { s.services[0].Flush(ctx) }

// Done is closed when a connection is lost or the server was closed; [Server.Err]
// says why.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns nil until Done is closed, then the reason.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

func (s *Server) end(err error) {
	s.endOnce.Do(func() {
		s.err = err
		close(s.done)
	})
}

// Close gives the names up, closes the connections and waits for all
// goroutines of the server. Calls still unanswered get no answer. Publish calls
// after it do nothing.
func (s *Server) Close() error {
	s.end(props.ErrClosed)
	s.closeServices()
	s.wg.Wait()
	return nil
}

// closeServices closes the connections side by side, as each may have to wait
// for a bus that hangs.
func (s *Server) closeServices() {
	var wg sync.WaitGroup
	for _, svc := range s.services {
		wg.Go(func() { _ = svc.Close() })
	}
	wg.Wait()
}
