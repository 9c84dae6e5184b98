package monitor_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCase48(t *testing.T) {
	for _, c := range []struct {
		bootID string
		want   []string
	}{
		{"boot-a", []string{"GIVEOVER"}},
		{"boot-b", []string{"RESTART"}},
		{"", []string{"RESTART"}},
	} {
		t.Run(c.bootID, func(t *testing.T) {
			old := newFleet(t, monitor.Limits{}, base())
			old.report("unit", 100)
			old.at(60).report("unit", 100)
			data, err := json.Marshal(old.mon.Snapshot(old.instant(), "boot-a"))
			require.NoError(t, err)

			fresh := newFleet(t, monitor.Limits{}, base())
			fresh.at(90)
			var snap monitor.Snapshot
			require.NoError(t, json.Unmarshal(data, &snap))
			actions, err := fresh.mon.Restore(fresh.instant(), c.bootID, snap)
			require.NoError(t, err)
			fresh.take(actions)
			assert.Equal(t, c.want, fresh.at(120).report("unit", 100))
		})
	}
}

func TestCase49(t *testing.T) {
	parent, child, grandchild := base(), base(), base()
	parent.Name, child.Name, grandchild.Name = "parent", "child", "grandchild"
	parent.Mode = monitor.ModeRestartOnly
	parent.RetryCount = 0
	child.DependsOn, child.StartGrace = []string{"parent"}, 20*time.Second
	grandchild.DependsOn = []string{"child"}
	f := newFleet(t, monitor.Limits{}, parent, child, grandchild)
	f.at(100)
	f.report("child", 0)
	f.report("grandchild", 0)

	f.report("parent", 100)
	assert.Equal(t, monitor.StatusFaulted, f.view("parent").Status)
	assert.Equal(t, monitor.StatusDegraded, f.view("child").Status, "visible in the child at once")
	assert.Contains(t, f.view("child").Message, "dependency parent")
	assert.Contains(t, f.view("grandchild").Message, "dependency child")
	assert.Equal(t, []string{"SUPPRESSED"}, f.report("child", 100))
	assert.Equal(t, []string{"SUPPRESSED"}, f.report("grandchild", 201))
	f.step("child", monitor.Died{})
	assert.Zero(t, f.view("child").FailureSum)

	f.at(200).report("parent", 0)
	assert.Equal(t, []string{"-"}, f.at(210).report("child", 100), "grace after the parent is OK")
	assert.Equal(t, []string{"RESTART"}, f.at(221).report("child", 100))
	assert.Equal(t, monitor.StatusOK, f.view("parent").Status, "no fan-out upwards")
	assert.Contains(t, f.view("grandchild").Message, "dependency child")
}

// TestParentTurnedOnIsTrustedWithItsFirstGoodProbe: until then a child's
// failure may still be the parent's.
func TestParentTurnedOnIsTrustedWithItsFirstGoodProbe(t *testing.T) {
	parent, child := base(), base()
	parent.Name, child.Name, child.DependsOn = "parent", "child", []string{"parent"}
	f := newFleet(t, monitor.Limits{}, parent, child)
	f.report("child", 0)
	f.at(10).step("parent", monitor.OperatorOff{Reason: "stop"})
	assert.Contains(t, f.view("child").Message, "dependency parent")
	f.at(20).step("parent", monitor.OperatorOn{})
	assert.Equal(t, []string{"SUPPRESSED"}, f.at(30).report("child", 100))
	f.at(40).report("parent", 0)
	assert.Equal(t, []string{"RESTART"}, f.at(50).report("child", 100))
}

func TestCase50(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.Suspend{Owner: "alice"})
	assert.Equal(t, []string{"-", "-", "-", "-", "-"}, g.run("100@0 100@60 100@120 100@180 100@240"))
	assert.Equal(t, monitor.StatusFaulted, g.status(), "the status is still computed")
	assert.Contains(t, g.res.View().Message, "suspended by alice")
	assert.Equal(t, 500, g.sum())
	g.at(250).step(monitor.Resume{Owner: "alice"})
	assert.Zero(t, g.sum())
	assert.Equal(t, []string{"RESTART"}, g.run("100@260"))
}

