package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

const (
	out   = sequence.PowerOut
	reset = sequence.ResetOut
)

func TestHostOnFromOff(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	p := r.write(state.HostOn)
	r.pass(100 * time.Millisecond)
	require.True(t, p.got)
	require.Nil(t, p.answer.Err)
	require.Equal(t, state.HostStateTransitioningToRunning, r.hostState())
	require.Equal(t, state.PowerStateTransitioningToOn, r.powerState())
	r.pass(5 * time.Second)
	require.Equal(t, state.HostStateRunning, r.hostState())
	require.Equal(t, state.PowerStateOn, r.powerState())
	require.Equal(t, []string{out}, r.presses())
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Equal(t, uint64(1), r.queue.Launches)
	h := r.host[len(r.host)-1]
	require.Equal(t, uint32(2), h.AttemptsLeft)
	require.Equal(t, state.HostOn, h.Requested)
	require.Equal(t, state.RestartCauseRemoteCommand, h.RestartCause)
	require.Equal(t, state.OSStateStandby, h.OS)
}

// TestColumns runs every cell of DESIGN.md §3.2 that a gpio board can show and
// checks status, pulses and where it ends.
func TestColumns(t *testing.T) {
	const (
		off = false
		on  = true
	)
	for _, c := range []struct {
		op     state.Operation
		from   bool
		status state.Status
		pulses []string
		ends   bool
	}{
		{state.HostOn, on, state.Noop, nil, on},
		{state.HostOn, off, state.Success, []string{out}, on},
		{state.HostOff, on, state.Success, []string{out}, off},
		{state.HostOff, off, state.Noop, nil, off},
		{state.HostReboot, on, state.Success, []string{out, out}, on},
		{state.HostReboot, off, state.Invalid, nil, off},
		{state.HostGracefulWarmReboot, on, state.Success, []string{out, out}, on},
		{state.HostGracefulWarmReboot, off, state.Invalid, nil, off},
		{state.HostForceWarmReboot, on, state.Success, []string{reset}, on},
		{state.HostForceWarmReboot, off, state.Invalid, nil, off},
		{state.ChassisOn, on, state.Noop, nil, on},
		{state.ChassisOn, off, state.Success, []string{out}, on},
		{state.ChassisOff, on, state.Success, []string{out}, off},
		{state.ChassisOff, off, state.Noop, nil, off},
		{state.ChassisPowerCycle, on, state.Success, []string{out, out}, on},
		{state.ChassisPowerCycle, off, state.Invalid, nil, off},
	} {
		t.Run(c.op.String(), func(t *testing.T) {
			r := newRig(t)
			if c.from {
				r = runningHost(t)
			}
			r.pass(time.Second)
			p := r.submit("c", "1", c.op)
			r.pass(time.Minute)
			require.True(t, p.got)
			require.Nil(t, p.answer.Err)
			require.Equal(t, c.status, r.status(p.answer.Seq), r.reason(p.answer.Seq))
			require.Equal(t, c.pulses, r.presses())
			on, known := r.core.domains[0].powered()
			require.True(t, known)
			require.Equal(t, c.ends, on)
		})
	}
}

func TestInvalidIsAnErrorOfSetAndAStatusOfSubmit(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	p := r.write(state.HostReboot)
	r.pass(time.Second)
	require.Equal(t, CodeNotAllowed, p.answer.Err.Code)
	require.Equal(t, state.HostOff, r.host[len(r.host)-1].Requested, "a refused write leaves the property")
	s := r.submit("c", "1", state.HostReboot)
	r.pass(time.Second)
	require.Nil(t, s.answer.Err)
	require.Equal(t, state.Invalid, s.answer.Status)
}

func TestOnOffOnIsThreeRequests(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	var p []*reply
	for _, op := range []state.Operation{state.HostOn, state.HostOff, state.HostOn} {
		p = append(p, r.write(op))
	}
	r.pass(time.Minute)
	for _, x := range p {
		require.Equal(t, state.Success, r.status(x.answer.Seq))
	}
	require.Equal(t, []string{out, out, out}, r.presses())
	require.Equal(t, uint64(3), r.queue.Launches)
}

