package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/peers"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// C21 of openbmc-state-manager.md §5, and the pinhole button of §2.2.
func TestRebootCause(t *testing.T) {
	statetest.Covers(t, "C21", "B19")
	const absent = -1
	for _, c := range []struct {
		status  string // of the watchdog; "" = it cannot be read
		pinhole int    // level of its line
		want    state.RebootCause
	}{
		{"4\n", absent, state.RebootCauseSoftware},
		{"32\n", absent, state.RebootCauseWatchdog},
		{"0x20\n", absent, state.RebootCauseWatchdog},
		{"0\n", absent, state.RebootCausePOR},
		{"36\n", absent, state.RebootCausePOR},
		{"what\n", absent, state.RebootCausePOR},
		{"", absent, state.RebootCausePOR},
		{"0\n", 0, state.RebootCausePinholeReset},
		{"0\n", 1, state.RebootCausePOR},
		{"", 0, state.RebootCausePinholeReset},
		{"4\n", 0, state.RebootCauseSoftware},
		{"32\n", 0, state.RebootCauseWatchdog},
	} {
		root := t.TempDir()
		if c.status != "" {
			dir := filepath.Join(root, "sys/class/watchdog/watchdog0")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bootstatus"), []byte(c.status), 0o600))
		}
		line := func(name string, _ time.Duration) (bool, error) {
			assert.Equal(t, "reset-cause-pinhole", name)
			if c.pinhole == absent {
				return false, gpio.ErrMissing
			}
			return c.pinhole == 1, nil
		}
		assert.Equal(t, c.want, rebootCause(root, line, slog.New(slog.DiscardHandler)), "%+v", c)
	}
	broken := func(string, time.Duration) (bool, error) { return false, errors.New("stuck") }
	assert.Equal(t, state.RebootCausePOR, rebootCause(t.TempDir(), broken, slog.New(slog.DiscardHandler)))
}

// The pinhole reset is in the event log once in a boot.
func TestPinholeResetIsLoggedOnce(t *testing.T) {
	runDir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	link := peers.Open("unix:path="+filepath.Join(runDir, "no-bus"), log)
	defer link.Close()
	for run, want := range []string{"PinholeReset", ""} {
		kept := make(chan []peers.Entry, 10)
		p := &peerWorld{m: &machine{cause: state.RebootCausePinholeReset, bootID: "b"}, log: log}
		p.events = peers.NewEventLog(link, peers.EventLogOptions{Retry: time.Hour, Log: log, Keep: func(e []peers.Entry) { kept <- e }})
		p.bootNoticed(runDir)
		if want != "" {
			entries := <-kept
			require.Len(t, entries, 1)
			assert.Equal(t, "xyz.openbmc_project.State.PinholeReset", entries[0].Message)
			assert.True(t, entries[0].Notice)
		}
		p.events.Close()
		assert.Empty(t, kept, run)
	}
}

// A simulated boot tells the mains from a reboot, and a restart of the daemon
// from both.
func TestSimulatedCause(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cause := func() state.RebootCause {
		c, err := simulatedCause(dir)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "boot"), nil, 0o600))
		return c
	}
	assert.Equal(t, state.RebootCausePOR, cause())
	assert.Equal(t, state.RebootCausePOR, cause(), "a restart of the daemon")
	require.NoError(t, os.Remove(filepath.Join(dir, "boot")))
	assert.Equal(t, state.RebootCauseSoftware, cause())
	assert.Equal(t, state.RebootCauseSoftware, cause(), "a restart of the daemon")
	require.NoError(t, os.RemoveAll(dir))
	assert.Equal(t, state.RebootCausePOR, cause())
}

// C15: the name of a loss of power, by the pinhole button and the standby
// regulator.
func TestLossError(t *testing.T) {
	statetest.Covers(t, "C15")
	const prefix = "xyz.openbmc_project.State.Shutdown.Power.Error."
	for _, c := range []struct {
		cause state.RebootCause
		high  bool
		err   error
		want  string
	}{
		{state.RebootCausePOR, false, gpio.ErrMissing, prefix + "Blackout"},
		{state.RebootCausePOR, false, nil, prefix + "Blackout"},
		{state.RebootCausePOR, true, nil, prefix + "Regulator"},
		{state.RebootCausePOR, false, errors.New("stuck"), prefix + "Blackout"},
		{state.RebootCausePinholeReset, true, nil, ""},
	} {
		line := func(name string, _ time.Duration) (bool, error) {
			assert.Equal(t, "regulator-standby-faulted", name)
			return c.high, c.err
		}
		assert.Equal(t, c.want, lossError(c.cause, line), "%+v", c)
	}
}
