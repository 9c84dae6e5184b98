package monitor_test

import (
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPeopleAreNotRepaired: whatever somebody does on purpose, a host or unit
// that then goes away is no failure.
func TestPeopleAreNotRepaired(t *testing.T) {
	off := monitor.PowerGood{}
	for name, play := range map[string]func(*rig){
		"Chassis Off": func(g *rig) {
			g.step(monitor.Intent{Generation: 1})
			g.step(monitor.OffSign{What: "Chassis Off"})
			g.step(monitor.OperatorOff{Reason: "Chassis Off"})
			g.at(101).step(off)
		},
		"graceful Off cancelled while the OS shuts down anyway": func(g *rig) {
			g.step(monitor.OffSign{What: "Host Off"})
			g.at(110).step(monitor.Intent{Generation: 2}) // Cancel
			g.at(290).step(off)
		},
		"the guest's own poweroff": func(g *rig) {
			g.step(monitor.OffSign{What: "guest shutdown"})
			g.at(130).step(off)
		},
		"the front button, held": func(g *rig) {
			g.step(monitor.OffSign{What: "power button"})
			g.at(105).step(off)
		},
		"a sign exactly gracefulTimeout old": func(g *rig) {
			g.step(monitor.OffSign{What: "S5"})
			g.at(400).step(off)
		},
		"a sign that comes within the debounce": func(g *rig) {
			g.step(off)
			g.at(100.5).step(monitor.OffSign{What: "S5"})
			g.tick(101)
		},
		"maintenance by systemctl stop": func(g *rig) {
			g.step(monitor.OperatorOff{Reason: "systemctl stop"})
			g.at(100.1).step(monitor.Died{Invocation: "a"})
		},
		"systemctl stop while a restart waits for its back-off": func(g *rig) {
			c := g.res.Config()
			c.Backoff = monitor.Backoff{Min: time.Minute, Max: time.Minute, Factor: 1}
			g.step(monitor.Configure{Config: c})
			g.step(monitor.Died{Invocation: "a"})
			require.Equal(g.t, "RESTART", g.res.View().NextAction)
			g.at(101).step(monitor.OperatorOff{Reason: "systemctl stop"})
		},
		"unit that is not loaded": func(g *rig) { g.step(monitor.Absent{Reason: "not loaded"}) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base()
			cfg.PowerDebounce = time.Second
			g := newRig(t, cfg)
			g.step(monitor.PowerGood{On: true})
			g.run("0@100")
			play(g)
			g.tick(500)
			g.tick(1000)
			assert.Equal(t, monitor.StatusOffline, g.status(), g.res.View().Message)
			assert.Empty(t, g.restarts)
			assert.Empty(t, g.escalated)
		})
	}
}

func TestPowerLossWithoutASignIsAFailure(t *testing.T) {
	for name, play := range map[string]func(*rig){
		"no sign": func(g *rig) { g.at(401).step(monitor.PowerGood{}) },
		"a sign older than gracefulTimeout": func(g *rig) {
			g.step(monitor.OffSign{What: "Host Off"})
			g.at(401).step(monitor.PowerGood{})
		},
		"a sign that explained an earlier loss": func(g *rig) {
			g.step(monitor.OffSign{What: "Host Off"})
			g.at(110).step(monitor.PowerGood{})
			g.at(120).step(monitor.PowerGood{On: true})
			g.at(130).step(monitor.PowerGood{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, base())
			g.step(monitor.PowerGood{On: true})
			g.run("0@100")
			play(g)
			require.Len(t, g.restarts, 1)
			assert.Contains(t, g.restarts[0].Reason, "power good lost")
		})
	}
}

// TestPowerLossIsLoggedByDefault is the host as DESIGN.md §5 has it: LOG_ONLY
// unless restarting was asked for.
func TestPowerLossIsLoggedByDefault(t *testing.T) {
	cfg := base()
	cfg.Mode = monitor.ModeLogOnly
	g := newRig(t, cfg)
	g.step(monitor.PowerGood{On: true})
	for i := range 3 {
		g.run("0@" + []string{"100", "200", "300"}[i])
		g.step(monitor.PowerGood{})
		assert.Equal(t, monitor.StatusFaulted, g.status())
		g.step(monitor.PowerGood{On: true})
	}
	assert.Equal(t, 3, g.count(monitor.WouldRestart), "each loss is logged")
	assert.Empty(t, g.restarts)
}

