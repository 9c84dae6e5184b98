package props

import (
	"fmt"
	"strings"
	"sync"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state"
)

// tree is all paths of a service. Its methods are safe for concurrent use;
// each holds the lock for a look-up only, so a reader never waits for more than
// another's.
type tree struct {
	mu       sync.RWMutex
	objects  map[godbus.ObjectPath]*Object             // guarded by mu
	children map[godbus.ObjectPath]map[string]struct{} // of every node, parents included; guarded by mu
	managers map[godbus.ObjectPath]bool                // never changed
}

// newTree links the managers with their parents up to "/".
func newTree(managers []godbus.ObjectPath) *tree {
	t := &tree{
		objects:  map[godbus.ObjectPath]*Object{},
		children: map[godbus.ObjectPath]map[string]struct{}{"/": {}},
		managers: make(map[godbus.ObjectPath]bool, len(managers)),
	}
	for _, m := range managers {
		t.managers[m] = true
		t.link(m)
	}
	return t
}

// at returns the object at a path, nil if there is none.
func (t *tree) at(path godbus.ObjectPath) *Object {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.objects[path]
}

// known reports whether a path is a node: an object, a manager or a parent.
func (t *tree) known(path godbus.ObjectPath) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.children[path] != nil
}

// names returns the names of a node's children, sorted.
func (t *tree) names(path godbus.ObjectPath) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return state.SortedKeys(t.children[path])
}

// add puts an object at a path; it reports false where there is one already.
func (t *tree) add(path godbus.ObjectPath, o *Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects[path] != nil {
		return false
	}
	t.objects[path] = o
	t.link(path)
	return true
}

// remove takes the object at a path away and returns it, nil if there was none.
func (t *tree) remove(path godbus.ObjectPath) *Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[path]
	if o != nil {
		delete(t.objects, path)
		t.unlink(path)
	}
	return o
}

// link adds a path and what is missing of its parents.
func (t *tree) link(path godbus.ObjectPath) {
	if t.children[path] != nil {
		return
	}
	t.children[path] = map[string]struct{}{}
	parent, name := split(path)
	t.link(parent)
	t.children[parent][name] = struct{}{}
}

// unlink takes a path away that nothing needs any more, and parents that were
// there only for it.
func (t *tree) unlink(path godbus.ObjectPath) {
	if path == "/" || t.objects[path] != nil || t.managers[path] || len(t.children[path]) > 0 {
		return
	}
	delete(t.children, path)
	parent, name := split(path)
	delete(t.children[parent], name)
	t.unlink(parent)
}

func split(path godbus.ObjectPath) (parent godbus.ObjectPath, name string) {
	at := strings.LastIndexByte(string(path), '/')
	return path[:max(at, 1)], string(path[at+1:])
}

// below returns the objects under a manager's path, in the order of paths.
func (t *tree) below(manager godbus.ObjectPath) []*Object {
	t.mu.RLock()
	found := make(map[godbus.ObjectPath]*Object)
	for path, o := range t.objects {
		if isBelow(path, manager) {
			found[path] = o
		}
	}
	t.mu.RUnlock()
	all := make([]*Object, 0, len(found))
	for _, path := range state.SortedKeys(found) {
		all = append(all, found[path])
	}
	return all
}

func isBelow(path, ancestor godbus.ObjectPath) bool {
	return ancestor == "/" && path != "/" || strings.HasPrefix(string(path), string(ancestor)+"/")
}

// Add shows a new object. If the service has been announced already,
// InterfacesAdded says so at once. Safe for concurrent use.
func (s *Service) Add(path godbus.ObjectPath, impls ...Impl) (*Object, error) {
	if !path.IsValid() {
		return nil, fmt.Errorf("props: %q is no object path", path)
	}
	o, err := newObject(s, path, impls)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tree.add(path, o) {
		return nil, fmt.Errorf("props: there is an object at %s already", path)
	}
	if s.announced {
		o.announce()
	}
	return o, nil
}

// Remove takes an object away and signals InterfacesRemoved. Removing what is
// not there does nothing. Safe for concurrent use.
func (s *Service) Remove(path godbus.ObjectPath) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.tree.remove(path); o != nil {
		o.retract()
	}
}

// managerOf returns the object manager that speaks for a path: the nearest.
func (s *Service) managerOf(path godbus.ObjectPath) (manager godbus.ObjectPath, ok bool) {
	for _, m := range s.managers {
		if isBelow(path, m) && len(m) >= len(manager) {
			manager, ok = m, true
		}
	}
	return manager, ok
}