func TestCase51(t *testing.T) {
	cfg := base()
	cfg.PowerDebounce = time.Second
	off := newRig(t, cfg)
	off.step(monitor.PowerGood{On: true})
	off.at(5).step(monitor.OperatorOff{Reason: "Host Off"})
	off.at(6).step(monitor.PowerGood{})
	off.tick(60)
	assert.Equal(t, monitor.StatusOffline, off.status())
	assert.Zero(t, off.sum())

	on := newRig(t, cfg)
	on.step(monitor.PowerGood{On: true})
	on.at(5).step(monitor.PowerGood{})
	on.at(5.5).step(monitor.PowerGood{On: true})
	on.tick(7)
	assert.Empty(t, on.restarts, "shorter than the debounce")
	on.at(8).step(monitor.PowerGood{})
	at, _ := on.res.NextDeadline()
	assert.Equal(t, 9*time.Second, at)
	on.tick(9)
	assert.Len(t, on.restarts, 1)
}

func TestCase53(t *testing.T) {
	cfg := base()
	cfg.RetryCount = 3
	cfg.Flap = monitor.FlapConfig{Count: 3, Clear: 1, Window: 10 * time.Minute}
	g := newRig(t, cfg)
	got := g.run(every(100, 20, 140))
	assert.Equal(t, "RESTART+FLAPPING", got[2], "at the third within ten minutes")
	assert.Empty(t, g.escalated)
	assert.Equal(t, 1, g.count(monitor.Flapping), "once")
	assert.Contains(t, g.res.View().Message, "flapping")

	// Hysteresis: it ends with one restart left, not at two.
	last := 19 * 140.0
	assert.Equal(t, []string{"RECOVERED", "-", "FLAPPING_ENDED"}, g.run(fmt.Sprintf("0@%g 0@%g 0@%g", last+1, last+400, last+470)))
}

func TestCase54(t *testing.T) {
	cfg := base()
	cfg.RetryCount, cfg.QuiesceTarget = 0, "obmc-bmc-service-quiesce@0.target"
	g := newRig(t, cfg)
	g.escalate = func(n int) monitor.EscalationAnswer {
		if n <= 3 {
			return monitor.EscalationAnswer{Answer: monitor.Denied, Reason: "WrongSystemState"}
		}
		return monitor.EscalationAnswer{Answer: monitor.Accepted}
	}
	got := g.run("100@0 100@60 100@120 0@180 100@240 100@300")
	assert.Equal(t, []string{"GIVEOVER+DENIED", "GIVEOVER+DENIED", "GIVEOVER+DENIED+QUIESCE", "-", "-", "-"}, got)
	assert.Equal(t, "obmc-bmc-service-quiesce@0.target", g.escalated[3].Target)
	assert.Equal(t, monitor.StatusFaulted, g.status())
	assert.Contains(t, g.res.View().Message, "quiesced after 3")

	g.step(monitor.Started{Invocation: "multi-user reached"})
	g.run("0@360")
	assert.Equal(t, monitor.StatusFaulted, g.status(), "sticky")
	assert.Equal(t, "NONE", g.res.View().NextAction)

	g.at(400).step(monitor.Reset{})
	g.run("0@460")
	assert.Equal(t, monitor.StatusOK, g.status(), "an operator ends it")
}

func TestCase55(t *testing.T) {
	cfg := base()
	cfg.Mode = monitor.ModeRestartOnly
	g := newRig(t, cfg)
	limitHit := monitor.RestartDone{Outcome: monitor.RestartStartLimit}
	g.restart = func(n int) monitor.RestartDone {
		if n == 1 {
			return limitHit
		}
		return monitor.RestartDone{Outcome: monitor.RestartOK}
	}
	assert.Equal(t, []string{"RESTART+RESTART"}, g.run("100@0"))
	assert.True(t, g.restarts[1].ResetFailed)
	assert.EqualValues(t, 1, g.res.View().RestartsInInterval, "one restart, tried twice")
	assert.Zero(t, g.sum())

	g.restart = func(int) monitor.RestartDone { return limitHit }
	assert.Equal(t, []string{"RESTART+RESTART+RESTART_FAILED"}, g.run("100@60"))
	assert.Equal(t, 100, g.sum(), "F kept")
}

