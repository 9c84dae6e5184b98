package monitor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// coverage is all ids of fault-monitor.md §4 and where they are tested. What needs
// I/O besides is in cmd/bmcstated/faults ("faults": a double of systemd, real
// sockets), dbus/scenarios ("scenarios": the real daemon) and systemd/beds/cases
// ("bed 4": under a real systemd), by the same number or by the name given.
var coverage = map[int]string{
	1: "TestCase", 2: "TestCase", 3: "TestCase", 4: "TestCase", 5: "TestCase", 6: "TestCase", 7: "TestCase",
	8: "TestCase", 9: "TestCase", 10: "TestCase", 11: "TestCase", 12: "TestCase", 14: "TestCase", 15: "TestCase",
	16: "TestCase", 17: "TestCase", 18: "TestCase", 19: "TestConfig", 20: "TestCase", 21: "TestCase", 22: "TestCase",
	24: "TestCase", 25: "TestCase", 26: "TestCase", 27: "TestCase", 28: "TestCase", 29: "TestCase",
	30: "TestCase30", 31: "TestCase31, faults, bed 4 TestFaultsKilledServiceIsRestarted", 32: "TestCase32, faults", 33: "TestCase33, faults",
	34: "TestCase34, faults, bed 4",
	35: "TestCase35", 37: "TestCase37, faults, bed 4", 38: "TestCase37, faults",
	39: "faults", 40: "faults", 41: "faults", 42: "faults, TestLoopOfProbesLeaksNothing",
	43: "TestCase43, faults", 44: "TestCase44", 46: "TestCase46", 47: "TestCase47, scenarios", 48: "TestCase48, faults, scenarios TestFaultMonitorHistorySurvives", 49: "TestCase49",
	50: "TestCase50", 51: "TestCase51, scenarios TestFaultMonitorDoesNotFightPeople and its neighbours", 53: "TestCase53", 54: "TestCase54", 55: "TestCase55, faults",
	56: "TestCase56, faults", 57: "TestConfig", 58: "TestConfig", 60: "TestCase60", 61: "TestCase61, faults", 62: "TestCase62, dbus/failover, scenarios TestFaultMonitorFailover",
	63: "TestCase63, scenarios TestFaultMonitorFailover",
}

func TestCoverageTableIsComplete(t *testing.T) {
	unused := []int{13, 23, 36, 45, 52, 59} // ids that §4 does not use
	for id := 1; id <= 63; id++ {
		assert.Equal(t, !slices.Contains(unused, id), coverage[id] != "", "case %d", id)
	}
}

