package props

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// snapshot holds all values of an object, by interface and property. It is
// never changed once it is visible.
type snapshot [][]godbus.Variant

// Object is one object of a [Service]. Its methods are safe for concurrent use.
type Object struct {
	svc    *Service
	path   godbus.ObjectPath
	impls  []Impl
	xml    string // interfaces as Introspect lists them
	values atomic.Pointer[snapshot]

	mu        sync.Mutex // orders updates; readers do not take it
	announced bool       // clients have been told of the object
	paced     map[place]*pacing
}

// place is where a property is in an object's tables.
type place struct{ impl, prop int }

// pacing is the state of a property that may not signal at every change.
type pacing struct {
	_ [0]func() // see state.Incomparable

	last   time.Time      // when it signalled
	shown  godbus.Variant // what the last signal said
	behind bool           // shown is not the newest value
}

func newObject(svc *Service, path godbus.ObjectPath, impls []Impl) (*Object, error) {
	o := &Object{svc: svc, path: path, impls: impls, paced: make(map[place]*pacing)}
	values := make(snapshot, len(impls))
	for i, impl := range impls {
		if len(impl.Values) != len(impl.Interface.Properties) {
			return nil, fmt.Errorf("props: %s of %s needs %d values, got %d",
				impl.Interface.Name, path, len(impl.Interface.Properties), len(impl.Values))
		}
		for p, v := range impl.Values {
			variant, err := variantOf(&impl.Interface.Properties[p], v)
			if err != nil {
				return nil, fmt.Errorf("props: %s.%s of %s: %w", impl.Interface.Name, impl.Interface.Properties[p].Name, path, err)
			}
			values[i] = append(values[i], variant)
			if impl.Interface.Properties[p].Paced {
				o.paced[place{i, p}] = &pacing{shown: variant}
			}
		}
		for _, m := range impl.Interface.Methods {
			if impl.Methods[m.Name] == nil {
				return nil, fmt.Errorf("props: %s of %s has no handler for its method %s", impl.Interface.Name, path, m.Name)
			}
		}
		o.xml += interfaceXML(impl.Interface)
	}
	o.values.Store(&values)
	return o, nil
}

func variantOf(p *Property, v any) (godbus.Variant, error) {
	if got := godbus.SignatureOf(v).String(); got != p.Type {
		return godbus.Variant{}, fmt.Errorf("a value of type %q cannot be shown as %q", got, p.Type)
	}
	return godbus.MakeVariant(v), nil
}

// Path returns the object's path.
func (o *Object) Path() godbus.ObjectPath { return o.path }

// Update shows new values. Each is readable when Update returns; each that
// differs from the value before is signalled, in the order given. A const
// property keeps the value that it had when clients were told of the object.
// Unknown properties and values of the wrong type are logged and left alone.
func (o *Object) Update(changes ...Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := *o.values.Load()
	next := append(snapshot(nil), old...)
	copied := make(map[int]bool)
	var moved []place
	for _, c := range changes {
		at, ok := o.find(c.Interface, c.Property)
		if !ok {
			o.svc.log.Error("cannot publish an unknown property", "path", o.path, "property", c.Interface+"."+c.Property)
			continue
		}
		if o.property(at).Const && o.announced {
			continue
		}
		if reflect.DeepEqual(next[at.impl][at.prop].Value(), c.Value) {
			continue
		}
		variant, err := variantOf(o.property(at), c.Value)
		if err != nil {
			o.svc.log.Error("cannot publish a value", "path", o.path, "property", c.Property, "error", err)
			continue
		}
		if !copied[at.impl] {
			next[at.impl] = append([]godbus.Variant(nil), next[at.impl]...)
			copied[at.impl] = true
		}
		next[at.impl][at.prop] = variant
		moved = append(moved, at)
	}
	if len(moved) == 0 {
		return
	}
	o.values.Store(&next)
	if !o.announced {
		return
	}
	for _, at := range moved {
		o.tell(at, next[at.impl][at.prop])
	}
}

// tell signals a changed value, or has it signalled later if the property is
// paced. The caller holds o.mu.
func (o *Object) tell(at place, v godbus.Variant) {
	p := o.paced[at]
	if p == nil {
		o.signalChange(at, v)
		return
	}
	now := time.Now()
	if wait := o.svc.pace - now.Sub(p.last); wait > 0 && !p.last.IsZero() {
		p.behind = true
		o.svc.laggard.add(o, now.Add(wait))
		o.svc.out.signal()
		return
	}
	p.last, p.shown, p.behind = now, v, false
	o.signalChange(at, v)
}

