package dbus_test

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

	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 2 * time.Minute
	getset   = "org.freedesktop.DBus.Properties"

	hostPath  = godbus.ObjectPath("/xyz/openbmc_project/state/host0")
	queuePath = godbus.ObjectPath("/xyz/openbmc_project/state/queue0")
)

// backend notes every event and answers it as told.
type backend struct {
	mu     sync.Mutex
	events []engine.Event
	answer func(engine.Event) engine.Answer // nil: success
	hold   bool                             // answer later, see release
	held   []func()
}

func (b *backend) Post(e engine.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	var a engine.Answer
	if b.answer != nil {
		a = b.answer(e)
	}
	reply := func() { replyOf(e)(a) }
	if b.hold {
		b.held = append(b.held, reply)
		return
	}
	reply()
}

func replyOf(e engine.Event) func(engine.Answer) {
	switch e := e.(type) {
	case engine.Write:
		return e.Reply
	case engine.Set:
		return e.Reply
	case engine.Submit:
		return e.Reply
	case engine.Lookup:
		return e.Reply
	case engine.Cancel:
		return e.Reply
	case engine.Dismiss:
		return e.Reply
	case engine.History:
		return e.Reply
	case engine.Deliveries:
		return e.Reply
	case engine.DriveLines:
		return e.Reply
	default:
		panic(fmt.Sprintf("unknown event %T", e))
	}
}

func (b *backend) answers(a engine.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = func(engine.Event) engine.Answer { return a }
}

// take returns the events so far and forgets them.
func (b *backend) take() []engine.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

type fixture struct {
	bus     *dbustest.Bus
	backend *backend
	srv     *dbus.Server
	log     *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := build(t)
	require.NoError(t, f.srv.Start(t.Context()))
	return f
}

// build makes a server that is not started.
func build(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{bus: dbustest.Start(t), backend: new(backend), log: new(syncBuffer)}
	f.srv = f.server(t, context.Background())
	return f
}