// TestCase plays the cases of §4 that are one sequence of reports.
func TestCase(t *testing.T) {
	type config = *monitor.Config
	for _, c := range []struct {
		id      int
		setup   func(config)
		rig     func(*rig)
		script  string
		want    []string
		status  monitor.Status
		sum     int // −1 = not looked at
		inR     int // restarts within the interval, −1 = not looked at
		message string
	}{
		{id: 1, script: "0@0", want: []string{"-"}, status: monitor.StatusOK},
		{id: 2, script: "100@0", want: []string{"RESTART"}, status: monitor.StatusDegraded, inR: 1},
		{id: 3, script: "50@0", want: []string{"-"}, status: monitor.StatusDegraded, sum: 50, message: "partial 50/100"},
		{id: 4, script: "50@0 50@60", want: []string{"-", "RESTART"}, status: monitor.StatusDegraded, inR: 1},
		{
			id: 5, script: "50@0 0@60 50@120", want: []string{"-", "RECOVERED", "RESTART"},
			status: monitor.StatusDegraded, inR: 1,
		},
		{id: 6, script: "50@0 50@300", want: []string{"-", "RESTART"}, status: monitor.StatusDegraded, inR: 1},
		{id: 7, script: "50@0 50@300.001", want: []string{"-", "-"}, status: monitor.StatusDegraded, sum: 50},
		{id: 8, script: "34@0 34@60 32@120", want: []string{"-", "-", "RESTART"}, status: monitor.StatusDegraded, inR: 1},
		{id: 9, script: "34@0 34@60 31@120", want: []string{"-", "-", "-"}, status: monitor.StatusDegraded, sum: 99},
		{id: 10, script: every(33, 4, 60), want: []string{"-", "-", "-", "RESTART"}, status: monitor.StatusDegraded, inR: 1},
		{
			id: 11, script: "100@0 100@60 100@120 100@180", want: []string{"RESTART", "RESTART", "GIVEOVER", "-"},
			status: monitor.StatusFaulted, sum: 100, inR: -1, message: "gave over",
		},
		{
			id: 12, script: "100@0 100@60 100@359", want: []string{"RESTART", "RESTART", "RESTART"},
			status: monitor.StatusDegraded, inR: 2,
		},
		{
			id: 14, script: "100@0 100@60 100@300", want: []string{"RESTART", "RESTART", "GIVEOVER"},
			status: monitor.StatusFaulted, sum: 100, inR: 2,
		},
		{
			id: 14, script: "100@0 100@60 100@300.001", want: []string{"RESTART", "RESTART", "RESTART"},
			status: monitor.StatusDegraded, inR: 2,
		},
		{
			id: 15, setup: func(c config) { c.RetryCount = 0 }, script: "100@0", want: []string{"GIVEOVER"},
			status: monitor.StatusFaulted, sum: 100,
		},
		{
			id: 16, setup: func(c config) { c.RetryCount, c.Mode = 0, monitor.ModeRestartOnly }, script: "100@0",
			want: []string{"EXHAUSTED"}, status: monitor.StatusFaulted, sum: 100, message: "retry limit",
		},
		{
			id: 17, setup: func(c config) { c.RetryCount = -1 }, script: every(100, 1000, 10),
			want: slices.Repeat([]string{"RESTART"}, 1000), status: monitor.StatusDegraded, inR: 31,
		},
		{
			id: 18, setup: func(c config) { c.RetryInterval = monitor.NeverAges },
			script: "50@0 50@1e6 100@2e6 100@4e6", want: []string{"-", "RESTART", "RESTART", "GIVEOVER"},
			status: monitor.StatusFaulted, sum: 100, inR: 2,
		},
		{
			id: 20, rig: func(g *rig) { g.escalate = deny("FullSyncNotComplete") }, script: "100@0 100@60 100@120",
			want: []string{"RESTART", "RESTART", "GIVEOVER+DENIED"}, status: monitor.StatusFaulted, message: "FullSyncNotComplete",
		},
		{
			id: 20, rig: func(g *rig) { g.escalate = deny("no") }, script: "100@0 100@60 100@120 100@180",
			want: []string{"RESTART", "RESTART", "GIVEOVER+DENIED", "RESTART"}, status: monitor.StatusDegraded, inR: 1,
		},
		{
			id: 21, rig: func(g *rig) { g.escalate = deny("no") }, script: "100@0 100@60 100@120 0@180",
			want: []string{"RESTART", "RESTART", "GIVEOVER+DENIED", "RECOVERED"}, status: monitor.StatusOK,
		},
		{
			id: 22, rig: func(g *rig) { g.restart = failRestart }, script: "100@0", want: []string{"RESTART+GIVEOVER"},
			status: monitor.StatusFaulted, sum: 100, inR: 1,
		},
		{
			id: 24, setup: func(c config) { c.Mode = monitor.ModeRestartOnly }, rig: func(g *rig) { g.restart = failRestart },
			script: "100@0 100@60 100@120", want: []string{"RESTART+RESTART_FAILED", "RESTART+RESTART_FAILED", "EXHAUSTED"},
			status: monitor.StatusFaulted, sum: 300, inR: 2,
		},
		{
			id: 25, setup: func(c config) { c.Mode = monitor.ModeRestartOnly }, script: "100@0 100@60 100@120 100@361",
			want: []string{"RESTART", "RESTART", "EXHAUSTED", "RESTART"}, status: monitor.StatusDegraded, inR: 1,
		},
		{
			id: 26, setup: func(c config) { c.Mode = monitor.ModeLogOnly }, script: "100@0 100@60 0@120 100@180",
			want: []string{"WOULD_RESTART", "-", "RECOVERED", "WOULD_RESTART"}, status: monitor.StatusFaulted, sum: 300,
		},
		{
			id: 26, setup: func(c config) { c.Mode = monitor.ModeLogOnly }, script: "100@0 100@60 0@120",
			want: []string{"WOULD_RESTART", "-", "RECOVERED"}, status: monitor.StatusOK, sum: 200,
		},
		{
			id: 27, setup: func(c config) { c.RetryCount = 10 }, script: "201@0", want: []string{"GIVEOVER"},
			status: monitor.StatusFaulted, sum: 100,
		},
		{
			id: 28, setup: func(c config) { c.Mode = monitor.ModeRestartOnly }, script: "201@0", want: []string{"RESTART"},
			status: monitor.StatusDegraded, inR: 1,
		},
		{
			id: 29, setup: func(c config) { c.Mode = monitor.ModeLogOnly }, script: "201@0", want: []string{"WOULD_RESTART"},
			status: monitor.StatusFaulted, sum: 100,
		},
	} {
		t.Run(fmt.Sprintf("%02d %s", c.id, c.want[len(c.want)-1]), func(t *testing.T) {
			cfg := base()
			if c.setup != nil {
				c.setup(&cfg)
			}
			g := newRig(t, cfg)
			if c.rig != nil {
				c.rig(g)
			}
			assert.Equal(t, c.want, g.run(c.script))
			v := g.res.View()
			assert.Equal(t, c.status, v.Status, v.Message)
			assert.Contains(t, v.Message, c.message)
			if c.sum >= 0 {
				assert.EqualValues(t, c.sum, v.FailureSum)
			}
			if c.inR >= 0 {
				assert.EqualValues(t, c.inR, v.RestartsInInterval)
			}
		})
	}
}

