package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/state"
)

func (r *rig) restartCause() state.RestartCause { return r.host[len(r.host)-1].RestartCause }

// causeBeforeRunning reports whether the cause was published before the host
// last came to show Running.
func (r *rig) causeBeforeRunning(c state.RestartCause) bool {
	for i := len(r.host) - 1; i > 0; i-- {
		if r.host[i].Current == state.HostStateRunning && r.host[i-1].Current != state.HostStateRunning {
			return r.host[i-1].RestartCause == c
		}
	}
	return false
}

func TestRestartCauseOfEachWayUp(t *testing.T) {
	press := func(signal string) func(*rig) {
		return func(r *rig) {
			r.step(edge{0, signal, true})
			r.pass(100 * time.Millisecond)
		}
	}
	for name, c := range map[string]struct {
		on   bool
		do   func(*rig)
		want state.RestartCause
	}{
		"command": {false, func(r *rig) { r.write(state.HostOn) }, state.RestartCauseRemoteCommand},
		"power button": {false, func(r *rig) {
			press("PowerButton")(r)
			r.power(true)
		}, state.RestartCausePowerButton},
		"reset button":  {true, press("ResetButton"), state.RestartCauseResetButton},
		"guest reboots": {true, func(r *rig) { r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff }) }, state.RestartCauseSoftReset},
		"guest goes to S5": {true, func(r *rig) {
			r.step(edge{0, "SIOS5", true})
			r.power(false)
			r.pass(time.Second)
			r.power(true)
		}, state.RestartCauseSoftReset},
		"command beats button": {true, func(r *rig) {
			press("PowerButton")(r)
			r.power(false)
			r.pass(time.Second)
			r.write(state.HostOn)
		}, state.RestartCauseRemoteCommand},
		"watchdog beats command": {true, func(r *rig) {
			r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: PropRestartCause, Value: uint64(state.RestartCauseWatchdogTimer), Reply: func(Answer) {}})
			r.write(state.HostForceWarmReboot)
		}, state.RestartCauseWatchdogTimer},
		"watchdog after its command": {true, func(r *rig) {
			r.write(state.HostForceWarmReboot)
			r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: PropRestartCause, Value: uint64(state.RestartCauseWatchdogTimer), Reply: func(Answer) {}})
		}, state.RestartCauseWatchdogTimer},
		"button beats the soft reset that it causes": {true, func(r *rig) {
			press("ResetButton")(r)
			r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff })
		}, state.RestartCauseResetButton},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pass(time.Second)
			if c.on {
				r = runningHost(t)
			}
			r.host = r.host[len(r.host)-1:]
			c.do(r)
			r.pass(20 * time.Second)
			assert.Equal(t, state.HostStateRunning, r.hostState())
			assert.Equal(t, c.want, r.restartCause())
			assert.True(t, r.causeBeforeRunning(c.want), "set before Running is published")
			assert.Zero(t, r.core.domains[0].values.causes, "the next restart has its own")
		})
	}
}

// A cause that came to nothing is not that of a later restart.
func TestCauseOfARequestThatFailedIsForgotten(t *testing.T) {
	r := newRig(t)
	r.plant.powerGood = 0
	r.write(state.HostOn)
	r.pass(20 * time.Second)
	r.step(edge{0, "PowerButton", true})
	r.power(true)
	r.pass(time.Second)
	assert.Equal(t, state.RestartCausePowerButton, r.restartCause())
}

func TestCauseOfAnIgnoredPressIsForgotten(t *testing.T) {
	r := runningHost(t)
	r.step(edge{0, "PowerButton", true}) // the guest does not react
	r.pass(400 * time.Second)
	assert.Equal(t, state.HostStateRunning, r.hostState())
	assert.Empty(t, r.pulses, "a wait that a button began forces nothing")
	r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff })
	r.pass(time.Second)
	assert.Equal(t, state.RestartCauseSoftReset, r.restartCause())
}

