package dbus_test

import (
	"os"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

type options = map[string]godbus.Variant

const hostOn = prefix + "State.Host.Transition.On"

func submit(c *godbus.Conn, client, request, transition string, o options) *godbus.Call {
	return call(c.Object(openbmc.IfaceQueue, queuePath), openbmc.IfaceQueue+".Submit", client, request, transition, o)
}

func TestSubmit(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	f.backend.answers(engine.Answer{Status: state.Pending, Seq: 9, Object: true, Repeated: true})
	var status string
	var request godbus.ObjectPath
	var repeated bool
	o := options{"cause": godbus.MakeVariant("because"), "expires": godbus.MakeVariant(uint64(1_500_000))}
	require.NoError(t, submit(c, "cli", "42", prefix+"State.Chassis.Transition.PowerCycle", o).Store(&status, &request, &repeated))
	assert.Equal(t, prefix+"State.TransitionRequest.Status.Pending", status)
	assert.Equal(t, godbus.ObjectPath("/xyz/openbmc_project/state/queue0/request/9"), request)
	assert.True(t, repeated)
	events := f.backend.take()
	require.Len(t, events, 1)
	assert.Equal(t, engine.Submit{Domain: 0, Client: "cli", Request: "42", Op: state.ChassisPowerCycle, Cause: "because", Expires: 1500 * time.Millisecond}, bare(events[0]))

	f.backend.answers(engine.Answer{Status: state.Invalid, Seq: 10})
	require.NoError(t, submit(c, "cli", "43", hostOn, options{}).Store(&status, &request, &repeated))
	assert.Equal(t, prefix+"State.TransitionRequest.Status.Invalid", status, "a status, not an error")
	assert.Equal(t, godbus.ObjectPath("/"), request)
}

func TestSubmitRefusesBadArguments(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	long := strings.Repeat("ä", 64) + "x" // 129 bytes
	v := func(x any) options { return options{"expires": godbus.MakeVariant(x)} }
	tests := []struct {
		name                        string
		client, request, transition string
		options                     options
		want                        string
	}{
		{"reserved client", "property", "1", hostOn, nil, "Common.Error.InvalidArgument"},
		{"internal client", "internal.restore", "1", hostOn, nil, "Common.Error.InvalidArgument"},
		{"empty client", "", "1", hostOn, nil, "Common.Error.InvalidArgument"},
		{"empty request", "a", "", hostOn, nil, "Common.Error.InvalidArgument"},
		{"long client", long, "1", hostOn, nil, "Common.Error.InvalidArgument"},
		{"long request", "a", long, hostOn, nil, "Common.Error.InvalidArgument"},
		{"unprintable", "a\n", "1", hostOn, nil, "Common.Error.InvalidArgument"},
		{"unprintable request", "a", "\u202e", hostOn, nil, "Common.Error.InvalidArgument"},
		{"short transition", "a", "1", "On", nil, "Common.Error.InvalidArgument"},
		{"no transition", "a", "1", "", nil, "Common.Error.InvalidArgument"},
		{"BMC transition", "a", "1", prefix + "State.BMC.Transition.Reboot", nil, "Common.Error.InvalidArgument"},
		{"unknown option", "a", "1", hostOn, options{"force": godbus.MakeVariant(true)}, "Common.Error.InvalidArgument"},
		{"expires 0", "a", "1", hostOn, v(uint64(0)), "Common.Error.InvalidArgument"},
		{"expires too late", "a", "1", hostOn, v(uint64(1) << 63), "Common.Error.InvalidArgument"},
		{"long cause", "a", "1", hostOn, options{"cause": godbus.MakeVariant(long + long)}, "Common.Error.InvalidArgument"},
		{"expires of type u", "a", "1", hostOn, v(uint32(1)), "org.freedesktop.DBus.Error.InvalidArgs"},
		{"cause of type t", "a", "1", hostOn, options{"cause": godbus.MakeVariant(uint64(1))}, "org.freedesktop.DBus.Error.InvalidArgs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if !strings.HasPrefix(want, "org.") {
				want = prefix + want
			}
			if tt.options == nil {
				tt.options = options{}
			}
			assert.Equal(t, want, errorName(submit(c, tt.client, tt.request, tt.transition, tt.options).Err))
		})
	}
	assert.Empty(t, f.backend.take())
	edge := strings.Repeat("ä", 64)
	assert.NoError(t, submit(c, edge, edge+"", hostOn, options{}).Err, "128 bytes are enough for everybody")
}