// A probe that is good while power is gone neither shows the host as well nor
// calls the restart off that waits for its back-off.
func TestGoodProbeDoesNotBringPowerBack(t *testing.T) {
	cfg := base()
	cfg.Backoff = monitor.Backoff{Min: 10 * time.Second, Max: time.Minute, Factor: 2}
	g := newRig(t, cfg)
	g.step(monitor.PowerGood{On: true})
	g.run("0@100")
	g.step(monitor.PowerGood{})
	g.run("0@105")
	assert.NotEqual(t, monitor.StatusOK, g.status())
	g.tick(111)
	assert.Len(t, g.restarts, 1)
	g.step(monitor.PowerGood{On: true})
	g.run("0@200")
	assert.Equal(t, monitor.StatusOK, g.status())
}

// TestOffUnderWayOverARestartOfTheDaemon: the sign is remembered, and the level
// that the new daemon finds does not wipe it out.
func TestOffUnderWayOverARestartOfTheDaemon(t *testing.T) {
	old := newFleet(t, monitor.Limits{}, base()).at(100)
	old.step("unit", monitor.PowerGood{On: true})
	old.step("unit", monitor.OffSign{What: "Host Off"})
	f := newFleet(t, monitor.Limits{}, base()).at(110)
	actions, err := f.mon.Restore(f.instant(), "a", old.mon.Snapshot(old.instant(), "a"))
	require.NoError(t, err)
	f.take(actions)
	f.step("unit", monitor.PowerGood{On: true})
	f.at(160).step("unit", monitor.PowerGood{})
	assert.Equal(t, monitor.StatusOffline, f.view("unit").Status)
	assert.Empty(t, f.restarts)
}

func TestFirstPowerLevelIsNoLoss(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.PowerGood{})
	assert.Equal(t, monitor.StatusOffline, g.status())
	g.at(10).step(monitor.PowerGood{On: true})
	assert.Equal(t, monitor.StatusUnknown, g.status())
	assert.Empty(t, g.restarts)
}

// TestOffLastsUntilExternalOn: neither a start by others nor power coming back
// ends an operator's Off, and a restart of the daemon or a boot keeps it.
func TestOffLastsUntilExternalOn(t *testing.T) {
	f := newFleet(t, monitor.Limits{}, base())
	f.step("unit", monitor.OperatorOff{Reason: "Host Off"})
	for _, ev := range []monitor.Event{
		monitor.Started{Invocation: "x"}, monitor.PowerGood{On: true}, monitor.Reset{}, monitor.Died{},
		monitor.PowerGood{}, monitor.Absent{Reason: "gone"}, monitor.LostSight{Reason: "bus"}, monitor.Tick{},
	} {
		f.at(f.now.Seconds()+10).step("unit", ev)
		require.Equal(t, monitor.StatusOffline, f.view("unit").Status, "%T", ev)
	}
	for _, boot := range []string{"a", "b"} {
		g := newFleet(t, monitor.Limits{}, base()).at(1)
		if boot == "a" {
			g.at(200)
		}
		_, err := g.mon.Restore(g.instant(), boot, f.mon.Snapshot(f.instant(), "a"))
		require.NoError(t, err)
		assert.Equal(t, monitor.StatusOffline, g.view("unit").Status, "boot %s", boot)
		g.step("unit", monitor.OperatorOn{})
		assert.Equal(t, monitor.StatusUnknown, g.view("unit").Status)
	}
}

func TestOperatorIntentCancels(t *testing.T) {
	cfg := base()
	cfg.Backoff = monitor.Backoff{Min: 10 * time.Second, Max: time.Minute, Factor: 2}
	g := newRig(t, cfg)
	g.step(monitor.Intent{Generation: 7})
	g.run("100@0")
	require.Empty(t, g.restarts, "waits for the back-off")
	g.at(5).step(monitor.Intent{Generation: 8})
	g.tick(30)
	assert.Empty(t, g.restarts)
	assert.Equal(t, 1, g.count(monitor.WasCancelled))

	g.run("100@60")
	g.tick(70)
	require.Len(t, g.restarts, 1)
	assert.EqualValues(t, 8, g.restarts[0].Intent)
}

