package props_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/props"
)

// watch returns a raw connection that gets every signal of the service.
func watch(t *testing.T, bus *dbustest.Bus) *dbustest.Raw {
	t.Helper()
	r := bus.Raw(t)
	r.Reply(r.Call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "type='signal',path_namespace='/test'"))
	return r
}

type seen struct {
	Path   godbus.ObjectPath
	Member string
	Body   []any
}

// next returns the next signal that is not the bus driver's.
func next(r *dbustest.Raw) seen {
	for {
		m := r.Next()
		if m.Type == godbus.TypeSignal && m.Headers[godbus.FieldSender].Value() != "org.freedesktop.DBus" {
			return seen{m.Headers[godbus.FieldPath].Value().(godbus.ObjectPath), m.Headers[godbus.FieldMember].Value().(string), m.Body}
		}
	}
}

func changed(property string, v any) seen {
	return seen{path, "PropertiesChanged", []any{iface, map[string]godbus.Variant{property: godbus.MakeVariant(v)}, []string{}}}
}

func TestSignalShape(t *testing.T) {
	f := newFixture(t)
	w := watch(t, f.bus)
	c := f.bus.Connect(t)
	require.NoError(t, set(c, "Text", "one"))
	require.NoError(t, set(c, "Text", "one")) // equal: no signal
	f.obj.Update(
		props.Change{Interface: iface, Property: "Number", Value: uint32(7)},
		props.Change{Interface: iface, Property: "Text", Value: "one"},
		props.Change{Interface: iface, Property: "Fixed", Value: []string{"const stays"}},
		props.Change{Interface: iface, Property: "Shown", Value: "b"},
	)
	f.obj.Update(props.Change{Interface: iface, Property: "Text", Value: "end"})
	for _, want := range []seen{changed("Text", "one"), changed("Number", uint32(7)), changed("Shown", "b"), changed("Text", "end")} {
		assert.Equal(t, want, next(w))
	}
	fixed, err := get(c, "Fixed")
	require.NoError(t, err)
	assert.Equal(t, []string{"x"}, fixed)
}

func TestSignalComesBeforeTheReply(t *testing.T) {
	f := newFixture(t)
	w := watch(t, f.bus)
	for i := range 100 {
		value := fmt.Sprint(i)
		serial := w.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant(value))
		assert.Equal(t, changed("Text", value), next(w), "before the reply")
		require.Equal(t, godbus.TypeMethodReply, w.Reply(serial).Type)
	}
}

func TestInterfacesAddedAndRemoved(t *testing.T) {
	f := &fixture{bus: dbustest.Start(t), log: new(safeBuffer)}
	f.build(t)
	f.obj.Update(props.Change{Interface: iface, Property: "Shown", Value: "before start"})
	w := watch(t, f.bus)
	require.NoError(t, f.svc.Connect(t.Context(), f.bus.Address))
	require.NoError(t, f.svc.Own(t.Context()))

	values := func(text, shown string) map[string]map[string]godbus.Variant {
		return map[string]map[string]godbus.Variant{iface: {
			"Text": godbus.MakeVariant(text), "Number": godbus.MakeVariant(uint32(0)), "Shown": godbus.MakeVariant(shown),
			"Fixed": godbus.MakeVariant([]string{"x"}), "Count": godbus.MakeVariant(uint64(0)),
		}}
	}
	assert.Equal(t, seen{root, "InterfacesAdded", []any{path, values("", "before start")}}, next(w))

	added, err := f.svc.Add("/test/b/c", f.impl())
	require.NoError(t, err)
	added.Update(props.Change{Interface: iface, Property: "Text", Value: "later"})
	assert.Equal(t, seen{root, "InterfacesAdded", []any{godbus.ObjectPath("/test/b/c"), values("", "")}}, next(w))
	assert.Equal(t, "PropertiesChanged", next(w).Member)

	c := f.bus.Connect(t)
	var text string
	introspect := func(p godbus.ObjectPath) error {
		return call(c.Object(name, p), "org.freedesktop.DBus.Introspectable.Introspect").Store(&text)
	}
	require.NoError(t, introspect("/test/b"))
	assert.Contains(t, text, `<node name="c"/>`)

	f.svc.Remove("/test/b/c")
	f.svc.Remove("/test/b/c") // nothing more
	added.Update(props.Change{Interface: iface, Property: "Text", Value: "after removal: no signal"})
	f.obj.Update(props.Change{Interface: iface, Property: "Text", Value: "end"})
	assert.Equal(t, seen{root, "InterfacesRemoved", []any{godbus.ObjectPath("/test/b/c"), []string{iface}}}, next(w))
	assert.Equal(t, changed("Text", "end"), next(w))
	assert.Equal(t, props.ErrUnknownObject, errorName(introspect("/test/b/c")))
	assert.Equal(t, props.ErrUnknownObject, errorName(introspect("/test/b")), "no parent without a child")
}

