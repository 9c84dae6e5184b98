package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// TestAWithdrawnOffTakesNothingOver: a Chassis Off that waits for the end of a
// pulse can still be cancelled, and what it would have overtaken goes on.
func TestAWithdrawnOffTakesNothingOver(t *testing.T) {
	r := runningHost(t)
	cycle := r.write(state.HostReboot)
	r.pass(100 * time.Millisecond)
	require.NotZero(t, r.held[out], "the OS is being asked")
	r.power(false)
	r.pass(10 * time.Millisecond)
	off := r.write(state.ChassisOff)
	require.Equal(t, state.Pending, r.status(off.answer.Seq))
	answer := &reply{}
	r.step(Cancel{Seq: off.answer.Seq, Reply: answer.take(t)})
	require.Equal(t, state.Cancelled, answer.answer.Status)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(cycle.answer.Seq))
	require.Equal(t, state.PowerStateOn, r.powerState())
}

// TestAnOffFromBeforeTheRestartTakesOver: a Chassis Off was accepted while a
// pulse was asserted, and the daemon died. What is resumed gives way at once.
func TestAnOffFromBeforeTheRestartTakesOver(t *testing.T) {
	r := runningHost(t)
	r.plant.resetDead = true // its confirmation would be waited for
	warm := r.write(state.HostForceWarmReboot)
	r.pass(50 * time.Millisecond)
	off := r.write(state.ChassisOff)
	r.pass(50 * time.Millisecond)
	require.Equal(t, state.Pending, r.status(off.answer.Seq))
	r.crash(true)
	r.pass(100 * time.Millisecond)
	require.Equal(t, state.Superseded, r.status(warm.answer.Seq))
	require.Equal(t, state.Running, r.status(off.answer.Seq))
	require.NotZero(t, r.held[out])
	r.pass(10 * time.Second)
	require.Equal(t, state.Success, r.status(off.answer.Seq))
	require.Equal(t, state.PowerStateOff, r.powerState())
}