func TestRefusalsOfMethods(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	const q = prefix + "State.TransitionQueue.Error."
	tests := []struct {
		code engine.Code
		want string
	}{
		{engine.CodeIDConflict, q + "IdConflict"},
		{engine.CodeBusy, q + "Busy"},
		{engine.CodeFull, q + "Full"},
		{engine.CodeUnknownRequest, q + "UnknownRequest"},
		{engine.CodeUnavailable, prefix + "Common.Error.Unavailable"},
		{engine.CodeInvalidArgument, prefix + "Common.Error.InvalidArgument"},
		{engine.CodeNotAllowed, prefix + "Common.Error.NotAllowed"},
		{engine.CodeBMCNotReady, prefix + "State.Host.Error.BMCNotReady"},
		{engine.CodeAccessDenied, "org.freedesktop.DBus.Error.AccessDenied"},
	}
	object := c.Object(openbmc.IfaceQueue, queuePath)
	for _, tt := range tests {
		f.backend.answers(engine.Answer{Err: &engine.Refusal{Code: tt.code, Text: "the reason"}})
		for _, err := range []error{
			submit(c, "a", "1", hostOn, options{}).Err,
			call(object, openbmc.IfaceQueue+".Lookup", "a", "1").Err,
			call(object, openbmc.IfaceQueue+".Cancel", "a", "1").Err,
			call(object, openbmc.IfaceQueue+".History", uint64(0), uint32(1)).Err,
		} {
			assert.Equal(t, tt.want, errorName(err))
			assert.EqualError(t, err, "the reason")
		}
	}
	f.backend.answers(engine.Answer{Err: &engine.Refusal{Code: engine.CodeBMCNotReady}})
	assert.Equal(t, prefix+"State.Chassis.Error.BMCNotReady", errorName(submit(c, "a", "1", prefix+"State.Chassis.Transition.On", options{}).Err))
}

func TestLookupCancelHistory(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	object := c.Object(openbmc.IfaceQueue, "/xyz/openbmc_project/state/queue1")
	var status string
	var path godbus.ObjectPath

	f.backend.answers(engine.Answer{Status: state.Superseded, Seq: 4, Object: true})
	require.NoError(t, call(object, openbmc.IfaceQueue+".Lookup", state.PropertyClient, "4").Store(&status, &path))
	assert.Equal(t, prefix+"State.TransitionRequest.Status.Superseded", status)
	assert.Equal(t, openbmc.RequestPath(1, 4), path)
	assert.Equal(t, engine.Lookup{Domain: 1, Client: "property", Request: "4"}, bare(f.backend.take()[0]))

	f.backend.answers(engine.Answer{Status: state.Cancelled})
	require.NoError(t, call(object, openbmc.IfaceQueue+".Cancel", state.PropertyClient, "4").Store(&status))
	assert.Equal(t, prefix+"State.TransitionRequest.Status.Cancelled", status)
	assert.Equal(t, engine.Cancel{Domain: 1, Client: "property", Request: "4"}, bare(f.backend.take()[0]))

	f.backend.answers(engine.Answer{Err: &engine.Refusal{Code: engine.CodeRunning}})
	require.NoError(t, call(object, openbmc.IfaceQueue+".Cancel", "a", "4").Store(&status))
	assert.Equal(t, prefix+"State.TransitionRequest.Status.Running", status, "a line step answers RUNNING")
	f.backend.take()

	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(call(object, openbmc.IfaceQueue+".Lookup", "internal.x", "4").Err))
	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(call(object, openbmc.IfaceQueue+".Cancel", "", "4").Err))

	f.backend.answers(engine.Answer{Requests: []state.Request{
		{Seq: 7, Key: state.Key{UID: 5, Client: "c", Request: "r"}, Op: state.HostOff, Status: state.Failed, Reason: "stuck",
			Accepted: state.Instant{Wall: time.UnixMicro(1)}, Started: state.Instant{Wall: time.UnixMicro(2)}, Ended: state.Instant{Wall: time.UnixMicro(3)}, Superseded: []uint64{1, 2}},
		{Seq: 8, Op: state.ChassisOn, Status: state.Noop},
	}})
	var rows []map[string]godbus.Variant
	require.NoError(t, call(object, openbmc.IfaceQueue+".History", uint64(6), uint32(1<<31)).Store(&rows))
	require.Len(t, rows, 2)
	v := godbus.MakeVariant
	assert.Equal(t, map[string]godbus.Variant{
		"Sequence": v(uint64(7)), "Uid": v(uint32(5)), "ClientId": v("c"), "RequestId": v("r"), "Transition": v(prefix + "State.Host.Transition.Off"),
		"Status": v(prefix + "State.TransitionRequest.Status.Failed"), "Reason": v("stuck"),
		"Accepted": v(uint64(1)), "Started": v(uint64(2)), "Ended": v(uint64(3)), "Superseded": v([]uint64{1, 2}),
	}, rows[0])
	assert.Equal(t, []uint64{}, rows[1]["Superseded"].Value())
	got := bare(f.backend.take()[0]).(engine.History)
	assert.Equal(t, uint64(6), got.After)
	assert.Equal(t, uint32(1024), got.Max, "a page is bounded")

	f.backend.answers(engine.Answer{})
	assert.Equal(t, "aa{sv} 0", f.bus.Busctl(t, "call", openbmc.IfaceQueue, string(queuePath), openbmc.IfaceQueue, "History", "tu", "0", "10"))
}

