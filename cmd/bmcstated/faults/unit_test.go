package faults_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

const webserver = "webserver.service"

// bed is a loop that watches one service of the double.
func bed(t *testing.T, change func(*faults.Options)) (*systemdtest.Systemd, *faults.Loop, *screen) {
	t.Helper()
	address := systemdtest.StartBus(t)
	double := systemdtest.Start(t, address)
	double.SetActive(webserver, "active")
	units := systemd.Open(systemd.Options{Address: address, Resync: 200 * time.Millisecond})
	cfg := quick(webserver)
	cfg.ThoroughProbe = 200 * time.Millisecond
	cfg.RetryInterval = time.Hour
	o := faults.Options{Units: units, Resources: []faults.Resource{{Config: cfg, Unit: webserver}}}
	if change != nil {
		change(&o)
	}
	t.Cleanup(units.Close)
	l, sc, _ := start(t, o) // its Cleanup runs before the units close
	sc.awaitStatus(t, webserver, monitor.StatusOK)
	return double, l, sc
}

// probeNoMore returns when no probe is due within an hour, but after a restart.
func probeNoMore(l *faults.Loop) {
	l.Change(webserver, func(c *monitor.Config) { c.ThoroughProbe = time.Hour }, func(string) {})
	l.Tell(webserver, monitor.ProbeNow{}, nil) // the next one is due an hour after this
	inspect(l, (*monitor.Resource).View)       // which was answered before
}

// kill ends the service as SIGKILL does.
func kill(double *systemdtest.Systemd) {
	double.Change(webserver, func(u *systemdtest.Unit) { u.Active, u.Result, u.MainPID = "failed", "signal", 0 })
}

// inspect asks the loop's goroutine.
func inspect[T any](l *faults.Loop, f func(*monitor.Resource) T) T {
	got := make(chan T)
	l.Inspect(webserver, func(r *monitor.Resource) { got <- f(r) })
	return <-got
}

// Case 31: a kill wakes the loop at once, counts once and leads to one restart.
func TestCase31KilledUnitIsRestarted(t *testing.T) {
	double, l, sc := bed(t, nil)
	kill(double)
	calls := double.WaitCalls("RestartUnit", 1)
	assert.Equal(t, webserver, calls[0].Unit)
	sc.await(t, webserver, "OK after the restart", func(v monitor.View) bool {
		return v.Status == monitor.StatusOK && v.RestartsInInterval == 1 && v.FailureSum == 0
	})
	assert.Len(t, double.Calls("RestartUnit"), 1)
	c := inspect(l, (*monitor.Resource).Counters)
	assert.EqualValues(t, 1, c.Failures[monitor.CauseDeath])
	assert.Equal(t, double.Unit(webserver).InvocationID, inspect(l, (*monitor.Resource).Invocation))
}

// A service whose start succeeds and that dies again escalates after exactly
// RetryCount restarts, and after the accepted escalation nothing is restarted.
func TestEscalatesAfterRetryCount(t *testing.T) {
	double, l, sc := bed(t, func(o *faults.Options) {
		o.Resources[0].Config.Escalation, o.Resources[0].Config.Target = monitor.EscalateUnit, "rescue.target"
	})
	for n := 1; n <= 2; n++ {
		kill(double)
		double.WaitCalls("RestartUnit", n)
		sc.await(t, webserver, "restarted", func(v monitor.View) bool {
			return v.Status == monitor.StatusOK && int(v.RestartsInInterval) == n
		})
	}
	kill(double)
	calls := double.WaitCalls("StartUnit", 1)
	assert.Equal(t, "rescue.target", calls[0].Unit)
	require.Eventually(t, func() bool {
		return inspect(l, func(r *monitor.Resource) bool { return r.Snapshot().Ended })
	}, patience, 5*time.Millisecond)
	double.SetActive(webserver, "active")
	kill(double)
	double.Change(webserver, func(u *systemdtest.Unit) { u.Result = "exit-code" })
	inspect(l, (*monitor.Resource).Counters)
	assert.Len(t, double.Calls("RestartUnit"), 2)
	assert.Len(t, double.Calls("StartUnit"), 1)
}

// A service whose start job fails escalates at once.
func TestFailedStartEscalatesAtOnce(t *testing.T) {
	double, _, _ := bed(t, func(o *faults.Options) {
		o.Resources[0].Config.Escalation, o.Resources[0].Config.Target = monitor.EscalateUnit, "rescue.target"
	})
	double.Script(webserver, systemdtest.Script{Result: "failed"})
	kill(double)
	double.WaitCalls("StartUnit", 1)
	assert.Len(t, double.Calls("RestartUnit"), 1)
}

