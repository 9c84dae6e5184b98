package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// slotRig is a running host in slot 3.
func slotRig(t *testing.T, change ...func(*Config)) *rig {
	r := runningHost(t, append(change, func(c *Config) { c.Domains[0].Slot = 3 })...)
	r.levels.Slot = state.LevelOn
	r.pass(10 * time.Second)
	require.Equal(t, state.PowerStateOn, r.systems[3].Current)
	require.Equal(t, state.ChassisOn, r.systems[3].Requested)
	return r
}

func (r *rig) writeSystem(index int, op state.Operation) *reply {
	p := &reply{}
	r.step(Write{Caller: Caller{Sender: ":1.0"}, Object: state.Object{Kind: state.KindSystem, Index: index}, Op: op, Reply: p.take(r.t)})
	return p
}

func TestSlotPower(t *testing.T) {
	r := slotRig(t)
	before := r.systems[3].LastStateChange
	off := r.writeSystem(3, state.ChassisOff)
	r.pass(100 * time.Millisecond)
	require.Equal(t, []string{"SlotPower false"}, r.sets)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(off.answer.Seq), r.reason(off.answer.Seq))
	require.Equal(t, state.HostStateOff, r.hostState())
	require.Equal(t, state.PowerStateOff, r.systems[3].Current)
	require.Equal(t, state.ChassisOff, r.systems[3].Requested)
	require.Greater(t, r.systems[3].LastStateChange, before)
	require.Equal(t, state.ChassisOff, r.chassis[len(r.chassis)-1].Requested, "as before: nobody wrote to the chassis")

	require.Equal(t, CodeNotAllowed, r.judgedWrite(3, state.ChassisPowerCycle).answer.Err.Code, "nothing to cycle")
	require.Equal(t, state.Noop, r.status(r.judgedWrite(3, state.ChassisOff).answer.Seq))
	on := r.judgedWrite(3, state.ChassisOn)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(on.answer.Seq))
	require.Equal(t, []string{"SlotPower false", "SlotPower true"}, r.sets)
	require.Empty(t, r.pulses, "the host is not started")
	require.Equal(t, state.Noop, r.status(r.judgedWrite(3, state.ChassisOn).answer.Seq))
}

func (r *rig) judgedWrite(index int, op state.Operation) *reply {
	p := r.writeSystem(index, op)
	r.pass(time.Second)
	require.True(r.t, p.got)
	return p
}

func TestSlotCycle(t *testing.T) {
	r := slotRig(t)
	p := r.writeSystem(3, state.ChassisPowerCycle)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
	require.Equal(t, []string{"SlotPower false", "SlotPower true"}, r.sets)

	require.Equal(t, CodeInvalidArgument, r.judgedWrite(4, state.ChassisOff).answer.Err.Code, "no such slot")
}

// A slot's Off is as urgent as a chassis', and asks for no button.
func TestSlotOffTakesOver(t *testing.T) {
	r := slotRig(t)
	mask := &reply{}
	r.step(Mask{Button: state.ButtonPower, On: true, Reply: mask.take(t)})
	r.step(controlled{0, r.core.domains[0].controls.last, nil})
	r.plant.guest = 0
	soft := r.submit("c", "1", state.HostOff)
	require.Equal(t, CodeNotAllowed, soft.answer.Err.Code)

	r = slotRig(t)
	r.plant.guest = 0 // the guest hangs
	soft = r.submit("c", "1", state.HostOff)
	r.pass(2 * time.Second)
	off := r.writeSystem(3, state.ChassisOff)
	r.pass(100 * time.Millisecond)
	require.Equal(t, []string{"SlotPower false"}, r.sets)
	r.pass(time.Minute)
	require.Equal(t, state.Superseded, r.status(soft.answer.Seq))
	require.Equal(t, state.Success, r.status(off.answer.Seq))
	require.Equal(t, []string{out}, r.presses(), "no hold")
}

// A daemon that died in the dwell of a slot's cycle supplies it again.
func TestRestartInASlotCycle(t *testing.T) {
	r := slotRig(t, func(c *Config) { c.Domains[0].Timings.SlotCycle = 10 * time.Second })
	p := r.writeSystem(3, state.ChassisPowerCycle)
	r.pass(5 * time.Second)
	r.restart(true)
	r.pass(time.Minute)
	require.Equal(t, []string{"SlotPower false", "SlotPower true"}, r.sets)
	require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
	require.Equal(t, state.PowerStateOn, r.systems[3].Current)
}