func TestRequestObjects(t *testing.T) {
	f := newFixture(t)
	path := openbmc.RequestPath(0, 12)
	w := f.bus.Raw(t)
	w.Reply(w.Call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "type='signal',sender='"+openbmc.IfaceQueue+"'"))
	next := func() *godbus.Message {
		for {
			if m := w.Next(); m.Type == godbus.TypeSignal && m.Headers[godbus.FieldSender].Value() != "org.freedesktop.DBus" {
				return m
			}
		}
	}
	r := state.Request{Seq: 12, Key: state.Key{UID: 1, Client: "c", Request: "r"}, Op: state.HostOn, Status: state.Pending, Accepted: state.Instant{Wall: time.UnixMicro(1000)}}
	f.srv.PublishRequest(0, r)
	added := next()
	assert.Equal(t, "InterfacesAdded", added.Headers[godbus.FieldMember].Value())
	assert.Equal(t, openbmc.StateRoot, added.Headers[godbus.FieldPath].Value())
	assert.Equal(t, path, added.Body[0])
	ifaces := added.Body[1].(map[string]map[string]godbus.Variant)
	assert.Len(t, ifaces, 3)
	assert.Equal(t, prefix+"State.TransitionRequest.Status.Pending", ifaces[openbmc.IfaceRequest]["Status"].Value())
	assert.Equal(t, prefix+"Common.Progress.OperationStatus.NotStarted", ifaces[openbmc.IfaceProgress]["Status"].Value())
	assert.Equal(t, uint64(1000), ifaces[openbmc.IfaceProgress]["StartTime"].Value())

	r.Status, r.Ended, r.Reason = state.Noop, state.Instant{Wall: time.UnixMicro(2000)}, "already so"
	f.srv.PublishRequest(0, r)
	var changes []string
	for range 5 {
		m := next()
		for property := range m.Body[1].(map[string]godbus.Variant) {
			changes = append(changes, m.Body[0].(string)[len(prefix):]+"."+property)
		}
	}
	assert.Equal(t, []string{"State.TransitionRequest.Ended", "State.TransitionRequest.Reason", "Common.Progress.CompletedTime",
		"Common.Progress.Status", "State.TransitionRequest.Status"}, changes, "who sees the Status can read the rest")
	f.srv.RemoveRequest(0, 12)
	removed := next()
	assert.Equal(t, "InterfacesRemoved", removed.Headers[godbus.FieldMember].Value())
	assert.Equal(t, []any{path, []string{openbmc.IfaceRequest, openbmc.IfaceProgress, openbmc.IfaceDelete}}, removed.Body)
}

