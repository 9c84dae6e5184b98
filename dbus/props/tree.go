package props

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	godbus "github.com/godbus/dbus/v5"
)

// tree is all paths of a service at one moment. It is never changed once it is
// visible.
type tree struct {
	objects  map[godbus.ObjectPath]*Object
	children map[godbus.ObjectPath][]string // of every node, parents included; sorted
	managers map[godbus.ObjectPath]bool
}

// newTree links every object and manager with its parents up to "/".
func newTree(objects map[godbus.ObjectPath]*Object, managers []godbus.ObjectPath) *tree {
	t := &tree{
		objects:  objects,
		children: map[godbus.ObjectPath][]string{"/": nil},
		managers: make(map[godbus.ObjectPath]bool, len(managers)),
	}
	for _, m := range managers {
		t.managers[m] = true
		t.link(m)
	}
	for path := range objects {
		t.link(path)
	}
	for _, names := range t.children {
		slices.Sort(names)
	}
	return t
}

// link adds a path and what is missing of its parents.
func (t *tree) link(path godbus.ObjectPath) {
	if _, known := t.children[path]; known {
		return
	}
	t.children[path] = nil
	at := strings.LastIndexByte(string(path), '/')
	parent := path[:max(at, 1)]
	t.link(parent)
	t.children[parent] = append(t.children[parent], string(path[at+1:]))
}

// below returns the objects under a manager's path, in the order of paths.
func (t *tree) below(manager godbus.ObjectPath) []*Object {
	var found []*Object
	for _, path := range slices.Sorted(maps.Keys(t.objects)) {
		if isBelow(path, manager) {
			found = append(found, t.objects[path])
		}
	}
	return found
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
	old := s.tree.Load()
	if old.objects[path] != nil {
		return nil, fmt.Errorf("props: there is an object at %s already", path)
	}
	objects := maps.Clone(old.objects)
	objects[path] = o
	s.tree.Store(newTree(objects, s.managers))
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
	old := s.tree.Load()
	o := old.objects[path]
	if o == nil {
		return
	}
	objects := maps.Clone(old.objects)
	delete(objects, path)
	s.tree.Store(newTree(objects, s.managers))
	o.retract()
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
