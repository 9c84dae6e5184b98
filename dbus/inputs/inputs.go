package inputs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
)

// Property is one input.
type Property struct {
	Signal                         string // what the input stands for
	Service, Path, Interface, Name string
	// Match makes the property a string, which means asserted where it matches.
	// Nil: a boolean, true means asserted.
	Match func(string) bool
	// Number makes the property a number of type i, as pgood of
	// org.openbmc.control.Power is: asserted where it is not 0.
	Number bool
	// Test, where not nil, reads a value of any type instead.
	Test func(any) (bool, error)
}

// asserted reads a value.
func (p *Property) asserted(v any) (bool, error) {
	if p.Test != nil {
		return p.Test(v)
	}
	switch v := v.(type) {
	case int32:
		if p.Number {
			return v != 0, nil
		}
	case bool:
		if p.Match == nil && !p.Number {
			return v, nil
		}
	case string:
		if p.Match != nil {
			return p.Match(v), nil
		}
	}
	want := "a boolean"
	if p.Number {
		want = "a number of type i"
	}
	if p.Match != nil {
		want = "a string, as MatchRegex says"
	}
	return false, fmt.Errorf("%s.%s of %s %s is a %T, not %s", p.Interface, p.Name, p.Service, p.Path, v, want)
}

// Level is what is known of an input; Err says why it is unknown.
type Level struct {
	_ state.Incomparable

	Asserted bool
	Err      error
}

// Event says that an input may have changed. With Gap Asserted says nothing.
type Event struct {
	_ state.Incomparable

	Signal   string
	Asserted bool
	Gap      bool
}

// Options says what a [Source] reads.
type Options struct {
	Address    string // of the bus; empty as for the daemon's own services
	Properties []Property
	Retry      time.Duration // DbusGetPropertyRetry: between attempts for what is unknown
	Log        *slog.Logger  // nil = silent
}

// Source reads properties over a connection of its own, which it makes again
// when it is lost. Its methods are safe for concurrent use.
type Source struct {
	opt    Options
	events chan Event
	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	conn  *godbus.Conn // nil = none at present
	why   error        // why there is none
	calls []*asking    // by property
	wrong []error      // by property: why the bus refuses its name; nil = it does not
}

// callTimeout bounds one Get. A reading of the board waits for it.
const callTimeout = 250 * time.Millisecond

// ErrNoBus is why an input is unknown while there is no connection.
var ErrNoBus = errors.New("not connected to the bus yet")

// New starts to watch the properties, until Close. It does not wait for the
// bus.
func New(o Options) *Source {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{opt: o, events: make(chan Event), cancel: cancel, ended: make(chan struct{}), why: ErrNoBus}
	for range o.Properties {
		s.calls = append(s.calls, &asking{})
	}
	s.wrong = make([]error, len(o.Properties))
	go s.run(ctx)
	return s
}

// Events carries hints until Close.
func (s *Source) Events() <-chan Event { return s.events }

// Close ends the connection and the events.
func (s *Source) Close() {
	s.cancel()
	<-s.ended
}

// Read asks for every property, side by side, and returns within callTimeout.
func (s *Source) Read(ctx context.Context) map[string]Level {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s.mu.Lock()
	conn, why := s.conn, s.why
	s.mu.Unlock()
	levels := make([]Level, len(s.opt.Properties))
	var wg sync.WaitGroup
	for i := range s.opt.Properties {
		if conn == nil {
			levels[i].Err = why
			continue
		}
		wg.Go(func() { levels[i] = s.ask(ctx, conn, i) })
	}
	wg.Wait()
	all := make(map[string]Level, len(levels))
	for i, l := range levels {
		all[s.opt.Properties[i].Signal] = l
	}
	return all
}

// One asks for one property and waits as long as ctx lets it. An Err that is
// [ErrNoBus] says nothing of the service.
func (s *Source) One(ctx context.Context, signal string) Level {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return Level{Err: ErrNoBus}
	}
	for i := range s.opt.Properties {
		if s.opt.Properties[i].Signal == signal {
			return s.ask(ctx, conn, i)
		}
	}
	return Level{Err: fmt.Errorf("%s is no property of this source", signal)}
}

// asking is one property's call; a service that hangs has one at most.
type asking struct {
	_ state.Incomparable

	mu      sync.Mutex
	pending *godbus.Call
}

// ask calls Get for one property. The answer to a call that was given up is
// waited for by the next, so that a service that hangs is not flooded; it is
// then older than the question, and asked for again.
func (s *Source) ask(ctx context.Context, conn *godbus.Conn, i int) Level {
	p, a := &s.opt.Properties[i], s.calls[i]
	s.mu.Lock()
	wrong := s.wrong[i]
	s.mu.Unlock()
	if wrong != nil {
		return Level{Err: wrong}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if late := a.pending; late != nil {
		select {
		case <-late.Done:
			a.pending = nil
		case <-ctx.Done():
			return Level{Err: fmt.Errorf("%s does not answer: %w", p.Service, ctx.Err())}
		}
	}
	call := conn.Object(p.Service, godbus.ObjectPath(p.Path)).Go("org.freedesktop.DBus.Properties.Get",
		godbus.FlagNoAutoStart, make(chan *godbus.Call, 1), p.Interface, p.Name)
	select {
	case <-call.Done:
	case <-ctx.Done():
		a.pending = call
		return Level{Err: fmt.Errorf("%s does not answer: %w", p.Service, ctx.Err())}
	}
	var v godbus.Variant
	if err := call.Store(&v); err != nil {
		return Level{Err: fmt.Errorf("%s of %s cannot be read: %w", p.Name, p.Service, err)}
	}
	asserted, err := p.asserted(v.Value())
	return Level{Asserted: asserted, Err: err}
}