func TestRepeatedRebootLaunchesOnce(t *testing.T) {
	r := runningHost(t)
	a := r.write(state.HostReboot)
	b := r.write(state.HostReboot)
	r.pass(time.Second)
	c := r.write(state.HostReboot)
	r.pass(time.Minute)
	require.Equal(t, a.answer.Seq, b.answer.Seq)
	require.Equal(t, a.answer.Seq, c.answer.Seq)
	require.True(t, c.answer.Repeated)
	require.Equal(t, uint64(1), r.queue.Launches)
	require.Equal(t, uint64(2), r.queue.DuplicatesSuppressed)
}

func TestRebootShowsOffThenRunning(t *testing.T) {
	r := runningHost(t)
	r.host = r.host[len(r.host)-1:]
	r.write(state.HostReboot)
	r.pass(time.Minute)
	var states []state.HostState
	for _, h := range r.host {
		if n := len(states); n == 0 || states[n-1] != h.Current {
			states = append(states, h.Current)
		}
	}
	require.Equal(t, []state.HostState{
		state.HostStateRunning, state.HostStateTransitioningToOff, state.HostStateOff,
		state.HostStateTransitioningToRunning, state.HostStateRunning,
	}, states)
	require.Equal(t, state.HostReboot, r.host[len(r.host)-1].Requested)
}

func TestGracefulTimeoutForcesOrFails(t *testing.T) {
	for name, force := range map[string]bool{"force": true, "fail": false} {
		t.Run(name, func(t *testing.T) {
			r := runningHost(t, func(c *Config) { c.Domains[0].Options.ForceAfterGraceful = force })
			r.plant.guest = 0
			p := r.write(state.HostOff)
			r.pass(10 * time.Minute)
			if force {
				require.Equal(t, state.Success, r.status(p.answer.Seq))
				require.Equal(t, state.PowerStateOff, r.powerState())
				return
			}
			require.Equal(t, state.Failed, r.status(p.answer.Seq))
			require.Contains(t, r.reason(p.answer.Seq), "gracefulTimeout")
			require.Equal(t, state.HostStateRunning, r.hostState())
		})
	}
}

func TestForceOffIsRepeatedThenFails(t *testing.T) {
	r := runningHost(t)
	r.plant.ignoreHolds = 1
	p := r.write(state.ChassisOff)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Equal(t, []string{out, out}, r.presses())

	r = runningHost(t)
	r.plant.ignoreHolds = 100
	p = r.write(state.ChassisOff)
	r.pass(time.Minute)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "3 force-off holds")
	require.Equal(t, state.HostStateRunning, r.hostState())
	require.Equal(t, state.PowerStateOn, r.powerState())
}

func TestNoPowerGoodFailsAndTheNextMayPress(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.plant.powerGood = 0
	p := r.write(state.HostOn)
	r.pass(20 * time.Second)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "PowerOKWatchdogMs")
	require.Equal(t, state.HostStateOff, r.hostState())
	require.Equal(t, []string{out}, r.presses(), "nothing is forced")
	r.plant.powerGood = time.Second
	p = r.write(state.HostOn)
	r.pass(20 * time.Second)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
}

// TestAHoldThatMeetsABoardThatIsOff: the host powers itself off while the force
// off is on its way to the line, and the press starts it again. Off is not
// claimed before that start is cut as well.
func TestAHoldThatMeetsABoardThatIsOff(t *testing.T) {
	r := runningHost(t)
	off := r.write(state.ChassisOff)
	require.NotZero(t, r.held[out])
	r.levels.PowerGood, r.levels.PostComplete = state.LevelOff, state.LevelOff
	r.pass(100 * time.Millisecond)
	require.NotZero(t, r.held[out], "power off that the hold did not cause does not end it")
	require.Equal(t, state.Running, r.status(off.answer.Seq))
	r.power(true)
	r.pass(100 * time.Millisecond)
	require.Equal(t, state.Running, r.status(off.answer.Seq))
	r.pass(5 * time.Second) // the board's own override
	require.Zero(t, r.held[out])
	require.Equal(t, state.Success, r.status(off.answer.Seq))
	require.Equal(t, state.PowerStateOff, r.powerState())
	require.Equal(t, []string{out}, r.presses())
}

