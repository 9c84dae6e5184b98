package props_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state/slog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name     = "test.Service"
	iface    = "test.A"
	root     = godbus.ObjectPath("/test")
	path     = godbus.ObjectPath("/test/a")
	patience = 2 * time.Minute

	getIface = "org.freedesktop.DBus.Properties"
)

var testInterface = &props.Interface{
	Name: iface,
	Properties: []props.Property{
		{Name: "Text", Type: "s", Writable: true},
		{Name: "Number", Type: "u", Writable: true},
		{Name: "Fixed", Type: "as", Const: true},
		{Name: "Shown", Type: "s"},
		{Name: "Count", Type: "t", Paced: true},
	},
	Methods: []props.Method{
		{Name: "Echo", In: []props.Arg{{Name: "in", Type: "s"}}, Out: []props.Arg{{Name: "out", Type: "s"}}},
		{Name: "Panic"},
		{Name: "Never"},
	},
}

// fixture is a service with one object on a private bus. Its Set stores the
// value and answers.
type fixture struct {
	bus *dbustest.Bus
	svc *props.Service
	obj *props.Object
	log *safeBuffer

	mu   sync.Mutex
	sets []any
	uids []uint32
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newFixture(t *testing.T, change ...func(*props.Options, *props.Service)) *fixture {
	t.Helper()
	f := &fixture{bus: dbustest.Start(t), log: new(safeBuffer)}
	f.build(t, change...)
	require.NoError(t, f.svc.Connect(t.Context(), f.bus.Address))
	require.NoError(t, f.svc.Own(t.Context()))
	return f
}

// build makes the service without connecting it.
func (f *fixture) build(t *testing.T, change ...func(*props.Options, *props.Service)) {
	t.Helper()
	o := props.Options{
		Names: []string{name}, Managers: []godbus.ObjectPath{root},
		Logger: slog.New(slog.NewTextHandler(f.log, slog.LevelInfo)),
	}
	for _, c := range change {
		c(&o, nil)
	}
	f.svc = props.New(o)
	for _, c := range change {
		c(nil, f.svc)
	}
	t.Cleanup(func() { assert.NoError(t, f.svc.Close()) })
	obj, err := f.svc.Add(path, f.impl())
	require.NoError(t, err)
	f.obj = obj
}

func (f *fixture) impl() props.Impl {
	return props.Impl{
		Interface: testInterface,
		Values:    []any{"", uint32(0), []string{"x"}, "", uint64(0)},
		Set: func(c *props.Call, property string, value any) {
			f.mu.Lock()
			f.sets = append(f.sets, value)
			f.uids = append(f.uids, c.UID)
			f.mu.Unlock()
			if value == "panic" {
				panic("secret")
			}
			f.obj.Update(props.Change{Interface: iface, Property: property, Value: value})
			c.Return()
		},
		Methods: map[string]func(*props.Call){
			"Echo":  func(c *props.Call) { c.Return(c.Args[0]) },
			"Panic": func(*props.Call) { panic("secret") },
			"Never": func(*props.Call) {},
		},
	}
}

func (f *fixture) stored() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]any(nil), f.sets...)
}

// object returns the test object as a client sees it.
func object(c *godbus.Conn) godbus.BusObject { return c.Object(name, path) }

func set(c *godbus.Conn, property string, v any) error {
	return call(object(c), getIface+".Set", iface, property, godbus.MakeVariant(v)).Err
}

func get(c *godbus.Conn, property string) (any, error) {
	var v godbus.Variant
	err := call(object(c), getIface+".Get", iface, property).Store(&v)
	return v.Value(), err
}

func call(o godbus.BusObject, method string, args ...any) *godbus.Call {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return o.CallWithContext(ctx, method, 0, args...)
}

func errorName(err error) string {
	var e godbus.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return fmt.Sprint(err)
}