func (f *fixture) server(t *testing.T, ctx context.Context) *dbus.Server {
	t.Helper()
	srv, err := dbus.New(ctx, dbus.Options{
		Address: f.bus.Address, Backend: f.backend,
		Hosts: []int{0, 1}, Chassis: []int{0, 1}, Domains: []int{0, 1},
		Logger: slog.New(slog.NewTextHandler(f.log, slog.LevelInfo)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	return srv
}

func call(o godbus.BusObject, method string, args ...any) *godbus.Call {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return o.CallWithContext(ctx, method, 0, args...)
}

func set(c *godbus.Conn, service string, path godbus.ObjectPath, iface, property string, v any) error {
	return call(c.Object(service, path), getset+".Set", iface, property, godbus.MakeVariant(v)).Err
}

func get(t *testing.T, c *godbus.Conn, service string, path godbus.ObjectPath, iface, property string) any {
	t.Helper()
	var v godbus.Variant
	require.NoError(t, call(c.Object(service, path), getset+".Get", iface, property).Store(&v))
	return v.Value()
}

func errorName(err error) string {
	var e godbus.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return fmt.Sprint(err)
}

func TestNames(t *testing.T) {
	f := newFixture(t)
	c := f.bus.Connect(t)
	owner := func(name string) (s string) {
		_ = c.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, name).Store(&s)
		return s
	}
	const p = "xyz.openbmc_project.State."
	owned := make(map[string]int)
	for _, n := range []string{"BMC", "Host", "Host0", "Host1", "Chassis", "Chassis0", "Chassis1",
		"ScheduledHostTransition", "ScheduledHostTransition0", "ScheduledHostTransition1", "TransitionQueue"} {
		require.NotEmpty(t, owner(p+n), n)
		owned[owner(p+n)]++
	}
	assert.Len(t, owned, 8, "one connection per service")
	for _, n := range []string{"Host", "Chassis", "ScheduledHostTransition"} {
		assert.Equal(t, owner(p+n), owner(p+n+"0"))
	}
	for _, n := range []string{"Host2", "Chassis2", "BMC0", "TransitionQueue0"} {
		assert.Empty(t, owner(p+n), n)
	}
}

func TestNameTaken(t *testing.T) {
	f := build(t)
	c := f.bus.Connect(t)
	_, err := c.RequestName("xyz.openbmc_project.State.Chassis0", godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	err = f.srv.Start(t.Context())
	require.ErrorIs(t, err, dbus.ErrNameTaken)
	assert.ErrorContains(t, err, "xyz.openbmc_project.State.Chassis0")
	<-f.srv.Done()
}

func TestBusDies(t *testing.T) {
	f := newFixture(t)
	assert.NoError(t, f.srv.Err())
	f.bus.Stop()
	select {
	case <-f.srv.Done():
	case <-time.After(patience):
		t.Fatal("nobody noticed that the bus has gone")
	}
	assert.ErrorContains(t, f.srv.Err(), "lost")
}

func TestContextEndsTheConnections(t *testing.T) {
	f := build(t)
	ctx, cancel := context.WithCancel(t.Context())
	srv := f.server(t, ctx)
	require.NoError(t, srv.Start(t.Context()))
	m := f.bus.StartMapper(t)
	m.WaitFor(t, openbmc.IfaceHost, "/xyz/openbmc_project/state/host0", openbmc.IfaceHost)
	m.WaitFor(t, openbmc.IfaceChassis, "/xyz/openbmc_project/state/chassis0", openbmc.IfaceChassis)
	cancel()
	<-srv.Done()
	assert.ErrorIs(t, srv.Err(), context.Canceled)
	m.WaitGone(t, "/xyz/openbmc_project/state/host0")
	m.WaitGone(t, "/xyz/openbmc_project/state/chassis0")
}

func TestNewNeedsABackend(t *testing.T) {
	_, err := dbus.New(t.Context(), dbus.Options{})
	assert.ErrorContains(t, err, "Backend")
}

// published is a value of everything, none of them a default.
func published(s *dbus.Server) {
	s.PublishHost(0, state.Host{
		Requested: state.HostReboot, Current: state.HostStateRunning, RestartCause: state.RestartCauseScheduledPowerOn,
		Allowed: []state.Operation{state.HostOn, state.HostOff}, BootProgress: state.BootProgressOSRunning, BootProgressUpdate: 11,
		OS: state.OSStateBootComplete, AttemptsLeft: 1, RetryAttempts: 2,
	})
	s.PublishChassis(0, state.Chassis{Requested: state.ChassisPowerCycle, Current: state.PowerStateTransitioningToOn,
		Status: state.PowerStatusGood, LastStateChange: 12, POHCounter: 13})
	s.PublishBMC(state.BMC{Requested: state.BMCReboot, Current: state.BMCStateReady, LastRebootTime: 14, LastRebootCause: state.RebootCausePinholeReset})
	s.PublishSchedule(0, state.Schedule{Time: 15, Transition: state.HostOff})
	s.PublishQueue(0, state.Queue{Policy: state.Dedup, DepthLimit: 32, Depth: 3, Running: 77, Launches: 4, DuplicatesSuppressed: 5, Refused: 6})
}

func TestPublishedValuesAreReadable(t *testing.T) {
	const p = "xyz.openbmc_project."
	tests := []struct {
		service  string
		path     godbus.ObjectPath
		iface    string
		property string
		want     any
	}{
		{"Host", hostPath, p + "State.Host", "RequestedHostTransition", p + "State.Host.Transition.Reboot"},
		{"Host", hostPath, p + "State.Host", "AllowedHostTransitions", []string{p + "State.Host.Transition.On", p + "State.Host.Transition.Off"}},
		{"Host", hostPath, p + "State.Host", "CurrentHostState", p + "State.Host.HostState.Running"},
		{"Host", hostPath, p + "State.Host", "RestartCause", p + "State.Host.RestartCause.ScheduledPowerOn"},
		{"Host", hostPath, p + "State.Boot.Progress", "BootProgress", p + "State.Boot.Progress.ProgressStages.OSRunning"},
		{"Host", hostPath, p + "State.Boot.Progress", "BootProgressLastUpdate", uint64(11)},
		{"Host", hostPath, p + "State.OperatingSystem.Status", "OperatingSystemState", p + "State.OperatingSystem.Status.OSStatus.BootComplete"},
		{"Host", hostPath, p + "Control.Boot.RebootAttempts", "AttemptsLeft", uint32(1)},
		{"Host", hostPath, p + "Control.Boot.RebootAttempts", "RetryAttempts", uint32(2)},
		{"Chassis", "/xyz/openbmc_project/state/chassis0", p + "State.Chassis", "RequestedPowerTransition", p + "State.Chassis.Transition.PowerCycle"},
		{"Chassis", "/xyz/openbmc_project/state/chassis0", p + "State.Chassis", "CurrentPowerState", p + "State.Chassis.PowerState.TransitioningToOn"},
		{"Chassis", "/xyz/openbmc_project/state/chassis0", p + "State.Chassis", "CurrentPowerStatus", p + "State.Chassis.PowerStatus.Good"},
		{"Chassis", "/xyz/openbmc_project/state/chassis0", p + "State.Chassis", "LastStateChangeTime", uint64(12)},
		{"Chassis", "/xyz/openbmc_project/state/chassis0", p + "State.PowerOnHours", "POHCounter", uint32(13)},
		{"BMC", "/xyz/openbmc_project/state/bmc0", p + "State.BMC", "RequestedBMCTransition", p + "State.BMC.Transition.Reboot"},
		{"BMC", "/xyz/openbmc_project/state/bmc0", p + "State.BMC", "CurrentBMCState", p + "State.BMC.BMCState.Ready"},
		{"BMC", "/xyz/openbmc_project/state/bmc0", p + "State.BMC", "LastRebootTime", uint64(14)},
		{"BMC", "/xyz/openbmc_project/state/bmc0", p + "State.BMC", "LastRebootCause", p + "State.BMC.RebootCause.PinholeReset"},
		{"ScheduledHostTransition", "/xyz/openbmc_project/scheduled/host0", p + "State.ScheduledHostTransition", "ScheduledTime", uint64(15)},
		{"ScheduledHostTransition", "/xyz/openbmc_project/scheduled/host0", p + "State.ScheduledHostTransition", "ScheduledTransition", p + "State.Host.Transition.Off"},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "Policy", p + "State.TransitionQueue.Policy.Dedup"},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "DepthLimit", uint32(32)},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "Depth", uint32(3)},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "Running", godbus.ObjectPath("/xyz/openbmc_project/state/queue0/request/77")},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "Launches", uint64(4)},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "DuplicatesSuppressed", uint64(5)},
		{"TransitionQueue", queuePath, p + "State.TransitionQueue", "Refused", uint64(6)},
	}
	f := build(t)
	published(f.srv) // before the start: nobody ever sees a default
	require.NoError(t, f.srv.Start(t.Context()))
	c := f.bus.Connect(t)
	for _, tt := range tests {
		assert.Equal(t, tt.want, get(t, c, p+"State."+tt.service, tt.path, tt.iface, tt.property), tt.property)
	}
	f.srv.PublishHost(9, state.Host{})
	f.srv.PublishQueue(9, state.Queue{})
	assert.Contains(t, f.log.b.String(), "host9")
}

