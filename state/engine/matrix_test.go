package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// sioRig is a board with every input of power-sequencing.md §3.1, off.
func sioRig(t *testing.T, source string) *rig {
	r := newRig(t, func(c *Config) {
		c.Domains[0].Options.WarmResetSource = source
		c.Domains[0].Timings.GracefulTimeout = 20 * time.Second
	})
	r.levels.SIOGood, r.levels.PlatformReset = state.LevelOff, state.LevelOff
	r.step(edge{})
	r.pass(time.Second)
	return r
}

func sioRunning(t *testing.T, source string) *rig {
	r := sioRig(t, source)
	r.levels.PowerGood, r.levels.SIOGood, r.levels.PostComplete = state.LevelOn, state.LevelOn, state.LevelOn
	r.step(edge{})
	r.pass(time.Second)
	require.Equal(t, state.HostStateRunning, r.hostState())
	return r
}

// written brings a running board into a phase by a request.
func written(op state.Operation, prepare func(*rig), wait time.Duration) func(*testing.T, string) *rig {
	return func(t *testing.T, source string) *rig {
		r := sioRunning(t, source)
		prepare(r)
		r.write(op)
		r.pass(wait)
		return r
	}
}

// poweringUp brings a board that is off on its way up.
func poweringUp(good time.Duration) func(*testing.T, string) *rig {
	return func(t *testing.T, source string) *rig {
		r := sioRig(t, source)
		r.plant.powerGood = good
		r.write(state.HostOn)
		r.pass(600 * time.Millisecond)
		return r
	}
}

var intoPhase = map[sequence.Phase]func(*testing.T, string) *rig{
	sequence.PhaseOn:            sioRunning,
	sequence.PhaseAwaitPowerOK:  poweringUp(0),
	sequence.PhaseAwaitSIO:      poweringUp(100 * time.Millisecond),
	sequence.PhaseOff:           sioRig,
	sequence.PhaseToOff:         written(state.ChassisOff, func(r *rig) { r.plant.ignoreHolds = 99 }, time.Second),
	sequence.PhaseGracefulOff:   written(state.HostOff, func(r *rig) { r.plant.guest = 0 }, time.Second),
	sequence.PhaseCycleOff:      written(state.ChassisPowerCycle, func(*rig) {}, 5*time.Second),
	sequence.PhaseToCycleOff:    written(state.ChassisPowerCycle, func(r *rig) { r.plant.ignoreHolds = 99 }, time.Second),
	sequence.PhaseGracefulCycle: written(state.HostGracefulWarmReboot, func(r *rig) { r.plant.guest = 0 }, time.Second),
	sequence.PhaseWarmReset: func(t *testing.T, source string) *rig {
		r := sioRunning(t, source)
		r.step(edge{0, "ResetButton", true})
		r.pass(50 * time.Millisecond)
		return r
	},
}

// inputs are the edges: what they do to the levels, and their signal.
var inputs = map[sequence.Event]struct {
	signal   string
	asserted bool
	set      func(*state.Levels)
}{
	sequence.PowerOKAssert: {"PowerOk", true, func(l *state.Levels) { l.PowerGood = state.LevelOn }},
	sequence.PowerOKDeassert: {"PowerOk", false, func(l *state.Levels) {
		l.PowerGood, l.SIOGood, l.PostComplete = state.LevelOff, state.LevelOff, state.LevelOff
	}},
	sequence.SIOGoodAssert:         {"SioPowerGood", true, func(l *state.Levels) { l.SIOGood = state.LevelOn }},
	sequence.SIOGoodDeassert:       {"SioPowerGood", false, func(l *state.Levels) { l.SIOGood = state.LevelOff }},
	sequence.S5Assert:              {"SIOS5", true, func(*state.Levels) {}},
	sequence.S5Deassert:            {"SIOS5", false, func(*state.Levels) {}},
	sequence.PlatformResetAssert:   {"PlatformReset", true, func(l *state.Levels) { l.PlatformReset = state.LevelOn }},
	sequence.PlatformResetDeassert: {"PlatformReset", false, func(l *state.Levels) { l.PlatformReset = state.LevelOff }},
	sequence.PostCompleteAssert:    {"PostComplete", true, func(l *state.Levels) { l.PostComplete = state.LevelOn }},
	sequence.PostCompleteDeassert:  {"PostComplete", false, func(l *state.Levels) { l.PostComplete = state.LevelOff }},
	sequence.PowerButtonPressed:    {"PowerButton", true, func(*state.Levels) {}},
	sequence.ResetButtonPressed:    {"ResetButton", true, func(*state.Levels) {}},
}