func TestCancelledOrPostponedRestartIsNone(t *testing.T) {
	for _, outcome := range []monitor.RestartOutcome{monitor.RestartCancelled, monitor.RestartPostponed} {
		t.Run(outcome.String(), func(t *testing.T) {
			g := newRig(t, base())
			g.restart = func(n int) monitor.RestartDone {
				if n == 1 {
					return monitor.RestartDone{Outcome: outcome}
				}
				return monitor.RestartDone{Outcome: monitor.RestartOK}
			}
			g.run("100@0")
			assert.Equal(t, 100, g.sum(), "F kept")
			assert.Empty(t, g.res.Restarts(), "nothing was restarted")
			assert.Empty(t, g.escalated, "and nothing has failed")
			g.tick(10)
			want := 1
			if outcome == monitor.RestartPostponed {
				want = 2
			}
			assert.Len(t, g.restarts, want)
		})
	}
}

func TestFullQueueIsNoDenial(t *testing.T) {
	g := newRig(t, base())
	g.escalate = func(n int) monitor.EscalationAnswer {
		return monitor.EscalationAnswer{Answer: []monitor.Answer{monitor.Postponed, monitor.Postponed, monitor.Accepted}[n-1]}
	}
	g.run("201@0")
	assert.Zero(t, g.res.View().RefusedEscalations)
	assert.Equal(t, 100, g.sum())
	g.tick(10)
	g.tick(20)
	assert.Len(t, g.escalated, 3)
	assert.Contains(t, g.res.View().Message, "gave over")
}

// A firmware update or an error that blocks power may last for hours: what it
// refuses is tried again and again, costs neither a restart nor a denial, ends in
// no quiesce, and is logged once.
func TestClosedGateIsNoDenial(t *testing.T) {
	const tries = 1000
	cfg := base()
	cfg.DenialLimit, cfg.QuiesceTarget = 1, "quiesce.target"
	for name, script := range map[string]string{"restart": "100@0", "escalation": "201@0"} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, cfg)
			closed := true
			g.restart = func(int) monitor.RestartDone {
				if closed {
					return monitor.RestartDone{Outcome: monitor.RestartPostponed, Reason: "a firmware update"}
				}
				return monitor.RestartDone{Outcome: monitor.RestartOK}
			}
			g.escalate = func(int) monitor.EscalationAnswer {
				if closed {
					return monitor.EscalationAnswer{Answer: monitor.Postponed, Reason: "a firmware update"}
				}
				return monitor.EscalationAnswer{Answer: monitor.Accepted}
			}
			g.run(script)
			for n := range tries {
				g.tick(float64(10 * (n + 1)))
			}
			v := g.res.View()
			assert.Greater(t, len(g.restarts)+len(g.escalated), tries/2, "tried again and again")
			assert.Zero(t, v.RefusedEscalations)
			assert.Zero(t, v.RestartsInInterval)
			assert.Contains(t, v.Message, "(waiting for a firmware update)")
			assert.Equal(t, 1, g.count(monitor.WasPostponed))
			assert.Zero(t, g.count(monitor.Quiesce))
			closed = false
			g.tick(10 * (tries + 1))
			assert.Equal(t, 1, g.count(monitor.Restarted)+g.count(monitor.GaveOver))
		})
	}
}

func TestGoodProbeRecallsAWaitingDecision(t *testing.T) {
	g := newRig(t, base())
	g.step(monitor.Inhibit{Reason: "code update"})
	assert.Equal(t, []string{"-", "RECOVERED"}, g.run("100@0 0@60"))
	g.at(70).step(monitor.Inhibit{})
	assert.Empty(t, g.restarts, "it has recovered by itself")
	assert.Equal(t, 100, g.sum(), "a good probe erases nothing")
	assert.Equal(t, []string{"RESTART"}, g.run("1@80"))
}

func TestOperatorOffDuringARestart(t *testing.T) {
	g := newRig(t, base())
	g.silent = true
	g.step(monitor.Died{})
	require.Len(t, g.restarts, 1)
	actions := g.res.Step(g.at(1).instant(), monitor.OperatorOff{Reason: "stop"})
	assert.Contains(t, actions, monitor.Action(monitor.CancelRestart{Resource: "unit", Generation: 1}))
	g.step(monitor.RestartDone{Generation: 1, Outcome: monitor.RestartOK})
	assert.Equal(t, monitor.StatusOffline, g.status())
}

func TestRepeatedOnKeepsTheLimit(t *testing.T) {
	g := newRig(t, base())
	g.run("100@0 100@60")
	g.step(monitor.OperatorOn{})
	assert.Equal(t, []string{"GIVEOVER"}, g.run("100@120"))
	g.at(130).step(monitor.OperatorOn{})
	assert.Equal(t, []string{"RESTART"}, g.run("100@200"), "but it re-arms what has given over")
}