// TestCaseEscalationNone: without a configured escalation SOFT ends as
// RESTART_ONLY does (DESIGN.md §5).
func TestCaseEscalationNone(t *testing.T) {
	cfg := base()
	cfg.Escalation = monitor.EscalateNone
	g := newRig(t, cfg)
	assert.Equal(t, []string{"RESTART", "RESTART", "EXHAUSTED", "RESTART"}, g.run("100@0 100@60 201@120 201@361"))

	g = newRig(t, cfg)
	g.restart = failRestart
	assert.Equal(t, []string{"RESTART+RESTART_FAILED"}, g.run("100@0"))
}

func TestCase30(t *testing.T) {
	g := newRig(t, base())
	g.run("50@0")
	for i, status := range []int{-1, 101, 150, 200, 202, 1000} {
		g.at(float64(60 * (i + 1))) // inside RI for all but the last, which must not matter for errors
		g.report(status)
		assert.Equal(t, monitor.StatusUnknown, g.status())
		assert.EqualValues(t, i+1, g.res.Counters().MonitorErrors)
	}
	assert.Len(t, g.res.Failures(), 0, "the 50 has aged out, nothing was added")
	assert.Empty(t, g.restarts)

	g = newRig(t, base())
	g.run("50@0 150@10")
	assert.Equal(t, 50, g.sum())
	assert.Equal(t, []string{"RESTART"}, g.run("50@20"))
}

func TestCase31(t *testing.T) {
	cfg := base()
	cfg.StartGrace = 10 * time.Second
	g := newRig(t, cfg)
	g.run("0@0")
	g.at(7).step(monitor.Died{Invocation: "a", Detail: "signal 9"})
	require.Len(t, g.restarts, 1, "death interrupts the sleep")
	require.EqualValues(t, 1, g.res.Counters().Failures[monitor.CauseDeath])
	next, _ := g.res.NextDeadline()
	assert.Equal(t, 17*time.Second, next, "next probe after the start grace")
}

func TestCase32(t *testing.T) {
	g := newRig(t, base())
	g.run("0@0")
	g.restart, g.escalate, g.did = failRestart, deny("no sibling"), nil
	g.at(7).step(monitor.Died{Invocation: "a"})
	assert.Equal(t, "RESTART+GIVEOVER+DENIED+RESTART+RESTART_FAILED", g.result(), "a last local attempt, no second giveover")
	assert.Equal(t, monitor.StatusFaulted, g.status())
	assert.Contains(t, g.res.View().Message, "restart failed")
}

