package monitor_test

import (
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The wrong behaviours of fault-monitor.md §6 that need no I/O to show and are
// not one of the numbered cases. The project after which each is named is the
// one whose users reported it.

func TestBugErlangSlowRestartsDoNotEscapeTheLimit(t *testing.T) {
	cfg := base()
	cfg.RetryCount, cfg.RestartTimeout = 3, time.Hour
	g := newRig(t, cfg)
	g.silent = true
	for n := 1; n <= 3; n++ {
		g.step(monitor.Died{})
		require.Len(t, g.restarts, n)
		g.now += 200 * time.Second
		g.step(monitor.Tick{})
		g.now += 200 * time.Second // each restart alone is longer than RI
		g.step(monitor.Tick{})
		require.Len(t, g.res.Restarts(), n)
		g.step(monitor.RestartDone{Generation: uint64(n), Outcome: monitor.RestartOK})
		g.now += time.Second
	}
	g.step(monitor.Died{})
	assert.Len(t, g.escalated, 1)
}

func TestBugStartedInstanceThatDiesEscalatesAfterExactlyRetryCount(t *testing.T) {
	g := newRig(t, base())
	for range 5 {
		g.now += 100 * time.Millisecond
		g.step(monitor.Died{})
	}
	assert.Len(t, g.restarts, 2)
	assert.Len(t, g.escalated, 1)
}

func TestBugDeathOfTheNewInstanceBeforeTheRestartsAnswer(t *testing.T) {
	cfg := base()
	cfg.Mode = monitor.ModeRestartOnly
	g := newRig(t, cfg)
	g.step(monitor.Started{Invocation: "old"})
	g.silent = true
	g.step(monitor.Died{Invocation: "old"})
	require.Len(t, g.restarts, 1)
	g.step(monitor.Died{Invocation: "old"})       // the stop half of the restart
	g.step(monitor.Died{})                        // cannot be told apart from it
	g.step(monitor.Died{Invocation: "new", N: 1}) // the start half has succeeded and died
	require.Len(t, g.restarts, 1, "one restart at a time")
	g.step(monitor.RestartDone{Generation: 1, Outcome: monitor.RestartOK, Invocation: "new"})
	assert.Len(t, g.restarts, 2, "counted once, after the answer")
	assert.EqualValues(t, 2, g.res.Counters().Failures[monitor.CauseDeath])

	g.step(monitor.Died{Invocation: "newer", Generation: 2})
	g.step(monitor.RestartDone{Generation: 2, Outcome: monitor.RestartFailed, Invocation: "newer"})
	g.step(monitor.Died{Invocation: "newer", Generation: 2})
	assert.EqualValues(t, 2, g.res.Counters().Failures[monitor.CauseDeath], "a failed start and its death are one")
}

func TestBugPacemakerStaleDeathsAreNotReplayed(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.Died{Invocation: "a"})
	g.step(monitor.Died{Invocation: "a"})
	g.step(monitor.Died{Generation: 0, Invocation: "a", N: 3})
	assert.Len(t, g.restarts, 1)
	g.step(monitor.Died{Invocation: "b", Generation: 1})
	g.step(monitor.Died{Invocation: "old", Generation: 1})
	assert.Len(t, g.restarts, 2)
	assert.EqualValues(t, 3, g.res.Counters().Stale)
}

func TestBugLateDeathOfAReplacedInstance(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.Started{Invocation: "old"})
	g.restart = func(int) monitor.RestartDone {
		return monitor.RestartDone{Outcome: monitor.RestartOK, Invocation: "new"}
	}
	g.run("100@60")
	g.step(monitor.Died{Invocation: "old", Detail: "signal 15, our own stop, told late"})
	assert.Len(t, g.restarts, 1)
	g.step(monitor.Died{Invocation: "new"})
	assert.Len(t, g.restarts, 2)
}

func TestBugReloadOfTheSameConfigurationIsNoChange(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.Configure{Config: base()})
	assert.Zero(t, g.count(monitor.Reconfigured))
}