// What clients read before the engine knows anything is in their enums.
func TestDefaults(t *testing.T) {
	f := newFixture(t)
	f.srv.PublishHost(1, state.Host{})
	f.srv.PublishBMC(state.BMC{})
	c := f.bus.Connect(t)
	assert.Equal(t, openbmc.HostTransition.String(state.HostOff), get(t, c, openbmc.IfaceHost, hostPath, openbmc.IfaceHost, "RequestedHostTransition"))
	assert.Equal(t, openbmc.HostTransition.String(state.HostOff), get(t, c, openbmc.IfaceHost+"1", "/xyz/openbmc_project/state/host1", openbmc.IfaceHost, "RequestedHostTransition"))
	assert.Len(t, get(t, c, openbmc.IfaceHost, hostPath, openbmc.IfaceHost, "AllowedHostTransitions"), 5)
	assert.Equal(t, openbmc.BMCTransition.String(state.BMCNone), get(t, c, openbmc.IfaceBMC, "/xyz/openbmc_project/state/bmc0", openbmc.IfaceBMC, "RequestedBMCTransition"))
	assert.Equal(t, "/", string(get(t, c, openbmc.IfaceQueue, queuePath, openbmc.IfaceQueue, "Running").(godbus.ObjectPath)))
}

// pldm reads RestartCause when it sees Running, so the order of signals counts.
func TestOrderOfAHostsSignals(t *testing.T) {
	f := newFixture(t)
	w := f.bus.Raw(t)
	w.Reply(w.Call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "type='signal',path='"+string(hostPath)+"'"))
	published(f.srv)
	published(f.srv) // nothing new: no signals
	f.srv.PublishHost(0, state.Host{Requested: state.HostReboot})
	want := []string{"RestartCause", "BootProgress", "BootProgressLastUpdate", "OperatingSystemState", "AttemptsLeft",
		"RetryAttempts", "RequestedHostTransition", "CurrentHostState", "RestartCause"}
	for _, property := range want {
		m := w.Next()
		for m.Type != godbus.TypeSignal || m.Headers[godbus.FieldMember].Value() != "PropertiesChanged" {
			m = w.Next()
		}
		changed := m.Body[1].(map[string]godbus.Variant)
		assert.Contains(t, changed, property)
		assert.Len(t, changed, 1, "one property per signal")
		assert.Empty(t, m.Body[2], "the value is in changed")
	}
}

