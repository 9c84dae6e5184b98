package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

func TestCommandProbe(t *testing.T) {
	address := systemdtest.StartBus(t)
	double := systemdtest.Start(t, address)
	units := systemd.Open(systemd.Options{Address: address})
	t.Cleanup(units.Close)
	const unit = "bmcstate-probe-web.service"
	p := faults.Command{Units: units, Unit: unit, Argv: []string{"/bin/check"}}
	for _, c := range []struct{ code, status, want int32 }{
		{1, 0, 0}, {1, 30, 30}, {1, 100, 100}, {1, 201, 201}, {2, 9, 100},
		{1, 203, 203}, // systemd could not start it; the core calls that a monitor error
	} {
		double.Script(unit, systemdtest.Script{Active: "inactive"})
		double.Change(unit, func(u *systemdtest.Unit) { u.ExecMainCode, u.ExecMainStatus = c.code, c.status })
		assert.EqualValues(t, c.want, p.Probe(t.Context(), true).Status, "%+v", c)
	}
	double.Script(unit, systemdtest.Script{Refuse: "org.freedesktop.systemd1.UnitExists"})
	assert.Equal(t, monitor.ProbeMonitorError, p.Probe(t.Context(), true).Status)

	double.Script(unit, systemdtest.Script{Unfinished: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.Equal(t, monitor.ProbeCompleteFailure, p.Probe(ctx, true).Status, "no answer is a failure")
}

func TestPropertyProbe(t *testing.T) {
	for _, c := range []struct {
		level inputs.Level
		want  int
	}{
		{inputs.Level{Asserted: true}, 0}, {inputs.Level{}, 30},
		{inputs.Level{Err: errors.New("no such service")}, 100},
		{inputs.Level{Err: inputs.ErrNoBus}, monitor.ProbeMonitorError},
		{inputs.Level{Err: fmt.Errorf("%w: it is a string", faults.ErrValue)}, monitor.ProbeMonitorError},
	} {
		p := faults.Property{Name: "T", Weight: 30, Read: func(context.Context) inputs.Level { return c.level }}
		assert.Equal(t, c.want, p.Probe(t.Context(), true).Status, "%+v", c)
	}
}

func TestLineProbe(t *testing.T) {
	for _, c := range []struct {
		level state.Level
		err   error
		want  int
	}{
		{state.LevelOn, nil, 0}, {state.LevelOff, nil, 40},
		{state.LevelUnknown, nil, monitor.ProbeMonitorError}, {state.LevelAbsent, nil, monitor.ProbeMonitorError},
		{state.LevelOn, errors.New("chip gone"), monitor.ProbeMonitorError},
	} {
		p := faults.Line{Signal: "PostComplete", Asserted: true, Weight: 40,
			Read: func(context.Context) (state.Level, error) { return c.level, c.err }}
		assert.Equal(t, c.want, p.Probe(t.Context(), true).Status, "%+v", c)
	}
}

func TestSilentHostProbe(t *testing.T) {
	at := time.Minute
	view := &faults.HostView{}
	p := faults.SilentHost{View: view, Timeout: time.Minute, Now: func() state.Instant { return state.Instant{Boot: at} }}
	status := func() int { return p.Probe(t.Context(), true).Status }
	booting := state.Host{Current: state.HostStateRunning, OS: state.OSStateInactive}
	assert.Equal(t, monitor.ProbeMonitorError, status(), "nothing shown yet")
	view.Show(booting, at)
	at += 59 * time.Second
	assert.Zero(t, status())
	booting.BootProgress = state.BootProgressMemoryInit
	view.Show(booting, at)
	at += 59 * time.Second
	assert.Zero(t, status(), "it goes on")
	view.Show(booting, at) // the same again is no progress
	at += time.Second
	assert.Equal(t, 100, status())
	for name, h := range map[string]state.Host{
		"the OS starts": {Current: state.HostStateRunning, OS: state.OSStateInactive, BootProgress: state.BootProgressOSStart},
		"POST is done":  {Current: state.HostStateRunning, OS: state.OSStateStandby},
		"off":           {Current: state.HostStateOff, OS: state.OSStateInactive},
	} {
		view.Show(h, at)
		at += time.Hour
		assert.Zero(t, status(), name)
	}
	view.Show(state.Host{Current: state.HostStateQuiesced, OS: state.OSStateInactive}, at)
	at += time.Hour
	assert.Equal(t, monitor.ProbeMonitorError, status(), "nothing is done about a quiesced host")
	view.Show(booting, at)
	at += time.Hour
	p.Timeout = 0
	assert.Zero(t, status())
}
