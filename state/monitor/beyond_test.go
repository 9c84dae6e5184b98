package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBackoffGrowsAndIsForgiven(t *testing.T) {
	cfg := base()
	cfg.RetryCount = -1
	cfg.Backoff = monitor.Backoff{Min: time.Second, Max: 10 * time.Second, Factor: 2, Jitter: 0.2}
	cfg.StableFor = 100 * time.Second
	g := newRig(t, cfg) // random gives 0.5: no jitter
	die := func() time.Duration {
		n := len(g.restarts)
		g.step(monitor.Died{})
		require.Len(t, g.restarts, n)
		start := g.now
		at, _ := g.res.NextDeadline()
		g.now = at
		g.step(monitor.Tick{})
		require.Len(t, g.restarts, n+1)
		return g.now - start
	}
	var got []time.Duration
	for range 6 {
		got = append(got, die())
	}
	s := time.Second
	assert.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s}, got)

	now := g.now.Seconds()
	g.run(fmt.Sprintf("0@%g 0@%g", now+1, now+100))
	assert.Equal(t, 10*s, die(), "99 s are not enough")
	now = g.now.Seconds()
	g.run(fmt.Sprintf("0@%g 0@%g", now+1, now+101))
	assert.Equal(t, s, die(), "forgiven")
}

func TestBackoffJitterIsTwentyPercent(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 8 * time.Second, 0.5: 10 * time.Second, 0.75: 11 * time.Second} {
		cfg := base()
		cfg.Backoff = monitor.Backoff{Min: 10 * time.Second, Max: 10 * time.Second, Factor: 1, Jitter: 0.2}
		r, err := monitor.NewResource(newRig(t, cfg).instant(), cfg, func() float64 { return random })
		require.NoError(t, err)
		r.Step(newRig(t, cfg).instant(), monitor.Died{})
		at, _ := r.NextDeadline()
		assert.InDelta(t, want, at, 1e3)
	}
}

func TestDryRunDecidesTheSame(t *testing.T) {
	script := "100@0 100@60 100@120 100@180 0@240 100@361 100@370"
	cfg := base()
	cfg.DryRun = true
	g := newRig(t, cfg)
	got := g.run(script)
	assert.Equal(t, []string{"WOULD_RESTART", "WOULD_RESTART", "WOULD_ESCALATE", "-", "RECOVERED", "WOULD_RESTART", "WOULD_RESTART"}, got)
	assert.Empty(t, g.restarts)
	assert.Empty(t, g.escalated)
	assert.Equal(t, monitor.StatusFaulted, g.status(), "nobody has repaired it")
	assert.Equal(t, "WOULD_ESCALATE", g.res.View().NextAction)
}

func TestSuspension(t *testing.T) {
	t.Run("expires and then counts", func(t *testing.T) {
		g := newRig(t, base())
		g.step(monitor.Suspend{Owner: "bob", For: 100 * time.Second})
		at, _ := g.res.NextDeadline()
		assert.Equal(t, time.Minute, at, "probing goes on")
		assert.Equal(t, []string{"-", "RESTART"}, g.run("100@60 100@100"))
	})
	t.Run("is over before what comes with its expiry", func(t *testing.T) {
		g := newRig(t, base())
		g.step(monitor.Suspend{Owner: "bob", For: 100 * time.Second})
		g.at(100).step(monitor.Died{})
		assert.Len(t, g.restarts, 1)
	})
	t.Run("one owner cannot end another's", func(t *testing.T) {
		g := newRig(t, base())
		g.step(monitor.Suspend{Owner: "alice"})
		g.step(monitor.Suspend{Owner: "bob"})
		g.step(monitor.Resume{Owner: "carol"})
		require.Len(t, g.refused, 1)
		g.step(monitor.Resume{Owner: "alice"})
		assert.Equal(t, []string{"-"}, g.run("100@60"))
		assert.Equal(t, []monitor.Suspension{{Owner: "bob", Until: never}}, g.res.Suspensions())
		g.step(monitor.Resume{All: true})
		assert.Equal(t, []string{"RESTART"}, g.run("100@120"))
	})
	t.Run("needs an owner and a time", func(t *testing.T) {
		g := newRig(t, base())
		g.step(monitor.Suspend{})
		g.step(monitor.Suspend{Owner: "x", For: -1})
		for i := range 20 {
			g.step(monitor.Suspend{Owner: fmt.Sprint("owner", i)})
		}
		assert.Len(t, g.refused, 6)
	})
	t.Run("recalls a waiting restart", func(t *testing.T) {
		cfg := base()
		cfg.Backoff = monitor.Backoff{Min: time.Minute, Max: time.Minute, Factor: 1}
		g := newRig(t, cfg)
		g.run("100@0")
		g.at(1).step(monitor.Suspend{Owner: "bob"})
		g.tick(120)
		assert.Empty(t, g.restarts)
	})
	t.Run("denial while suspended is followed by nothing", func(t *testing.T) {
		g := newRig(t, base())
		g.run("0@0")
		g.silent, g.did = true, nil
		g.step(monitor.Configure{Config: func() monitor.Config { c := base(); c.RetryCount = 0; return c }()})
		g.at(1).step(monitor.Died{})
		require.Len(t, g.escalated, 1)
		g.step(monitor.Configure{Config: base()})
		g.at(2).step(monitor.Suspend{Owner: "bob"})
		g.at(3).step(monitor.EscalationAnswer{Attempt: g.escalated[0].Attempt, Answer: monitor.Denied})
		assert.Empty(t, g.restarts)
	})
	t.Run("survives restart and boot with the time that was left", func(t *testing.T) {
		old := newFleet(t, monitor.Limits{}, base()).at(500)
		old.step("unit", monitor.Suspend{Owner: "bob", For: 100 * time.Second})
		old.at(540)
		snap := old.mon.Snapshot(old.instant(), "a")
		for boot, until := range map[string]time.Duration{"a": 600 * time.Second, "b": 610 * time.Second} {
			f := newFleet(t, monitor.Limits{}, base()).at(550)
			_, err := f.mon.Restore(f.instant(), boot, snap)
			require.NoError(t, err)
			r, _ := f.mon.Resource("unit")
			assert.Equal(t, []monitor.Suspension{{Owner: "bob", Until: until}}, r.Suspensions(), boot)
		}
	})
}