var requests = map[sequence.Event]state.Operation{
	sequence.RequestOn: state.HostOn, sequence.RequestCut: state.ChassisOff, sequence.RequestCycle: state.ChassisPowerCycle,
	sequence.RequestReset: state.HostForceWarmReboot, sequence.RequestGracefulOff: state.HostOff,
	sequence.RequestGracefulCycle: state.HostGracefulWarmReboot,
}

// timers are how long each runs at most, from when the phase was entered.
var timers = map[sequence.Event]time.Duration{
	sequence.PowerCycleTimer: 5 * time.Second, sequence.PowerOKWatchdog: 10 * time.Second, sequence.SIOWatchdog: 3 * time.Second,
	sequence.GracefulTimer: 22 * time.Second, sequence.WarmResetTimer: 600 * time.Millisecond,
}

// timerOf is the one of the five timers that runs now, 0 if none does.
func timerOf(d *domain) sequence.Event {
	if d.run == nil {
		if d.hands.phase == sequence.PhaseWarmReset {
			return sequence.WarmResetTimer
		}
		return 0
	}
	switch st := d.run.current(); {
	case d.run.mode != modeWait:
		return 0
	case st.Graceful:
		return sequence.GracefulTimer
	case st.Goal == sequence.GoalTime:
		return sequence.PowerCycleTimer
	case st.Goal == sequence.GoalPowerOn:
		return sequence.PowerOKWatchdog
	case st.Goal == sequence.GoalSIOGood:
		return sequence.SIOWatchdog
	default:
		return 0
	}
}

// moment is what a cell is compared with.
type moment struct {
	seq    uint64
	step   int
	pulses int
	hands  otherHands
}

func (r *rig) moment() moment {
	d := r.core.domains[0]
	m := moment{pulses: len(r.pulses), hands: d.hands}
	if d.run != nil {
		m.seq, m.step = d.run.seq, d.run.step
	}
	return m
}

// TestMatrix drives the core into each of the ten phases, gives it each of the
// 23 events, and looks whether the table's reaction is what happens.
func TestMatrix(t *testing.T) {
	cells := 0
	for _, p := range sequence.Phases() {
		for _, e := range sequence.Events() {
			cells++
			t.Run(p.String()+"/"+e.String(), func(t *testing.T) { testCell(t, p, e) })
		}
	}
	require.Equal(t, 230, cells)
}

func testCell(t *testing.T, p sequence.Phase, e sequence.Event) {
	want := sequence.React(p, e)
	require.NotEmpty(t, want.String(), "the cell is set")
	source := "PostComplete"
	if e == sequence.PlatformResetAssert {
		source = "PlatformReset"
	}
	r := intoPhase[p](t, source)
	if want == sequence.Passage {
		r = written(state.HostForceWarmReboot, func(r *rig) { r.plant.post = time.Minute }, 200*time.Millisecond)(t, source)
	}
	require.Equal(t, p, r.core.domains[0].phase(), "the phase is reached")
	switch op, request := requests[e]; {
	case request:
		testRequest(t, r, op, want)
	case inputs[e].signal != "":
		testInput(t, r, e, want)
	default:
		testTimer(t, r, e, want)
	}
}

func testRequest(t *testing.T, r *rig, op state.Operation, want sequence.Reaction) {
	before := r.moment()
	reply := r.write(op)
	if want == sequence.TakeOver {
		r.pass(0)
		assert.Equal(t, state.Superseded, r.status(before.seq), "at once")
	}
	r.pass(100 * time.Millisecond)
	require.True(t, reply.got, "answered")
	d := r.core.domains[0]
	switch seq := reply.answer.Seq; want {
	case sequence.Launch:
		require.NotNil(t, d.run)
		assert.Equal(t, seq, d.run.seq)
	case sequence.Noop:
		assert.Equal(t, state.Noop, r.status(seq))
	case sequence.Invalid:
		assert.Equal(t, state.Invalid, r.status(seq))
		assert.Equal(t, CodeNotAllowed, reply.answer.Err.Code)
	case sequence.Queue:
		assert.Equal(t, state.Pending, r.status(seq))
		assert.Equal(t, before, r.moment())
	case sequence.Join:
		assert.True(t, reply.answer.Repeated)
		assert.Equal(t, before.seq, seq)
		assert.Equal(t, before, r.moment())
	case sequence.Overtake, sequence.TakeOver:
		assert.Equal(t, state.Superseded, r.status(before.seq))
		assert.True(t, d.run != nil && d.run.seq == seq || r.status(seq) == state.Noop || d.judging != nil)
		for _, st := range r.pulses[before.pulses:] {
			assert.False(t, op == state.ChassisOff && st.step.width < r.core.cfg.Domains[0].Timings.ForceOffPulse, "no raising press")
		}
	default:
		t.Fatalf("%s is no reaction to a request", want)
	}
}

