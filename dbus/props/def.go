package props

import "github.com/bmcstate/bmcstate/state"

// Interface describes a D-Bus interface. It is a table: it is not changed once
// an object uses it, so many objects may share one.
type Interface struct {
	Name       string
	Properties []Property
	Methods    []Method
}

// Property describes one property of an [Interface].
type Property struct {
	_ state.Incomparable

	Name string
	Type string // D-Bus signature of one complete type
	// Writable properties go to [Impl.Set]; the others answer
	// PropertyReadOnly.
	Writable bool
	// Const properties never change once clients know the object: they are
	// introspected as const, and [Object.Update] leaves them alone.
	Const bool
	// Paced properties signal at most once per [Options.Pace]. A Get always
	// shows the newest value.
	Paced bool
}

// Method describes one method of an [Interface].
type Method struct {
	Name    string
	In, Out []Arg
}

// Arg is one argument of a [Method]. Type is one complete D-Bus type.
type Arg struct{ Name, Type string }

// Impl is an [Interface] as one object has it.
type Impl struct {
	Interface *Interface
	// Values are the first values, in the order of Interface.Properties.
	Values []any
	// Set is called for a write to a writable property, after the uid and the
	// type of the value were checked. It must see to it that the call is
	// answered, at once or later.
	Set func(c *Call, property string, value any)
	// Methods are the handlers of all methods, by name. The arguments' types
	// were checked. A handler must see to it that the call is answered, at once or
	// later.
	Methods map[string]func(c *Call)
}

// Change is a new value of one property.
type Change struct {
	_ state.Incomparable

	Interface, Property string
	Value               any
}

func (i *Interface) property(name string) int {
	for n := range i.Properties {
		if i.Properties[n].Name == name {
			return n
		}
	}
	return -1
}

func (i *Interface) method(name string) *Method {
	for n := range i.Methods {
		if i.Methods[n].Name == name {
			return &i.Methods[n]
		}
	}
	return nil
}

func signature(args []Arg) string {
	s := ""
	for _, a := range args {
		s += a.Type
	}
	return s
}