func TestCheapProbe(t *testing.T) {
	cfg := base()
	cfg.CheapProbe = 10 * time.Second
	g := newRig(t, cfg)
	var thorough []bool
	for g.now < 130*time.Second {
		at, ok := g.res.NextDeadline()
		require.True(t, ok)
		g.now = at
		g.step(monitor.Tick{})
		require.NotNil(t, g.probe)
		thorough = append(thorough, g.probe.Thorough)
		tag := g.probe.Tag
		g.probe = nil
		g.step(monitor.ProbeResult{Tag: tag})
	}
	f, x := false, true
	assert.Equal(t, []bool{f, f, f, f, f, x, f, f, f, f, f, x, f}, thorough)
}

func TestSlowSuccessIsAFailure(t *testing.T) {
	cfg := base()
	cfg.TimeoutWeight, cfg.PartialWeights = 34, true
	g := newRig(t, cfg)
	slow := func(status int, elapsed time.Duration) {
		g.step(monitor.ProbeNow{})
		tag := g.probe.Tag
		g.probe = nil
		g.step(monitor.ProbeResult{Tag: tag, Status: status, Elapsed: elapsed})
	}
	slow(0, 31*time.Second)
	assert.Equal(t, 34, g.sum())
	slow(0, 23*time.Second)
	slow(0, 24*time.Second)
	slow(0, 25*time.Second)
	assert.Equal(t, monitor.StatusOK, g.status())
	assert.Equal(t, 2, g.count(monitor.SlowProbe), "said once until a probe is fast again")
	slow(0, 30*time.Second)
	assert.Equal(t, 34, g.sum(), "exactly in time")
	slow(50, 31*time.Second)
	assert.Equal(t, 84, g.sum(), "the heavier weight counts")
}

func TestStuckProbeOfTheSameInstanceCounts(t *testing.T) {
	cfg := base()
	cfg.TimeoutWeight, cfg.Mode = 34, monitor.ModeRestartOnly
	g := newRig(t, cfg)
	g.silent = true
	g.step(monitor.ProbeNow{})
	g.tick(30)
	g.tick(90)
	assert.Equal(t, 68, g.sum())
	g.tick(150)
	assert.Len(t, g.restarts, 1, "no answer is never mapped to healthy")
	assert.EqualValues(t, 1, g.res.Counters().Probes)
}

func TestLateLoopIsNotTheServicesFault(t *testing.T) {
	g := newRig(t, base())
	g.silent = true
	g.step(monitor.ProbeNow{})
	tag := g.probe.Tag
	g.tick(3600) // the BMC slept
	assert.Zero(t, g.sum())
	at, _ := g.res.NextDeadline()
	assert.Equal(t, 3630*time.Second, at, "the time-out runs once more")
	g.probe = nil
	g.at(3601).step(monitor.ProbeResult{Tag: tag, Elapsed: time.Second})
	assert.Equal(t, monitor.StatusOK, g.status())

	g.step(monitor.ProbeNow{})
	g.tick(8000)
	g.tick(9000)
	assert.Len(t, g.restarts, 1, "but only once")
}

// TestSilentExecutor: nothing waits for ever.
func TestSilentExecutor(t *testing.T) {
	g := newRig(t, base())
	g.silent = true
	g.step(monitor.Died{})
	require.Len(t, g.restarts, 1)
	g.tick(300)
	require.Len(t, g.escalated, 1, "a restart without an answer has failed")
	g.tick(360)
	assert.EqualValues(t, 1, g.res.View().RefusedEscalations, "an escalation without one is refused")
	require.Len(t, g.restarts, 2, "and after a death a local restart follows")

	// The failover was accepted after all: nothing is restarted any more.
	actions := g.res.Step(g.at(361).instant(), monitor.EscalationAnswer{Attempt: g.escalated[0].Attempt, Answer: monitor.Accepted})
	assert.Contains(t, actions, monitor.Action(monitor.CancelRestart{Resource: "unit", Generation: 2}))
	g.at(400).step(monitor.Died{})
	g.tick(4000)
	assert.Len(t, g.restarts, 2)
	_, waiting := g.res.NextDeadline()
	assert.False(t, waiting)
}

