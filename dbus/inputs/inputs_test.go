package inputs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/inputs"
)

const (
	service = "xyz.openbmc_project.Chassis.Gpios"
	path    = "/xyz/openbmc_project/chassis/gpios"
	iface   = "xyz.openbmc_project.Chassis.Gpios"
)

// gpios is the service that some Arm boards show their lines on.
type gpios struct{ *prop.Properties }

func serve(t *testing.T, bus *dbustest.Bus, values map[string]any) (gpios, *godbus.Conn) {
	t.Helper()
	conn := bus.Connect(t)
	all := map[string]*prop.Prop{}
	for name, v := range values {
		all[name] = &prop.Prop{Value: v, Writable: true, Emit: prop.EmitTrue}
	}
	p, err := prop.Export(conn, path, prop.Map{iface: all})
	require.NoError(t, err)
	_, err = conn.RequestName(service, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	return gpios{p}, conn
}

func property(signal, name string, match func(string) bool) inputs.Property {
	return inputs.Property{Signal: signal, Service: service, Path: path, Interface: iface, Name: name, Match: match}
}

func source(t *testing.T, bus *dbustest.Bus, p ...inputs.Property) *inputs.Source {
	t.Helper()
	s := inputs.New(inputs.Options{Address: bus.Address, Properties: p, Retry: 50 * time.Millisecond})
	t.Cleanup(s.Close)
	return s
}

// await takes events until one is what is wanted.
func await(t *testing.T, s *inputs.Source, what string, want func(inputs.Event) bool) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case e := <-s.Events():
			if want(e) {
				return
			}
		case <-late:
			require.FailNow(t, "no event "+what)
		}
	}
}

// read reads until the service has answered for every property: on a busy machine
// an answer may be late.
func read(t *testing.T, s *inputs.Source) (all map[string]inputs.Level) {
	t.Helper()
	require.Eventually(t, func() bool {
		all = s.Read(t.Context())
		for _, l := range all {
			if errors.Is(l.Err, context.DeadlineExceeded) {
				return false
			}
		}
		return true
	}, 2*time.Minute, time.Millisecond)
	return all
}

func TestReadAsksTheService(t *testing.T) {
	bus := dbustest.Start(t)
	g, _ := serve(t, bus, map[string]any{"PGood": true, "Host": "On"})
	s := source(t, bus, property("PowerOk", "PGood", nil), property("PostComplete", "Host", func(v string) bool { return v == "On" || v == "Up" }))
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap && e.Signal == "PostComplete" })

	got := read(t, s)
	assert.Equal(t, map[string]inputs.Level{"PowerOk": {Asserted: true}, "PostComplete": {Asserted: true}}, got)
	g.SetMust(iface, "PGood", false)
	g.SetMust(iface, "Host", "Onwards")
	got = read(t, s)
	assert.Equal(t, map[string]inputs.Level{"PowerOk": {}, "PostComplete": {}}, got)
}

// One property is asked for as long as its caller waits, and judged by a test of
// its own.
func TestOneProperty(t *testing.T) {
	bus := dbustest.Start(t)
	hot := property("hot", "Temperature", nil)
	hot.Test = func(v any) (bool, error) { return v.(int32) > 90, nil }
	s := source(t, bus, hot, property("on", "PGood", nil))
	nowhere := inputs.New(inputs.Options{Address: "unix:path=/nowhere"})
	t.Cleanup(nowhere.Close)
	assert.ErrorIs(t, nowhere.One(t.Context(), "hot").Err, inputs.ErrNoBus)
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap })
	assert.Error(t, s.One(t.Context(), "hot").Err, "no service")
	g, _ := serve(t, bus, map[string]any{"Temperature": int32(40), "PGood": true})
	assert.Equal(t, inputs.Level{}, s.One(t.Context(), "hot"))
	g.SetMust(iface, "Temperature", int32(99))
	assert.Equal(t, inputs.Level{Asserted: true}, s.One(t.Context(), "hot"))
	assert.Error(t, s.One(t.Context(), "cold").Err, "no such property here")
}

func TestAbsentServiceIsUnknownUntilItComes(t *testing.T) {
	bus := dbustest.Start(t)
	s := source(t, bus, property("PowerOk", "PGood", nil))
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap })
	assert.Error(t, read(t, s)["PowerOk"].Err)
	serve(t, bus, map[string]any{"PGood": true})
	await(t, s, "of the level", func(e inputs.Event) bool { return e.Asserted })
	assert.Equal(t, inputs.Level{Asserted: true}, read(t, s)["PowerOk"])
}