// Case 34 and its kin: what people do is not repaired.
func TestCase34OperatorStop(t *testing.T) {
	double, l, sc := bed(t, nil)
	for round := range 3 {
		id := double.Foreign(webserver, "stop")
		double.Finish(id, "done")
		require.Eventually(t, func() bool {
			return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOffline
		}, patience, time.Millisecond, "round %d", round)
		id = double.Foreign(webserver, "start")
		double.Finish(id, "done")
		require.Eventually(t, func() bool {
			return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOK
		}, patience, time.Millisecond, "round %d", round)
	}
	c := inspect(l, (*monitor.Resource).Counters)
	assert.Zero(t, c.Failures[monitor.CauseDeath])
	assert.Empty(t, double.Calls("RestartUnit"))
	kill(double) // watched again
	double.WaitCalls("RestartUnit", 1)
	_ = sc
}

func TestOperatorRestart(t *testing.T) {
	double, l, _ := bed(t, nil)
	before := double.Unit(webserver).InvocationID
	double.Finish(double.Foreign(webserver, "restart"), "done")
	require.Eventually(t, func() bool {
		return inspect(l, (*monitor.Resource).Invocation) == double.Unit(webserver).InvocationID
	}, patience, time.Millisecond)
	assert.NotEqual(t, before, double.Unit(webserver).InvocationID)
	assert.Zero(t, inspect(l, (*monitor.Resource).Counters).Failures[monitor.CauseDeath])
	assert.Empty(t, double.Calls("RestartUnit"))
}

// A stop that fails to stop explains no later death.
func TestCancelledStopExplainsNothing(t *testing.T) {
	double, _, _ := bed(t, nil)
	double.Finish(double.Foreign(webserver, "stop"), "canceled")
	kill(double)
	double.WaitCalls("RestartUnit", 1)
}

// Case 35: two deaths between wakes are two failures.
func TestCase35TwoDeaths(t *testing.T) {
	double, l, _ := bed(t, func(o *faults.Options) { o.Resources[0].Config.RetryCount = -1 })
	double.Change(webserver, func(u *systemdtest.Unit) {
		u.NRestarts, u.InvocationID = 2, fmt.Sprintf("%032x", 4711)
	})
	require.Eventually(t, func() bool {
		return inspect(l, (*monitor.Resource).Counters).Failures[monitor.CauseDeath] == 2
	}, patience, time.Millisecond)
	assert.Empty(t, double.Calls("RestartUnit"), "systemd has restarted it")
	assert.EqualValues(t, 2, inspect(l, (*monitor.Resource).Counters).RestartsByOthers)
}

// Who ordered an end is waited for as long as systemd's news of it are on their
// way: on a busy machine they come late.
func TestLateNewsOfAStop(t *testing.T) {
	var ahead atomic.Int64 // of the clock
	double, l, _ := bed(t, func(o *faults.Options) {
		o.Now = func() state.Instant {
			at := now()
			at.Boot += time.Duration(ahead.Load())
			return at
		}
	})
	double.HoldJobs(true)
	double.Finish(double.Foreign(webserver, "stop"), "done")
	require.Eventually(t, func() bool {
		return strings.Contains(inspect(l, (*monitor.Resource).View).Message, "why the unit ended is not known yet")
	}, patience, time.Millisecond)
	probes := inspect(l, (*monitor.Resource).Counters).Probes
	ahead.Store(int64(10 * time.Second))
	require.Eventually(t, func() bool { // the loop has looked at the clock
		return inspect(l, (*monitor.Resource).Counters).Probes > probes
	}, patience, time.Millisecond)
	assert.Zero(t, inspect(l, (*monitor.Resource).Counters).Failures[monitor.CauseDeath])
	double.HoldJobs(false)
	require.Eventually(t, func() bool {
		return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOffline
	}, patience, time.Millisecond)
	assert.Zero(t, inspect(l, (*monitor.Resource).Counters).Failures[monitor.CauseDeath])
	assert.Empty(t, double.Calls("RestartUnit"))
}

// Case 55: the start limit is cleared and the restart tried once more.
func TestCase55StartLimit(t *testing.T) {
	double, l, sc := bed(t, func(o *faults.Options) { o.Resources[0].Config.Mode = monitor.ModeRestartOnly })
	probeNoMore(l)
	double.Script(webserver, systemdtest.Script{Result: "failed"})
	double.Change(webserver, func(u *systemdtest.Unit) { u.Active, u.Result = "failed", "start-limit-hit" })
	double.WaitCalls("ResetFailedUnit", 1)
	double.WaitCalls("RestartUnit", 2)
	sc.awaitStatus(t, webserver, monitor.StatusFaulted)
	assert.EqualValues(t, 100, inspect(l, (*monitor.Resource).View).FailureSum, "F is kept")
	c := inspect(l, (*monitor.Resource).Counters)
	assert.EqualValues(t, 1, c.Restarts[monitor.RestartStartLimit])
}