// catchUp signals paced properties whose time has come.
func (o *Object) catchUp(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.announced {
		return
	}
	values := *o.values.Load()
	for i := range o.impls {
		for j := range o.impls[i].Interface.Properties {
			at := place{i, j}
			p := o.paced[at]
			if p == nil || !p.behind {
				continue
			}
			if due := p.last.Add(o.svc.pace); now.Before(due) {
				o.svc.laggard.add(o, due)
				continue
			}
			p.behind = false
			if v := values[i][j]; !reflect.DeepEqual(v.Value(), p.shown.Value()) {
				p.last, p.shown = now, v
				o.signalChange(at, v)
			}
		}
	}
}

func (o *Object) signalChange(at place, v godbus.Variant) {
	iface, name := o.impls[at.impl].Interface.Name, o.property(at).Name
	o.svc.out.put(outgoing{
		kind:  changed,
		path:  o.path,
		field: iface + "." + name,
		msg: newSignal(o.path, ifaceProperties, "PropertiesChanged",
			iface, map[string]godbus.Variant{name: v}, []string{}),
	})
}

// announce signals InterfacesAdded; from then on changes are signalled, too.
func (o *Object) announce() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.announced {
		return
	}
	o.announced = true
	values := *o.values.Load()
	for at, p := range o.paced {
		p.shown, p.behind = values[at.impl][at.prop], false
	}
	if manager, ok := o.svc.managerOf(o.path); ok {
		o.svc.out.put(outgoing{kind: added, path: o.path,
			msg: newSignal(manager, ifaceObjectManager, "InterfacesAdded", o.path, o.all())})
	}
}

// retract signals InterfacesRemoved if the object had been announced.
func (o *Object) retract() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.announced {
		return
	}
	o.announced = false
	if manager, ok := o.svc.managerOf(o.path); ok {
		names := make([]string, len(o.impls))
		for i := range o.impls {
			names[i] = o.impls[i].Interface.Name
		}
		o.svc.out.put(outgoing{kind: removed, path: o.path,
			msg: newSignal(manager, ifaceObjectManager, "InterfacesRemoved", o.path, names)})
	}
}

// all returns every value by interface and property.
func (o *Object) all() map[string]map[string]godbus.Variant {
	values := *o.values.Load()
	all := make(map[string]map[string]godbus.Variant, len(o.impls))
	for i := range o.impls {
		all[o.impls[i].Interface.Name] = o.ofInterface(values, i)
	}
	return all
}

func (o *Object) ofInterface(values snapshot, i int) map[string]godbus.Variant {
	props := o.impls[i].Interface.Properties
	m := make(map[string]godbus.Variant, len(props))
	for p := range props {
		m[props[p].Name] = values[i][p]
	}
	return m
}

// find returns where a property is. An empty interface name matches all.
func (o *Object) find(iface, property string) (place, bool) {
	for i := range o.impls {
		if iface != "" && o.impls[i].Interface.Name != iface {
			continue
		}
		if p := o.impls[i].Interface.property(property); p >= 0 {
			return place{i, p}, true
		}
	}
	return place{}, false
}

func (o *Object) property(at place) *Property { return &o.impls[at.impl].Interface.Properties[at.prop] }

// impl returns the index of an interface, -1 if the object has none such.
func (o *Object) impl(iface string) int {
	for i := range o.impls {
		if o.impls[i].Interface.Name == iface {
			return i
		}
	}
	return -1
}

func newSignal(path godbus.ObjectPath, iface, member string, body ...any) *godbus.Message {
	return &godbus.Message{
		Type:  godbus.TypeSignal,
		Flags: godbus.FlagNoReplyExpected,
		Headers: map[godbus.HeaderField]godbus.Variant{
			godbus.FieldPath:      godbus.MakeVariant(path),
			godbus.FieldInterface: godbus.MakeVariant(iface),
			godbus.FieldMember:    godbus.MakeVariant(member),
			godbus.FieldSignature: godbus.MakeVariant(godbus.SignatureOf(body...)),
		},
		Body: body,
	}
}
