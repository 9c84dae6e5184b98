package scenarios

import (
	"fmt"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// subscription is the signals of one kind, in the order of the bus. Its channel
// has all of the connection's, and what is of another kind is passed over.
type subscription struct {
	ch   chan *godbus.Signal
	name string
}

// subscribe returns the signals of one kind from now on. It has room for all of a
// test: godbus reorders what a channel has no room for.
func (d *daemon) subscribe(iface, member string) subscription {
	d.t.Helper()
	return d.listen(iface, member, 100_000)
}

func (d *daemon) listen(iface, member string, room int) subscription {
	d.t.Helper()
	s := subscription{make(chan *godbus.Signal, room), iface + "." + member}
	d.conn.Signal(s.ch)
	require.NoError(d.t, d.conn.AddMatchSignal(godbus.WithMatchInterface(iface), godbus.WithMatchMember(member)))
	return s
}

// change is one property that a PropertiesChanged carried.
type change struct {
	path, iface, prop string
	value             any
	invalidated       int
}

func changeOf(s *godbus.Signal) []change {
	var all []change
	for prop, v := range s.Body[1].(map[string]godbus.Variant) {
		all = append(all, change{string(s.Path), s.Body[0].(string), prop, v.Value(), len(s.Body[2].([]string))})
	}
	return all
}

// drain returns the changes that were signalled until now.
func (d *daemon) drain(signals subscription) (all []change) {
	d.t.Helper()
	for _, s := range d.drainSignals(signals) {
		all = append(all, changeOf(s)...)
	}
	return all
}

// drainSignals is drain with the signals as they came. The queue's history is
// answered after all that the engine has published, a ping after all that its
// service has sent, and our own signal comes last.
func (d *daemon) drainSignals(signals subscription) (all []*godbus.Signal) {
	d.t.Helper()
	d.records()
	for _, name := range append([]string{bmcName, chassisName}, d.names...) {
		require.NoError(d.t, d.call(name, "/", "org.freedesktop.DBus.Peer.Ping").Err)
	}
	d.fences++
	fence := godbus.ObjectPath(fmt.Sprintf("/fence/%d", d.fences))
	require.NoError(d.t, d.conn.Emit(fence, propsIface+".PropertiesChanged", "", map[string]godbus.Variant{}, []string{}))
	d.await(signals, "our own signal", func(s *godbus.Signal) bool {
		if s == nil {
			return false
		}
		if s.Path != fence {
			all = append(all, s)
		}
		return s.Path == fence
	})
	return all
}
