package client_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// daemon is the real server of package dbus before an engine that knows one
// request and does what the test says.
type daemon struct {
	t      *testing.T
	server *dbus.Server

	mu       sync.Mutex
	request  state.Request
	events   []engine.Event
	onSubmit func() // called before Submit is answered
	lookups  chan struct{}
	drives   chan engine.DriveLines
}

func start(t *testing.T, bus *dbustest.Bus) *daemon {
	d := &daemon{t: t, request: state.Request{
		Seq: 7, Key: state.Key{UID: 0, Client: "c", Request: "r"}, Op: state.HostOn, Status: state.Pending,
		Accepted: state.Instant{Wall: time.UnixMicro(1_700_000_000_000_001)},
	}, lookups: make(chan struct{}, 100), drives: make(chan engine.DriveLines, 10)}
	d.restart(bus)
	return d
}

func (d *daemon) restart(bus *dbustest.Bus) {
	var err error
	d.server, err = dbus.New(context.Background(), dbus.Options{
		Address: bus.Address, Backend: d, Hosts: []int{0}, Chassis: []int{0}, Domains: []int{0},
		Logger: slog.New(slog.NewTextHandler(io.Discard, slog.LevelInfo)),
	})
	require.NoError(d.t, err)
	require.NoError(d.t, d.server.Start(d.t.Context()))
	server := d.server
	d.t.Cleanup(func() { _ = server.Close() })
}