// Power that fails takes POST complete with it: that is no reset.
func TestPowerLossIsNoSoftReset(t *testing.T) {
	r := runningHost(t)
	r.host = r.host[len(r.host)-1:]
	r.levels.PowerGood = state.LevelOff
	r.step(edge{0, "PostComplete", false})
	r.step(edge{0, "PowerOk", false})
	r.pass(time.Second)
	assert.Equal(t, state.HostStateOff, r.hostState())
	assert.Equal(t, state.RestartCauseUnknown, r.restartCause())
	for _, h := range r.host {
		assert.NotEqual(t, state.HostStateTransitioningToRunning, h.Current)
	}
}

// What nobody asked for does not keep the cause of the restart before.
func TestCauseOfPowerThatMovesByItselfIsUnknown(t *testing.T) {
	running := func(t *testing.T) *rig {
		r := newRig(t)
		r.write(state.HostOn)
		r.pass(10 * time.Second)
		assert.Equal(t, state.HostStateRunning, r.hostState())
		assert.Equal(t, state.RestartCauseRemoteCommand, r.restartCause())
		return r
	}
	t.Run("lost and back", func(t *testing.T) {
		r := running(t)
		r.power(false)
		r.pass(time.Second)
		assert.Equal(t, state.HostStateOff, r.hostState())
		assert.Equal(t, state.RestartCauseUnknown, r.restartCause())
		r.power(true)
		r.pass(time.Second)
		assert.Equal(t, state.HostStateRunning, r.hostState())
		assert.Equal(t, state.RestartCauseUnknown, r.restartCause())
	})
	t.Run("lost while no daemon looked", func(t *testing.T) {
		r := running(t)
		r.levels.PowerGood = state.LevelOff
		r.restart(true)
		r.pass(time.Second)
		assert.Equal(t, state.RestartCauseUnknown, r.restartCause())
	})
	t.Run("up by itself after an Off", func(t *testing.T) {
		r := running(t)
		r.write(state.HostOff)
		r.pass(10 * time.Second)
		assert.Equal(t, state.HostStateOff, r.hostState())
		assert.Equal(t, state.RestartCauseRemoteCommand, r.restartCause(), "an Off that was asked for says nothing")
		r.power(true)
		r.pass(time.Second)
		assert.Equal(t, state.RestartCauseUnknown, r.restartCause())
	})
	t.Run("resumed by the next daemon", func(t *testing.T) {
		r := newRig(t)
		r.pass(time.Second)
		r.write(state.HostOn)
		r.pass(250 * time.Millisecond)
		r.restart(true)
		r.pass(10 * time.Second)
		assert.Equal(t, state.HostStateRunning, r.hostState())
		assert.Equal(t, state.RestartCauseRemoteCommand, r.restartCause())
	})
}

// Power good that bounces takes the OS state away, and no edge of POST complete
// brings it back: its level does.
func TestOSStateReturnsWithPowerWithoutAnEdgeOfPOST(t *testing.T) {
	r := runningHost(t)
	os := func() state.OSState { return r.host[len(r.host)-1].OS }
	assert.Equal(t, state.OSStateStandby, os())
	for _, l := range []struct {
		level state.Level
		want  state.OSState
	}{{state.LevelOff, state.OSStateInactive}, {state.LevelOn, state.OSStateStandby}} {
		r.levels.PowerGood = l.level
		r.step(edge{0, "PowerOk", l.level == state.LevelOn})
		r.pass(time.Second)
		assert.Equal(t, l.want, os())
	}
}

// A reset that meets POST shows no edge of POST complete but its end.
func TestResetDuringPOSTIsSeen(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.plant.post = 3 * time.Second
	r.write(state.HostOn)
	r.pass(700 * time.Millisecond)
	assert.Equal(t, state.HostStateRunning, r.hostState())
	w := r.write(state.HostForceWarmReboot)
	r.pass(5 * time.Second)
	assert.Equal(t, state.Success, r.status(w.answer.Seq))
}