// A property with a name that the bus does not take must not cost the others
// theirs.
func TestWrongNameIsUnknownAlone(t *testing.T) {
	bus := dbustest.Start(t)
	g, _ := serve(t, bus, map[string]any{"PGood": true})
	wrong := []inputs.Property{
		{Signal: "service", Service: "no bus name", Path: path, Interface: iface, Name: "PGood"},
		{Signal: "no dot", Service: "x", Path: path, Interface: iface, Name: "PGood"},
		{Signal: "path", Service: service, Path: "/no path", Interface: iface, Name: "PGood"},
		{Signal: "quote", Service: service, Path: path, Interface: "it's", Name: "PGood"},
	}
	s := source(t, bus, append(wrong, property("PowerOk", "PGood", nil))...)
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap && e.Signal == "PowerOk" })
	got := read(t, s)
	assert.Equal(t, inputs.Level{Asserted: true}, got["PowerOk"])
	for _, p := range wrong {
		assert.ErrorContains(t, got[p.Signal].Err, "the bus refuses these names", p.Signal)
	}
	g.SetMust(iface, "PGood", false)
	await(t, s, "of the level", func(e inputs.Event) bool { return e.Signal == "PowerOk" && !e.Asserted && !e.Gap })
	assert.Equal(t, inputs.Level{}, read(t, s)["PowerOk"])
}

func TestWrongTypeIsUnknown(t *testing.T) {
	bus := dbustest.Start(t)
	serve(t, bus, map[string]any{"PGood": "yes", "Host": true})
	s := source(t, bus, property("PowerOk", "PGood", nil), property("PostComplete", "Host", func(v string) bool { return v == "On" }))
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap && e.Signal == "PostComplete" })
	for signal, l := range read(t, s) {
		assert.Error(t, l.Err, signal)
		assert.False(t, l.Asserted)
	}
}

// x86-power-control looked at the first property of a signal only.
func TestEveryPropertyOfASignalIsExamined(t *testing.T) {
	bus := dbustest.Start(t)
	_, conn := serve(t, bus, map[string]any{"PGood": false, "PButton": false})
	s := source(t, bus, property("PowerOk", "PGood", nil), property("PowerButton", "PButton", nil))
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap && e.Signal == "PowerButton" })
	emit := func(c *godbus.Conn) {
		require.NoError(t, c.Emit(path, "org.freedesktop.DBus.Properties.PropertiesChanged", iface,
			map[string]godbus.Variant{"Other": godbus.MakeVariant(1), "PGood": godbus.MakeVariant(true), "PButton": godbus.MakeVariant(true)}, []string{}))
	}
	emit(conn)
	seen := map[string]bool{}
	await(t, s, "of both", func(e inputs.Event) bool {
		seen[e.Signal] = seen[e.Signal] || e.Asserted
		return seen["PowerOk"] && seen["PowerButton"]
	})
}

func TestSignalOfAnotherSenderIsNoHint(t *testing.T) {
	bus := dbustest.Start(t)
	_, conn := serve(t, bus, map[string]any{"PButton": false})
	s := inputs.New(inputs.Options{Address: bus.Address, Properties: []inputs.Property{property("PowerButton", "PButton", nil)}, Retry: time.Hour})
	t.Cleanup(s.Close)
	await(t, s, "of the connection", func(e inputs.Event) bool { return e.Gap })
	pressed := map[string]godbus.Variant{"PButton": godbus.MakeVariant(true)}
	released := map[string]godbus.Variant{"PButton": godbus.MakeVariant(false)}
	stranger := bus.Connect(t)
	require.NoError(t, stranger.Emit(path, "org.freedesktop.DBus.Properties.PropertiesChanged", iface, pressed, []string{}))
	require.NoError(t, stranger.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err) // it is on its way
	require.NoError(t, conn.Emit(path, "org.freedesktop.DBus.Properties.PropertiesChanged", iface, released, []string{}))
	first := <-s.Events()
	assert.Equal(t, inputs.Event{Signal: "PowerButton"}, first, "the service's own signal, not the stranger's")
}
