package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// TestRestartAnywhere kills the daemon at every moment of every operation, in
// the same boot and in another, and checks what no crash may break: an end for
// every accepted request, no press twice, no success that nothing proves.
func TestRestartAnywhere(t *testing.T) {
	statetest.Covers(t, "C20", "C26")
	const grain = 50 * time.Millisecond
	for _, c := range []struct {
		op  state.Operation
		on  bool
		len time.Duration
	}{
		{state.HostOn, false, 2 * time.Second},
		{state.HostOff, true, 4 * time.Second},
		{state.HostReboot, true, 11 * time.Second},
		{state.HostForceWarmReboot, true, 2 * time.Second},
		{state.ChassisOff, true, 6 * time.Second},
		{state.ChassisPowerCycle, true, 13 * time.Second},
	} {
		for _, sameBoot := range []bool{true, false} {
			for at := time.Duration(0); at < c.len; at += grain {
				t.Run(fmt.Sprintf("%s/same=%v/%s", c.op, sameBoot, at), func(t *testing.T) {
					r := newRig(t)
					if c.on {
						r = runningHost(t)
					}
					r.pass(time.Second)
					p := r.submit("c", "1", c.op)
					r.pass(at)
					before := len(r.pulses)
					r.crash(sameBoot)
					r.pass(10 * time.Minute)
					r.checkEnd(p.answer.Seq, c.op, before)
				})
			}
		}
	}
}

// TestAResetThatMayNotHaveBeenPulsed: a crash between the step's journal entry
// and the line, while the host is still in POST. What the inputs show then is
// older than the request.
func TestAResetThatMayNotHaveBeenPulsed(t *testing.T) {
	r := runningHost(t)
	r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff })
	r.plant.resetDead = true // the line never moved
	r.pass(time.Second)
	p := r.submit("c", "1", state.HostForceWarmReboot)
	r.pass(100 * time.Millisecond)
	require.NotZero(t, r.held[reset])
	r.crash(true)
	r.pass(100 * time.Millisecond)
	r.set(func(l *state.Levels) { l.PostComplete = state.LevelOn })
	r.pass(10 * time.Minute)
	require.Equal(t, state.Interrupted, r.status(p.answer.Seq))
}

// TestAHoldThatMetABoardThatIsOffBeforeACrash: the host powered itself off as the
// force-off reached the line, and the daemon died. Off is not claimed before the
// start that the press has brought is cut.
func TestAHoldThatMetABoardThatIsOffBeforeACrash(t *testing.T) {
	r := runningHost(t)
	r.plant.guest = 0
	off := r.write(state.ChassisOff)
	require.NotZero(t, r.held[out])
	r.levels.PowerGood, r.levels.PostComplete = state.LevelOff, state.LevelOff
	r.crash(true)
	r.later(300*time.Millisecond, func() { r.power(true) })
	r.pass(200 * time.Millisecond)
	require.Equal(t, state.Running, r.status(off.answer.Seq))
	r.pass(20 * time.Second)
	require.Equal(t, state.Success, r.status(off.answer.Seq), r.reason(off.answer.Seq))
	require.Equal(t, state.PowerStateOff, r.powerState())
}

// crash kills the daemon, lets ExecStopPost release the lines, and starts it
// again.
func (r *rig) crash(sameBoot bool) {
	for _, signal := range []string{out, reset} {
		r.release(signal)
	}
	r.keepPlant()
	r.restart(sameBoot)
}

// keepPlant drops what only the dead process would have done, and keeps what
// the board does by itself.
func (r *rig) keepPlant() {
	var kept []event
	for _, ev := range r.plan {
		if ev.plant {
			kept = append(kept, ev)
		}
	}
	r.plan = kept
}