func TestRequestMethods(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	f.srv.PublishRequest(1, state.Request{Seq: 3, Op: state.HostOn, Status: state.Running})
	object := c.Object(openbmc.IfaceQueue, openbmc.RequestPath(1, 3))

	require.NoError(t, call(object, openbmc.IfaceRequest+".Cancel").Err)
	require.NoError(t, call(object, openbmc.IfaceDelete+".Delete").Err)
	events := f.backend.take()
	require.Len(t, events, 2)
	assert.Equal(t, engine.Cancel{Domain: 1, Seq: 3}, bare(events[0]))
	assert.Equal(t, engine.Dismiss{Domain: 1, Seq: 3}, bare(events[1]))

	for code, want := range map[engine.Code]string{
		engine.CodeRunning: openbmc.ErrNotAllowed, engine.CodeNotAllowed: openbmc.ErrNotAllowed,
		engine.CodeAccessDenied: "org.freedesktop.DBus.Error.AccessDenied", engine.CodeUnknownRequest: openbmc.ErrUnknownRequest,
	} {
		f.backend.answers(engine.Answer{Err: &engine.Refusal{Code: code}})
		assert.Equal(t, want, errorName(call(object, openbmc.IfaceRequest+".Cancel").Err))
		assert.Equal(t, want, errorName(call(object, openbmc.IfaceDelete+".Delete").Err))
	}
}

// Texts come from everywhere; none may make an object unreadable.
func TestTextsFitForDBus(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	f.srv.PublishRequest(0, state.Request{Seq: 1, Op: state.HostOn, Status: state.Failed, Reason: "a\x00b\xffc"})
	assert.Equal(t, "a\uFFFDb\uFFFDc", get(t, c, openbmc.IfaceQueue, openbmc.RequestPath(0, 1), openbmc.IfaceRequest, "Reason"))
	f.backend.answers(engine.Answer{Err: &engine.Refusal{Code: engine.CodeUnavailable, Text: "\xff"}})
	err := submit(c, "a", "1", hostOn, options{}).Err
	assert.Equal(t, openbmc.ErrUnavailable, errorName(err))
	assert.EqualError(t, err, "\uFFFD")
}

func TestDeliveries(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	f.backend.answers(engine.Answer{Deliveries: []engine.Delivery{
		{Arrived: time.Second, Key: state.Key{UID: 1, Client: "c", Request: "r"}, Op: state.ChassisOff, Seq: 2, Repeat: true, Delayed: true},
	}})
	var rows []map[string]godbus.Variant
	object := c.Object(openbmc.IfaceQueue, queuePath)
	require.NoError(t, call(object, openbmc.IfaceQueue+".Deliveries").Store(&rows))
	v := godbus.MakeVariant
	assert.Equal(t, []map[string]godbus.Variant{{
		"Arrived": v(uint64(1_000_000)), "Uid": v(uint32(1)), "ClientId": v("c"), "RequestId": v("r"), "Sequence": v(uint64(2)),
		"Transition": v(prefix + "State.Chassis.Transition.Off"), "Repeat": v(true), "Delayed": v(true),
	}}, rows)
}

func TestNoObjectForWhatIsNoopOrInvalidAtOnce(t *testing.T) {
	f := newFixture(t)
	f.srv.PublishRequest(0, state.Request{Seq: 1, Op: state.HostOn, Status: state.Noop})
	f.srv.PublishRequest(0, state.Request{Seq: 2, Op: state.HostOn, Status: state.Invalid})
	f.srv.RemoveRequest(0, 99)
	var managed map[godbus.ObjectPath]map[string]map[string]godbus.Variant
	c := f.bus.Connect(t)
	require.NoError(t, call(c.Object(openbmc.IfaceQueue, openbmc.StateRoot), "org.freedesktop.DBus.ObjectManager.GetManagedObjects").Store(&managed))
	assert.Len(t, managed, 2, "the two queues")
}

func TestDriveLines(t *testing.T) {
	f := newFixture(t)
	object := f.bus.Connect(t).Object(openbmc.IfaceQueue, queuePath)
	for direction, on := range map[string]bool{"on": true, "off": false} {
		require.NoError(t, object.Call(openbmc.IfaceQueue+".DriveLines", 0, direction).Err)
		events := f.backend.take()
		require.Len(t, events, 1)
		ev := events[0].(engine.DriveLines)
		assert.Equal(t, on, ev.On)
		assert.Equal(t, uint32(os.Getuid()), ev.Caller.UID)
	}
	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(object.Call(openbmc.IfaceQueue+".DriveLines", 0, "up").Err))
	for code, want := range map[engine.Code]string{engine.CodeNotAllowed: openbmc.ErrNotAllowed, engine.CodeAccessDenied: "org.freedesktop.DBus.Error.AccessDenied"} {
		f.backend.answers(engine.Answer{Err: &engine.Refusal{Code: code}})
		assert.Equal(t, want, errorName(object.Call(openbmc.IfaceQueue+".DriveLines", 0, "on").Err))
	}
}
