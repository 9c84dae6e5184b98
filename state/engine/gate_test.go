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
