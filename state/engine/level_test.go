package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// levelRig is a rig whose power is held on by a level.
func levelRig(t *testing.T, change ...func(*Config)) *rig {
	r := newRig(t, append([]func(*Config){func(c *Config) { c.Domains[0].Options.PowerLevel = true }}, change...)...)
	r.levels.PowerOut = state.LevelOff
	r.pass(time.Second)
	return r
}

func runningLevelRig(t *testing.T, change ...func(*Config)) *rig {
	r := levelRig(t, change...)
	p := r.write(state.HostOn)
	r.pass(5 * time.Second)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	r.sets = nil
	return r
}

const (
	levelOn  = "PowerOut true"
	levelOff = "PowerOut false"
)

func TestLevelPowerColumns(t *testing.T) {
	for _, c := range []struct {
		op   state.Operation
		from bool
		sets []string
		ends bool
	}{
		{state.HostOn, false, []string{levelOn}, true},
		{state.ChassisOn, false, []string{levelOn}, true},
		{state.HostOff, true, []string{levelOff}, false},
		{state.ChassisOff, true, []string{levelOff}, false},
		{state.ChassisPowerCycle, true, []string{levelOff, levelOn}, true},
		{state.HostReboot, true, []string{levelOff, levelOn}, true},
		{state.HostGracefulWarmReboot, true, []string{levelOff, levelOn}, true},
	} {
		t.Run(c.op.String(), func(t *testing.T) {
			r := levelRig(t)
			if c.from {
				r = runningLevelRig(t)
			}
			p := r.submit("c", "1", c.op)
			r.pass(time.Minute)
			require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
			require.Equal(t, c.sets, r.sets)
			require.Empty(t, r.pulses, "a level is not pressed")
			on, _ := r.core.domains[0].powered()
			require.Equal(t, c.ends, on)
		})
	}
}

func TestLevelGracefulOffMayBeRefused(t *testing.T) {
	r := runningLevelRig(t, func(c *Config) { c.Domains[0].Options.ForceAfterGraceful = false })
	p := r.submit("c", "1", state.HostOff)
	r.pass(time.Minute)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "no line asks the OS")
	require.Empty(t, r.sets)
}

// A level that leads to no power is taken back: nothing comes up behind the
// back of who was told that it failed.
func TestLevelIsTakenBackWithoutPowerGood(t *testing.T) {
	r := levelRig(t)
	r.plant.powerGood = 0
	p := r.submit("c", "1", state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "PowerOKWatchdogMs")
	require.Equal(t, []string{levelOn, levelOff}, r.sets)

	r.plant.powerGood = 300 * time.Millisecond
	p = r.submit("c", "2", state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
}

// After a fault the level is still asserted: an edge is needed for power, and
// Off is no NOOP.
func TestLevelHeldWithoutPower(t *testing.T) {
	for op, sets := range map[state.Operation][]string{
		state.HostOn:     {levelOff, levelOn},
		state.ChassisOff: {levelOff},
		state.HostOff:    {levelOff},
	} {
		t.Run(op.String(), func(t *testing.T) {
			r := runningLevelRig(t)
			r.power(false)
			r.pass(5 * time.Second)
			require.Empty(t, r.sets, "nothing is driven without a request")
			p := r.submit("c", "1", op)
			r.pass(time.Minute)
			require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
			require.Equal(t, sets, r.sets)
		})
	}
}

func TestChassisOffTakesOverFromALevel(t *testing.T) {
	r := levelRig(t)
	r.plant.powerGood = 5 * time.Second
	p := r.submit("c", "1", state.HostOn)
	r.pass(time.Second)
	require.Equal(t, []string{levelOn}, r.sets)
	off := r.submit("c", "2", state.ChassisOff)
	r.pass(100 * time.Millisecond)
	require.Equal(t, []string{levelOn, levelOff}, r.sets)
	r.pass(time.Minute)
	require.Equal(t, state.Superseded, r.status(p.answer.Seq))
	require.Equal(t, state.Success, r.status(off.answer.Seq))
	require.Equal(t, state.HostStateOff, r.hostState())
}

func TestLevelThatDoesNotCutIsReported(t *testing.T) {
	r := runningLevelRig(t)
	r.levels.PowerOut = state.LevelOff // somebody else's latch keeps the power on
	p := r.submit("c", "1", state.ChassisOff)
	r.pass(time.Minute)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "power good stays on")
}

// The level is kept over a restart, and what waits goes on; a crash at the level
// itself drives nothing twice but the cut.
func TestRestartWithALevel(t *testing.T) {
	r := runningLevelRig(t)
	r.restart(true)
	r.pass(time.Minute)
	require.Empty(t, r.sets)
	require.Equal(t, state.HostStateRunning, r.hostState())

	r = levelRig(t)
	r.plant.powerGood = 5 * time.Second
	p := r.submit("c", "1", state.HostOn)
	r.pass(time.Second)
	r.restart(true)
	r.pass(time.Minute)
	require.Equal(t, []string{levelOn}, r.sets)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
}

func TestMaskOfALevelHoldsNoLine(t *testing.T) {
	r := levelRig(t)
	p := &reply{}
	r.step(Mask{Button: state.ButtonPower, On: true, Reply: p.take(t)})
	require.True(t, p.got)
	require.Nil(t, p.answer.Err)
	for _, e := range r.effects {
		_, held := e.(holdEffect)
		require.False(t, held)
	}
}