func (r *rig) checkEnd(seq uint64, op state.Operation, before int) {
	t := r.t
	if seq == 0 {
		return // never answered: nothing was promised
	}
	st := r.status(seq)
	require.True(t, st.Final(), "request ended: %s", st)
	steps := map[string]int{}
	for _, e := range r.journal {
		if e.Kind == history.KindStep && e.Request == seq {
			steps[e.Step.Name]++
		}
	}
	for name, n := range steps {
		if name == "press power" || name == "ask the OS" || name == "pulse reset" {
			require.LessOrEqual(t, n, 1, "step %q ran twice", name)
		}
	}
	on := r.levels.PowerGood == state.LevelOn
	if st == state.Success {
		switch op {
		case state.HostOn, state.HostReboot, state.ChassisPowerCycle, state.HostForceWarmReboot:
			require.True(t, on, "success with power off")
		case state.HostOff, state.ChassisOff:
			require.False(t, on, "success with power on")
		}
		if op.Passes() {
			require.NotEmpty(t, r.pulses)
		}
	}
	require.False(t, r.hostState() == state.HostStateTransitioningToRunning || r.hostState() == state.HostStateTransitioningToOff,
		"nothing stays in transition")
	require.Equal(t, on, r.powerState() == state.PowerStateOn)
}

func TestRestartKeepsTheQueueInOrder(t *testing.T) {
	r := runningHost(t)
	r.plant.guest = 30 * time.Second
	var p []*reply
	for i, op := range []state.Operation{state.HostOff, state.HostOn, state.HostOff} {
		p = append(p, r.submit("c", fmt.Sprint(i), op))
	}
	r.pass(time.Second)
	launches := r.queue.Launches
	r.crash(true)
	require.Equal(t, launches, r.queue.Launches)
	again := r.submit("c", "1", state.HostOn)
	require.Equal(t, state.Pending, again.answer.Status)
	require.True(t, again.answer.Repeated)
	r.pass(3 * time.Minute)
	for _, x := range p {
		require.Equal(t, state.Success, r.status(x.answer.Seq), r.reason(x.answer.Seq))
	}
	require.Equal(t, uint64(3), r.queue.Launches)
}

func TestAnotherBootExpiresWhatWaited(t *testing.T) {
	r := runningHost(t)
	r.plant.guest = 30 * time.Second
	a := r.submit("c", "0", state.HostOff)
	b := r.submit("c", "1", state.HostOn)
	r.pass(time.Second)
	r.crash(false)
	r.pass(time.Minute)
	require.Equal(t, state.Expired, r.status(b.answer.Seq))
	require.Equal(t, "BMC restarted", r.reason(b.answer.Seq))
	require.True(t, r.status(a.answer.Seq).Final())
}

func TestResumeCycleOffLeavesTheHostOff(t *testing.T) {
	r := runningHost(t, func(c *Config) { c.ResumeCycle = false })
	p := r.write(state.ChassisPowerCycle)
	r.pass(6 * time.Second)
	require.Equal(t, state.PowerStateOff, r.powerState())
	r.crash(true)
	r.pass(time.Minute)
	require.Equal(t, state.Interrupted, r.status(p.answer.Seq))
	require.Equal(t, state.PowerStateOff, r.powerState())
}

func TestALaterOffKeepsACycleFromBeingContinued(t *testing.T) {
	r := runningHost(t)
	p := r.write(state.ChassisPowerCycle)
	r.pass(6 * time.Second)
	off := r.write(state.HostOff) // waits behind the cycle
	r.crash(true)
	r.pass(time.Minute)
	require.Equal(t, state.Interrupted, r.status(p.answer.Seq))
	require.Equal(t, state.Noop, r.status(off.answer.Seq))
	require.Equal(t, state.PowerStateOff, r.powerState())
}

func TestRestartBringsBackValuesAndMovesNothing(t *testing.T) {
	r := runningHost(t)
	for prop, v := range map[Property]uint64{
		PropBootProgress: uint64(state.BootProgressOSRunning), PropOSState: uint64(state.OSStateBootComplete),
		PropRestartCause: uint64(state.RestartCausePowerButton), PropRetryAttempts: 5,
	} {
		r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: prop, Value: v, Reply: func(Answer) {}})
	}
	r.pass(time.Minute)
	before, chassis := r.host[len(r.host)-1], r.chassis[len(r.chassis)-1]
	r.crash(true)
	r.pass(time.Minute)
	require.Equal(t, before, r.host[len(r.host)-1])
	require.Equal(t, chassis, r.chassis[len(r.chassis)-1])
	require.Empty(t, r.pulses)
}
