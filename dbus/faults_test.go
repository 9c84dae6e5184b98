package dbus_test

import (
	"context"
	"sync/atomic"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state/engine"
)

func TestFaultMonitorObjects(t *testing.T) {
	bus := dbustest.Start(t)
	calls := make(chan dbus.FaultCall, 1)
	var refusal atomic.Pointer[engine.Refusal]
	srv, err := dbus.New(context.Background(), dbus.Options{
		Address: bus.Address, Backend: new(backend), FaultResources: []string{"web@1.service"},
		Faults: func(c dbus.FaultCall) {
			r := c.Reply
			c.Reply = nil
			calls <- c
			r(refusal.Load(), []dbus.FaultRecord{{At: 7, Decision: "RESTART", Text: "x\x00y", Sum: 100}})
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	require.NoError(t, srv.Start(t.Context()))

	const path = godbus.ObjectPath("/xyz/openbmc_project/state/fault_monitor/web_401_2eservice")
	c := bus.Connect(t)
	object := c.Object(openbmc.IfaceFault, path)
	assert.Equal(t, "UNKNOWN", get(t, c, openbmc.IfaceFault, path, openbmc.IfaceFault, "Status"))
	srv.ShowFault(dbus.Fault{Name: "web@1.service", Status: "DEGRADED", FailureSum: 50, RetryCount: -1, RetryInterval: -1, LastFailure: 9})
	for property, want := range map[string]any{
		"Name": "web@1.service", "Status": "DEGRADED", "FailureSum": uint32(50), "RetryCount": int32(-1),
		"RetryInterval": int64(-1), "LastFailure": uint64(9),
	} {
		assert.Equal(t, want, get(t, c, openbmc.IfaceFault, path, openbmc.IfaceFault, property), property)
	}

	const m = openbmc.IfaceFault + "."
	for _, step := range []struct {
		do   func() error
		want dbus.FaultCall
	}{
		{func() error { return call(object, m+"Suspend", "me", uint64(1500)).Err },
			dbus.FaultCall{Op: dbus.FaultSuspend, Owner: "me", Lasts: 1500e3}},
		{func() error { return call(object, m+"Resume", "me").Err }, dbus.FaultCall{Op: dbus.FaultResume, Owner: "me"}},
		{func() error { return call(object, m+"Reset").Err }, dbus.FaultCall{Op: dbus.FaultReset}},
		{func() error { return call(object, m+"ProbeNow").Err }, dbus.FaultCall{Op: dbus.FaultProbe}},
		{func() error { return set(c, openbmc.IfaceFault, path, openbmc.IfaceFault, "RetryCount", int32(5)) },
			dbus.FaultCall{Op: dbus.FaultRetryCount, Value: 5}},
		{func() error { return set(c, openbmc.IfaceFault, path, openbmc.IfaceFault, "RetryInterval", int64(-1)) },
			dbus.FaultCall{Op: dbus.FaultRetryInterval, Value: -1}},
	} {
		require.NoError(t, step.do())
		got := <-calls
		step.want.Resource, step.want.UID = "web@1.service", got.UID
		assert.Equal(t, step.want, got)
	}

	var rows []map[string]godbus.Variant
	require.NoError(t, call(object, m+"GetHistory", uint32(3)).Store(&rows))
	assert.Equal(t, 3, (<-calls).Max)
	require.Len(t, rows, 1)
	assert.Equal(t, "RESTART", rows[0]["Decision"].Value())

	refusal.Store(&engine.Refusal{Code: engine.CodeInvalidArgument, Text: "no"})
	err = set(c, openbmc.IfaceFault, path, openbmc.IfaceFault, "RetryCount", int32(500))
	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(err))
	<-calls
	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(call(object, m+"Suspend", "a\nb", uint64(0)).Err))
	assert.Empty(t, calls, "a bad owner reaches nobody")
}
