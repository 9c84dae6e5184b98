package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// armed is a host that is off, with a schedule in an hour.
func armed(t *testing.T, op state.Operation, change ...func(*Config)) *rig {
	r := settingsRig(t, false, state.Settings{}, change...)
	r.setProp(PropScheduledTransition, uint64(op))
	r.setProp(PropScheduledTime, uint64(r.now.Wall.Add(time.Hour).Unix()))
	return r
}

func (r *rig) scheduled() uint64 { return r.core.domains[0].values.saved.ScheduleTime }

// bug-reports.md 42 and C19: a schedule fires once, at or after its time,
// whatever the wall clock and the daemon do.
func TestScheduleSurvives(t *testing.T) {
	statetest.Covers(t, "C19", "B42")
	for name, play := range map[string]func(*rig){
		"nothing":             func(r *rig) { r.pass(time.Hour) },
		"clock steps past it": func(r *rig) { r.now.Wall = r.now.Wall.Add(2 * time.Hour) },
		"clock steps back":    func(r *rig) { r.now.Wall = r.now.Wall.Add(-2 * time.Hour); r.pass(3 * time.Hour) },
		"forth and back": func(r *rig) {
			r.now.Wall = r.now.Wall.Add(2 * time.Hour)
			r.pass(time.Minute)
			r.now.Wall = r.now.Wall.Add(-2 * time.Hour)
			r.pass(2 * time.Hour)
		},
		"before the epoch": func(r *rig) {
			w := r.now.Wall
			r.now.Wall = time.Unix(-100, 0)
			r.pass(time.Minute)
			r.now.Wall = w.Add(2 * time.Hour)
		},
		"daemon away": func(r *rig) { r.away(2 * time.Hour); r.restart(true) },
		"BMC away":    func(r *rig) { r.away(2 * time.Hour); r.restart(false) },
		"restarts":    func(r *rig) { r.crash(true); r.pass(time.Hour); r.crash(true) },
	} {
		t.Run(name, func(t *testing.T) {
			r := armed(t, state.HostOn)
			r.pass(time.Minute)
			require.Empty(t, r.pulses)
			play(r)
			r.pass(time.Minute)
			require.Equal(t, state.HostStateRunning, r.hostState())
			require.Len(t, r.pulses, 1)
			require.Zero(t, r.scheduled())
			require.Equal(t, state.RestartCauseScheduledPowerOn, r.restartCause())
			r.write(state.HostOff)
			r.pass(24 * time.Hour)
			require.Equal(t, state.HostStateOff, r.hostState(), "it fires once")
		})
	}
}

// S58: a time in the past is refused and changes nothing; 0 disarms.
func TestScheduleInThePast(t *testing.T) {
	statetest.Covers(t, "S58", "C19")
	r := armed(t, state.HostOn)
	at := r.scheduled()
	p := &reply{}
	r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: PropScheduledTime, Value: uint64(r.now.Wall.Unix() - 10), Reply: p.take(t)})
	require.Equal(t, CodeInvalidTime, p.answer.Err.Code)
	require.Equal(t, at, r.scheduled())
	r.pass(time.Hour + time.Minute)
	require.Len(t, r.pulses, 1, "what was armed before fires in time")

	r = armed(t, state.HostOn)
	r.setProp(PropScheduledTime, 0)
	r.pass(2 * time.Hour)
	require.Empty(t, r.pulses)
	r.setProp(PropScheduledTime, uint64(r.now.Wall.Unix())) // now is not the past
	r.pass(time.Minute)
	require.Len(t, r.pulses, 1)
}

// C19: a schedule that is due before the BMC is ready waits for it.
func TestScheduleWaitsForTheBMC(t *testing.T) {
	statetest.Covers(t, "C19")
	r := armed(t, state.HostOn, func(c *Config) { c.RequireBMCReady, c.BMCUnits = true, true })
	r.pass(2 * time.Hour)
	require.Empty(t, r.pulses)
	require.NotZero(t, r.scheduled())
	r.step(BMCUnits{Ready: true})
	r.pass(2 * retrySchedule)
	require.Equal(t, state.HostStateRunning, r.hostState())
	require.Len(t, r.pulses, 1)
	require.Zero(t, r.scheduled())
}

