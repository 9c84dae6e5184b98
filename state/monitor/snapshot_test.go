package monitor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// revive returns a fleet that has taken over what f would have stored.
func revive(f *fleet, bootID string, cfg monitor.Config) *fleet {
	f.t.Helper()
	taken := f.mon.Snapshot(f.instant(), "a")
	data := jsonpos.Marshal(taken)
	standard, err := json.Marshal(taken)
	require.NoError(f.t, err)
	assert.Equal(f.t, string(standard), string(data))
	var snap, again monitor.Snapshot
	require.NoError(f.t, jsonpos.Unmarshal(data, &snap))
	require.NoError(f.t, json.Unmarshal(data, &again))
	assert.Equal(f.t, again, snap)
	g := newFleet(f.t, monitor.Limits{}, cfg)
	g.now = f.now
	actions, err := g.mon.Restore(g.instant(), bootID, snap)
	require.NoError(f.t, err)
	g.take(actions)
	return g
}

func TestRestartInFlightAtTheCrashIsCounted(t *testing.T) {
	cfg := base()
	cfg.StartGrace = 5 * time.Second
	f := newFleet(t, monitor.Limits{}, cfg)
	f.silent = true
	actions, err := f.mon.Step(f.instant(), "unit", monitor.Died{})
	require.NoError(t, err)
	assert.Equal(t, monitor.Action(monitor.Save{Resource: "unit"}), actions[0], "stored before it is started")

	g := revive(f, "a", cfg)
	assert.EqualValues(t, 1, g.view("unit").RestartsInInterval)
	assert.Equal(t, monitor.StatusUnknown, g.view("unit").Status)
	assert.Equal(t, []string{"RESTART"}, g.at(10).report("unit", 100))
	assert.Equal(t, []string{"GIVEOVER"}, g.at(70).report("unit", 100))
}

func TestGivenOverAndQuiescedSurviveTheDaemonNotTheBoot(t *testing.T) {
	f := newFleet(t, monitor.Limits{}, base())
	f.report("unit", 201)
	require.Equal(t, monitor.StatusFaulted, f.view("unit").Status)
	g := revive(f, "a", base())
	g.at(10).step("unit", monitor.Died{})
	assert.Empty(t, g.restarts)
	assert.Contains(t, g.view("unit").Message, "gave over")
	assert.Equal(t, monitor.StatusUnknown, revive(f, "b", base()).view("unit").Status)
}

func TestGlobalLimitSurvivesTheDaemon(t *testing.T) {
	cfg := base()
	cfg.Flap = monitor.FlapConfig{Count: 10, Clear: 1, Window: 10 * time.Minute}
	f := newFleet(t, monitor.Limits{}, cfg)
	f.report("unit", 100)
	g := revive(f, "a", cfg)
	_, err := g.mon.SetLimits(g.instant(), monitor.Limits{RestartsPerMinute: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{"-"}, g.at(30).report("unit", 100))
	g.at(61).take(g.mon.Tick(g.instant()))
	assert.Len(t, g.restarts, 1)
}

func TestForeignSnapshotIsRefused(t *testing.T) {
	f := newFleet(t, monitor.Limits{}, base())
	_, err := f.mon.Restore(f.instant(), "a", monitor.Snapshot{Version: 99})
	require.ErrorContains(t, err, "version 99")

	snap := f.mon.Snapshot(f.instant(), "a")
	snap.Resources[0].Failures = []monitor.Failure{{Weight: 1 << 40}, {Weight: -5}, {Weight: 60, Mark: monitor.Mark{At: time.Hour}}}
	_, err = f.mon.Restore(f.instant(), "a", snap)
	require.NoError(t, err)
	assert.Zero(t, f.view("unit").FailureSum, "what cannot be is dropped")
}

func TestSlowRestartDoesNotAgeOverARestartOfTheDaemon(t *testing.T) {
	cfg := base()
	cfg.RestartTimeout = time.Hour
	f := newFleet(t, monitor.Limits{}, cfg)
	f.silent = true
	f.step("unit", monitor.Died{})
	f.at(400).take(f.mon.Tick(f.instant()))
	g := revive(f, "a", cfg)
	assert.EqualValues(t, 1, g.at(401).view("unit").RestartsInInterval)
	assert.Equal(t, []string{"RESTART"}, g.at(470).report("unit", 100))
	assert.Equal(t, []string{"GIVEOVER"}, g.at(530).report("unit", 100))
}
