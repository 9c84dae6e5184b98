package props_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/props"
)

const (
	pipelined = 5000
	rounds    = 10 // of each of many clients
)

// pipeline sends Sets without waiting for replies, then collects those, and
// returns how often a handler ran before the one that should have been first.
func pipeline(t *testing.T, f *fixture) (inversions int) {
	t.Helper()
	before := len(f.stored())
	r := f.bus.Raw(t)
	for i := range pipelined {
		r.Call(name, path, getIface, "Set", iface, "Number", godbus.MakeVariant(uint32(i)))
	}
	for range pipelined {
		for r.Next().Type != godbus.TypeMethodReply {
		}
	}
	got := f.stored()[before:]
	require.Len(t, got, pipelined)
	for i := 1; i < len(got); i++ {
		if got[i].(uint32) < got[i-1].(uint32) {
			inversions++
		}
	}
	return inversions
}

func TestPipelinedSetsKeepTheirOrder(t *testing.T) {
	assert.Zero(t, pipeline(t, newFixture(t)))
}

// The test above is worth something: with godbus's own dispatch it fails.
func TestStockDispatchReorders(t *testing.T) {
	f := newFixture(t, func(_ *props.Options, s *props.Service) {
		if s != nil {
			s.UseStockDispatch()
		}
	})
	for range 20 {
		if pipeline(t, f) > 0 {
			return
		}
	}
	t.Fatal("godbus kept the order of 100,000 calls: the gate may not be needed any more")
}

// A write that has no answer yet holds up neither the sender's later writes nor
// anybody's reads.
func TestNothingWaitsForAnAnswer(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	never := object(c).Go(iface+".Never", 0, make(chan *godbus.Call, 1))
	require.NoError(t, set(c, "Text", "later"))
	v, err := get(c, "Text")
	require.NoError(t, err)
	assert.Equal(t, "later", v)
	select {
	case <-never.Done:
		t.Fatal("answered by whom?")
	default:
	}
}

// A handler that blocks holds up its sender's writes, and nothing else.
func TestBlockedHandlerHoldsOnlyItsSender(t *testing.T) {
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	impl := f.impl()
	impl.Set = func(c *props.Call, _ string, _ any) {
		close(entered)
		<-release
		c.Return()
	}
	_, err := f.svc.Add("/test/slow", impl)
	require.NoError(t, err)
	c := f.bus.Connect(t)
	slow := c.Object(name, "/test/slow").Go(getIface+".Set", 0, make(chan *godbus.Call, 1), iface, "Text", godbus.MakeVariant("x"))
	<-entered
	behind := object(c).Go(iface+".Echo", 0, make(chan *godbus.Call, 1), "x")
	_, err = get(c, "Text") // sent after both
	require.NoError(t, err)
	require.NoError(t, set(f.bus.Connect(t), "Text", "another sender"))
	select {
	case <-behind.Done:
		t.Fatal("a write overtook an earlier one of its sender")
	default:
	}
	close(release)
	assert.NoError(t, (<-slow.Done).Err)
	assert.NoError(t, (<-behind.Done).Err)
}

