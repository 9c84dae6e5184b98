package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

func (r *rig) attemptsLeft() uint32 { return r.host[len(r.host)-1].AttemptsLeft }

// The host's unit leaves long before the power does: that is no power cycle.
func TestTargetsPowerCycleWaitsForThePower(t *testing.T) {
	for _, op := range []state.Operation{state.ChassisPowerCycle, state.HostReboot} {
		t.Run(op.String(), func(t *testing.T) {
			r := targetsRig(t)
			r.unitLevels(state.LevelOn, state.LevelOn)
			if op == state.HostReboot { // with the host off it is a power cycle, and the host has gone already
				r.unitLevels(state.LevelOn, state.LevelOff)
			}
			r.pass(time.Second)
			a := r.write(op)
			r.pass(50 * time.Millisecond)
			require.Len(t, r.startedUnits(), 1)
			r.unitLevels(state.LevelOn, state.LevelOff)
			r.jobEnds(true, nil)
			r.unitLevels(state.LevelOn, state.LevelOn)
			require.Equal(t, state.Running, r.status(a.answer.Seq), "power has not gone")
			r.units(false)
			require.Equal(t, state.Running, r.status(a.answer.Seq))
			r.units(true)
			require.Equal(t, state.Success, r.status(a.answer.Seq))
		})
	}
}

// A power target that was reached anew has been left, though no reading saw it.
func TestTargetsPowerCycleBetweenReadings(t *testing.T) {
	r := targetsRunning(t)
	a := r.write(state.ChassisPowerCycle)
	r.pass(50 * time.Millisecond)
	r.pass(time.Second)
	r.levels.PowerSince = r.now.Boot
	r.look()
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
}

// A foreign power off that ran before counts as none once power is wanted again:
// the jobs that our own operations bring with them are not cancelled.
func TestTargetsOffGuardEndsWithOurOwnStart(t *testing.T) {
	r := targetsRunning(t)
	r.write(state.ChassisOff)
	r.pass(50 * time.Millisecond)
	r.units(false)
	r.write(state.HostOn)
	r.pass(50 * time.Millisecond)
	r.units(true)
	r.foreign(9, "startmin", state.HostOn, 6) // announced late
	r.pass(200 * time.Millisecond)
	assert.Empty(t, r.cancelled())
	assert.Len(t, r.core.domains[0].q.Page(0, 10), 2, "it has led to nothing new")
}

// A helper that an operation of others left sleeping is stopped by a power off
// that finds the power off already, and its job would be cancelled.
func TestTargetsOffThatFindsPowerOff(t *testing.T) {
	r := targetsRig(t)
	r.pass(time.Second)
	a := r.write(state.ChassisOff)
	r.pass(time.Second)
	require.Equal(t, state.Noop, r.status(a.answer.Seq))
	assert.Equal(t, 1, r.abandoned())
	r.foreign(9, "startmin", state.HostOn, 6)
	assert.Equal(t, []uint32{9}, r.cancelled())
}

// An attempt is given back only if no job was queued (DESIGN.md §3.2).
func TestTargetsAttempts(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		r := targetsRig(t)
		r.write(state.HostOn)
		r.pass(50 * time.Millisecond)
		r.jobEnds(false, errors.New("masked"))
		assert.EqualValues(t, 3, r.attemptsLeft())
	})
	t.Run("failed", func(t *testing.T) {
		r := targetsRig(t)
		r.write(state.HostOn)
		r.pass(50 * time.Millisecond)
		r.jobEnds(true, errors.New("dependency"))
		assert.EqualValues(t, 2, r.attemptsLeft())
	})
	t.Run("timed out", func(t *testing.T) {
		r := targetsRig(t)
		a := r.write(state.HostOn)
		r.pass(quickTimings().JobTimeout + time.Minute)
		require.Equal(t, state.Failed, r.status(a.answer.Seq))
		assert.Contains(t, r.reason(a.answer.Seq), "did not end within jobTimeout")
		assert.EqualValues(t, 2, r.attemptsLeft(), "a job was queued, or may have been")
	})
}

// Power that units have cut, or reset, was seen: nothing is to be added.
func TestTargetsSuccessHasNoReason(t *testing.T) {
	r := targetsRunning(t)
	a := r.write(state.HostForceWarmReboot)
	r.pass(50 * time.Millisecond)
	r.unitLevels(state.LevelOn, state.LevelOff)
	r.units(true)
	require.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Empty(t, r.reason(a.answer.Seq))
	a = r.write(state.ChassisOff)
	r.pass(50 * time.Millisecond)
	r.units(false) // seen before the job has ended
	require.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Empty(t, r.reason(a.answer.Seq))
}

// What an urgent request has superseded is in its record while it waits.
func TestSupersededIsRecordedOfAPendingRequest(t *testing.T) {
	r := targetsRunning(t)
	first := r.write(state.HostOff)
	r.pass(50 * time.Millisecond)
	r.write(state.ChassisOff)
	r.crash(true)
	r.units(true)
	r.pass(time.Second)
	assert.Equal(t, state.Superseded, r.status(first.answer.Seq))
	last := r.newest()
	assert.Equal(t, state.ChassisOff, last.Op)
	assert.Equal(t, []uint64{first.answer.Seq}, last.Superseded)
}
