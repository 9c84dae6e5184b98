package props_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/props"
)

func TestOtherUIDMayReadAndNothingElse(t *testing.T) {
	f := newFixture(t)
	c := f.bus.ConnectAs(t, dbustest.OtherUID)
	for _, p := range []string{"Text", "Number", "Fixed", "Shown", "Count"} {
		_, err := get(c, p)
		assert.NoError(t, err, p)
		for _, v := range []any{"x", uint32(1)} {
			assert.Equal(t, props.ErrAccessDenied, errorName(set(c, p, v)), p)
		}
	}
	for _, m := range []string{"Echo", "Panic", "Never"} {
		assert.Equal(t, props.ErrAccessDenied, errorName(call(object(c), iface+"."+m).Err), m)
	}
	for _, m := range []string{"org.freedesktop.DBus.Introspectable.Introspect", "org.freedesktop.DBus.Peer.Ping", "org.freedesktop.DBus.Peer.GetMachineId"} {
		assert.NoError(t, call(object(c), m).Err, m)
	}
	assert.NoError(t, call(c.Object(name, root), "org.freedesktop.DBus.ObjectManager.GetManagedObjects").Err)
	assert.Empty(t, f.stored())
}

func TestAllowedUIDMayWrite(t *testing.T) {
	f := newFixture(t, func(o *props.Options, _ *props.Service) {
		if o != nil {
			o.AllowedUIDs = []uint32{dbustest.OtherUID}
		}
	})
	require.NoError(t, set(f.bus.ConnectAs(t, dbustest.OtherUID), "Text", "x"))
	assert.Equal(t, props.ErrAccessDenied, errorName(set(f.bus.ConnectAs(t, 1), "Text", "y")))
	assert.Equal(t, []uint32{dbustest.OtherUID}, f.uids)
}

// On a bus that allows everything a peer may send replies that nobody asked
// for. It must not be able to answer in the driver's place that it is root.
func TestForgedUIDIsIgnored(t *testing.T) {
	f := newFixture(t)
	r := f.bus.RawAs(t, dbustest.OtherUID)
	f.svc.BeforeIdentify(func(string) {
		// Our serials are small and easy to guess: try them all.
		for serial := uint32(1); serial < 64; serial++ { // 0 would end the connection
			r.Send(&godbus.Message{Type: godbus.TypeMethodReply, Flags: godbus.FlagNoReplyExpected, Body: []any{uint32(0)},
				Headers: map[godbus.HeaderField]godbus.Variant{
					godbus.FieldDestination: godbus.MakeVariant(f.svc.UniqueName()),
					godbus.FieldReplySerial: godbus.MakeVariant(serial),
					godbus.FieldSignature:   godbus.MakeVariant(godbus.SignatureOf(uint32(0))),
				}})
		}
	})
	for range 3 {
		reply := r.Reply(r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("forged")))
		assert.Equal(t, props.ErrAccessDenied, reply.Headers[godbus.FieldErrorName].Value())
	}
	assert.Empty(t, f.stored())
}

// A bus that is too busy to tell who asks has not denied anybody access: the
// caller is to know that it may try again.
func TestBusDriverTooSlowToIdentify(t *testing.T) {
	f := newFixture(t)
	f.svc.IdentifyWithin(0)
	c := f.bus.Connect(t)
	err := set(c, "Text", "x")
	assert.Equal(t, props.ErrTimeout, errorName(err))
	assert.ErrorContains(t, err, "try again")
	assert.Empty(t, f.stored())
	f.svc.IdentifyWithin(time.Minute)
	assert.NoError(t, set(c, "Text", "x"))
}

// A unicast signal that claims that somebody has left must not be believed.
func TestForgedDepartureIsIgnored(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	require.NoError(t, set(c, "Text", "known now"))
	forger := f.bus.RawAs(t, dbustest.OtherUID)
	who := c.Names()[0]
	forger.Send(&godbus.Message{Type: godbus.TypeSignal, Flags: godbus.FlagNoReplyExpected, Body: []any{who, who, ""},
		Headers: map[godbus.HeaderField]godbus.Variant{
			godbus.FieldDestination: godbus.MakeVariant(f.svc.UniqueName()),
			godbus.FieldPath:        godbus.MakeVariant(godbus.ObjectPath("/org/freedesktop/DBus")),
			godbus.FieldInterface:   godbus.MakeVariant("org.freedesktop.DBus"),
			godbus.FieldMember:      godbus.MakeVariant("NameOwnerChanged"),
			godbus.FieldSignature:   godbus.MakeVariant(godbus.SignatureOf("", "", "")),
		}})
	forger.Reply(forger.Call(name, path, getIface, "Get", iface, "Text")) // the signal has been seen
	assert.True(t, f.svc.Knows(who))
}