func TestAddRefusesMistakes(t *testing.T) {
	s := props.New(props.Options{})
	defer s.Close()
	good := (&fixture{}).impl()
	_, err := s.Add("no path", good)
	assert.ErrorContains(t, err, "no object path")
	short := good
	short.Values = short.Values[1:]
	_, err = s.Add("/a", short)
	assert.ErrorContains(t, err, "needs 5 values, got 4")
	wrong := good
	wrong.Values = []any{uint32(1), uint32(0), []string{"x"}, "", uint64(0)}
	_, err = s.Add("/a", wrong)
	assert.ErrorContains(t, err, `test.A.Text of /a: a value of type "u" cannot be shown as "s"`)
	deaf := good
	deaf.Methods = nil
	_, err = s.Add("/a", deaf)
	assert.ErrorContains(t, err, "test.A of /a has no handler for its method Echo")
	_, err = s.Add("/a", good)
	require.NoError(t, err)
	_, err = s.Add("/a", good)
	assert.ErrorContains(t, err, "already")
}

// A paced property is always current when read, and signals at once, then
// together.
func TestPacedProperty(t *testing.T) {
	const pace = 200 * time.Millisecond
	f := newFixture(t, func(o *props.Options, _ *props.Service) {
		if o != nil {
			o.Pace = pace
		}
	})
	w := watch(t, f.bus)
	c := f.bus.Connect(t)
	start := time.Now()
	for i := range 1000 {
		f.obj.Update(props.Change{Interface: iface, Property: "Count", Value: uint64(i + 1)})
	}
	v, err := get(c, "Count")
	require.NoError(t, err)
	assert.Equal(t, uint64(1000), v)
	assert.Equal(t, changed("Count", uint64(1)), next(w))
	last := uint64(1)
	signals := 1
	for last != 1000 {
		s := next(w)
		got := s.Body[1].(map[string]godbus.Variant)["Count"].Value().(uint64)
		assert.Greater(t, got, last)
		last = got
		signals++
	}
	assert.LessOrEqual(t, signals, 1+int(time.Since(start)/pace))
}

// What another connection sends once Flush has returned comes later on the bus,
// though the bus may read that connection first.
func TestFlushPutsSignalsAheadOfOtherConnections(t *testing.T) {
	f := newFixture(t)
	w := watch(t, f.bus)
	for n := range uint32(100) {
		f.obj.Update(props.Change{Interface: iface, Property: "Number", Value: n + 10})
		f.svc.Flush(t.Context())
		w.Call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId")
		require.Equal(t, godbus.TypeSignal, w.Next().Type, "the signal was there before the call")
		require.Equal(t, godbus.TypeMethodReply, w.Next().Type)
	}

	f.bus.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f.svc.Flush(ctx) // a bus that hangs holds nobody up
	require.Error(t, ctx.Err())
	f.bus.Resume(t)
	require.NoError(t, f.svc.Close())
	f.svc.Flush(t.Context())
}

// A service that never came to the bus.
func TestFlushWithoutABus(t *testing.T) {
	f := &fixture{bus: dbustest.Start(t), log: new(safeBuffer)}
	f.build(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.svc.Flush(ctx)
}