func TestCase33(t *testing.T) {
	for name, play := range map[string]func(*rig){
		"death before the result": func(g *rig) {
			tag := g.probe.Tag
			g.at(5).step(monitor.Died{Invocation: "a"})
			g.step(monitor.ProbeResult{Tag: tag, Status: 100})
		},
		"death during a probe that was due": func(g *rig) {
			g.probe = nil
			g.step(monitor.ProbeResult{Tag: monitor.Tag{Serial: 1}})
			g.tick(60)
			require.NotNil(g.t, g.probe)
			g.at(65).step(monitor.Died{Invocation: "a"})
			g.tick(70)
		},
		"result before the death": func(g *rig) {
			tag := g.probe.Tag
			g.probe = nil
			g.at(5).step(monitor.ProbeResult{Tag: tag, Status: 100})
			g.at(5.1).step(monitor.Died{Invocation: "a", At: 4 * time.Second})
		},
		"death told twice": func(g *rig) {
			g.at(5).step(monitor.Died{Invocation: "a"})
			g.at(5.1).step(monitor.Died{Invocation: "a"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base()
			cfg.Mode = monitor.ModeLogOnly // nothing is restarted that could hide a second count
			g := newRig(t, cfg)
			g.step(monitor.ProbeNow{})
			g.silent = strings.HasPrefix(name, "death ")
			play(g)
			assert.Equal(t, 100, g.sum())
		})
	}
}

func TestCase34(t *testing.T) {
	g := newRig(t, base())
	g.run("0@0")
	g.at(5).step(monitor.OperatorOff{Reason: "stopped by systemctl"})
	g.at(6).step(monitor.Died{Invocation: "a"})
	g.tick(600)
	assert.Equal(t, monitor.StatusOffline, g.status())
	assert.Nil(t, g.probe, "idle")
	assert.Zero(t, g.sum())
	_, waiting := g.res.NextDeadline()
	assert.False(t, waiting, "no timer of its own while off")

	g.at(700).step(monitor.OperatorOn{})
	assert.Equal(t, monitor.StatusUnknown, g.status())
	g.run("0@760")
	assert.Equal(t, monitor.StatusOK, g.status())
}

func TestCase35(t *testing.T) {
	cfg := base()
	cfg.Mode = monitor.ModeLogOnly
	g := newRig(t, cfg)
	g.step(monitor.Died{N: 2})
	assert.Equal(t, 200, g.sum())
	assert.Len(t, g.res.Failures(), 2)

	g = newRig(t, base())
	g.step(monitor.Died{N: 2, Restarted: true})
	assert.EqualValues(t, 2, g.res.Counters().Failures[monitor.CauseDeath])
	assert.EqualValues(t, 2, g.res.View().RestartsInInterval, "foreign restarts are counted")
	assert.Empty(t, g.restarts, "systemd has restarted it, we do not again")
	g.did = nil
	g.at(1).step(monitor.Died{Restarted: true})
	assert.Equal(t, "GIVEOVER", g.result())
}

func TestCase37(t *testing.T) {
	g := newRig(t, base())
	g.silent = true
	g.step(monitor.ProbeNow{})
	tag := g.probe.Tag
	at, _ := g.res.NextDeadline()
	require.Equal(t, 30*time.Second, at)
	g.tick(29.999)
	assert.Zero(t, g.res.Counters().Failures[monitor.CauseTimeout])
	g.tick(30)
	assert.EqualValues(t, 1, g.res.Counters().Failures[monitor.CauseTimeout])
	require.Len(t, g.restarts, 1)
	g.at(31).step(monitor.RestartDone{Generation: 1, Outcome: monitor.RestartOK})
	for s := 31.0; s < 200; s += 5 {
		g.tick(s)
	}
	assert.EqualValues(t, 1, g.res.Counters().Probes, "no second probe while the first is stuck")
	assert.Equal(t, monitor.StatusUnknown, g.status(), "of the new instance the stuck probe says nothing")

	// Case 38: the late result is dropped and frees the place.
	g.probe = nil
	g.at(200).step(monitor.ProbeResult{Tag: tag, Status: 100})
	assert.Zero(t, g.sum())
	assert.EqualValues(t, 1, g.res.Counters().Stale)
	g.tick(260)
	assert.NotNil(t, g.probe)
}

func TestCase43(t *testing.T) {
	day := 24 * time.Hour
	g := newRig(t, base())
	g.run("50@0")
	g.wall = g.wall.Add(day)
	g.tick(30)
	g.wall = g.wall.Add(-2 * day)
	assert.Equal(t, []string{"RESTART"}, g.run("50@60"))
}

func TestCase44(t *testing.T) {
	g := newRig(t, base())
	g.wall = time.Unix(0, 0)
	g.run("50@10")
	at := g.res.View().LastFailure
	assert.EqualValues(t, 10e6, monitor.WallOf(g.instant(), at))
	g.wall = time.Unix(1_800_000_000, 0)
	g.tick(20)
	assert.Equal(t, 50, g.sum(), "no ageing by NTP")
	assert.EqualValues(t, 1_800_000_010e6, monitor.WallOf(g.instant(), at), "displayed times follow the clock")
}

func TestCase46(t *testing.T) {
	cfg := base()
	cfg.StartGrace = 20 * time.Second
	g := newRig(t, cfg)
	assert.Equal(t, []string{"RESTART", "-", "-"}, g.run("100@100 100@105 50@119.9"))
	assert.Zero(t, g.sum())
	assert.Equal(t, []string{"-"}, g.run("50@120"))
	assert.Equal(t, 50, g.sum(), "counts from a clean F")
	g.run("100@300")
	g.did = nil
	g.at(301).step(monitor.Died{})
	assert.Equal(t, "GIVEOVER", g.result(), "a death counts inside the grace")
}

func TestCase47(t *testing.T) {
	cfg := base()
	g := newRig(t, cfg)
	g.run("100@0 100@60")
	cfg.RetryCount = 5
	g.step(monitor.Configure{Config: cfg})
	assert.EqualValues(t, 2, g.res.View().RestartsInInterval)
	assert.Equal(t, []string{"RESTART"}, g.run("100@120"))

	cfg.RetryCount = 101
	g.step(monitor.Configure{Config: cfg})
	require.Len(t, g.refused, 1)
	assert.Equal(t, 5, g.res.Config().RetryCount)
}