// rails is a board with an order of power: a rail, its good signal, the reset
// that is let go, then the press.
func rails(c *Config) {
	c.Domains[0].Options.PowerOn = []sequence.Action{
		{Kind: sequence.ActionSet, Signal: "RailEn", On: true},
		{Kind: sequence.ActionAwait, Signal: "RailGood", On: true, Time: 2 * time.Second, Input: 3},
		{Kind: sequence.ActionDelay, Time: 100 * time.Millisecond},
		{Kind: sequence.ActionSet, Signal: "HoldReset", On: false},
		{Kind: sequence.ActionPulse, Signal: out, Time: 200 * time.Millisecond},
	}
}

// railGood shows RailGood.
func (r *rig) railGood(on bool) {
	r.levels.InputsKnown = 1 << 3
	r.levels.Inputs = 0
	if on {
		r.levels.Inputs = 1 << 3
	}
	r.step(edge{0, "RailGood", on})
}

func TestPowerOnSequence(t *testing.T) {
	r := newRig(t, rails)
	r.railGood(false)
	r.pass(time.Second)
	p := r.submit("c", "1", state.HostOn)
	r.pass(time.Second)
	require.Equal(t, []string{"RailEn true"}, r.sets)
	r.railGood(true)
	r.pass(90 * time.Millisecond)
	require.Len(t, r.sets, 1, "the delay counts from the rail")
	r.pass(5 * time.Second)
	require.Equal(t, []string{"RailEn true", "HoldReset false"}, r.sets)
	require.Equal(t, []string{out}, r.presses())
	require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))

	for _, op := range []state.Operation{state.HostOff, state.ChassisOff} {
		r.sets = nil
		p = r.submit("c", op.String(), op)
		r.pass(time.Minute)
		require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
		require.Equal(t, []string{"HoldReset true", "RailEn false"}, r.sets, "the other way round, and after the power: %s", op)
		p = r.submit("c", "again "+op.String(), state.HostOn)
		r.pass(time.Minute)
		require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
	}
}

func TestPowerOnSequenceThatFailsIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig)
		reason string
		sets   []string
	}{
		"a rail that does not come up": {
			func(r *rig) { r.railGood(false) }, "RailGood did not become true within 2s",
			[]string{"RailEn true", "HoldReset true", "RailEn false"},
		},
		"no power good": {
			func(r *rig) { r.plant.powerGood = 0 }, "PowerOKWatchdogMs",
			[]string{"RailEn true", "HoldReset false", "HoldReset true", "RailEn false"},
		},
		"a line that cannot be driven": {
			func(r *rig) { r.plant.lineErr = errors.New("busy") }, "busy", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rails)
			r.railGood(true)
			r.pass(time.Second)
			c.change(r)
			p := r.submit("c", "1", state.HostOn)
			r.pass(time.Minute)
			require.Equal(t, state.Failed, r.status(p.answer.Seq))
			require.Contains(t, r.reason(p.answer.Seq), c.reason)
			require.Equal(t, c.sets, r.sets)
			require.Zero(t, r.core.domains[0].q.Depth())
		})
	}
}

// A daemon that died between two actions does not go on with the next: what it
// would apply power to has been alone meanwhile.
func TestRestartInAPowerOnSequence(t *testing.T) {
	r := newRig(t, rails)
	r.railGood(false)
	r.pass(time.Second)
	p := r.submit("c", "1", state.HostOn)
	r.pass(time.Second)
	r.restart(true)
	r.railGood(true)
	r.pass(time.Minute)
	require.Equal(t, state.Interrupted, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "in the middle of the power-on sequence")
	require.Equal(t, []string{"RailEn true"}, r.sets)
	require.Empty(t, r.presses())

	p = r.submit("c", "2", state.HostOff)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
	require.Equal(t, []string{"RailEn true", "HoldReset true", "RailEn false"}, r.sets, "an Off takes back what was left")
	p = r.submit("c", "3", state.HostOff)
	r.pass(time.Second)
	require.Equal(t, state.Noop, r.status(p.answer.Seq))
}

// An Off that overtakes a power-on sequence takes back what that has set, though
// there is no power yet.
func TestChassisOffInAPowerOnSequence(t *testing.T) {
	r := newRig(t, rails)
	r.railGood(false)
	r.pass(time.Second)
	on := r.submit("c", "1", state.HostOn)
	r.pass(time.Second)
	require.Equal(t, []string{"RailEn true"}, r.sets)
	off := r.submit("c", "2", state.ChassisOff)
	r.railGood(true)
	r.pass(time.Minute)
	require.Equal(t, state.Superseded, r.status(on.answer.Seq))
	require.Equal(t, state.Success, r.status(off.answer.Seq), r.reason(off.answer.Seq))
	require.Equal(t, []string{"RailEn true", "HoldReset true", "RailEn false"}, r.sets)
	require.Empty(t, r.presses())
}

func TestPowerCycleOfASequence(t *testing.T) {
	r := newRig(t, rails)
	r.railGood(true)
	r.pass(time.Second)
	r.submit("c", "1", state.HostOn)
	r.pass(time.Minute)
	r.sets = nil
	p := r.submit("c", "2", state.ChassisPowerCycle)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
	require.Equal(t, []string{"HoldReset true", "RailEn false", "RailEn true", "HoldReset false"}, r.sets)
}