// eventually waits for something that comes without a signal to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestErrors(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	const std = "org.freedesktop.DBus.Error."
	v := func(x any) godbus.Variant { return godbus.MakeVariant(x) }
	tests := []struct {
		what   string
		path   godbus.ObjectPath
		method string
		args   []any
		name   string
		text   string
	}{
		{"unknown property", path, getIface + ".Get", []any{iface, "Nix"}, "UnknownProperty", "Unknown interface test.A or property Nix."},
		{"unknown property set", path, getIface + ".Set", []any{iface, "Nix", v("")}, "UnknownProperty", "Unknown interface test.A or property Nix."},
		{"unknown interface", path, getIface + ".Get", []any{"test.B", "Text"}, "UnknownInterface", "Unknown interface 'test.B'."},
		{"unknown interface all", path, getIface + ".GetAll", []any{"test.B"}, "UnknownInterface", "Unknown interface 'test.B'."},
		{"unknown interface set", path, getIface + ".Set", []any{"test.B", "Text", v("")}, "UnknownInterface", "Unknown interface 'test.B'."},
		{"unknown path", "/nix", getIface + ".Get", []any{iface, "Text"}, "UnknownObject", "Unknown object '/nix'."},
		{"unknown path set", "/nix", getIface + ".Set", []any{iface, "Text", v("")}, "UnknownObject", "Unknown object '/nix'."},
		{"unknown path introspect", "/nix", "org.freedesktop.DBus.Introspectable.Introspect", nil, "UnknownObject", "Unknown object '/nix'."},
		{"unknown path method", "/nix", iface + ".Echo", []any{""}, "UnknownObject", "Unknown object '/nix'."},
		{"parent has no properties", root, getIface + ".GetAll", []any{iface}, "UnknownInterface", "Unknown interface 'test.A'."},
		{"unknown method", path, iface + ".Nix", nil, "UnknownMethod", "Unknown method Nix or interface test.A."},
		{"unknown standard method", path, "org.freedesktop.DBus.Peer.Nix", nil, "UnknownMethod", "Unknown method Nix or interface org.freedesktop.DBus.Peer."},
		{"unknown interface method", path, "test.B.Nix", nil, "UnknownInterface", "Unknown interface 'test.B'."},
		{"no manager here", path, "org.freedesktop.DBus.ObjectManager.GetManagedObjects", nil, "UnknownMethod", "Unknown method GetManagedObjects or interface org.freedesktop.DBus.ObjectManager."},
		{"wrong type", path, getIface + ".Set", []any{iface, "Text", v(uint32(1))}, "InvalidArgs", "Incorrect parameters for property 'Text', expected 's', got 'u'."},
		{"wrong number", path, getIface + ".Set", []any{iface, "Number", v(int32(1))}, "InvalidArgs", "Incorrect parameters for property 'Number', expected 'u', got 'i'."},
		{"variant in variant", path, getIface + ".Set", []any{iface, "Text", v(v("x"))}, "InvalidArgs", "Incorrect parameters for property 'Text', expected 's', got 'v'."},
		{"const", path, getIface + ".Set", []any{iface, "Fixed", v([]string{})}, "PropertyReadOnly", "Property 'Fixed' is not writable."},
		{"read-only", path, getIface + ".Set", []any{iface, "Shown", v("")}, "PropertyReadOnly", "Property 'Shown' is not writable."},
		{"Set without a variant", path, getIface + ".Set", []any{iface, "Text", "x"}, "InvalidArgs", "Invalid arguments 'sss' to call org.freedesktop.DBus.Properties.Set(), expecting 'ssv'."},
		{"Get with one argument", path, getIface + ".Get", []any{iface}, "InvalidArgs", "Invalid arguments 's' to call org.freedesktop.DBus.Properties.Get(), expecting 'ss'."},
		{"method with wrong argument", path, iface + ".Echo", []any{uint32(1)}, "InvalidArgs", "Invalid arguments 'u' to call test.A.Echo(), expecting 's'."},
		{"method without argument", path, iface + ".Echo", nil, "InvalidArgs", "Invalid arguments '' to call test.A.Echo(), expecting 's'."},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			err := call(c.Object(name, tt.path), tt.method, tt.args...).Err
			assert.Equal(t, std+tt.name, errorName(err))
			assert.EqualError(t, err, tt.text)
		})
	}
	assert.Empty(t, f.stored(), "a refused write reached the handler")
}

