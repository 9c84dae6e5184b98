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
