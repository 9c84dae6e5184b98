package dbus_test

import (
	"os"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

const prefix = "xyz.openbmc_project."

// place is where a property is.
type place struct {
	service string
	path    godbus.ObjectPath
	iface   string
}

var (
	host     = place{"Host1", "/xyz/openbmc_project/state/host1", prefix + "State.Host"}
	boot     = place{"Host1", "/xyz/openbmc_project/state/host1", prefix + "State.Boot.Progress"}
	opsys    = place{"Host1", "/xyz/openbmc_project/state/host1", prefix + "State.OperatingSystem.Status"}
	attempts = place{"Host1", "/xyz/openbmc_project/state/host1", prefix + "Control.Boot.RebootAttempts"}
	chassis  = place{"Chassis1", "/xyz/openbmc_project/state/chassis1", prefix + "State.Chassis"}
	hours    = place{"Chassis1", "/xyz/openbmc_project/state/chassis1", prefix + "State.PowerOnHours"}
	bmc      = place{"BMC", "/xyz/openbmc_project/state/bmc0", prefix + "State.BMC"}
	schedule = place{"ScheduledHostTransition1", "/xyz/openbmc_project/scheduled/host1", prefix + "State.ScheduledHostTransition"}
	queue    = place{"TransitionQueue", queuePath, prefix + "State.TransitionQueue"}

	hostObject     = state.Object{Kind: state.KindHost, Index: 1}
	chassisObject  = state.Object{Kind: state.KindChassis, Index: 1}
	bmcObject      = state.Object{Kind: state.KindBMC}
	scheduleObject = state.Object{Kind: state.KindSchedule, Index: 1}
)

func (p place) set(c *godbus.Conn, property string, v any) error {
	return set(c, prefix+"State."+p.service, p.path, p.iface, property, v)
}

// writable is every writable property with a good value and what becomes of it.
var writable = []struct {
	at       place
	property string
	value    any
	want     engine.Event
}{
	{host, "RequestedHostTransition", prefix + "State.Host.Transition.GracefulWarmReboot", engine.Write{Object: hostObject, Op: state.HostGracefulWarmReboot}},
	{chassis, "RequestedPowerTransition", prefix + "State.Chassis.Transition.Off", engine.Write{Object: chassisObject, Op: state.ChassisOff}},
	{bmc, "RequestedBMCTransition", prefix + "State.BMC.Transition.None", engine.Write{Object: bmcObject, Op: state.BMCNone}},
	{host, "CurrentHostState", prefix + "State.Host.HostState.TransitioningToOff", engine.Set{Object: hostObject, Prop: engine.PropHostState, Value: 1}},
	{host, "RestartCause", prefix + "State.Host.RestartCause.WatchdogTimer", engine.Set{Object: hostObject, Prop: engine.PropRestartCause, Value: 4}},
	{boot, "BootProgress", prefix + "State.Boot.Progress.ProgressStages.OEM", engine.Set{Object: hostObject, Prop: engine.PropBootProgress, Value: 11}},
	{boot, "BootProgressLastUpdate", uint64(1700000000000000), engine.Set{Object: hostObject, Prop: engine.PropBootProgressUpdate, Value: 1700000000000000}},
	{opsys, "OperatingSystemState", prefix + "State.OperatingSystem.Status.OSStatus.CBoot", engine.Set{Object: hostObject, Prop: engine.PropOSState, Value: 0}},
	{attempts, "AttemptsLeft", uint32(7), engine.Set{Object: hostObject, Prop: engine.PropAttemptsLeft, Value: 7}},
	{attempts, "RetryAttempts", uint32(8), engine.Set{Object: hostObject, Prop: engine.PropRetryAttempts, Value: 8}},
	{chassis, "CurrentPowerState", prefix + "State.Chassis.PowerState.TransitioningToOn", engine.Set{Object: chassisObject, Prop: engine.PropPowerState, Value: 3}},
	{chassis, "CurrentPowerStatus", prefix + "State.Chassis.PowerStatus.BrownOut", engine.Set{Object: chassisObject, Prop: engine.PropPowerStatus, Value: 1}},
	{chassis, "LastStateChangeTime", uint64(9), engine.Set{Object: chassisObject, Prop: engine.PropLastStateChange, Value: 9}},
	{hours, "POHCounter", uint32(10), engine.Set{Object: chassisObject, Prop: engine.PropPOHCounter, Value: 10}},
	{bmc, "CurrentBMCState", prefix + "State.BMC.BMCState.UpdateInProgress", engine.Set{Object: bmcObject, Prop: engine.PropBMCState, Value: 2}},
	{bmc, "LastRebootTime", uint64(11), engine.Set{Object: bmcObject, Prop: engine.PropLastRebootTime, Value: 11}},
	{bmc, "LastRebootCause", prefix + "State.BMC.RebootCause.Software", engine.Set{Object: bmcObject, Prop: engine.PropLastRebootCause, Value: 3}},
	{schedule, "ScheduledTime", uint64(12), engine.Set{Object: scheduleObject, Prop: engine.PropScheduledTime, Value: 12}},
	{schedule, "ScheduledTransition", prefix + "State.Host.Transition.Reboot", engine.Set{Object: scheduleObject, Prop: engine.PropScheduledTransition, Value: uint64(state.HostReboot)}},
}

// bare removes what a test does not compare.
func bare(e engine.Event) engine.Event {
	switch e := e.(type) {
	case engine.Write:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	case engine.Set:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	case engine.Submit:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	case engine.Lookup:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	case engine.Cancel:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	case engine.Dismiss:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	case engine.History:
		e.Caller, e.Reply = engine.Caller{}, nil
		return e
	}
	return e
}

func TestWritesReachTheEngine(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	for _, tt := range writable {
		require.NoError(t, tt.at.set(c, tt.property, tt.value), tt.property)
		events := f.backend.take()
		require.Len(t, events, 1, tt.property)
		assert.Equal(t, tt.want, bare(events[0]), tt.property)
	}
	require.NoError(t, host.set(c, "RestartCause", prefix+"State.Host.RestartCause.Unknown"))
	assert.Equal(t, engine.Caller{UID: uint32(os.Geteuid()), Sender: c.Names()[0]}, f.backend.take()[0].(engine.Set).Caller)
}

// Every property of every state object is in the table above, or read-only.
func TestEveryPropertyIsWritableButTheConst(t *testing.T) {
	known := make(map[string]bool)
	for _, w := range writable {
		known[w.property] = true
	}
	f := newFixture(t)
	c := f.bus.Connect(t)
	readOnly := 0
	for _, at := range []place{host, boot, opsys, attempts, chassis, hours, bmc, schedule} {
		var all map[string]godbus.Variant
		require.NoError(t, call(c.Object(prefix+"State."+at.service, at.path), getset+".GetAll", at.iface).Store(&all))
		for property, value := range all {
			if known[property] {
				continue
			}
			readOnly++
			assert.Equal(t, "AllowedHostTransitions", property)
			assert.Equal(t, "org.freedesktop.DBus.Error.PropertyReadOnly", errorName(at.set(c, property, value.Value())))
		}
	}
	assert.Equal(t, 1, readOnly)
	assert.Empty(t, f.backend.take())
}

func TestBadValues(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	for _, w := range writable {
		good, isEnum := w.value.(string)
		if !isEnum {
			assert.Equal(t, "org.freedesktop.DBus.Error.InvalidArgs", errorName(w.at.set(c, w.property, "1")), w.property)
			continue
		}
		short := good[strings.LastIndexByte(good, '.')+1:]
		bad := []string{"", short, "." + short, good + "x", " " + good, strings.TrimSuffix(good, short), strings.TrimSuffix(good, short) + "Sideways",
			strings.ToLower(good), prefix + "State.Decorator." + short}
		for _, v := range bad {
			assert.Equal(t, openbmc.ErrInvalidArgument, errorName(w.at.set(c, w.property, v)), "%s %q", w.property, v)
		}
		assert.Equal(t, "org.freedesktop.DBus.Error.InvalidArgs", errorName(w.at.set(c, w.property, uint32(1))), w.property)
	}
	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(host.set(c, "RequestedHostTransition", prefix+"State.Chassis.Transition.On")))
	assert.Equal(t, openbmc.ErrInvalidArgument, errorName(chassis.set(c, "RequestedPowerTransition", prefix+"State.Chassis.Transition.Reset")))
	assert.Empty(t, f.backend.take(), "a bad value reached the engine")
}