func TestReads(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	f.obj.Update(props.Change{Interface: iface, Property: "Shown", Value: "here"})

	v, err := get(c, "Shown")
	require.NoError(t, err)
	assert.Equal(t, "here", v)
	var all map[string]godbus.Variant
	for _, which := range []string{iface, ""} {
		require.NoError(t, call(object(c), getIface+".GetAll", which).Store(&all))
		assert.Equal(t, map[string]godbus.Variant{
			"Text": godbus.MakeVariant(""), "Number": godbus.MakeVariant(uint32(0)), "Shown": godbus.MakeVariant("here"),
			"Fixed": godbus.MakeVariant([]string{"x"}), "Count": godbus.MakeVariant(uint64(0)),
		}, all)
	}
	var empty godbus.Variant
	require.NoError(t, call(object(c), getIface+".Get", "", "Shown").Store(&empty))
	assert.Equal(t, "here", empty.Value())
	assert.NoError(t, call(c.Object(name, "/nowhere"), "org.freedesktop.DBus.Peer.Ping").Err)
	var managed map[godbus.ObjectPath]map[string]map[string]godbus.Variant
	require.NoError(t, call(c.Object(name, root), "org.freedesktop.DBus.ObjectManager.GetManagedObjects").Store(&managed))
	require.Len(t, managed, 1)
	assert.Equal(t, "here", managed[path][iface]["Shown"].Value())
}

func TestMethodAndSet(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	var echo string
	require.NoError(t, call(object(c), iface+".Echo", "hello").Store(&echo))
	assert.Equal(t, "hello", echo)
	require.NoError(t, set(c, "Text", "new"))
	v, err := get(f.bus.Connect(t), "Text")
	require.NoError(t, err)
	assert.Equal(t, "new", v)
}

func TestIntrospectFromTheRoot(t *testing.T) {
	f := newFixture(t)
	tests := []struct{ path, has string }{
		{"/", `<node name="test"/>`},
		{"/test", `<node name="a"/>`},
		{"/test", `<interface name="org.freedesktop.DBus.ObjectManager">`},
		{"/test/a", `<property name="Text" type="s" access="readwrite">`},
		{"/test/a", `<property name="Shown" type="s" access="read">`},
		{"/test/a", `EmitsChangedSignal" value="const"`},
		{"/test/a", `<arg name="out" type="s" direction="out"/>`},
		{"/test/a", `<interface name="org.freedesktop.DBus.Properties">`},
	}
	c := f.bus.Connect(t)
	for _, tt := range tests {
		var text string
		require.NoError(t, call(c.Object(name, godbus.ObjectPath(tt.path)), "org.freedesktop.DBus.Introspectable.Introspect").Store(&text))
		assert.Contains(t, text, tt.has, tt.path)
	}
	f.bus.Busctl(t, "introspect", name, "/test/a") // busctl parses it all
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	for _, err := range []error{call(object(c), iface+".Panic").Err, set(c, "Text", "panic")} {
		assert.Equal(t, props.ErrFailed, errorName(err))
		assert.NotContains(t, err.Error(), "secret")
	}
	assert.Contains(t, f.log.String(), "secret")
	assert.NoError(t, set(c, "Text", "still alive"))
}

func TestNameAlreadyOwned(t *testing.T) {
	f := newFixture(t)
	second := props.New(props.Options{Names: []string{"test.Free", name}})
	defer second.Close()
	require.NoError(t, second.Connect(t.Context(), f.bus.Address))
	err := second.Own(t.Context())
	require.ErrorIs(t, err, props.ErrNameTaken)
	assert.Contains(t, err.Error(), name)
	assert.Contains(t, err.Error(), "process ")
}

func TestNoBus(t *testing.T) {
	tests := []struct{ address, text string }{
		{"unix:path=/nonexistent/socket", "no such file"},
		{"tcp:host=localhost,port=1", "is none of unix:path"},
		{"rubbish", "is none of unix:path"},
		{"unix:path=%zz", "bus address"},
	}
	for _, tt := range tests {
		s := props.New(props.Options{})
		err := s.Connect(t.Context(), tt.address)
		require.ErrorContains(t, err, tt.text, tt.address)
		require.NoError(t, s.Close())
	}
}

func TestBusDies(t *testing.T) {
	f := newFixture(t)
	assert.NoError(t, f.svc.Err())
	f.bus.Stop()
	select {
	case <-f.svc.Done():
	case <-time.After(patience):
		t.Fatal("the death of the bus was not reported")
	}
	assert.ErrorContains(t, f.svc.Err(), "lost")
	f.obj.Update(props.Change{Interface: iface, Property: "Text", Value: "nobody listens"})
}