func TestSenderGoneBeforeItIsKnown(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	w := f.bus.Connect(t)
	gone := make(chan *godbus.Signal, 8)
	w.Signal(gone)
	require.NoError(t, w.AddMatchSignal(godbus.WithMatchMember("NameOwnerChanged"), godbus.WithMatchArg(0, r.Name)))
	f.svc.BeforeIdentify(func(sender string) {
		if sender == r.Name {
			r.Close()
			for s := range gone {
				if s.Name == "org.freedesktop.DBus.NameOwnerChanged" && s.Body[0] == r.Name {
					return
				}
			}
		}
	})
	r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("too late"))
	eventually(t, "the refusal is logged", func() bool { return strings.Contains(f.log.String(), r.Name) })
	assert.NoError(t, set(f.bus.Connect(t), "Text", "others are served"))
	assert.Equal(t, []any{"others are served"}, f.stored())
	eventually(t, "it is forgotten", func() bool { return f.svc.Senders() == 1 })
}

// A sender whose uid is known may leave without waiting.
func TestKnownSenderMayLeaveAtOnce(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	r.Reply(r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("first")))
	r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("last words"))
	r.Close()
	eventually(t, "the last write acts", func() bool { return len(f.stored()) == 2 })
	eventually(t, "the sender is forgotten", func() bool { return f.svc.Senders() == 0 })
}

func TestNoReplyExpected(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	quiet := func(iface, member string, args ...any) {
		b, _ := r.Message(name, path, iface, member, args...)
		b.Bytes()[2] |= byte(godbus.FlagNoReplyExpected)
		r.Write(b.Bytes())
	}
	quiet(getIface, "Set", iface, "Text", godbus.MakeVariant("acts"))
	quiet(getIface, "Set", iface, "Fixed", godbus.MakeVariant("error"))
	quiet(getIface, "Get", iface, "Text")
	quiet(iface, "Nix")
	quiet(iface, "Panic")
	quiet("org.freedesktop.DBus.Peer", "Ping")
	last := r.Call(name, path, iface, "Echo", "end")
	for {
		m := r.Next()
		if to, ok := m.Headers[godbus.FieldReplySerial].Value().(uint32); ok {
			assert.Equal(t, last, to, "an answer that nobody wanted")
			break
		}
	}
	assert.Equal(t, []any{"acts"}, f.stored())
	eventually(t, "nothing stays open", func() bool { return f.svc.Senders() == 1 })
}

// Messages that the bus takes and godbus cannot decode would end its
// connection; any local user could send one. What is not taken is answered, and
// what comes after it is.
func TestMessageThatIsNotTakenIsAnswered(t *testing.T) {
	const utf8InKey = "\x0a\x00\x00\x00\x00\x00\x00\x00\x01s\x00\x00\x01\x00\x00\x00x\x00"
	big := strings.Repeat("x", props.MaxMessage)
	tests := []struct {
		name  string
		send  func(r *dbustest.Raw) uint32
		error string
	}{
		{"undecodable", func(r *dbustest.Raw) uint32 {
			return r.CallBytes(name, path, iface, "Echo", "a{gs}", []byte(utf8InKey))
		}, props.ErrInvalidArgs},
		{"a write with a long value", func(r *dbustest.Raw) uint32 {
			return r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant(big))
		}, props.ErrLimitsExceeded},
		{"a read with a long body", func(r *dbustest.Raw) uint32 { return r.Call(name, path, getIface, "GetAll", big) }, props.ErrLimitsExceeded},
		{"a long path", func(r *dbustest.Raw) uint32 {
			return r.Call(name, godbus.ObjectPath("/"+big), getIface, "GetAll", iface)
		}, props.ErrLimitsExceeded},
	}
	f := newFixture(t)
	for _, uid := range []int{0, dbustest.OtherUID} {
		r := f.bus.RawAs(t, uid)
		for _, tt := range tests {
			t.Run(fmt.Sprint(tt.name, " of uid ", uid), func(t *testing.T) {
				for range 3 {
					reply := r.Reply(tt.send(r))
					require.Equal(t, godbus.TypeError, reply.Type)
					assert.Equal(t, tt.error, reply.Headers[godbus.FieldErrorName].Value())
					assert.Less(t, len(reply.Body[0].(string)), 300)
				}
				reply := r.Reply(r.Call(name, path, getIface, "Get", iface, "Text"))
				assert.Equal(t, godbus.TypeMethodReply, reply.Type)
			})
		}
	}
	assert.NoError(t, f.svc.Err())
	assert.Empty(t, f.stored())
	assert.Contains(t, f.log.String(), "refused a message")
}

