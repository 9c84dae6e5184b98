package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

func withResets(c *Config) {
	c.Domains[0].Resets = []Output{{Signal: "HpmStbyEn", On: true}, {Signal: "SlotPower", On: true}}
}

var bothResets = []string{"HpmStbyEn true", "SlotPower true"}

// Outputs get their level once per boot, before anything is launched.
func TestOutputsGetTheirResetStateOncePerBoot(t *testing.T) {
	r := newRig(t, withResets)
	r.restart(true) // as a daemon starts, by its journal
	r.pass(time.Second)
	require.Equal(t, bothResets, r.sets)
	require.Equal(t, state.LevelOn, r.core.domains[0].levels.Slot, "read without waiting for the poll")

	r.restart(true)
	r.pass(time.Minute)
	require.Len(t, r.sets, 2, "a restart of the daemon moves nothing")

	r.restart(false)
	p := r.submit("c", "1", state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, append(bothResets, bothResets...), r.sets)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
}

func TestNoResetStateBesideARunningHost(t *testing.T) {
	r := newRig(t, withResets)
	r.sets = nil
	r.levels.PowerGood = state.LevelOn
	r.restart(false)
	r.pass(time.Second)
	require.Empty(t, r.sets)
	p := r.submit("c", "1", state.ChassisOff)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Empty(t, r.sets, "not later in that boot either")
}

func TestNoResetStateBeforeThePowerIsKnown(t *testing.T) {
	r := newRig(t, withResets, func(c *Config) { c.Domains[0].ID = 0 })
	r.sets = nil
	r.blind = errors.New("no line")
	r.restart(false)
	r.pass(20 * time.Second)
	require.Empty(t, r.sets)
	r.blind = nil
	r.pass(10 * time.Second)
	require.Equal(t, bothResets, r.sets)
}

// An output that does not work is tried again, and holds no request up.
func TestResetStateOfALineThatComesLater(t *testing.T) {
	r := newRig(t, withResets)
	r.sets = nil
	r.plant.lineErr = errors.New("busy")
	r.restart(false)
	r.pass(20 * time.Second)
	require.Empty(t, r.sets)
	last, _ := lastOf[levelEffect](r)
	require.True(t, last.again, "which is not worth another entry in the log")
	r.plant.lineErr = nil
	r.pass(6 * time.Second)
	require.Equal(t, bothResets, r.sets)
}