// Fifty clients read, introspect and write while objects come and go, from
// before the names are owned.
func TestManyClientsWhileObjectsComeAndGo(t *testing.T) {
	f := &fixture{bus: dbustest.Start(t), log: new(safeBuffer)}
	f.build(t)
	clients := make([]*godbus.Conn, 50)
	for i := range clients {
		clients[i] = f.bus.Connect(t)
	}
	require.NoError(t, f.svc.Connect(t.Context(), f.bus.Address))
	var wg sync.WaitGroup
	turn := make(chan struct{})
	wg.Go(func() {
		i := 0
		for range turn {
			i++
			p := godbus.ObjectPath(fmt.Sprintf("/test/dyn/o%d", i%7))
			if _, err := f.svc.Add(p, f.impl()); err != nil {
				f.svc.Remove(p)
			}
		}
	})
	unique := f.svc.UniqueName()
	var work sync.WaitGroup
	for i, c := range clients {
		work.Go(func() {
			o := c.Object(unique, path)
			for n := range rounds {
				turn <- struct{}{}
				assert.NoError(t, call(o, getIface+".Set", iface, "Number", godbus.MakeVariant(uint32(i*100+n))).Err)
				assert.NoError(t, call(o, getIface+".GetAll", iface).Err)
				assert.NoError(t, call(c.Object(unique, root), "org.freedesktop.DBus.Introspectable.Introspect").Err)
				assert.NoError(t, call(c.Object(unique, root), "org.freedesktop.DBus.ObjectManager.GetManagedObjects").Err)
				err := call(c.Object(unique, "/test/dyn/o3"), getIface+".Get", iface, "Text").Err
				assert.Contains(t, []string{"<nil>", props.ErrUnknownObject, props.ErrUnknownInterface}, errorName(err))
			}
		})
	}
	require.NoError(t, f.svc.Own(t.Context()))
	work.Wait()
	close(turn)
	wg.Wait()
	assert.Len(t, f.stored(), len(clients)*rounds)
}

func TestSendersAreForgotten(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	r.Reply(r.Call(name, path, getIface, "Get", iface, "Text"))
	eventually(t, "a reader leaves nothing behind", func() bool { return f.svc.Senders() == 0 })
	r.Reply(r.Call(name, path, getIface, "Set", iface, "Text", godbus.MakeVariant("x")))
	assert.True(t, f.svc.Knows(r.Name), "the uid of a writer is kept")
	r.Close()
	eventually(t, "a writer is forgotten once it has left", func() bool { return f.svc.Senders() == 0 })
}

func TestTooManyOpenCalls(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	// Few at a time: of many refusals at once the last are not told.
	for many := props.MaxCalls * 3 / 4; ; many = 10 {
		for range many {
			r.Call(name, path, iface, "Never")
		}
		answer := r.Reply(r.Call(name, path, getIface, "Get", iface, "Text"))
		if answer.Type == godbus.TypeError {
			assert.Equal(t, props.ErrLimitsExceeded, answer.Headers[godbus.FieldErrorName].Value())
			break
		}
	}
	assert.NoError(t, set(f.bus.Connect(t), "Text", "others are served"))
}

// What waits is bounded in bytes: a few calls with long arguments are as much as
// many with short ones.
func TestTooManyOpenBytes(t *testing.T) {
	f := newFixture(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	impl := f.impl()
	impl.Set = func(c *props.Call, _ string, _ any) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-release
		c.Return()
	}
	_, err := f.svc.Add("/test/slow", impl)
	require.NoError(t, err)
	r := f.bus.Raw(t)
	const size = props.MaxMessage - 1024
	long := godbus.MakeVariant(strings.Repeat("x", size))
	write := func() uint32 { return r.Call(name, "/test/slow", getIface, "Set", iface, "Text", long) }
	first := write()
	<-entered
	for range props.MaxOpen / size {
		write()
	}
	refused := r.Reply(write())
	assert.Equal(t, props.ErrLimitsExceeded, refused.Headers[godbus.FieldErrorName].Value())
	assert.NoError(t, set(f.bus.Connect(t), "Text", "others are served"))
	close(release)
	assert.Equal(t, godbus.TypeMethodReply, r.Reply(first).Type)
	eventually(t, "what was taken is done", func() bool { return f.svc.Open() == 0 })
	assert.Equal(t, godbus.TypeMethodReply, r.Reply(write()).Type)
}

func TestCloseDoesNotWaitForAnswers(t *testing.T) {
	f := newFixture(t)
	r := f.bus.Raw(t)
	r.Call(name, path, iface, "Never")
	r.Reply(r.Call(name, path, iface, "Echo", "after Never"))
	done := make(chan struct{})
	go func() {
		assert.NoError(t, f.svc.Close())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Close hangs")
	}
	assert.ErrorIs(t, f.svc.Err(), props.ErrClosed)
}