func TestOtherUIDMayReadEverythingAndWriteNothing(t *testing.T) {
	f := newFixture(t)
	f.srv.PublishRequest(0, state.Request{Seq: 5, Op: state.HostOn, Status: state.Pending})
	request := place{"TransitionQueue", openbmc.RequestPath(0, 5), openbmc.IfaceRequest}
	progress := place{"TransitionQueue", openbmc.RequestPath(0, 5), openbmc.IfaceProgress}
	c := f.bus.ConnectAs(t, dbustest.OtherUID)
	for _, at := range []place{host, boot, opsys, attempts, chassis, hours, bmc, schedule, queue, request, progress} {
		var all map[string]godbus.Variant
		require.NoError(t, call(c.Object(prefix+"State."+at.service, at.path), getset+".GetAll", at.iface).Store(&all))
		require.NotEmpty(t, all)
		for property, value := range all {
			assert.Equal(t, value.Value(), get(t, c, prefix+"State."+at.service, at.path, at.iface, property))
			assert.Equal(t, "org.freedesktop.DBus.Error.AccessDenied", errorName(at.set(c, property, value.Value())), property)
		}
	}
	for _, w := range writable {
		assert.Equal(t, "org.freedesktop.DBus.Error.AccessDenied", errorName(w.at.set(c, w.property, w.value)), w.property)
	}
	q := c.Object(openbmc.IfaceQueue, queuePath)
	r := c.Object(openbmc.IfaceQueue, openbmc.RequestPath(0, 5))
	for _, m := range openbmc.Queue.Methods { // whatever the arguments
		assert.Equal(t, "org.freedesktop.DBus.Error.AccessDenied", errorName(call(q, openbmc.IfaceQueue+"."+m.Name).Err), m.Name)
	}
	for _, err := range []error{
		call(q, openbmc.IfaceQueue+".Submit", "a", "b", prefix+"State.Host.Transition.On", map[string]godbus.Variant{}).Err,
		call(q, openbmc.IfaceQueue+".Lookup", "a", "b").Err,
		call(q, openbmc.IfaceQueue+".Cancel", "a", "b").Err,
		call(q, openbmc.IfaceQueue+".History", uint64(0), uint32(10)).Err,
		call(r, openbmc.IfaceRequest+".Cancel").Err,
		call(r, openbmc.IfaceDelete+".Delete").Err,
	} {
		assert.Equal(t, "org.freedesktop.DBus.Error.AccessDenied", errorName(err))
	}
	assert.Empty(t, f.backend.take())
}