// S57: an Off by schedule says nothing about a restart.
func TestScheduledOffHasNoCause(t *testing.T) {
	statetest.Covers(t, "S57")
	r := armed(t, state.HostOff)
	r.write(state.HostOn)
	r.pass(time.Minute)
	before := r.restartCause()
	r.pass(time.Hour)
	require.Equal(t, state.HostStateOff, r.hostState())
	require.Equal(t, before, r.restartCause())
}

// A schedule that cannot be accepted now is tried again; how late is too late is
// for the configuration to say.
func TestScheduleIsLateRatherThanNever(t *testing.T) {
	statetest.Covers(t, "C19", "B42")
	r := armed(t, state.HostOn)
	r.commit = func(uint64, uint64) error { return errors.New("no space left") }
	r.pass(90 * time.Minute)
	require.Empty(t, r.pulses)
	r.commit = nil
	r.pass(5 * time.Minute)
	require.Equal(t, state.HostStateRunning, r.hostState())

	for away, fires := range map[time.Duration]bool{90 * time.Minute: true, 4 * time.Hour: false} {
		r := armed(t, state.HostOn, func(c *Config) { c.OverdueMax = time.Hour })
		r.away(away)
		r.restart(false)
		r.pass(time.Hour)
		require.Equal(t, fires, r.hostState() == state.HostStateRunning, "after %s", away)
		require.Zero(t, r.scheduled())
	}
}

// A crash between the request and the note that it was made does not repeat it.
func TestScheduleFiresOnceOverACrash(t *testing.T) {
	r := armed(t, state.HostOn)
	saved := r.core.domains[0].values.saved
	r.pass(time.Hour + time.Minute)
	require.Len(t, r.pulses, 1)
	r.write(state.HostOff)
	r.pass(time.Minute)
	presses := len(r.pulses)
	r.core.domains[0].values.saved = saved // as if the note had not been written
	r.pass(time.Hour)
	require.Len(t, r.pulses, presses)
}

// S61 and bug-reports.md 43: hours of the chassis, whatever the host does; parts
// of an hour add up, over power off and restarts.
func TestPowerOnHours(t *testing.T) {
	statetest.Covers(t, "S61", "B43")
	hours := func(r *rig) uint32 { return r.chassis[len(r.chassis)-1].POHCounter }
	r := settingsRig(t, false, state.Settings{})
	r.pass(2 * time.Hour)
	require.Zero(t, hours(r), "off")
	r.write(state.ChassisOn)
	r.pass(2*time.Hour + time.Minute)
	require.Equal(t, uint32(2), hours(r))
	for range 4 {
		r.write(state.ChassisOff)
		r.pass(time.Hour)
		r.write(state.ChassisOn)
		r.pass(31 * time.Minute)
	}
	require.Equal(t, uint32(4), hours(r), "parts add up")
	r.crash(true)
	r.pass(2 * time.Hour)
	require.Equal(t, uint32(6), hours(r))
	for range 12 { // each life counts full quarters alone
		r.pass(16 * time.Minute)
		r.crash(true)
	}
	require.Equal(t, uint32(9), hours(r), "a restart keeps the part of an hour")
	r.cut()
	r.pass(time.Hour)
	r.life.dead = false
	r.restart(false)
	r.pass(2 * time.Hour)
	require.Equal(t, uint32(9), hours(r), "off after the mains were away")
	r.setPropOf(state.KindChassis, PropPOHCounter, 100)
	require.Equal(t, uint32(100), hours(r))
}

func (r *rig) setPropOf(k state.Kind, p Property, v uint64) {
	r.step(Set{Object: state.Object{Kind: k}, Prop: p, Value: v, Reply: func(a Answer) { require.Nil(r.t, a.Err) }})
}