func TestDenialsAreForgivenAfterStableTime(t *testing.T) {
	cfg := base()
	cfg.RetryCount, cfg.DenialLimit = 0, 2
	g := newRig(t, cfg)
	g.escalate = deny("no")
	assert.Equal(t, []string{"GIVEOVER+DENIED", "RECOVERED", "-", "GIVEOVER+DENIED"}, g.run("100@0 0@60 0@660 100@720"))
	assert.Equal(t, []string{"GIVEOVER+DENIED", "-"}, g.run("100@780 100@840"), "quiesced")
	assert.Equal(t, 1, g.count(monitor.Quiesce))
}

func TestDenialBackoff(t *testing.T) {
	cfg := base()
	cfg.RetryCount, cfg.DenialLimit = 0, -1
	cfg.Backoff = monitor.Backoff{Min: 100 * time.Second, Max: 400 * time.Second, Factor: 2}
	g := newRig(t, cfg)
	g.escalate = deny("no")
	g.run("100@0")
	require.Len(t, g.escalated, 1)
	g.run("100@60")
	require.Len(t, g.escalated, 1, "not at probe speed")
	g.tick(100)
	assert.Len(t, g.escalated, 2)
}

func TestQuiesceUnitIsTriedAgain(t *testing.T) {
	cfg := base()
	cfg.RetryCount, cfg.DenialLimit, cfg.QuiesceTarget = 0, 1, "q.target"
	g := newRig(t, cfg)
	g.escalate = deny("no")
	assert.Equal(t, []string{"GIVEOVER+DENIED+QUIESCE+DENIED", "-", "QUIESCE+DENIED"}, g.run("100@0 100@30 100@60"))
	g.escalate = nil
	assert.Equal(t, []string{"QUIESCE", "-"}, g.run("100@120 100@180"))
	assert.Equal(t, monitor.StatusFaulted, g.status())
}

func TestProbeNowAndReset(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.OperatorOff{Reason: "off"})
	g.step(monitor.ProbeNow{})
	require.Len(t, g.refused, 1)
	g.step(monitor.OperatorOn{})
	g.run("100@0 100@60")
	g.step(monitor.Reset{})
	assert.Zero(t, g.res.View().RestartsInInterval)
	assert.NotNil(t, g.probe, "a reset looks at once")
	assert.Equal(t, []string{"RESTART"}, g.run("100@61"))
}

func TestLostSightIsNoFailure(t *testing.T) {
	g := newRig(t, base())
	g.run("0@0")
	g.step(monitor.LostSight{Reason: "bus gone"})
	assert.Equal(t, monitor.StatusUnknown, g.status())
	assert.Zero(t, g.sum())
}

func TestModeChangeReachesAWaitingRestart(t *testing.T) {
	cfg := base()
	cfg.Backoff = monitor.Backoff{Min: 10 * time.Second, Max: 10 * time.Second, Factor: 1}
	g := newRig(t, cfg)
	g.run("100@0")
	cfg.Mode = monitor.ModeLogOnly
	g.step(monitor.Configure{Config: cfg})
	g.did = nil
	g.tick(10)
	assert.Equal(t, "WOULD_RESTART", g.result())
	assert.Empty(t, g.restarts)
}

func TestRestartByTheServiceManager(t *testing.T) {
	cfg := base()
	cfg.RetryCount = 5
	cfg.Backoff = monitor.Backoff{Min: 10 * time.Second, Max: time.Minute, Factor: 2}
	cfg.Flap = monitor.FlapConfig{Count: 3, Clear: 1, Window: 10 * time.Minute}
	g := newRig(t, cfg)
	g.run("100@0")
	require.Equal(t, "RESTART", g.res.View().NextAction, "waits for its back-off")
	g.at(1).step(monitor.Died{Restarted: true})
	g.tick(60)
	assert.Empty(t, g.restarts, "the restart that waited is made already")
	g.step(monitor.Died{Restarted: true, N: 2})
	assert.True(t, g.res.View().Flapping)
	assert.EqualValues(t, 3, g.res.Counters().RestartsByOthers)
}

func TestResetForgivesTheBackoff(t *testing.T) {
	cfg := base()
	cfg.Backoff = monitor.Backoff{Min: time.Second, Max: time.Minute, Factor: 10}
	g := newRig(t, cfg)
	for _, reset := range []bool{false, true} {
		g.step(monitor.Died{})
		at, _ := g.res.NextDeadline()
		require.Equal(t, time.Second, at-g.now)
		g.now = at
		g.step(monitor.Tick{})
		if reset {
			return
		}
		g.step(monitor.Reset{})
	}
}