// TestAHoldWhoseReleaseStartsABoard: the same, with a board that starts when the
// button is let go: the hold sees no power at all, and what it has started is cut.
// Where no more holds are left, the request does not claim to have switched off.
func TestAHoldWhoseReleaseStartsABoard(t *testing.T) {
	for tries, want := range map[int]struct {
		status  state.Status
		presses int
		power   state.PowerState
	}{
		1: {state.Failed, 1, state.PowerStateOn},
		2: {state.Success, 2, state.PowerStateOff},
	} {
		r := runningHost(t, func(cfg *Config) { cfg.Domains[0].Options.ForceOffTries = tries })
		r.power(false)
		off := r.write(state.ChassisOff)
		require.NotZero(t, r.held[out], "it acts ahead of the reading")
		r.pass(6500 * time.Millisecond)
		require.NotEqual(t, state.Success, r.status(off.answer.Seq), "%d tries: off is not believed yet", tries)
		r.pass(20 * time.Second)
		require.Equal(t, want.status, r.status(off.answer.Seq), "%d tries", tries)
		require.Equal(t, want.power, r.powerState())
		require.Len(t, r.presses(), want.presses)
	}
}

// TestAnAskingPressThatMeetsABoardThatIsOff: the host powers itself off in the
// moment in which the press that asks it to reaches the line, and the press
// starts it again. Off is not claimed before that start is taken back.
func TestAnAskingPressThatMeetsABoardThatIsOff(t *testing.T) {
	for name, c := range map[string]struct {
		op      state.Operation
		fail    bool // onGracefulTimeout
		falls   int
		dead    bool // the board does not start
		presses int
		status  state.Status
		reason  string
		on      bool
	}{
		"forced off":               {op: state.HostOff, falls: 1, presses: 2, status: state.Success},
		"asked again":              {op: state.HostOff, fail: true, falls: 1, presses: 2, status: state.Success},
		"asked again in vain":      {op: state.HostOff, fail: true, falls: 2, presses: 2, status: state.Failed, reason: "has started it again", on: true},
		"not started":              {op: state.HostOff, falls: 1, dead: true, presses: 1, status: state.Success},
		"not started, never twice": {op: state.HostOff, fail: true, falls: 1, dead: true, presses: 1, status: state.Success},
		"reboot":                   {op: state.HostReboot, falls: 1, presses: 3, status: state.Success, on: true},
		"warm reboot":              {op: state.HostGracefulWarmReboot, fail: true, falls: 1, presses: 3, status: state.Success, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := runningHost(t, func(cfg *Config) { cfg.Domains[0].Options.ForceAfterGraceful = !c.fail })
			r.plant.falls = c.falls
			if c.dead {
				r.plant.powerGood = 0
			}
			p := r.write(c.op)
			for range 1200 {
				r.pass(50 * time.Millisecond)
				if r.status(p.answer.Seq) == state.Success && !c.on {
					require.Equal(t, state.LevelOff, r.levels.PowerGood)
				}
			}
			require.Equal(t, c.status, r.status(p.answer.Seq), r.reason(p.answer.Seq))
			require.Contains(t, r.reason(p.answer.Seq), c.reason)
			require.Equal(t, c.on, r.powerState() == state.PowerStateOn)
			require.Len(t, r.presses(), c.presses)
			require.Zero(t, r.core.domains[0].press, "the next request may press")
		})
	}
}

