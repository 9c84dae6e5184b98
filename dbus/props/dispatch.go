package props

import (
	"runtime/debug"
	"strings"

	godbus "github.com/godbus/dbus/v5"
)

func stack() string { return string(debug.Stack()) }

// builtin is a method that this package implements for objects.
type builtin struct {
	iface, member, in string
	serve             func(t *tree, c *Call)
}

// builtins are what is answered without a handler. All but Set are reads.
var builtins = []builtin{
	{ifaceProperties, "Get", "ss", serveGet},
	{ifaceProperties, "GetAll", "s", serveGetAll},
	{ifaceProperties, "Set", "ssv", serveSet},
	{ifaceIntrospectable, "Introspect", "", serveIntrospect},
	{ifaceObjectManager, "GetManagedObjects", "", serveManaged},
	{ifacePeer, "Ping", "", func(_ *tree, c *Call) { c.Return() }},
	{ifacePeer, "GetMachineId", "", serveMachineID},
}

// findBuiltin returns the builtin for a call. A call without an interface means
// the first method of that name.
func findBuiltin(iface, member string) *builtin {
	for n := range builtins {
		if b := &builtins[n]; b.member == member && (iface == "" || b.iface == iface) {
			return b
		}
	}
	return nil
}

func isStandard(iface string) bool {
	return iface == ifaceProperties || iface == ifaceIntrospectable || iface == ifacePeer || iface == ifaceObjectManager
}

// isWrite reports whether the call must keep its place among its sender's:
// Set, and every method of ours. What is not known is answered like a read.
func (t *tree) isWrite(c *Call) bool {
	if b := findBuiltin(c.iface, c.member); b != nil {
		return b.member == "Set"
	}
	_, m := t.method(c)
	return m != nil
}

// method returns the implementation and description of a method of ours.
func (t *tree) method(c *Call) (*Impl, *Method) {
	o := t.at(c.Path)
	if o == nil {
		return nil, nil
	}
	for i := range o.impls {
		impl := &o.impls[i]
		if c.iface != "" && impl.Interface.Name != c.iface {
			continue
		}
		if m := impl.Interface.method(c.member); m != nil {
			return impl, m
		}
	}
	return nil, nil
}

// serve answers a call, or hands it to its handler. For a write the sender has
// been authorised.
func (s *Service) serve(c *Call) {
	if c.refusal != nil {
		c.Fail(c.refusal)
		return
	}
	t := s.tree
	if b := findBuiltin(c.iface, c.member); b != nil {
		if c.signature != b.in {
			c.Fail(wrongArgs(c.signature, b.iface, b.member, b.in))
			return
		}
		b.serve(t, c)
		return
	}
	if !t.known(c.Path) {
		c.Fail(unknownObject(c.Path))
		return
	}
	impl, m := t.method(c)
	if m == nil || !c.write { // not there when the call came in: nobody has checked the uid
		o := t.at(c.Path)
		if c.iface != "" && !isStandard(c.iface) && (o == nil || o.impl(c.iface) < 0) {
			c.Fail(unknownInterface(c.iface))
			return
		}
		c.Fail(unknownMethod(c.iface, c.member))
		return
	}
	if want := signature(m.In); c.signature != want {
		c.Fail(wrongArgs(c.signature, impl.Interface.Name, m.Name, want))
		return
	}
	impl.Methods[m.Name](c)
}

// object returns the object that a Properties call is about, or fails it.
func (t *tree) object(c *Call) *Object {
	o := t.at(c.Path)
	if o != nil {
		return o
	}
	if t.known(c.Path) {
		iface, _ := c.Args[0].(string)
		c.Fail(unknownInterface(iface))
	} else {
		c.Fail(unknownObject(c.Path))
	}
	return nil
}

// locate finds the property that a Get or Set is about, or fails the call.
func (t *tree) locate(c *Call) (o *Object, at place, ok bool) {
	if o = t.object(c); o == nil {
		return nil, place{}, false
	}
	iface, _ := c.Args[0].(string)
	property, _ := c.Args[1].(string)
	if iface != "" && o.impl(iface) < 0 {
		c.Fail(unknownInterface(iface))
		return nil, place{}, false
	}
	if at, ok = o.find(iface, property); !ok {
		c.Fail(unknownProperty(iface, property))
	}
	return o, at, ok
}

func serveGet(t *tree, c *Call) {
	if o, at, ok := t.locate(c); ok {
		c.Return((*o.values.Load())[at.impl][at.prop])
	}
}

func serveGetAll(t *tree, c *Call) {
	o := t.object(c)
	if o == nil {
		return
	}
	values := *o.values.Load()
	iface, _ := c.Args[0].(string)
	all := make(map[string]godbus.Variant)
	if i := o.impl(iface); i >= 0 {
		all = o.ofInterface(values, i)
	} else if iface == "" {
		for i := range o.impls {
			for name, v := range o.ofInterface(values, i) {
				all[name] = v
			}
		}
	} else if !isStandard(iface) {
		c.Fail(unknownInterface(iface))
		return
	}
	c.Return(all)
}

func serveSet(t *tree, c *Call) {
	o, at, ok := t.locate(c)
	if !ok {
		return
	}
	p := o.property(at)
	set := o.impls[at.impl].Set
	if !p.Writable || set == nil {
		c.Fail(readOnly(p.Name))
		return
	}
	value, _ := c.Args[2].(godbus.Variant)
	if got := value.Signature().String(); got != p.Type {
		c.Fail(wrongType(p.Name, p.Type, got))
		return
	}
	set(c, p.Name, value.Value())
}

func serveIntrospect(t *tree, c *Call) {
	if !t.known(c.Path) {
		c.Fail(unknownObject(c.Path))
		return
	}
	c.Return(t.introspect(c.Path))
}

func serveManaged(t *tree, c *Call) {
	if !t.managers[c.Path] {
		if t.known(c.Path) {
			c.Fail(unknownMethod(ifaceObjectManager, c.member))
		} else {
			c.Fail(unknownObject(c.Path))
		}
		return
	}
	all := make(map[godbus.ObjectPath]map[string]map[string]godbus.Variant)
	for _, o := range t.below(c.Path) {
		all[o.path] = o.all()
	}
	c.Return(all)
}

func serveMachineID(_ *tree, c *Call) {
	if c.svc.machineID == "" {
		c.Fail(Errorf(ErrFailed, "This machine has no machine id."))
		return
	}
	c.Return(strings.TrimSpace(c.svc.machineID))
}