func TestRefusalsOfWrites(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	writes := map[string]func() error{
		"host":    func() error { return host.set(c, "RequestedHostTransition", prefix+"State.Host.Transition.On") },
		"chassis": func() error { return chassis.set(c, "RequestedPowerTransition", prefix+"State.Chassis.Transition.On") },
		"bmc":     func() error { return bmc.set(c, "RequestedBMCTransition", prefix+"State.BMC.Transition.Reboot") },
		"time":    func() error { return schedule.set(c, "ScheduledTime", uint64(1)) },
	}
	refusal := func(code engine.Code) engine.Answer {
		return engine.Answer{Err: &engine.Refusal{Code: code, Text: "the reason"}}
	}
	tests := []struct {
		write  string
		answer engine.Answer
		want   string
	}{
		{"host", refusal(engine.CodeInvalidArgument), prefix + "Common.Error.InvalidArgument"},
		{"host", refusal(engine.CodeNotAllowed), prefix + "Common.Error.NotAllowed"},
		{"host", refusal(engine.CodeUnavailable), prefix + "Common.Error.Unavailable"},
		{"host", refusal(engine.CodeBusy), prefix + "Common.Error.Unavailable"},
		{"host", refusal(engine.CodeFull), prefix + "Common.Error.Unavailable"},
		{"host", refusal(engine.CodeBMCNotReady), prefix + "State.Host.Error.BMCNotReady"},
		{"chassis", refusal(engine.CodeBMCNotReady), prefix + "State.Chassis.Error.BMCNotReady"},
		{"bmc", refusal(engine.CodeUnavailable), prefix + "Common.Error.Unavailable"},
		{"time", refusal(engine.CodeInvalidTime), prefix + "ScheduledTime.Error.InvalidTime"},
		{"host", refusal(engine.CodeAccessDenied), "org.freedesktop.DBus.Error.AccessDenied"},
		{"host", refusal(engine.CodeRunning), prefix + "Common.Error.NotAllowed"},
		{"host", refusal(99), "org.freedesktop.DBus.Error.Failed"},
		{"host", engine.Answer{Status: state.Invalid, Seq: 3}, prefix + "Common.Error.NotAllowed"},
	}
	for _, tt := range tests {
		f.backend.answers(tt.answer)
		err := writes[tt.write]()
		assert.Equal(t, tt.want, errorName(err))
		if tt.answer.Err != nil {
			assert.EqualError(t, err, "the reason")
		}
	}
	for _, ok := range []state.Status{state.Pending, state.Running, state.Success, state.Noop} {
		f.backend.answers(engine.Answer{Status: ok, Seq: 3})
		assert.NoError(t, writes["host"](), ok.String())
	}
}