// TestWhileItIsSeenWhatThePressMet: others act while it is seen whether a press
// has started the host.
func TestWhileItIsSeenWhatThePressMet(t *testing.T) {
	looking := func(t *testing.T, powerGood time.Duration) (*rig, *reply) {
		r := runningHost(t)
		r.plant.falls, r.plant.powerGood = 1, powerGood
		p := r.write(state.HostOff)
		r.pass(time.Second)
		require.Equal(t, state.HostStateOff, r.hostState())
		require.Equal(t, state.Running, r.status(p.answer.Seq))
		return r, p
	}
	t.Run("a person presses the button", func(t *testing.T) {
		r, p := looking(t, 0)
		r.step(edge{0, "PowerButton", true})
		require.Equal(t, state.Success, r.status(p.answer.Seq))
		r.later(time.Second, func() { r.power(true) })
		r.pass(time.Minute)
		require.Equal(t, state.PowerStateOn, r.powerState(), "power that a person asked for stays")
		require.Len(t, r.presses(), 1)
	})
	t.Run("Chassis Off", func(t *testing.T) {
		r, p := looking(t, 3*time.Second)
		off := r.write(state.ChassisOff)
		r.pass(time.Minute)
		require.Equal(t, state.Superseded, r.status(p.answer.Seq))
		require.Equal(t, state.Success, r.status(off.answer.Seq))
		require.Len(t, r.presses(), 2, "what the press has started is cut")
		require.Equal(t, state.PowerStateOff, r.powerState())
	})
	t.Run("Host On", func(t *testing.T) {
		r, p := looking(t, 0)
		r.plant.powerGood = 300 * time.Millisecond
		on := r.write(state.HostOn)
		r.pass(time.Minute)
		require.Equal(t, state.Success, r.status(p.answer.Seq))
		require.Equal(t, state.Success, r.status(on.answer.Seq))
		require.Len(t, r.presses(), 2)
	})
	t.Run("a restart of the daemon", func(t *testing.T) {
		r, p := looking(t, 3*time.Second)
		r.crash(true)
		r.pass(time.Minute)
		require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
		require.Equal(t, state.PowerStateOff, r.powerState())
	})
}

// TestPowerGoneWhileTheJournalWrites: nobody is asked who has gone already.
func TestPowerGoneWhileTheJournalWrites(t *testing.T) {
	r := runningHost(t)
	r.hang = true
	p := r.write(state.HostOff)
	r.flush()
	r.pass(50 * time.Millisecond) // judged, and its step is in the journal's hands
	r.power(false)
	r.pass(50 * time.Millisecond)
	r.hang = false
	r.flush()
	r.pass(time.Second)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Empty(t, r.presses())
}

