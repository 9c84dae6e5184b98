package dbustest

import (
	"context"
	"encoding/xml"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

const (
	mapperName  = "xyz.openbmc_project.ObjectMapper"
	mapperPath  = "/xyz/openbmc_project/object_mapper"
	busName     = "org.freedesktop.DBus"
	objManager  = busName + ".ObjectManager"
	errNotFound = "xyz.openbmc_project.Common.Error.ResourceNotFound"
)

// Mapper is a double of phosphor-objmgr. It knows nothing in advance: it learns
// names from ListNames and NameOwnerChanged, walks the Introspect XML of each
// from "/", follows InterfacesAdded and InterfacesRemoved, and drops what
// belongs to a name that has gone. It answers GetObject, GetSubTree,
// GetSubTreePaths and GetAncestors.
type Mapper struct {
	conn *godbus.Conn
	wg   sync.WaitGroup

	mu      sync.Mutex
	objects map[string]map[string][]string // path, service, interfaces
	owners  map[string]string              // unique name by well-known name
	changed chan struct{}                  // closed and replaced at every change
}

// StartMapper starts the double; it ends with the test.
func (b *Bus) StartMapper(t testing.TB) *Mapper {
	t.Helper()
	m := &Mapper{
		objects: make(map[string]map[string][]string),
		owners:  make(map[string]string),
		changed: make(chan struct{}),
	}
	conn, err := godbus.Connect(b.Address, godbus.WithSignalHandler(godbus.NewSequentialSignalHandler()),
		godbus.WithOutgoingInterceptor(asDicts))
	must(t, err)
	m.conn = conn
	signals := make(chan *godbus.Signal, 16)
	conn.Signal(signals)
	must(t, conn.AddMatchSignal(godbus.WithMatchSender(busName), godbus.WithMatchMember("NameOwnerChanged")))
	must(t, conn.AddMatchSignal(godbus.WithMatchInterface(objManager)))
	var names []string
	must(t, conn.BusObject().Call(busName+".ListNames", 0).Store(&names))
	m.wg.Add(1)
	go m.follow(names, signals)
	t.Cleanup(func() {
		_ = conn.Close()
		m.wg.Wait()
	})
	must(t, conn.Export(mapperMethods{m}, mapperPath, mapperName))
	_, err = conn.RequestName(mapperName, godbus.NameFlagDoNotQueue)
	must(t, err)
	return m
}

// WaitFor waits until the mapper knows an interface of an object of a service.
func (m *Mapper) WaitFor(t testing.TB, service, object, iface string) {
	t.Helper()
	m.wait(t, object+" of "+service, func() bool { return slices.Contains(m.objects[object][service], iface) })
}

// WaitGone waits until the mapper knows no object at a path.
func (m *Mapper) WaitGone(t testing.TB, object string) {
	t.Helper()
	m.wait(t, object+" to go", func() bool { return len(m.objects[object]) == 0 })
}

func (m *Mapper) wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		m.mu.Lock()
		ok, changed := done(), m.changed
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("the mapper still waits for %s", what)
		}
	}
}

// follow learns what is there, then what changes.
func (m *Mapper) follow(names []string, signals <-chan *godbus.Signal) {
	defer m.wg.Done()
	for _, name := range names {
		var owner string
		if interesting(name) && m.conn.BusObject().Call(busName+".GetNameOwner", 0, name).Store(&owner) == nil {
			m.learn(name, owner)
		}
	}
	for s := range signals {
		switch s.Name {
		case busName + ".NameOwnerChanged":
			var name, before, after string
			if s.Sender == busName && godbus.Store(s.Body, &name, &before, &after) == nil && interesting(name) {
				m.drop(name)
				if after != "" {
					m.learn(name, after)
				}
			}
		case objManager + ".InterfacesAdded":
			var object godbus.ObjectPath
			var ifaces map[string]map[string]godbus.Variant
			if godbus.Store(s.Body, &object, &ifaces) == nil {
				m.book(s.Sender, string(object), slices.Collect(maps.Keys(ifaces)))
			}
		case objManager + ".InterfacesRemoved":
			var object godbus.ObjectPath
			var ifaces []string
			if godbus.Store(s.Body, &object, &ifaces) == nil {
				m.unbook(s.Sender, string(object), ifaces)
			}
		}
	}
}

func interesting(name string) bool {
	return !strings.HasPrefix(name, ":") && !strings.HasPrefix(name, "org.freedesktop") && name != mapperName
}

func (m *Mapper) learn(name, owner string) {
	m.mu.Lock()
	m.owners[name] = owner
	m.mu.Unlock()
	m.walk(name, "/")
}

// node is what the mapper reads of Introspect.
type node struct {
	XMLName    xml.Name `xml:"node"`
	Interfaces []struct {
		Name string `xml:"name,attr"`
	} `xml:"interface"`
	Children []struct {
		Name string `xml:"name,attr"`
	} `xml:"node"`
}

