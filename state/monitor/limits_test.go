package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func named(n int) []monitor.Config {
	cfgs := make([]monitor.Config, n)
	for i := range cfgs {
		cfgs[i] = base()
		cfgs[i].Name = fmt.Sprint("unit", i)
		cfgs[i].Mode, cfgs[i].RetryCount = monitor.ModeRestartOnly, -1
	}
	return cfgs
}

func TestRestartsPerMinuteComeInOrder(t *testing.T) {
	f := newFleet(t, monitor.Limits{RestartsPerMinute: 2}, named(5)...)
	for i := range 5 {
		f.at(float64(i)).step(fmt.Sprint("unit", 4-i), monitor.Died{})
	}
	require.Len(t, f.restarts, 2)
	for len(f.restarts) < 5 {
		at, ok := f.mon.NextDeadline()
		require.True(t, ok)
		require.Greater(t, at, f.now, "no spinning while it waits")
		f.now = at
		f.take(f.mon.Tick(f.instant()))
	}
	var order []string
	for _, r := range f.restarts {
		order = append(order, r.Resource)
	}
	assert.Equal(t, []string{"unit4", "unit3", "unit2", "unit1", "unit0"}, order, "first come, first served")
	m := time.Minute
	assert.Equal(t, []time.Duration{0, time.Second, m + 1, m + time.Second + 1, 2*m + 2}, f.launched)
}

func TestNobodyOvertakesWhoWaits(t *testing.T) {
	f := newFleet(t, monitor.Limits{RestartsPerMinute: 1}, named(3)...)
	f.step("unit0", monitor.Died{})
	f.at(1).step("unit1", monitor.Died{})
	f.at(61).step("unit2", monitor.Died{}) // the place is free, but unit1 has waited for it
	f.take(f.mon.Tick(f.instant()))
	require.Len(t, f.restarts, 2)
	assert.Equal(t, "unit1", f.restarts[1].Resource)
}

func TestRestartThatNeverRanCostsNoPlace(t *testing.T) {
	f := newFleet(t, monitor.Limits{RestartsPerMinute: 1}, named(2)...)
	f.silent = true
	f.step("unit0", monitor.Died{})
	f.step("unit1", monitor.Died{})
	require.Len(t, f.restarts, 1)
	f.at(1).step("unit0", monitor.RestartDone{Generation: 1, Outcome: monitor.RestartCancelled})
	require.Len(t, f.restarts, 2, "its place is unit1's now")
	assert.Equal(t, "unit1", f.restarts[1].Resource)
}

func TestOneThatNoLongerWaitsGivesItsTurnAway(t *testing.T) {
	f := newFleet(t, monitor.Limits{Parallel: 1}, named(3)...)
	f.silent = true
	for i := range 3 {
		f.step(fmt.Sprint("unit", i), monitor.Died{})
	}
	f.at(1).step("unit1", monitor.OperatorOff{Reason: "stop"})
	f.finish("unit0")
	require.Len(t, f.restarts, 2)
	assert.Equal(t, "unit2", f.restarts[1].Resource)
}

func TestTurnGivenAwayUnderTheRateMovesTheOthersUp(t *testing.T) {
	f := newFleet(t, monitor.Limits{RestartsPerMinute: 1}, named(3)...)
	for i := range 3 {
		f.step(fmt.Sprint("unit", i), monitor.Died{})
	}
	f.at(1).step("unit1", monitor.OperatorOff{Reason: "stop"})
	f.now = time.Minute + 1
	f.take(f.mon.Tick(f.instant()))
	require.Len(t, f.restarts, 2)
	assert.Equal(t, "unit2", f.restarts[1].Resource)
}

func TestRemovedResourceFreesItsPlace(t *testing.T) {
	cfgs := named(2)
	f := newFleet(t, monitor.Limits{Parallel: 1}, cfgs...)
	f.silent = true
	f.step("unit0", monitor.Died{})
	f.step("unit1", monitor.Died{})
	actions, err := f.mon.Configure(f.instant(), cfgs[1:])
	require.NoError(t, err)
	f.take(actions)
	require.Len(t, f.restarts, 2)
}

func TestRestartThatNeverRanCountsNowhere(t *testing.T) {
	for _, outcome := range []monitor.RestartOutcome{monitor.RestartCancelled, monitor.RestartPostponed} {
		cfg := base()
		cfg.Flap = monitor.FlapConfig{Count: 2, Clear: 1, Window: 10 * time.Minute}
		cfg.Backoff = monitor.Backoff{Min: time.Second, Max: time.Minute, Factor: 10}
		g := newRig(t, cfg)
		g.silent = true
		for n := range 3 {
			g.step(monitor.Died{})
			g.now += time.Minute
			g.step(monitor.Tick{})
			require.Len(t, g.restarts, n+1)
			g.step(monitor.RestartDone{Generation: uint64(n + 1), Outcome: outcome})
			g.step(monitor.Intent{Generation: uint64(n + 1)}) // what is tried again would hide the next
			g.now += time.Second
		}
		g.step(monitor.Died{})
		at, _ := g.res.NextDeadline()
		assert.Equal(t, g.now+time.Second, at, "%v: back-off has not grown", outcome)
		assert.False(t, g.res.View().Flapping, "%v", outcome)
	}
}

func TestLimitsAreValidated(t *testing.T) {
	_, err := monitor.New(monitor.Limits{Parallel: -1}, func() float64 { return 0 })
	require.Error(t, err)
	_, err = monitor.New(monitor.Limits{}, nil)
	require.Error(t, err)
	f := newFleet(t, monitor.Limits{})
	_, err = f.mon.SetLimits(f.instant(), monitor.Limits{RestartsPerMinute: -1})
	require.Error(t, err)
}