func TestChassisOffTakesOver(t *testing.T) {
	t.Run("a graceful wait", func(t *testing.T) {
		r := runningHost(t)
		r.plant.guest = 0
		soft := r.write(state.HostOff)
		r.pass(10 * time.Second)
		at := r.now.Boot
		hard := r.write(state.ChassisOff)
		r.pass(100 * time.Millisecond)
		require.Equal(t, state.Superseded, r.status(soft.answer.Seq))
		require.Len(t, r.pulses, 2)
		require.LessOrEqual(t, r.pulses[1].from-at, 100*time.Millisecond)
		r.pass(20 * time.Second)
		require.Equal(t, state.Success, r.status(hard.answer.Seq))
		req, _ := r.core.domains[0].q.Get(hard.answer.Seq)
		require.Equal(t, []uint64{soft.answer.Seq}, req.Superseded)
	})
	t.Run("the dwell of a cycle: nothing raises afterwards", func(t *testing.T) {
		r := runningHost(t)
		cycle := r.write(state.ChassisPowerCycle)
		r.pass(6 * time.Second) // off after 4 s, dwell of 5 s
		require.Equal(t, state.PowerStateOff, r.powerState())
		off := r.write(state.ChassisOff)
		r.pass(time.Minute)
		require.Equal(t, state.Superseded, r.status(cycle.answer.Seq))
		require.Equal(t, state.Noop, r.status(off.answer.Seq))
		require.Equal(t, []string{out}, r.presses())
		require.Equal(t, state.PowerStateOff, r.powerState())
	})
	t.Run("a wait for power good", func(t *testing.T) {
		r := newRig(t)
		r.pass(time.Second)
		r.plant.powerGood = 3 * time.Second
		on := r.write(state.HostOn)
		r.pass(time.Second)
		off := r.write(state.ChassisOff)
		r.pass(time.Minute)
		require.Equal(t, state.Superseded, r.status(on.answer.Seq))
		require.Equal(t, state.Success, r.status(off.answer.Seq))
		require.Equal(t, state.PowerStateOff, r.powerState())
	})
	t.Run("a reset pulse, which ends first", func(t *testing.T) {
		r := runningHost(t)
		rst := r.write(state.HostForceWarmReboot)
		r.pass(100 * time.Millisecond)
		off := r.write(state.ChassisOff)
		r.pass(time.Minute)
		require.Equal(t, state.Superseded, r.status(rst.answer.Seq))
		require.Equal(t, state.Success, r.status(off.answer.Seq))
		require.Equal(t, []string{reset, out}, r.presses())
		require.Equal(t, 500*time.Millisecond, r.pulses[0].to-r.pulses[0].from)
		require.GreaterOrEqual(t, r.pulses[1].from, r.pulses[0].to)
	})
	t.Run("a held power button becomes its own hold", func(t *testing.T) {
		r := runningHost(t)
		cycle := r.write(state.ChassisPowerCycle)
		r.pass(time.Second)
		off := r.write(state.ChassisOff)
		r.pass(time.Minute)
		require.Equal(t, state.Superseded, r.status(cycle.answer.Seq))
		require.Equal(t, state.Success, r.status(off.answer.Seq))
		require.Equal(t, state.PowerStateOff, r.powerState())
	})
	t.Run("older waiting requests", func(t *testing.T) {
		r := runningHost(t)
		r.plant.guest = 0
		a := r.write(state.HostOff)
		b := r.write(state.HostOn)
		c := r.write(state.HostReboot)
		off := r.write(state.ChassisOff)
		r.pass(time.Minute)
		for _, p := range []*reply{a, b, c} {
			require.Equal(t, state.Superseded, r.status(p.answer.Seq))
		}
		require.Equal(t, state.Success, r.status(off.answer.Seq))
		require.Equal(t, state.PowerStateOff, r.powerState())
	})
}

func TestForcedOvertakesAGracefulWaitOnly(t *testing.T) {
	r := runningHost(t)
	r.plant.guest = 0
	soft := r.write(state.HostOff)
	queued := r.write(state.HostOn)
	r.pass(time.Second)
	cycle := r.write(state.ChassisPowerCycle)
	r.pass(time.Minute)
	require.Equal(t, state.Superseded, r.status(soft.answer.Seq))
	require.Equal(t, state.Superseded, r.status(queued.answer.Seq))
	require.Equal(t, state.Success, r.status(cycle.answer.Seq))
	require.Equal(t, state.HostStateRunning, r.hostState())

	r = newRig(t)
	r.pass(time.Second)
	r.plant.powerGood = 5 * time.Second
	on := r.write(state.HostOn)
	r.pass(time.Second)
	cycle = r.write(state.ChassisPowerCycle)
	r.pass(2 * time.Minute)
	require.Equal(t, state.Success, r.status(on.answer.Seq), "a running operation is not cut")
	require.Equal(t, state.Success, r.status(cycle.answer.Seq))
}

func TestCancel(t *testing.T) {
	cancel := func(r *rig, seq uint64) *reply {
		p := &reply{}
		r.step(Cancel{Seq: seq, Reply: p.take(r.t)})
		return p
	}
	r := runningHost(t)
	r.plant.guest = 5 * time.Second
	soft := r.write(state.HostOff)
	queued := r.write(state.HostOn)
	r.pass(time.Second)
	require.Equal(t, state.Cancelled, cancel(r, queued.answer.Seq).answer.Status)
	require.Equal(t, state.Cancelled, cancel(r, soft.answer.Seq).answer.Status)
	require.Equal(t, "OS already asked", r.reason(soft.answer.Seq))
	// The OS shuts down all the same: a Host On waits for that, then powers on.
	on := r.write(state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(on.answer.Seq))
	require.Equal(t, []string{out, out}, r.presses())

	cycle := r.write(state.ChassisPowerCycle)
	r.pass(time.Second)
	require.Equal(t, state.Running, cancel(r, cycle.answer.Seq).answer.Status, "a line step goes on")
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(cycle.answer.Seq))
	require.Equal(t, CodeUnknownRequest, cancel(r, 99999).answer.Err.Code)
}

