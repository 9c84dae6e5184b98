package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// While firmware is updated only power off is accepted, and nothing of a refused
// request is left behind (S43, C12).
func TestFirmwareGate(t *testing.T) {
	statetest.Covers(t, "S43")
	all := []state.Operation{state.HostOn, state.HostOff, state.HostReboot, state.HostGracefulWarmReboot, state.HostForceWarmReboot,
		state.ChassisOn, state.ChassisOff, state.ChassisPowerCycle, state.BMCReboot, state.BMCHardReboot}
	passes := map[state.Operation]bool{state.HostOff: true, state.ChassisOff: true, state.BMCHardReboot: true}
	for _, op := range all {
		t.Run(op.String(), func(t *testing.T) {
			r := newRig(t)
			r.pass(time.Second)
			if op != state.HostOn && op != state.ChassisOn {
				r.write(state.HostOn)
				r.pass(10 * time.Second)
			}
			before, queued := len(r.journal), len(r.core.domains[0].q.Page(0, 100))
			shown := *r.lastHost()
			r.step(Firmware{Updating: true})
			a := r.write(op)
			r.pass(100 * time.Millisecond)
			require.True(t, a.got)
			if passes[op] {
				assert.Nil(t, a.answer.Err)
				return
			}
			require.NotNil(t, a.answer.Err)
			assert.Equal(t, CodeUnavailable, a.answer.Err.Code)
			assert.Contains(t, a.answer.Err.Text, "firmware update")
			assert.Len(t, r.journal, before)
			assert.Len(t, r.core.domains[0].q.Page(0, 100), queued)
			assert.Equal(t, shown, *r.lastHost())
			r.step(Firmware{})
			a = r.write(op)
			r.pass(100 * time.Millisecond)
			assert.Nil(t, a.answer.Err)
		})
	}
}

func (r *rig) lastHost() *state.Host { return &r.host[len(r.host)-1] }

// A repeat of what was accepted before is answered, and the daemon's own wishes
// wait like everybody's.
func TestFirmwareGateLetsRepeatsPass(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.submit("c", "1", state.HostOn)
	r.pass(10 * time.Second)
	r.step(Firmware{Updating: true})
	a := r.submit("c", "1", state.HostOn)
	assert.Nil(t, a.answer.Err)
	assert.True(t, a.answer.Repeated)
	b := r.submit("c", "2", state.HostReboot)
	assert.Equal(t, CodeUnavailable, b.answer.Err.Code)
}

// A schedule that is due while a gate is closed fires, once, after it has opened;
// an error in the event log never keeps a host from being switched off.
func TestGatesHoldSchedulesBack(t *testing.T) {
	for name, gate := range map[string]struct{ closed, open Event }{
		"firmware update": {Firmware{Updating: true}, Firmware{}},
		"error":           {ErrorBlock{Blocks: true}, ErrorBlock{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := armed(t, state.HostOn)
			r.step(gate.closed)
			journalled := len(r.journal)
			r.pass(2 * time.Hour)
			require.Empty(t, r.pulses)
			require.Len(t, r.journal, journalled)
			require.NotZero(t, r.scheduled())
			r.step(gate.open)
			r.pass(2 * retrySchedule)
			require.Equal(t, state.HostStateRunning, r.hostState())
			require.Zero(t, r.scheduled())
			r.step(gate.closed)
			a := r.write(state.HostOff)
			r.pass(time.Hour)
			require.Nil(t, a.answer.Err)
			require.Equal(t, state.HostStateOff, r.hostState())
			require.Equal(t, CodeUnavailable, r.write(state.HostOn).answer.Err.Code)
		})
	}
}

// gatesOpen is what other daemons say of the gates, in one word each.
var gatesOpen = []Event{Firmware{}, ErrorBlock{}}

func withGates(c *Config) { c.Gates = true }

