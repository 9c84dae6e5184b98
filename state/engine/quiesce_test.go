package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

func (r *rig) attempts() uint32 { return r.host[len(r.host)-1].AttemptsLeft }

func (r *rig) setProp(p Property, v uint64) {
	r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: p, Value: v, Reply: func(a Answer) { require.Nil(r.t, a.Err) }})
}

// automatic reboots, as the policy has them by default
var rebootAlways = state.Settings{AutoReboot: true, AutoRebootOnce: true}

// bug-reports.md 22, 23: a host that never boots uses its attempts up and ends
// Quiesced, once, however long one waits and however often the daemon dies.
func TestHostThatNeverBootsEndsQuiesced(t *testing.T) {
	statetest.Covers(t, "S49", "B22", "B23")
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("kill=%v", kill), func(t *testing.T) {
			r := settingsRig(t, false, rebootAlways)
			r.plant.powerGood = 0
			r.write(state.HostOn)
			r.pass(time.Second)
			require.Equal(t, uint32(2), r.attempts())
			for range 60 {
				r.pass(time.Minute)
				if kill {
					r.crash(true)
					r.tellSettings()
				}
			}
			require.LessOrEqual(t, len(r.pulses), 3, "one On and two reboots, all of one budget")
			if !kill {
				require.Len(t, r.pulses, 3)
			}
			require.Len(t, r.life.exhausted, 1)
			require.Equal(t, state.HostStateQuiesced, r.hostState())
			require.Equal(t, state.PowerStateOff, r.powerState())
			require.Equal(t, uint32(3), r.attempts())

			// One Off is enough to leave it, and an On starts afresh.
			r.write(state.HostOff)
			r.pass(time.Minute)
			require.Equal(t, state.HostStateOff, r.hostState())
			r.plant.powerGood = 300 * time.Millisecond
			r.write(state.HostOn)
			r.pass(time.Minute)
			require.Equal(t, state.HostStateRunning, r.hostState())
			require.Equal(t, uint32(2), r.attempts())
		})
	}
}

// What the reboot policy says no to is not repeated, and an operator is not
// overtaken.
func TestNoAutomaticReboot(t *testing.T) {
	for name, c := range map[string]struct {
		s        state.Settings
		settings bool
		also     func(*rig)
	}{
		"policy off":          {state.Settings{AutoRebootOnce: true}, true, func(*rig) {}},
		"one-time policy off": {state.Settings{AutoReboot: true}, true, func(*rig) {}},
		"settings unknown":    {rebootAlways, false, func(*rig) {}},
		"somebody is at it":   {rebootAlways, true, func(r *rig) { r.write(state.HostOff) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := settingsRig(t, false, c.s)
			if !c.settings {
				r.step(Settings{})
			}
			r.plant.powerGood = 0
			r.write(state.HostOn)
			r.pass(time.Second)
			c.also(r)
			r.pass(time.Hour)
			require.Len(t, r.pulses, 1)
			require.Equal(t, state.HostStateOff, r.hostState())
			require.Empty(t, r.life.exhausted)
		})
	}
}

// S47: AttemptsLeft never exceeds RetryAttempts, which sets both; both survive.
func TestAttemptCounters(t *testing.T) {
	statetest.Covers(t, "S47", "C11")
	r := settingsRig(t, false, rebootAlways)
	r.setProp(PropAttemptsLeft, 7)
	require.Equal(t, uint32(3), r.attempts())
	r.setProp(PropRetryAttempts, 5)
	require.Equal(t, uint32(5), r.attempts())
	r.setProp(PropAttemptsLeft, 4)
	for _, sameBoot := range []bool{true, false} {
		r.crash(sameBoot)
		r.pass(time.Minute)
		h := r.host[len(r.host)-1]
		require.Equal(t, [2]uint32{4, 5}, [2]uint32{h.AttemptsLeft, h.RetryAttempts})
	}
}

