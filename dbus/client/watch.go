package client

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
)

// ChangeKind says what a [Change] is about.
type ChangeKind uint8

// The kinds of changes.
const (
	Changed ChangeKind = iota // a property has a new value
	Added                     // an object appeared; one Change for each of its properties follows
	Removed                   // an object is gone
	Owned                     // a service appeared on the bus
	Left                      // a service left the bus
)

// Change is one thing that happened on the bus.
type Change struct {
	Kind      ChangeKind
	Service   string // of Owned and Left
	Path      string // of the others
	Interface string // of Changed
	Property  string // of Changed
	Value     any    // of Changed
}

// Watch is a subscription. Its owner calls Close.
type Watch struct {
	// C carries changes in the order of the bus. It is closed when the
	// connection is lost or after Close.
	C <-chan Change

	client *Client
	rules  [][]godbus.MatchOption
	raw    chan *godbus.Signal
	done   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// Watch subscribes to everything that happens to state objects below path, and
// to their services coming and going. What happens after it returned is not
// missed.
func (c *Client) Watch(ctx context.Context, paths ...string) (*Watch, error) {
	out := make(chan Change)
	w := &Watch{C: out, client: c, raw: make(chan *godbus.Signal, 64), done: make(chan struct{})}
	c.conn.Signal(w.raw)
	w.rules = append(w.rules, []godbus.MatchOption{
		godbus.WithMatchSender(busName), godbus.WithMatchInterface(busName), godbus.WithMatchMember("NameOwnerChanged"),
		godbus.WithMatchArg0Namespace("xyz.openbmc_project.State"),
	})
	for _, p := range paths {
		w.rules = append(w.rules, []godbus.MatchOption{
			godbus.WithMatchPathNamespace(godbus.ObjectPath(p)),
			godbus.WithMatchInterface(propertiesIface), godbus.WithMatchMember("PropertiesChanged"),
		}, []godbus.MatchOption{
			godbus.WithMatchInterface(objectManagerIface), godbus.WithMatchOption("arg0path", p+"/"),
		})
	}
	w.wg.Go(func() {
		defer close(out)
		w.translate(out)
	})
	for _, rule := range w.rules {
		if err := c.conn.AddMatchSignalContext(ctx, rule...); err != nil {
			w.Close()
			return nil, wrap("AddMatch", err)
		}
	}
	return w, nil
}

// StatePaths are the roots of all state objects, for [Client.Watch].
func StatePaths() []string { return []string{string(openbmc.StateRoot), string(openbmc.ScheduledRoot)} }

// Close ends the subscription and waits for its goroutine. The bus keeps the
// match rules until the connection closes, which costs a caller of a few
// Watches nothing.
func (w *Watch) Close() {
	w.once.Do(func() {
		close(w.done)
		w.client.conn.RemoveSignal(w.raw)
	})
	w.wg.Wait()
}

func (w *Watch) translate(out chan<- Change) {
	for {
		select {
		case s, ok := <-w.raw:
			if !ok {
				return // the connection is lost
			}
			for _, change := range changes(s) {
				select {
				case out <- change:
				case <-w.done:
					return
				}
			}
		case <-w.done:
			return
		}
	}
}

// changes translates a signal; one that is malformed or of no interest is none.
func changes(s *godbus.Signal) []Change {
	switch s.Name {
	case propertiesIface + ".PropertiesChanged":
		var iface string
		var changed map[string]godbus.Variant
		var invalidated []string
		if godbus.Store(s.Body, &iface, &changed, &invalidated) != nil {
			return nil
		}
		return valuesOf(string(s.Path), iface, changed)
	case objectManagerIface + ".InterfacesAdded":
		var path godbus.ObjectPath
		var interfaces map[string]map[string]godbus.Variant
		if godbus.Store(s.Body, &path, &interfaces) != nil {
			return nil
		}
		all := []Change{{Kind: Added, Path: string(path)}}
		for _, name := range slices.Sorted(maps.Keys(interfaces)) {
			all = append(all, valuesOf(string(path), name, interfaces[name])...)
		}
		return all
	case objectManagerIface + ".InterfacesRemoved":
		var path godbus.ObjectPath
		var interfaces []string
		if godbus.Store(s.Body, &path, &interfaces) != nil {
			return nil
		}
		return []Change{{Kind: Removed, Path: string(path)}}
	case busName + ".NameOwnerChanged":
		return ownerChange(s)
	}
	return nil
}

func valuesOf(path, iface string, properties map[string]godbus.Variant) []Change {
	var all []Change
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		all = append(all, Change{Path: path, Interface: iface, Property: name, Value: properties[name].Value()})
	}
	return all
}

func ownerChange(s *godbus.Signal) []Change {
	var name, before, after string
	if s.Sender != busName || godbus.Store(s.Body, &name, &before, &after) != nil || strings.HasPrefix(name, ":") {
		return nil
	}
	if _, ours := managerOf(name); !ours {
		return nil
	}
	if after == "" {
		return []Change{{Kind: Left, Service: name}}
	}
	return []Change{{Kind: Owned, Service: name}}
}