func TestCase56(t *testing.T) {
	g := newRig(t, base())
	g.run("0@0")
	before := len(g.published)
	g.run(every(0, 100, 60))
	assert.Len(t, g.published, before)
}

func TestCase60(t *testing.T) {
	names := []string{"prm1", "prm10", "foo@1", "foo@10"}
	cfgs := make([]monitor.Config, len(names))
	for i, n := range names {
		cfgs[i] = base()
		cfgs[i].Name = n
	}
	f := newFleet(t, monitor.Limits{}, cfgs...)
	f.report("prm10", 50)
	f.report("foo@1", 60)
	assert.EqualValues(t, 0, f.view("prm1").FailureSum)
	assert.EqualValues(t, 50, f.view("prm10").FailureSum)
	assert.EqualValues(t, 60, f.view("foo@1").FailureSum)
	assert.EqualValues(t, 0, f.view("foo@10").FailureSum)
}

func TestCase61(t *testing.T) {
	var cfgs []monitor.Config
	for i := range 20 {
		c := base()
		c.Name = fmt.Sprintf("unit%02d", i)
		c.Backoff = monitor.Backoff{Min: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.2}
		cfgs = append(cfgs, c)
	}
	f := newFleet(t, monitor.Limits{Parallel: 3}, cfgs...)
	f.silent = true
	for _, c := range cfgs {
		f.step(c.Name, monitor.Died{})
	}
	first := map[string]time.Duration{}
	parallel := 0
	for len(first) < 20 && f.now < time.Minute {
		at, ok := f.mon.NextDeadline()
		if !ok || at > f.now+50*time.Millisecond {
			at = f.now + 50*time.Millisecond
		}
		f.now = at
		f.take(f.mon.Tick(f.instant()))
		for n, r := range f.running {
			if _, seen := first[n]; !seen {
				first[n] = f.now
			}
			parallel = max(parallel, len(f.running))
			if f.now-r.since >= 200*time.Millisecond {
				f.finish(n)
				break
			}
		}
	}
	require.Len(t, first, 20)
	assert.Equal(t, 3, parallel)
	distinct := map[time.Duration]bool{}
	for _, at := range first {
		distinct[at] = true
		assert.GreaterOrEqual(t, at, 800*time.Millisecond)
	}
	assert.Greater(t, len(distinct), 5, "jittered")
}

func TestCase62(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.Precheck{Refusal: "FullSyncNotComplete"})
	assert.Equal(t, []string{"RESTART", "RESTART", "DENIED"}, g.run("100@0 100@60 100@120"))
	assert.Empty(t, g.escalated, "StartFailover is not called")
	assert.Contains(t, g.res.View().Message, "FullSyncNotComplete")
	assert.Equal(t, []string{"RESTART"}, g.run("100@180"))
}

func TestCase63(t *testing.T) {
	f := newFleet(t, monitor.Limits{}, base(), func() monitor.Config { c := base(); c.Name = "other"; return c }())
	f.report("unit", 201)
	require.Len(t, f.escalated, 1)
	f.take(f.mon.SetInhibit(f.instant(), "passive role", true))
	assert.Equal(t, []string{"-"}, f.at(60).report("other", 100))
	f.at(70).step("unit", monitor.Died{})
	assert.Empty(t, f.restarts)
	assert.Contains(t, f.view("other").Message, "waiting for passive role")

	f.did = nil
	f.at(100).take(f.mon.SetInhibit(f.instant(), "passive role", false))
	assert.Equal(t, []string{"RESTART"}, f.did, "what waited is judged again")
	assert.Len(t, f.restarts, 1, "but the resource that gave over stays still")
}