// What systemd does not tell is no failure.
func TestLostSight(t *testing.T) {
	double, l, sc := bed(t, nil)
	double.Leave()
	sc.awaitStatus(t, webserver, monitor.StatusUnknown)
	double.Arrive()
	require.Eventually(t, func() bool {
		return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOK
	}, patience, time.Millisecond)
	assert.Zero(t, inspect(l, (*monitor.Resource).Counters).Failures[monitor.CauseDeath])
}

func TestAbsentUnit(t *testing.T) {
	double, l, _ := bed(t, nil)
	double.Change(webserver, func(u *systemdtest.Unit) { u.Load, u.Active = "not-found", "inactive" })
	require.Eventually(t, func() bool {
		return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOffline
	}, patience, time.Millisecond)
	assert.Empty(t, double.Calls("RestartUnit"))
}

// A reading that is older than an order does not make the monitor forget the
// order: what comes of it is no death.
func TestOlderReadingForgetsNoOrder(t *testing.T) {
	double, l, _ := bed(t, nil)
	for range 20 {
		id := double.Foreign(webserver, "stop")
		for range 5 { // readings that still show the instance
			l.Tell(webserver, monitor.ProbeNow{}, nil)
			double.Change(webserver, func(u *systemdtest.Unit) { u.MainPID++ })
			inspect(l, (*monitor.Resource).View)
		}
		double.Finish(id, "done")
		require.Eventually(t, func() bool {
			return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOffline
		}, patience, time.Millisecond)
		double.Finish(double.Foreign(webserver, "start"), "done")
		require.Eventually(t, func() bool {
			return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOK
		}, patience, time.Millisecond)
	}
	assert.Empty(t, double.Calls("RestartUnit"))
}

// An operator's restart explains the end of the old instance and nothing that the
// new one does, in whatever order systemd's news of it comes.
func TestOperatorRestartExplainsNoLaterDeath(t *testing.T) {
	double, l, _ := bed(t, nil)
	for n := 1; n <= 5; n++ {
		before := inspect(l, (*monitor.Resource).Invocation)
		id := double.Foreign(webserver, "restart")
		double.Change(webserver, func(u *systemdtest.Unit) { u.InvocationID = fmt.Sprintf("%032x", 1000+n) })
		require.Eventually(t, func() bool { return inspect(l, (*monitor.Resource).Invocation) != before }, patience, time.Millisecond)
		double.Finish(id, "done") // later than the new instance was seen
		kill(double)
		double.WaitCalls("RestartUnit", n)
		awaitRenewed(t, double, l)
		assert.Len(t, double.Calls("RestartUnit"), n, "one death, one restart")
		l.Tell(webserver, monitor.Reset{}, nil)
		l.Tell(webserver, monitor.ProbeNow{}, nil)
	}
}

// awaitRenewed waits until the instance that is there is the one that is watched,
// and well.
func awaitRenewed(t *testing.T, double *systemdtest.Systemd, l *faults.Loop) {
	t.Helper()
	require.Eventually(t, func() bool {
		return inspect(l, (*monitor.Resource).View).Status == monitor.StatusOK &&
			inspect(l, (*monitor.Resource).Invocation) == double.Unit(webserver).InvocationID
	}, patience, time.Millisecond)
}

// A probe that looks while it is not known yet why the unit ended does not count
// the end a second time.
func TestDeathIsCountedOnce(t *testing.T) {
	double, l, _ := bed(t, func(o *faults.Options) { o.Resources[0].Config.ThoroughProbe = 10 * time.Millisecond })
	for n := 1; n <= 5; n++ {
		double.Foreign(webserver, "reload") // makes the watch wait for what explains the end
		l.Tell(webserver, monitor.ProbeNow{}, nil)
		kill(double)
		double.WaitCalls("RestartUnit", n)
		awaitRenewed(t, double, l)
		assert.Len(t, double.Calls("RestartUnit"), n)
		c := inspect(l, (*monitor.Resource).Counters)
		assert.EqualValues(t, n, c.Failures[monitor.CauseDeath])
		assert.Zero(t, c.Failures[monitor.CauseProbe])
		l.Tell(webserver, monitor.Reset{}, nil)
	}
}
