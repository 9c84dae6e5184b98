package inputs

import (
	"context"
	"errors"
	"fmt"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/outgoing"
)

const (
	driver    = "org.freedesktop.DBus"
	changed   = "org.freedesktop.DBus.Properties.PropertiesChanged"
	newOwner  = driver + ".NameOwnerChanged"
	queueSize = 256
)

// run keeps a connection while the source lives.
func (s *Source) run(ctx context.Context) {
	defer close(s.ended)
	defer close(s.events)
	for {
		err := s.watch(ctx)
		s.mu.Lock()
		s.conn, s.why = nil, err
		s.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		s.opt.Log.Warn("inputs on D-Bus are unknown until the bus is back", "err", err)
		s.gapAll(ctx)
		select {
		case <-time.After(s.opt.Retry):
		case <-ctx.Done():
			return
		}
	}
}

// watch runs one connection until it fails.
func (s *Source) watch(ctx context.Context) error {
	conn, err := outgoing.Dial(ctx, s.opt.Address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	w := &watcher{s: s, conn: conn, owners: map[string]string{}, last: map[string]bool{}}
	signals := make(chan *godbus.Signal, queueSize)
	conn.Signal(signals)
	if err := w.subscribe(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.conn, s.why = conn, nil
	s.mu.Unlock()
	s.gapAll(ctx) // what changed before the subscription is read now
	return w.loop(ctx, signals)
}

// gapAll has every input read again.
func (s *Source) gapAll(ctx context.Context) {
	for i := range s.opt.Properties {
		s.emit(ctx, Event{Signal: s.opt.Properties[i].Signal, Gap: true})
	}
}

func (s *Source) emit(ctx context.Context, e Event) {
	select {
	case s.events <- e:
	case <-ctx.Done():
	}
}

// watcher is what one connection knows.
type watcher struct {
	s      *Source
	conn   *godbus.Conn
	owners map[string]string // unique name by service, as the bus says
	last   map[string]bool   // level by signal, to tell a change from a repeat
}

// subscribe asks for the signals of each service's owner alone: anybody may
// send a signal that looks like it. A property whose names the bus refuses is
// unknown for good, and no other is for it.
func (w *watcher) subscribe(ctx context.Context) error {
	for i := range w.s.opt.Properties {
		p := &w.s.opt.Properties[i]
		err := w.follow(ctx, p)
		if refused := (godbus.Error{}); errors.As(err, &refused) {
			err = fmt.Errorf("%s %s %s %s: the bus refuses these names: %w", p.Service, p.Path, p.Interface, p.Name, err)
			w.s.opt.Log.Error("an input on D-Bus stays unknown", "signal", p.Signal, "err", err)
		} else if err != nil {
			return err
		}
		w.s.mu.Lock()
		w.s.wrong[i] = err
		w.s.mu.Unlock()
	}
	return nil
}

func (w *watcher) follow(ctx context.Context, p *Property) error {
	if err := w.conn.AddMatchSignalContext(ctx, godbus.WithMatchSender(p.Service), godbus.WithMatchObjectPath(godbus.ObjectPath(p.Path)),
		godbus.WithMatchInterface("org.freedesktop.DBus.Properties"), godbus.WithMatchMember("PropertiesChanged"),
		godbus.WithMatchArg(0, p.Interface)); err != nil {
		return err
	}
	if _, known := w.owners[p.Service]; known {
		return nil
	}
	if err := w.conn.AddMatchSignalContext(ctx, godbus.WithMatchSender(driver), godbus.WithMatchInterface(driver),
		godbus.WithMatchMember("NameOwnerChanged"), godbus.WithMatchArg(0, p.Service)); err != nil {
		return err
	}
	var owner string // empty while there is none
	_ = w.conn.BusObject().CallWithContext(ctx, driver+".GetNameOwner", 0, p.Service).Store(&owner)
	w.owners[p.Service] = owner
	return nil
}

func (w *watcher) loop(ctx context.Context, signals <-chan *godbus.Signal) error {
	retry := time.NewTicker(w.s.opt.Retry)
	defer retry.Stop()
	for {
		select {
		case sig, ok := <-signals:
			if !ok {
				return ErrNoBus
			}
			w.take(ctx, sig)
		case <-retry.C:
			w.askAgain(ctx)
		case <-ctx.Done():
			return ctx.Err()
		case <-w.conn.Context().Done():
			return ErrNoBus
		}
	}
}

// askAgain looks for what no signal told, and for a service that answers again
// (DbusGetPropertyRetry).
func (w *watcher) askAgain(ctx context.Context) {
	for signal, l := range w.s.Read(ctx) {
		if l.Err != nil {
			delete(w.last, signal)
			continue
		}
		if last, known := w.last[signal]; !known || last != l.Asserted {
			w.last[signal] = l.Asserted
			w.s.emit(ctx, Event{Signal: signal, Asserted: l.Asserted, Gap: true})
		}
	}
}

func (w *watcher) take(ctx context.Context, sig *godbus.Signal) {
	switch sig.Name {
	case newOwner:
		w.moved(ctx, sig)
	case changed:
		w.changed(ctx, sig)
	}
}

// moved notes a service that came or went.
func (w *watcher) moved(ctx context.Context, sig *godbus.Signal) {
	var name, before, now string
	if sig.Sender != driver || godbus.Store(sig.Body, &name, &before, &now) != nil {
		return
	}
	w.owners[name] = now
	for i := range w.s.opt.Properties {
		if p := &w.s.opt.Properties[i]; p.Service == name {
			delete(w.last, p.Signal)
			w.s.emit(ctx, Event{Signal: p.Signal, Gap: true})
		}
	}
}

// changed examines every property of a signal, invalidated ones included.
func (w *watcher) changed(ctx context.Context, sig *godbus.Signal) {
	var iface string
	var values map[string]godbus.Variant
	var invalidated []string
	if godbus.Store(sig.Body, &iface, &values, &invalidated) != nil {
		return
	}
	gone := make(map[string]bool, len(invalidated))
	for _, name := range invalidated {
		gone[name] = true
	}
	for i := range w.s.opt.Properties {
		p := &w.s.opt.Properties[i]
		if p.Interface != iface || p.Path != string(sig.Path) || w.owners[p.Service] != sig.Sender {
			continue
		}
		v, ok := values[p.Name]
		switch {
		case ok:
			w.value(ctx, p, v.Value())
		case gone[p.Name]:
			delete(w.last, p.Signal)
			w.s.emit(ctx, Event{Signal: p.Signal, Gap: true})
		}
	}
}

// value takes a value that a signal carried. What repeats the level is no edge.
func (w *watcher) value(ctx context.Context, p *Property, v any) {
	asserted, err := p.asserted(v)
	if err != nil {
		w.s.opt.Log.Warn("an input on D-Bus shows what cannot be read", "signal", p.Signal, "err", err)
		delete(w.last, p.Signal)
		w.s.emit(ctx, Event{Signal: p.Signal, Gap: true})
		return
	}
	if last, known := w.last[p.Signal]; known && last == asserted {
		return
	}
	w.last[p.Signal] = asserted
	w.s.emit(ctx, Event{Signal: p.Signal, Asserted: asserted})
}