// walk books a node and everything below it. Any error drops that subtree, as
// in the original.
func (m *Mapper) walk(service, at string) {
	ctx, cancel := context.WithTimeout(m.conn.Context(), patience)
	defer cancel()
	var text string
	var n node
	obj := m.conn.Object(service, godbus.ObjectPath(at))
	if obj.CallWithContext(ctx, busName+".Introspectable.Introspect", 0).Store(&text) != nil || xml.Unmarshal([]byte(text), &n) != nil {
		return
	}
	var ifaces []string
	for _, i := range n.Interfaces {
		if !strings.HasPrefix(i.Name, busName) || i.Name == objManager {
			ifaces = append(ifaces, i.Name)
		}
	}
	m.add(service, at, ifaces)
	for _, child := range n.Children {
		m.walk(service, path.Join(at, child.Name))
	}
}

func (m *Mapper) add(service, object string, ifaces []string) {
	if len(ifaces) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[object] == nil {
		m.objects[object] = make(map[string][]string)
	}
	all := append(m.objects[object][service], ifaces...)
	slices.Sort(all)
	m.objects[object][service] = slices.Compact(all)
	m.tell()
}

// book adds interfaces under one name of their owner; a sender without a name
// is unknown.
func (m *Mapper) book(unique, object string, ifaces []string) {
	if name, ok := m.nameOf(unique); ok {
		m.add(name, object, ifaces)
	}
}

func (m *Mapper) unbook(unique, object string, ifaces []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, owner := range m.owners {
		if owner != unique || m.objects[object] == nil {
			continue
		}
		m.objects[object][name] = slices.DeleteFunc(m.objects[object][name], func(i string) bool { return slices.Contains(ifaces, i) })
		if len(m.objects[object][name]) == 0 {
			delete(m.objects[object], name)
		}
	}
	m.tell()
}

func (m *Mapper) nameOf(unique string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.owners)) {
		if m.owners[name] == unique {
			return name, true
		}
	}
	return "", false
}

func (m *Mapper) drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, name)
	for _, services := range m.objects {
		delete(services, name)
	}
	m.tell()
}

// tell wakes who waits. The caller holds m.mu.
func (m *Mapper) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// find returns a copy of what is known of the paths that pass, restricted to
// services with one of the interfaces; none means all.
func (m *Mapper) find(pass func(object string) bool, ifaces []string) map[string]map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]map[string][]string)
	for object, services := range m.objects {
		if !pass(object) {
			continue
		}
		for service, has := range services {
			if len(ifaces) > 0 && !slices.ContainsFunc(ifaces, func(i string) bool { return slices.Contains(has, i) }) {
				continue
			}
			if found[object] == nil {
				found[object] = make(map[string][]string)
			}
			found[object][service] = slices.Clone(has)
		}
	}
	return found
}

// entry is an entry of a dict that goes out in the order of its keys, as the
// original's do: clients take the first name, and Host comes before Host0.
// godbus sends maps in any order.
type entry[V any] struct {
	Key   string
	Value V
}

func entries[V, W any](m map[string]V, convert func(V) W) []entry[W] {
	all := make([]entry[W], 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, entry[W]{key, convert(m[key])})
	}
	return all
}

type (
	services = []entry[[]string]
	subtree  = []entry[services]
)

func sortedServices(m map[string][]string) services {
	return entries(m, func(ifaces []string) []string { return ifaces })
}

func sortedTree(m map[string]map[string][]string) subtree { return entries(m, sortedServices) }

// asDicts gives replies made of entries the signature of the dicts that they
// are: on the wire the two are the same.
func asDicts(msg *godbus.Message) {
	if msg.Type != godbus.TypeMethodReply || len(msg.Body) != 1 {
		return
	}
	switch msg.Body[0].(type) {
	case services:
		msg.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.ParseSignatureMust("a{sas}"))
	case subtree:
		msg.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.ParseSignatureMust("a{sa{sas}}"))
	}
}

// mapperMethods is the mapper's interface on the bus.
type mapperMethods struct{ m *Mapper }

// GetObject returns the services that implement an object.
func (x mapperMethods) GetObject(object string, ifaces []string) (services, *godbus.Error) {
	found := x.m.find(func(o string) bool { return o == object }, ifaces)
	if len(found) == 0 {
		return nil, godbus.NewError(errNotFound, []any{"path or interface not found: " + object})
	}
	return sortedServices(found[object]), nil
}

// GetSubTree returns the objects below a path, at most depth levels; 0 is all.
func (x mapperMethods) GetSubTree(root string, depth int32, ifaces []string) (subtree, *godbus.Error) {
	return sortedTree(x.below(root, depth, ifaces)), nil
}

func (x mapperMethods) below(root string, depth int32, ifaces []string) map[string]map[string][]string {
	prefix := strings.TrimSuffix(root, "/") + "/"
	return x.m.find(func(o string) bool {
		below, ok := strings.CutPrefix(o, prefix)
		return ok && (depth == 0 || strings.Count(below, "/") < int(depth))
	}, ifaces)
}

// GetSubTreePaths returns the paths of GetSubTree, sorted.
func (x mapperMethods) GetSubTreePaths(root string, depth int32, ifaces []string) ([]string, *godbus.Error) {
	return append([]string{}, slices.Sorted(maps.Keys(x.below(root, depth, ifaces)))...), nil
}

// GetAncestors returns the objects above a path.
func (x mapperMethods) GetAncestors(object string, ifaces []string) (subtree, *godbus.Error) {
	above := func(o string) bool { return o != object && strings.HasPrefix(object, strings.TrimSuffix(o, "/")+"/") }
	return sortedTree(x.m.find(above, ifaces)), nil
}