// S43: what comes before it is known whether a gate is closed waits for the first
// word. Then it is launched, or refused like what comes later.
func TestFirstWordOfTheGates(t *testing.T) {
	statetest.Covers(t, "S43")
	closed := map[string][]Event{
		"open":            gatesOpen,
		"firmware update": {ErrorBlock{}, Firmware{Updating: true}},
		"error":           {Firmware{}, ErrorBlock{Blocks: true}},
	}
	for name, word := range closed {
		for _, op := range []state.Operation{state.HostOn, state.ChassisOn, state.HostReboot, state.HostForceWarmReboot, state.ChassisPowerCycle} {
			t.Run(name+", "+op.String(), func(t *testing.T) {
				r := newRig(t, withGates)
				if op.Passes() {
					r.power(true)
				}
				r.pass(100 * time.Millisecond)
				left := r.attempts()
				a := r.write(op)
				r.pass(500 * time.Millisecond)
				r.step(word[0])
				r.pass(100 * time.Millisecond)
				require.False(t, a.got, "it waits, and so does its caller")
				require.Empty(t, r.pulses)
				r.step(word[1])
				r.pass(200 * time.Millisecond)
				require.True(t, a.got)
				if name == "open" {
					require.Nil(t, a.answer.Err)
					r.pass(time.Minute)
					require.Equal(t, state.Success, r.status(a.answer.Seq))
					return
				}
				require.NotNil(t, a.answer.Err)
				assert.Equal(t, CodeUnavailable, a.answer.Err.Code)
				r.pass(time.Minute)
				assert.Empty(t, r.pulses)
				assert.Equal(t, left, r.attempts())
				r.step(Firmware{})
				r.step(ErrorBlock{})
				r.pass(time.Second)
				a = r.write(op)
				r.pass(time.Minute)
				require.Equal(t, state.Success, r.status(a.answer.Seq), "and nothing of it is left")
			})
		}
	}
}

// No gate and no ignorance of one stands before an Off.
func TestOffWaitsForNoGate(t *testing.T) {
	r := newRig(t, withGates)
	r.power(true)
	r.pass(100 * time.Millisecond)
	waits := r.write(state.HostForceWarmReboot)
	off := r.write(state.ChassisOff)
	r.pass(100 * time.Millisecond)
	require.True(t, off.got)
	require.NotEmpty(t, r.held)
	require.Nil(t, off.answer.Err)
	r.pass(20 * time.Second)
	assert.Equal(t, state.Success, r.status(off.answer.Seq))
	assert.Equal(t, state.Superseded, r.status(waits.answer.Seq))
	assert.Equal(t, state.HostStateOff, r.hostState())
}

// Who never answers keeps no machine off: callers wait for a second, requests for
// knownTimeout from the start of the daemon, once.
func TestGatesThatNobodyTellsOf(t *testing.T) {
	r := newRig(t, withGates)
	r.pass(100 * time.Millisecond)
	a := r.write(state.HostOn)
	r.pass(2 * time.Second)
	require.True(t, a.got)
	require.Equal(t, state.Pending, a.answer.Status)
	r.pass(27 * time.Second)
	require.Empty(t, r.pulses)
	r.pass(10 * time.Second)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Equal(t, []IncidentKind{IncidentGatesUnknown}, r.life.others)
	b := r.write(state.HostReboot)
	r.pass(time.Minute)
	assert.Equal(t, state.Success, r.status(b.answer.Seq), "nothing waits again")
	assert.Len(t, r.life.others, 1)
}

// What the daemon wants by itself waits for the first word, too, and is not lost
// by it.
func TestOwnWishesWaitForTheGates(t *testing.T) {
	t.Run("schedule", func(t *testing.T) {
		r := armed(t, state.HostOn, withGates)
		for _, e := range gatesOpen {
			r.step(e)
		}
		r.restart(true)
		r.now.Wall = r.now.Wall.Add(2 * time.Hour)
		r.pass(10 * time.Second)
		require.Empty(t, r.pulses)
		require.NotZero(t, r.scheduled())
		for _, e := range gatesOpen {
			r.step(e)
		}
		r.pass(10 * time.Second)
		assert.Equal(t, state.HostStateRunning, r.hostState())
		assert.Zero(t, r.scheduled())
	})
	t.Run("fault monitor", func(t *testing.T) {
		r := newRig(t, withGates)
		_, refused := r.internal(state.HostReboot, 99)
		require.NotNil(t, *refused)
		assert.Equal(t, CodeUnavailable, (*refused).Code, "not now, which is no denial")
		told, _ := r.internal(state.HostOff, 99)
		r.pass(time.Second)
		assert.Contains(t, *told, state.Noop)
	})
	t.Run("reboot of the BMC", func(t *testing.T) {
		for _, updating := range []bool{false, true} {
			r := newRig(t, withGates)
			r.write(state.BMCReboot)
			r.pass(10 * time.Second)
			require.Zero(t, r.reboots)
			r.step(ErrorBlock{})
			r.step(Firmware{Updating: updating})
			r.pass(10 * time.Second)
			assert.Equal(t, !updating, r.reboots == 1)
		}
	})
}