func TestMapperFindsEverything(t *testing.T) {
	f := build(t)
	m := f.bus.StartMapper(t)
	published(f.srv)
	require.NoError(t, f.srv.Start(t.Context()))
	f.srv.PublishRequest(0, state.Request{Seq: 5, Op: state.HostOn, Status: state.Pending})

	m.WaitFor(t, openbmc.IfaceQueue, string(openbmc.RequestPath(0, 5)), openbmc.IfaceRequest)
	m.WaitFor(t, openbmc.IfaceHost, string(hostPath), openbmc.IfaceRebootAttempts)
	m.WaitFor(t, openbmc.IfaceHost+"0", string(hostPath), openbmc.IfaceOSStatus)
	m.WaitFor(t, openbmc.IfaceBMC, "/xyz/openbmc_project/state/bmc0", openbmc.IfaceBMC)
	m.WaitFor(t, openbmc.IfaceChassis, "/xyz/openbmc_project/state/chassis0", openbmc.IfacePowerOnHours)
	m.WaitFor(t, openbmc.IfaceSchedule, "/xyz/openbmc_project/scheduled/host0", openbmc.IfaceSchedule)

	out := f.bus.Busctl(t, "call", "xyz.openbmc_project.ObjectMapper", "/xyz/openbmc_project/object_mapper", "xyz.openbmc_project.ObjectMapper",
		"GetObject", "sas", string(hostPath), "1", openbmc.IfaceHost)
	assert.Regexp(t, `^a\{sas\} \d+ "xyz.openbmc_project.State.Host"`, out)
	for _, iface := range []string{openbmc.IfaceHost, openbmc.IfaceBootProgress, openbmc.IfaceOSStatus, openbmc.IfaceRebootAttempts} {
		assert.Contains(t, out, iface)
	}
	mapper := f.bus.Connect(t).Object("xyz.openbmc_project.ObjectMapper", "/xyz/openbmc_project/object_mapper")
	var paths []string
	require.NoError(t, call(mapper, "xyz.openbmc_project.ObjectMapper.GetSubTreePaths", "/", int32(0), []string{openbmc.IfaceHost}).Store(&paths))
	assert.Equal(t, []string{string(hostPath), "/xyz/openbmc_project/state/host1"}, paths)
	var above map[string]map[string][]string
	require.NoError(t, call(mapper, "xyz.openbmc_project.ObjectMapper.GetAncestors", string(hostPath), []string{"org.freedesktop.DBus.ObjectManager"}).Store(&above))
	assert.Contains(t, above, "/xyz/openbmc_project/state")

	f.srv.RemoveRequest(0, 5)
	m.WaitGone(t, string(openbmc.RequestPath(0, 5)))
	require.NoError(t, f.srv.Close())
	m.WaitGone(t, string(hostPath))
	err := call(mapper, "xyz.openbmc_project.ObjectMapper.GetObject", string(hostPath), []string{}).Err
	assert.Equal(t, "xyz.openbmc_project.Common.Error.ResourceNotFound", errorName(err))
	again := f.server(t, t.Context())
	require.NoError(t, again.Start(t.Context()))
	m.WaitFor(t, openbmc.IfaceHost, string(hostPath), openbmc.IfaceHost)
}