// Who wants no answer gets none to that either.
func TestMessageThatIsNotTakenWithoutReply(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	b, _ := r.Message(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant(strings.Repeat("x", props.MaxMessage)))
	b.Bytes()[2] |= byte(godbus.FlagNoReplyExpected)
	r.Write(b.Bytes())
	last := r.Call(name, path, iface, "Echo", "end")
	for answered := uint32(0); answered != last; {
		var ok bool
		if answered, ok = r.Next().Headers[godbus.FieldReplySerial].Value().(uint32); ok {
			require.Equal(t, last, answered)
		}
	}
	assert.Empty(t, f.stored())
}

// A client that never reads, floods with reads and refused writes, and leaves
// in the middle of a call changes nothing for others.
func TestFloodsAndHangsHurtNobodyElse(t *testing.T) {
	f := newFixture(t)
	floods := []func(r *dbustest.Raw){
		func(r *dbustest.Raw) { r.Call(name, path, getIface, "GetAll", iface) },
		func(r *dbustest.Raw) { r.Call(name, path, "org.freedesktop.DBus.Introspectable", "Introspect") },
		func(r *dbustest.Raw) { r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("no")) },
		func(r *dbustest.Raw) { r.Call(name, path, getIface, "Set", iface, "Fixed", godbus.MakeVariant("no")) },
	}
	for _, flood := range floods {
		for _, uid := range []int{0, dbustest.OtherUID} {
			r := f.bus.RawAs(t, uid)
			for range 500 {
				flood(r)
			}
			t.Cleanup(r.Close)
		}
	}
	c := f.bus.Connect(t)
	for i := range 100 {
		value := fmt.Sprint("mine ", i)
		require.NoError(t, set(c, "Number", uint32(i)))
		f.obj.Update(props.Change{Interface: iface, Property: "Shown", Value: value})
		v, err := get(c, "Shown")
		require.NoError(t, err)
		assert.Equal(t, value, v)
	}
	half := f.bus.Raw(t)
	b, _ := half.Message(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("half a message"))
	half.Write(b.Bytes()[:b.Len()-3])
	half.Close()
	assert.NoError(t, set(c, "Number", uint32(1)))
}

// A bus that hangs blocks no publisher; what waits for it stays short, and the
// newest values get through when it goes on.
func TestHungBusBlocksNobody(t *testing.T) {
	f := newFixture(t)
	w := watch(t, f.bus)
	f.bus.Pause(t)
	const updates = 50_000
	for i := range updates {
		f.obj.Update(props.Change{Interface: iface, Property: "Number", Value: uint32(i + 1)})
		if i%1000 == 0 {
			p := godbus.ObjectPath(fmt.Sprintf("/test/r%d", i))
			_, err := f.svc.Add(p, f.impl())
			require.NoError(t, err)
			f.svc.Remove(p)
		}
	}
	assert.LessOrEqual(t, f.svc.Queued(), 2*props.CompactAt)
	f.bus.Resume(t)
	last := uint32(0)
	for last != updates {
		s := next(w)
		if s.Path != path || s.Member != "PropertiesChanged" {
			continue
		}
		got := s.Body[1].(map[string]godbus.Variant)["Number"].Value().(uint32)
		require.Greater(t, got, last)
		last = got
	}
}

func TestCloseOnAHungBus(t *testing.T) {
	f := newFixture(t)
	f.bus.Pause(t)
	defer f.bus.Resume(t)
	for i := range 20_000 {
		f.obj.Update(props.Change{Interface: iface, Property: "Text", Value: fmt.Sprint(strings.Repeat("x", 1000), i)})
	}
	done := make(chan struct{})
	go func() {
		assert.NoError(t, f.svc.Close())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Close waits for a bus that hangs")
	}
}