// Pipelined writes are all with the engine before the first is answered, in
// order: one commit can serve them all.
func TestPipelinedWritesAreAdmittedTogether(t *testing.T) {
	f := newFixture(t)
	f.backend.hold = true
	r := f.bus.Raw(t)
	ops := []state.Operation{state.HostOff, state.HostOn}
	const n = 5000
	for i := range n {
		r.Call(openbmc.IfaceHost, hostPath, getset, "Set", openbmc.IfaceHost, "RequestedHostTransition",
			godbus.MakeVariant(openbmc.HostTransition.String(ops[i%2])))
	}
	// A refused write is answered at once, and only after all before it were posted.
	r.Reply(r.Call(openbmc.IfaceHost, hostPath, getset, "Set", openbmc.IfaceHost, "Nix", godbus.MakeVariant("")))
	events := f.backend.take()
	require.Len(t, events, n)
	for i, e := range events {
		require.Equal(t, ops[i%2], e.(engine.Write).Op, i)
	}
	for _, reply := range f.backend.held {
		reply()
	}
	for range n {
		for r.Next().Type != godbus.TypeMethodReply {
		}
	}
}

// Reads are answered while the engine answers nothing.
func TestReadsDoNotWaitForTheEngine(t *testing.T) {
	f := newFixture(t)
	f.backend.hold = true
	c := f.bus.Connect(t)
	pending := c.Object(openbmc.IfaceHost, hostPath).Go(getset+".Set", 0, make(chan *godbus.Call, 1),
		openbmc.IfaceHost, "RequestedHostTransition", godbus.MakeVariant(openbmc.HostTransition.String(state.HostOn)))
	for range 100 {
		get(t, c, openbmc.IfaceHost, hostPath, openbmc.IfaceHost, "CurrentHostState")
	}
	select {
	case <-pending.Done:
		t.Fatal("the write was answered before the engine had answered")
	default:
	}
}

// A publication is readable when the write that caused it returns, on every
// connection.
func TestReadYourWrite(t *testing.T) {
	f := newFixture(t)
	var h state.Host
	f.backend.answer = func(e engine.Event) engine.Answer {
		h.RestartCause = state.RestartCause(e.(engine.Set).Value)
		f.srv.PublishHost(0, h)
		return engine.Answer{}
	}
	writer, reader := f.bus.Connect(t), f.bus.Connect(t)
	for i := range 1000 {
		want := openbmc.RestartCause.String(state.RestartCause(i % 10))
		require.NoError(t, set(writer, openbmc.IfaceHost, hostPath, openbmc.IfaceHost, "RestartCause", want))
		require.Equal(t, want, get(t, reader, openbmc.IfaceHost, hostPath, openbmc.IfaceHost, "RestartCause"))
	}
}