func (d *daemon) Post(e engine.Event) {
	d.mu.Lock()
	d.events = append(d.events, e)
	onSubmit := d.onSubmit
	d.mu.Unlock()
	if _, ok := e.(engine.Submit); ok && onSubmit != nil {
		onSubmit()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := engine.Answer{Status: d.request.Status, Seq: d.request.Seq, Object: true}
	unknown := engine.Answer{Err: &engine.Refusal{Code: engine.CodeUnknownRequest, Text: "No such request."}}
	switch e := e.(type) {
	case engine.Submit:
		// The answer is as old as an answer can be: from before onSubmit.
		known.Status = state.Pending
		e.Reply(known)
	case engine.Lookup:
		if e.Client != d.request.Key.Client {
			e.Reply(unknown)
			return
		}
		e.Reply(known)
		d.lookups <- struct{}{}
	case engine.Cancel:
		e.Reply(known)
	case engine.History:
		var a engine.Answer
		if d.request.Seq > e.After {
			a.Requests = []state.Request{d.request}
		}
		e.Reply(a)
	case engine.Deliveries:
		e.Reply(engine.Answer{Deliveries: deliveries})
	case engine.DriveLines:
		d.drives <- e
	}
}

var deliveries = []engine.Delivery{
	{Arrived: 5 * time.Second, Key: state.Key{UID: 1, Client: "c", Request: "r"}, Op: state.ChassisPowerCycle, Seq: 7, Delayed: true},
	{Arrived: 6 * time.Second, Key: state.Key{UID: 1, Client: "c", Request: "r"}, Op: state.HostOff, Repeat: true},
}

// become gives the request another status and publishes it.
func (d *daemon) become(s state.Status, reason string) {
	d.mu.Lock()
	d.request.Status, d.request.Reason = s, reason
	r := d.request
	d.mu.Unlock()
	d.server.PublishRequest(0, r)
}

func dial(t *testing.T, bus *dbustest.Bus) *client.Client {
	c, err := client.Dial(t.Context(), bus.Address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var submission = client.Submission{Client: "c", Request: "r", Op: state.HostOn, Cause: "why", Expires: 3 * time.Second}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestObjects(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	d.server.PublishHost(0, state.Host{Current: state.HostStateQuiesced, AttemptsLeft: 2})
	d.become(state.Running, "")

	objects, err := c.Objects(within(t))
	require.NoError(t, err)
	var paths []string
	for _, o := range objects {
		paths = append(paths, o.Path)
	}
	assert.Equal(t, []string{
		"/xyz/openbmc_project/scheduled/host0", "/xyz/openbmc_project/state/bmc0", "/xyz/openbmc_project/state/chassis0",
		"/xyz/openbmc_project/state/host0", "/xyz/openbmc_project/state/queue0", "/xyz/openbmc_project/state/queue0/request/7",
	}, paths)
	host := objects[3]
	assert.Equal(t, "xyz.openbmc_project.State.Host.HostState.Quiesced", host.Get("CurrentHostState"))
	assert.Equal(t, uint32(2), host.Get("AttemptsLeft"))
	assert.Nil(t, host.Get("Nothing"))
}

func TestSubmit(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	o, err := c.Submit(within(t), submission)
	require.NoError(t, err)
	assert.Equal(t, client.Outcome{Status: state.Pending, Seq: 7}, o)

	d.mu.Lock()
	defer d.mu.Unlock()
	got, ok := d.events[0].(engine.Submit)
	require.True(t, ok)
	assert.Equal(t, []any{"c", "r", state.HostOn, "why", 3 * time.Second},
		[]any{got.Client, got.Request, got.Op, got.Cause, got.Expires})
}

func TestSubmitAndWait(t *testing.T) {
	tests := map[string]struct {
		onSubmit func(d *daemon) // before the answer
		accepted func(d *daemon, bus *dbustest.Bus)
	}{
		"ends after the answer": {
			accepted: func(d *daemon, _ *dbustest.Bus) {
				<-d.lookups // the client has looked and waits now
				d.become(state.Running, "")
				d.become(state.Failed, "no power good")
			},
		},
		"ends before the answer": {
			onSubmit: func(d *daemon) { d.become(state.Failed, "no power good") },
		},
		"ends with its object gone": {
			accepted: func(d *daemon, _ *dbustest.Bus) {
				d.become(state.Running, "")
				d.become(state.Failed, "no power good")
				d.server.RemoveRequest(0, 7)
			},
		},
		"ends while the daemon restarts": {
			accepted: func(d *daemon, bus *dbustest.Bus) {
				<-d.lookups
				assert.NoError(d.t, d.server.Close())
				d.mu.Lock()
				d.request.Status, d.request.Reason = state.Failed, "no power good"
				d.mu.Unlock()
				d.restart(bus)
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bus := dbustest.Start(t)
			d, c := start(t, bus), dial(t, bus)
			if tc.onSubmit != nil {
				d.onSubmit = func() { tc.onSubmit(d) }
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			o, err := c.SubmitAndWait(within(t), submission, func(o client.Outcome) {
				assert.Equal(t, state.Pending, o.Status)
				if tc.accepted != nil {
					wg.Go(func() { tc.accepted(d, bus) })
				}
			})
			require.NoError(t, err)
			assert.Equal(t, client.Outcome{Status: state.Failed, Seq: 7, Reason: "no power good"}, o)
		})
	}
}

func TestWaitDoesNotBelieveSignals(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	ctx, cancel := context.WithCancel(within(t))
	forger := bus.Connect(t)
	o, err := c.SubmitAndWait(ctx, submission, func(client.Outcome) {
		go func() {
			<-d.lookups
			assert.NoError(t, forger.Emit(openbmc.RequestPath(0, 7), "org.freedesktop.DBus.Properties.PropertiesChanged",
				openbmc.IfaceRequest, map[string]godbus.Variant{"Status": godbus.MakeVariant(openbmc.Status.String(state.Success))},
				[]string{}))
			<-d.lookups // it has looked, and waits on
			cancel()
		}()
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, state.Pending, o.Status)
}

func TestWaitEndsWithTheBus(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	_, err := c.SubmitAndWait(within(t), submission, func(client.Outcome) {
		go func() {
			<-d.lookups
			bus.Stop()
		}()
	})
	require.Error(t, err)
}

func TestQueueCalls(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	d.request.Superseded = []uint64{3, 5}
	d.become(state.Success, "reset not observable")
	ctx := within(t)

	o, err := c.Lookup(ctx, 0, "c", "r")
	require.NoError(t, err)
	assert.Equal(t, client.Outcome{Status: state.Success, Seq: 7}, o)

	_, err = c.Lookup(ctx, 0, "other", "r")
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, openbmc.ErrUnknownRequest, refused.Name)
	assert.Equal(t, "No such request. ("+openbmc.ErrUnknownRequest+")", err.Error())

	s, err := c.Cancel(ctx, 0, "c", "r")
	require.NoError(t, err)
	assert.Equal(t, state.Success, s)
	require.NoError(t, c.CancelSeq(ctx, 0, 7))

	records, err := c.History(ctx, 0, 6, 10)
	require.NoError(t, err)
	assert.Equal(t, []client.Record{{
		Seq: 7, Client: "c", Request: "r", Transition: "xyz.openbmc_project.State.Host.Transition.On",
		Status: state.Success, Reason: "reset not observable", Accepted: time.UnixMicro(1_700_000_000_000_001),
		Superseded: []uint64{3, 5},
	}}, records)
	records, err = c.History(ctx, 0, 7, 10)
	require.NoError(t, err)
	assert.Empty(t, records)

	got, err := c.Deliveries(ctx, 0)
	require.NoError(t, err)
	assert.Equal(t, deliveries, got)

	_, err = c.Lookup(ctx, 9, "c", "r")
	require.ErrorAs(t, err, &refused, "no such queue")
}

func TestWatch(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	w, err := c.Watch(within(t), client.StatePaths()...)
	require.NoError(t, err)
	defer w.Close()

	var seen []string
	until := func(want string) {
		t.Helper()
		for {
			select {
			case change, ok := <-w.C:
				require.True(t, ok)
				line := fmt.Sprint(change.Kind, change.Service, change.Path, change.Property, change.Value)
				seen = append(seen, line)
				if line == want {
					return
				}
			case <-time.After(patience):
				t.Fatalf("no change %q in %q", want, seen)
			}
		}
	}
	path := "/xyz/openbmc_project/state/"
	d.server.PublishChassis(0, state.Chassis{Current: state.PowerStateOn})
	until(fmt.Sprint(client.Changed, "", path+"chassis0", "CurrentPowerState", "xyz.openbmc_project.State.Chassis.PowerState.On"))
	d.server.PublishSchedule(0, state.Schedule{Time: 99, Transition: state.HostOn})
	until(fmt.Sprint(client.Changed, "", "/xyz/openbmc_project/scheduled/host0", "ScheduledTime", uint64(99)))
	d.become(state.Running, "")
	until(fmt.Sprint(client.Added, "", path+"queue0/request/7", "", nil))
	until(fmt.Sprint(client.Changed, "", path+"queue0/request/7", "Status", openbmc.Status.String(state.Running)))
	d.server.RemoveRequest(0, 7)
	until(fmt.Sprint(client.Removed, "", path+"queue0/request/7", "", nil))
	require.NoError(t, d.server.Close())
	until(fmt.Sprint(client.Left, "xyz.openbmc_project.State.Host0", "", "", nil))
	d.restart(bus)
	until(fmt.Sprint(client.Owned, "xyz.openbmc_project.State.TransitionQueue", "", "", nil))

	w.Close()
	_, open := <-w.C
	assert.False(t, open)
}

func TestDialErrors(t *testing.T) {
	_, err := client.Dial(t.Context(), "unix:path=/nonexistent/bus")
	require.ErrorContains(t, err, "cannot connect to unix:path=/nonexistent/bus")

	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/other")
	_, err = client.Dial(t.Context(), "")
	require.ErrorContains(t, err, "/nonexistent/other")

	bus := dbustest.Start(t)
	c := dial(t, bus)
	objects, err := c.Objects(within(t))
	require.NoError(t, err)
	assert.Empty(t, objects, "a bus without the daemon")
	_, err = c.Submit(within(t), submission)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.True(t, refused.Absent())
}

// The lines are asked for again when the daemon restarts meanwhile.
func TestDriveLines(t *testing.T) {
	bus := dbustest.Start(t)
	d, c := start(t, bus), dial(t, bus)
	done := make(chan error, 1)
	drive := func() { done <- c.DriveLines(within(t), 0, true) }
	go drive()
	(<-d.drives).Reply(engine.Answer{Err: &engine.Refusal{Code: engine.CodeNotAllowed, Text: "No."}})
	var refused *client.Error
	require.ErrorAs(t, <-done, &refused)
	assert.Equal(t, "No.", refused.Text)

	go drive()
	require.True(t, (<-d.drives).On)
	require.NoError(t, d.server.Close()) // without an answer
	d.restart(bus)
	(<-d.drives).Reply(engine.Answer{})
	require.NoError(t, <-done)
}