func testInput(t *testing.T, r *rig, e sequence.Event, want sequence.Reaction) {
	in := inputs[e]
	d := r.core.domains[0]
	if want == sequence.CameBack && (e == sequence.PostCompleteAssert || e == sequence.PlatformResetDeassert) {
		r.step(edge{0, "PostComplete", false})
		r.pass(50 * time.Millisecond)
	}
	before := r.moment()
	in.set(&r.levels)
	probes := r.core.probes
	r.step(edge{0, in.signal, in.asserted})
	r.pass(100 * time.Millisecond)
	assert.Greater(t, r.core.probes, probes, "the levels are read again")
	after := r.moment()
	on, _ := d.powered()
	assert.Equal(t, r.levels.PowerGood == state.LevelOn || r.levels.SIOGood == state.LevelOn, on, "what is seen is what is there")
	switch want {
	case sequence.Observe:
		if on == (before.hands.phase == 0 || before.hands.phase == sequence.PhaseWarmReset) {
			assert.Equal(t, before, after)
		}
		assert.Equal(t, before.pulses, after.pulses)
	case sequence.Advance:
		assert.NotEqual(t, [2]any{before.seq, before.step}, [2]any{after.seq, after.step})
		assert.NotEqual(t, state.Failed, r.status(before.seq))
	case sequence.Lose:
		assert.Equal(t, state.Failed, r.status(before.seq))
		assert.Contains(t, r.reason(before.seq), "power good was lost")
	case sequence.Settle:
		assert.Zero(t, d.hands)
	case sequence.HandsUp, sequence.HandsDown, sequence.HandsReset:
		assert.NotZero(t, d.hands.until, "it ends")
		assert.Equal(t, want == sequence.HandsUp, d.hands.up)
		assert.Equal(t, want == sequence.HandsReset, d.hands.phase == sequence.PhaseWarmReset)
		assert.Equal(t, before.pulses, after.pulses, "nothing is pressed")
		assert.Equal(t, handsCauses[e] != 0, d.values.causes != 0, "with its cause")
	case sequence.SkipPress:
		require.NotNil(t, d.run)
		assert.Equal(t, "wait for power good", d.run.current().Name)
		assert.Equal(t, before.pulses, after.pulses)
	case sequence.Contrary:
		assert.Equal(t, before, after)
		if req, ok := d.q.Get(before.seq); ok {
			assert.NotEqual(t, before.seq, r.writeAs(7, req.Op).answer.Seq, "an equal write is a new intent")
		}
	case sequence.Passage:
		assert.True(t, d.run.seen.WentReset)
	case sequence.CameBack:
		testCameBack(t, r, e, before)
	default:
		t.Fatalf("%s is no reaction to an edge", want)
	}
}

func testCameBack(t *testing.T, r *rig, e sequence.Event, before moment) {
	if e == sequence.PostCompleteDeassert || e == sequence.PlatformResetAssert {
		assert.True(t, r.core.domains[0].run.seen.Fell)
		assert.Equal(t, before, r.moment(), "it may be on its way to power off")
		return
	}
	assert.Equal(t, before.pulses, len(r.pulses), "nothing is forced")
	req, _ := r.core.domains[0].q.Get(before.seq)
	if req.Op == state.HostGracefulWarmReboot {
		assert.Equal(t, state.Success, req.Status, "a reset, then running, is what was asked for")
		return
	}
	assert.Equal(t, state.Failed, req.Status)
	assert.Contains(t, req.Reason, "restarted")
}

func testTimer(t *testing.T, r *rig, e sequence.Event, want sequence.Reaction) {
	d := r.core.domains[0]
	if want == sequence.NoTimer {
		assert.NotEqual(t, e, timerOf(d), "that timer does not run here")
		return
	}
	require.Equal(t, e, timerOf(d), "the timer runs")
	before := r.moment()
	r.pass(timers[e])
	switch want {
	case sequence.Fail:
		assert.Equal(t, state.Failed, r.status(before.seq))
		assert.Contains(t, r.reason(before.seq), "Watchdog")
		assert.Zero(t, d.press, "the next request may press again")
	case sequence.Escalate:
		require.NotNil(t, d.run)
		assert.True(t, d.run.current().Hold, "power is cut")
		assert.Greater(t, len(r.pulses), before.pulses)
	case sequence.Advance:
		assert.Greater(t, len(r.pulses), before.pulses, "the press after the dwell")
	case sequence.Settle:
		assert.Zero(t, d.hands)
		assert.Equal(t, state.HostStateRunning, r.hostState())
	default:
		t.Fatalf("%s is no reaction to a timer", want)
	}
}