func TestUnknownPowerStateWaitsThenFails(t *testing.T) {
	r := newRig(t)
	r.blind = errors.New("gpio: read PowerOk: stuck")
	r.pass(time.Second)
	r.restart(true)
	p := r.write(state.HostOn)
	require.True(t, p.got, "accepted: it waits")
	r.pass(29 * time.Second)
	require.Equal(t, state.Pending, r.status(p.answer.Seq))
	require.Equal(t, state.PowerStatusUndefined, r.chassis[len(r.chassis)-1].Status)
	r.pass(2 * time.Second)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "stuck")
	require.Empty(t, r.pulses)
}

// A request that has waited for its turn still gets the time to wait for a power
// state that goes missing when its turn comes.
func TestPowerThatGoesMissingIsWaitedForAnew(t *testing.T) {
	for _, back := range []bool{true, false} {
		r := runningHost(t)
		r.plant.guest = 45 * time.Second
		off := r.write(state.HostOff)
		r.pass(time.Second)
		on := r.write(state.HostOn)
		for r.status(off.answer.Seq) == state.Running {
			r.pass(10 * time.Millisecond)
		}
		require.Equal(t, state.Success, r.status(off.answer.Seq))
		r.blind = errors.New("gpio: read PowerOk: stuck")
		r.pass(29 * time.Second)
		require.Equal(t, state.Pending, r.status(on.answer.Seq))
		if back {
			r.blind = nil
			r.pass(time.Minute)
			require.Equal(t, state.Success, r.status(on.answer.Seq), r.reason(on.answer.Seq))
			continue
		}
		r.pass(2 * time.Second)
		require.Equal(t, state.Failed, r.status(on.answer.Seq))
		require.Contains(t, r.reason(on.answer.Seq), "stuck")
	}
}

func TestContradictingInputsAreJudgedAgain(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.split = 3
	p := r.write(state.HostOn)
	r.pass(10 * time.Second)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	r.split = 1 << 30
	p = r.write(state.HostOff)
	r.pass(time.Minute)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Len(t, r.pulses, 1)
}

func TestLineErrorRefundsTheAttempt(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.plant.lineErr = errors.New("gpio: pulse PowerOut: line is held by another process")
	p := r.write(state.HostOn)
	r.pass(time.Second)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Equal(t, uint32(3), r.host[len(r.host)-1].AttemptsLeft)
	r.plant.lineErr = nil
	p = r.write(state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq), "an unmoved line leaves no open press")
}

func TestHintsAreShownUntilSomethingMoves(t *testing.T) {
	r := runningHost(t)
	p := &reply{}
	r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: PropHostState, Value: uint64(state.HostStateTransitioningToOff), Reply: p.take(t)})
	require.Nil(t, p.answer.Err)
	require.Equal(t, state.HostStateTransitioningToOff, r.hostState())
	r.pass(61 * time.Second)
	require.Equal(t, state.HostStateRunning, r.hostState())
	q := &reply{}
	r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: PropHostState, Value: uint64(state.HostStateOff), Reply: q.take(t)})
	require.True(t, q.got)
	require.Equal(t, state.HostStateRunning, r.hostState(), "a stable value is the observed one")
}

func TestResetShowsAPassage(t *testing.T) {
	r := runningHost(t)
	p := r.write(state.HostForceWarmReboot)
	r.pass(100 * time.Millisecond)
	require.Equal(t, state.HostStateTransitioningToRunning, r.hostState())
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Equal(t, []string{reset}, r.presses())
}