func TestBugMonitStillFailingServiceIsRestartedAgain(t *testing.T) {
	g := newRig(t, base())
	assert.Equal(t, []string{"RESTART", "RESTART"}, g.run("100@0 100@60"), "without an OK in between")
}

func TestBugKubernetesOneMissAfterRestart(t *testing.T) {
	g := newRig(t, base())
	assert.Equal(t, []string{"-", "RESTART", "-"}, g.run("50@0 50@60 50@120"), "F does not survive the restart")
}

func TestBugSystemdSlowRetryWhenTheWindowSlides(t *testing.T) {
	cfg := base()
	cfg.Escalation = monitor.EscalateNone
	g := newRig(t, cfg)
	for s := 0.0; s <= 6000; s += 60 {
		g.at(s).report(100)
	}
	assert.Greater(t, len(g.restarts), 20, "it never gives up for good")
}

func TestBugSystemdOperatorIsNotBlockedByTheLimit(t *testing.T) {
	cfg := base()
	cfg.Mode = monitor.ModeRestartOnly
	g := newRig(t, cfg)
	g.run("100@0 100@60 100@120")
	g.step(monitor.OperatorOff{Reason: "systemctl restart"})
	g.step(monitor.OperatorOn{})
	assert.Zero(t, g.res.View().RestartsInInterval)
	assert.Zero(t, g.sum())
}

func TestBugPacemakerLogOnlyIsInert(t *testing.T) {
	cfg := base()
	cfg.Mode, cfg.RetryCount = monitor.ModeLogOnly, 0
	g := newRig(t, cfg)
	assert.Equal(t, []string{"WOULD_ESCALATE", "-", "-"}, g.run("100@0 100@60 201@120"))
	assert.Empty(t, g.res.Restarts())
	assert.Zero(t, g.res.View().RefusedEscalations)
}

func TestBugPersistentFailureSurfaces(t *testing.T) {
	cfg := base()
	cfg.Escalation, cfg.RetryCount = monitor.EscalateNone, 0
	g := newRig(t, cfg)
	g.run(every(100, 50, 60))
	assert.Equal(t, monitor.StatusFaulted, g.status())
	assert.Equal(t, 1, g.count(monitor.Exhausted), "said once, not at every probe")
}

func TestBugSlowFailingProbesDoNotFloodTheLog(t *testing.T) {
	cfg := base()
	cfg.Escalation, cfg.RetryCount = monitor.EscalateNone, 0
	g := newRig(t, cfg)
	for i := range 20 {
		g.at(float64(60 * i)).step(monitor.ProbeNow{})
		tag := g.probe.Tag
		g.probe = nil
		g.step(monitor.ProbeResult{Tag: tag, Status: 100, Elapsed: time.Duration(i%2) * 29 * time.Second})
	}
	assert.Equal(t, 1, g.count(monitor.Exhausted))
	assert.Equal(t, "EXHAUSTED", g.res.View().LastDecision)
}

func TestBugNothingIsReadAsHealthy(t *testing.T) {
	g := newRig(t, base())
	g.run("-1@0 -1@60")
	assert.Equal(t, monitor.StatusUnknown, g.status(), "a probe that could not be made is neither OK nor down")
	assert.Empty(t, g.restarts)
}

func TestBugAllRestartsAtOnceWithoutJitter(t *testing.T) {
	// Resources that have reached the longest back-off together must not
	// stay together: jitter is applied after the bound.
	cfg := base()
	cfg.RetryCount = -1
	cfg.Backoff = monitor.Backoff{Min: time.Minute, Max: time.Minute, Factor: 2, Jitter: 0.2}
	seen := map[time.Duration]bool{}
	for i := range 10 {
		r, err := monitor.NewResource(newRig(t, cfg).instant(), cfg, func() float64 { return float64(i) / 10 })
		require.NoError(t, err)
		r.Step(newRig(t, cfg).instant(), monitor.Died{})
		at, _ := r.NextDeadline()
		seen[at] = true
	}
	assert.Greater(t, len(seen), 4)
}