// S48 to S50 and C10: the decision on the quiesce unit, for every policy and
// count.
func TestQuiesceDecision(t *testing.T) {
	statetest.Covers(t, "S48", "S49", "S50", "C10")
	for _, auto := range []bool{true, false} {
		for _, once := range []bool{true, false} {
			for _, left := range []uint32{0, 1, 2} {
				t.Run(fmt.Sprintf("auto=%v/once=%v/left=%d", auto, once, left), func(t *testing.T) {
					r := quiesceRig(t, state.Settings{AutoReboot: auto, AutoRebootOnce: once})
					r.setProp(PropAttemptsLeft, uint64(left))
					r.quiesce()
					r.pass(time.Second)
					reboots := auto && once && left > 0
					require.Equal(t, reboots, len(r.startedUnits()) == 1, "%v", r.startedUnits())
					if reboots {
						require.Equal(t, "reboot", r.startedUnits()[0])
						require.NotEqual(t, state.HostStateQuiesced, r.hostState())
						require.Equal(t, left-1, r.attempts())
						require.Equal(t, state.HostReboot, r.host[len(r.host)-1].Requested)
						return
					}
					require.Equal(t, state.HostStateQuiesced, r.hostState())
					exhausted := auto && once
					require.Equal(t, exhausted, len(r.life.exhausted) == 1)
					if exhausted {
						left = 3
					}
					require.Equal(t, left, r.attempts())
				})
			}
		}
	}
}

// S50: with nobody who keeps the settings, nothing is decided.
func TestQuiesceWithoutSettings(t *testing.T) {
	statetest.Covers(t, "S50")
	r := quiesceRig(t, rebootAlways)
	r.setProp(PropAttemptsLeft, 2)
	r.step(Settings{})
	r.quiesce()
	r.pass(time.Hour)
	require.Empty(t, r.startedUnits())
	require.Equal(t, state.HostStateQuiesced, r.hostState())
	require.Equal(t, uint32(2), r.attempts())
}

// bug-reports.md 23: however often the unit is reached without success, the host
// is rebooted as often as it has attempts, then left alone.
func TestRepeatedQuiesceIsBounded(t *testing.T) {
	statetest.Covers(t, "B23")
	r := quiesceRig(t, rebootAlways)
	for range 10 {
		r.quiesce()
		r.pass(time.Second)
		r.set(func(l *state.Levels) { l.Quiesced = state.LevelOff }) // a reboot stops the unit
		r.step(edge{})
		r.pass(10 * time.Minute) // and comes to nothing
	}
	require.Len(t, r.startedUnits(), 3)
	require.Len(t, r.life.exhausted, 1)
	require.Equal(t, state.HostStateQuiesced, r.hostState())
}

// A daemon that finds the host quiesced leaves it so.
func TestQuiescedIsFoundAgain(t *testing.T) {
	r := quiesceRig(t, state.Settings{})
	r.quiesce()
	r.pass(time.Second)
	*r.life.settings = rebootAlways
	r.crash(true)
	r.tellSettings()
	r.pass(time.Hour)
	require.Equal(t, state.HostStateQuiesced, r.hostState())
	require.Empty(t, r.startedUnits())
}

// S52: a crash costs a running host an attempt, and nothing else.
func TestCrashCostsAnAttempt(t *testing.T) {
	statetest.Covers(t, "S52")
	r := quiesceRig(t, rebootAlways)
	for _, want := range []uint32{2, 1, 0, 0} {
		r.step(HostCrashed{})
		require.Equal(t, want, r.attempts())
	}
	off := targetsRig(t)
	off.step(HostCrashed{})
	off.pass(time.Second)
	require.Equal(t, uint32(3), off.attempts())
}

// The one-time policy is for one time: power off puts it back.
func TestOneTimeRebootPolicyComesBack(t *testing.T) {
	for _, own := range []bool{false, true} {
		r := settingsRig(t, own, state.Settings{AutoReboot: true})
		r.write(state.HostOn)
		r.pass(time.Minute)
		require.False(t, r.setting().AutoRebootOnce)
		r.write(state.HostOff)
		r.pass(time.Minute)
		require.True(t, r.setting().AutoRebootOnce)
	}
}

// A restart of the daemon under a host that is off is no power off.
func TestOneTimeRebootPolicyOutlivesTheDaemon(t *testing.T) {
	r := settingsRig(t, true, state.Settings{AutoReboot: true})
	for _, sameBoot := range []bool{true, false} {
		r.crash(sameBoot)
		r.tellSettings()
		r.pass(time.Minute)
		require.False(t, r.setting().AutoRebootOnce)
	}
}

// quiesceRig is a running host whose work units do.
func quiesceRig(t *testing.T, s state.Settings) *rig {
	r := targetsRig(t)
	r.levels.Quiesced = state.LevelOff
	r.units(true)
	r.pass(time.Minute)
	require.Equal(t, state.HostStateRunning, r.hostState())
	r.life.settings = &s
	r.tellSettings()
	return r
}

// quiesce has the quiesce unit reached.
func (r *rig) quiesce() {
	r.levels.Quiesced = state.LevelOn
	r.step(edge{})
}