func TestUnconfirmedResetIsUnknownThenFails(t *testing.T) {
	r := runningHost(t)
	r.plant.resetDead = true
	p := r.write(state.HostForceWarmReboot)
	r.pass(119 * time.Second)
	require.Equal(t, state.Running, r.status(p.answer.Seq))
	r.pass(3 * time.Second)
	require.Equal(t, state.Unknown, r.status(p.answer.Seq), "no confirmation within confirmTimeout")
	require.Equal(t, state.HostStateRunning, r.hostState(), "nothing stays in transition")
	next := r.write(state.HostForceWarmReboot)
	require.False(t, next.answer.Repeated, "nothing joins an unknown request")
	require.Equal(t, state.Pending, r.status(next.answer.Seq), "the executor stays held")
	r.plant.resetDead = false
	r.pass(21 * time.Second)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "no reset was seen")
	r.pass(10 * time.Minute)
	require.Equal(t, state.Success, r.status(next.answer.Seq))
}

func TestReconciliationFindsALateConfirmation(t *testing.T) {
	r := runningHost(t)
	r.plant.resetDead = true
	p := r.write(state.HostForceWarmReboot)
	r.pass(125 * time.Second)
	require.Equal(t, state.Unknown, r.status(p.answer.Seq))
	r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff })
	r.pass(time.Second)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
}

func TestAnUnobservableResetSaysSo(t *testing.T) {
	r := newRig(t)
	r.levels.PostComplete = state.LevelAbsent
	r.pass(time.Second)
	r.levels.PowerGood = state.LevelOn
	r.pass(10 * time.Second)
	p := r.write(state.HostForceWarmReboot)
	r.pass(10 * time.Second)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Equal(t, "reset not observable", r.reason(p.answer.Seq))
}

// TestNoSecondPressWhileOneIsUnconfirmed: a press that nothing has confirmed is
// not followed by another within confirmTimeout.
func TestNoSecondPressWhileOneIsUnconfirmed(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.plant.powerGood = 5 * time.Second
	on := r.write(state.HostOn)
	r.pass(time.Second)
	off := r.write(state.ChassisOff) // ends the wait; the board may still come up
	r.pass(100 * time.Millisecond)
	require.Equal(t, state.Superseded, r.status(on.answer.Seq))
	again := r.write(state.HostOn)
	r.pass(3 * time.Second)
	require.Len(t, r.pulses, 1, "nothing is pressed on top of an open press")
	r.pass(2 * time.Minute)
	require.Equal(t, state.Success, r.status(off.answer.Seq))
	require.Equal(t, state.Success, r.status(again.answer.Seq))
	require.Equal(t, state.HostStateRunning, r.hostState())
}

func TestTheFrontButtonIsOtherHands(t *testing.T) {
	r := runningHost(t)
	r.step(edge{0, "PowerButton", true})
	r.later(3*time.Second, func() { r.power(false) })
	p := r.write(state.HostOn)
	r.pass(time.Second)
	require.Equal(t, state.Pending, r.status(p.answer.Seq), "it waits until the shutdown has settled")
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	require.Equal(t, []string{out}, r.presses())
}

func TestAttempts(t *testing.T) {
	r := runningHost(t)
	left := func() uint32 { return r.host[len(r.host)-1].AttemptsLeft }
	for _, want := range []uint32{2, 1, 0, 0} {
		p := r.write(state.HostReboot)
		r.pass(time.Minute)
		require.Equal(t, state.Success, r.status(p.answer.Seq))
		require.Equal(t, want, left())
	}
	r.write(state.HostOff)
	r.pass(time.Minute)
	require.Equal(t, uint32(0), left())
	r.write(state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, uint32(2), left(), "a fresh Host On from outside refills first")
}

// A host that nobody drives gives the core nothing to do: the rig notices a core
// that wants to be woken again and again.
func TestAHostThatIsNotDrivenIsLeftAlone(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Domains[0].Driven = false })
	r.pass(time.Hour)
	require.Greater(t, r.core.NextDeadline(), r.now.Boot)
	p := r.write(state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Greater(t, r.core.NextDeadline(), r.now.Boot)
}
