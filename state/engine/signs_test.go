package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// signs returns the kinds of signs since the last call, one after the other.
func (r *rig) signs() (kinds []SignKind, intent uint64) {
	for _, e := range r.effects {
		if s, ok := e.(signEffect); ok {
			kinds = append(kinds, s.sign.Kind)
		}
	}
	r.effects = nil
	return kinds, r.core.domains[0].intent
}

// internal asks as the fault monitor does and returns the statuses that it is
// told, or the refusal.
func (r *rig) internal(op state.Operation, intent uint64) (told *[]state.Status, refused **Refusal) {
	told, refused = new([]state.Status), new(*Refusal)
	r.step(Internal{Op: op, Cause: state.RestartCauseHostCrash, Intent: intent, Follow: func(a Answer) {
		if *refused = a.Err; a.Err == nil {
			*told = append(*told, a.Status)
		}
	}})
	return told, refused
}

func TestIntentRisesWithWhatPeopleWant(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*rig)
		rises uint64
		want  []SignKind // in any order
	}{
		"Chassis Off":      {func(r *rig) { r.write(state.ChassisOff) }, 1, []SignKind{SignIntent, SignOff, SignOperatorOff}},
		"Host Off":         {func(r *rig) { r.write(state.HostOff) }, 1, []SignKind{SignIntent, SignOff, SignOperatorOff}},
		"Host On is NOOP":  {func(r *rig) { r.write(state.HostOn) }, 1, []SignKind{SignIntent, SignOperatorOn}},
		"a warm reset":     {func(r *rig) { r.write(state.HostForceWarmReboot) }, 1, []SignKind{SignIntent, SignOperatorOn}},
		"a reboot":         {func(r *rig) { r.write(state.HostReboot) }, 1, []SignKind{SignIntent, SignOff, SignOperatorOn}},
		"the power button": {func(r *rig) { r.step(edge{0, "PowerButton", true}) }, 1, []SignKind{SignIntent, SignOff}},
		"the reset button": {func(r *rig) { r.step(edge{0, "ResetButton", true}) }, 1, []SignKind{SignIntent}},
		"S5":               {func(r *rig) { r.step(edge{0, "SIOS5", true}) }, 0, []SignKind{SignOff}},
		"the OS leaves":    {func(r *rig) { r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff }) }, 0, []SignKind{SignOff}},
		"power is lost":    {func(r *rig) { r.power(false) }, 0, []SignKind{SignPower}},
		"our own request":  {func(r *rig) { r.internal(state.HostReboot, r.core.domains[0].intent) }, 0, []SignKind{SignOff}},
		"a foreign job": {func(r *rig) {
			r.step(Foreign{Job: 1, Unit: "obmc-host-shutdown@0.target", Op: state.HostOff})
		}, 1, []SignKind{SignIntent, SignOff, SignOperatorOff}},
	} {
		t.Run(name, func(t *testing.T) {
			r := runningHost(t)
			_, before := r.signs()
			c.do(r)
			r.pass(200 * time.Millisecond)
			kinds, intent := r.signs()
			assert.Equal(t, c.rises, intent-before)
			slices.Sort(kinds)
			assert.Equal(t, c.want, slices.Compact(kinds))
		})
	}
}

// A platform that loses power goes to S5 because of that: no sign.
func TestS5AfterALossIsNoSign(t *testing.T) {
	r := runningHost(t)
	r.signs()
	r.stepOnce(edge{0, "PowerOk", false})
	r.stepOnce(edge{0, "SIOS5", true})
	r.power(false)
	r.pass(time.Second)
	kinds, _ := r.signs()
	assert.NotContains(t, kinds, SignOff)

	r.power(true)
	r.pass(time.Second)
	r.step(edge{0, "SIOS5", true})
	kinds, _ = r.signs()
	assert.Contains(t, kinds, SignOff, "and the next one counts again")
}

// A job that somebody else queued is a sign at once: power may go before it is
// adopted.
func TestForeignOffIsASignAtOnce(t *testing.T) {
	r := runningHost(t)
	r.signs()
	r.step(Foreign{Job: 1, Unit: "obmc-chassis-poweroff@0.target", Op: state.ChassisOff})
	r.power(false)
	r.pass(30 * time.Millisecond)
	kinds, _ := r.signs()
	assert.Equal(t, []SignKind{SignOff, SignPower}, kinds)
}

// The sign of an Off that was meant comes again when it ends, whatever its
// status, and right before power goes.
func TestOffSignComesWithEachEnd(t *testing.T) {
	r := runningHost(t)
	r.plant.guest = 0 // hangs
	off := r.write(state.HostOff)
	r.pass(time.Second)
	r.signs()
	r.step(Cancel{Seq: off.answer.Seq, Reply: func(Answer) {}})
	kinds, _ := r.signs()
	require.Equal(t, state.Cancelled, r.status(off.answer.Seq))
	assert.Equal(t, []SignKind{SignOff, SignOperatorOn, SignIntent}, kinds, "watched again, and a late shutdown is meant")

	r = runningHost(t)
	r.write(state.HostOff)
	r.signs()
	r.pass(20 * time.Second)
	kinds, _ = r.signs()
	i := slices.Index(kinds, SignPower)
	require.Positive(t, i)
	assert.Equal(t, SignOff, kinds[i-1])

	r = runningHost(t)
	r.write(state.HostReboot)
	r.pass(time.Minute)
	kinds, _ = r.signs()
	assert.Equal(t, SignPower, kinds[len(kinds)-1], "a reboot that is done explains no loss that comes after it")
}

func TestInternalRequestIsFollowedToItsEnd(t *testing.T) {
	r := runningHost(t)
	told, refused := r.internal(state.HostReboot, 99)
	r.pass(time.Minute)
	require.Nil(t, *refused)
	assert.Equal(t, []state.Status{state.Running, state.Success}, *told)
	assert.Empty(t, r.core.domains[0].followers)
}

// TestInternalRequestGivesWay: a newer intent ends it at launch, wherever it
// waits.
func TestInternalRequestGivesWay(t *testing.T) {
	t.Run("queued", func(t *testing.T) {
		r := runningHost(t)
		r.write(state.HostReboot)
		intent := r.core.domains[0].intent
		told, _ := r.internal(state.ChassisPowerCycle, intent)
		r.write(state.HostOff)
		r.pass(time.Minute)
		assert.Equal(t, []state.Status{state.Pending, state.Cancelled}, *told)
		assert.Equal(t, state.HostStateOff, r.hostState())
	})
	t.Run("being judged", func(t *testing.T) {
		r := runningHost(t)
		told, _ := r.internal(state.HostReboot, r.core.domains[0].intent)
		require.NotNil(t, r.core.domains[0].judging)
		r.step(edge{0, "PowerButton", true})
		r.pass(time.Minute)
		assert.Equal(t, []state.Status{state.Cancelled}, *told)
	})
	t.Run("on arrival", func(t *testing.T) {
		r := runningHost(t)
		r.write(state.HostOn)
		told, _ := r.internal(state.HostReboot, 0)
		assert.Equal(t, []state.Status{state.Cancelled}, *told)
		r.pass(time.Minute)
		assert.Equal(t, state.HostStateRunning, r.hostState())
	})
}

func TestInternalRequestIsRefused(t *testing.T) {
	t.Run("Chassis Off", func(t *testing.T) {
		r := runningHost(t)
		_, refused := r.internal(state.ChassisOff, 99)
		assert.Equal(t, CodeInvalidArgument, (*refused).Code)
	})
	t.Run("no attempts", func(t *testing.T) {
		r := runningHost(t)
		r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: PropAttemptsLeft, Reply: func(Answer) {}})
		_, refused := r.internal(state.HostReboot, 99)
		assert.Equal(t, CodeNotAllowed, (*refused).Code)
	})
	t.Run("no room", func(t *testing.T) {
		r := runningHost(t, func(c *Config) { c.Domains[0].Queue.DepthLimit = 1 })
		r.write(state.HostReboot)
		r.pass(100 * time.Millisecond)
		r.write(state.HostOff)
		_, refused := r.internal(state.ChassisPowerCycle, 99)
		assert.Equal(t, CodeFull, (*refused).Code)
		assert.Empty(t, r.core.domains[0].followers)
	})
	t.Run("no journal", func(t *testing.T) {
		r := runningHost(t)
		r.commit = func(uint64, uint64) error { return errNoHold }
		told, refused := r.internal(state.HostReboot, 99)
		assert.Equal(t, CodeUnavailable, (*refused).Code)
		assert.Empty(t, *told)
		assert.Empty(t, r.core.domains[0].followers)
	})
}

// Every gate stands before the monitor's requests, too. It is told so in a way
// that is no word on the host, which costs no attempt and leads to no quiesce.
func TestGatesRefuseInternalRequests(t *testing.T) {
	strict := func(c *Config) { c.RequireActiveBMC, c.RequireBMCReady, c.BMCUnits = true, true, true }
	for name, c := range map[string]struct {
		gate, open Event
		code       Code
	}{
		"firmware update": {Firmware{Updating: true}, Firmware{}, CodeUnavailable},
		"error":           {ErrorBlock{Blocks: true}, ErrorBlock{}, CodeUnavailable},
		"passive":         {BMCRole{Passive: true}, BMCRole{}, CodeUnavailable},
		"not Ready":       {BMCUnits{}, BMCUnits{Ready: true}, CodeBMCNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, strict)
			r.step(BMCUnits{Ready: true})
			r.pass(time.Second)
			r.write(state.HostOn)
			r.pass(time.Minute)
			require.Equal(t, state.HostStateRunning, r.hostState())
			left, journalled := r.attempts(), len(r.journal)
			r.step(c.gate)
			for range 10 {
				told, refused := r.internal(state.HostReboot, 99)
				require.NotNil(t, *refused)
				assert.Equal(t, c.code, (*refused).Code)
				assert.Empty(t, *told)
				r.pass(time.Minute)
			}
			assert.Equal(t, left, r.attempts())
			assert.Equal(t, state.HostStateRunning, r.hostState())
			assert.Len(t, r.journal, journalled)
			told, _ := r.internal(state.HostOff, 99)
			r.pass(time.Minute)
			require.NotEmpty(t, *told, "an escalation that takes power away is no matter of a gate")
			assert.Equal(t, state.Success, (*told)[len(*told)-1])
			r.step(c.open)
			told, _ = r.internal(state.HostReboot, 99)
			r.pass(time.Minute)
			require.NotEmpty(t, *told)
			assert.Equal(t, state.Success, (*told)[len(*told)-1])
		})
	}
}

// An internal request takes an attempt and refills none; the monitor's next one
// is refused when they are used up.
func TestInternalRequestsUseAttemptsUp(t *testing.T) {
	r := runningHost(t)
	for range 3 {
		told, refused := r.internal(state.HostReboot, 99)
		require.Nil(t, *refused)
		r.pass(time.Minute)
		require.Equal(t, []state.Status{state.Running, state.Success}, *told)
		r.power(false) // and it fails again
		r.pass(time.Second)
		r.power(true)
		r.pass(time.Minute)
	}
	_, refused := r.internal(state.HostReboot, 99)
	require.NotNil(t, *refused)
	assert.Contains(t, (*refused).Text, "attempts")
}

// A host that the monitor restarts until no attempts are left ends Quiesced, as
// one that does not come up does; then the monitor leaves it alone.
func TestInternalRequestsEndInQuiesced(t *testing.T) {
	r := settingsRig(t, false, rebootAlways)
	r.write(state.HostOn)
	r.pass(time.Minute)
	for r.attempts() > 0 {
		told, refused := r.internal(state.HostReboot, 99)
		require.Nil(t, *refused)
		r.pass(time.Minute)
		require.Equal(t, state.Success, (*told)[len(*told)-1])
	}
	_, refused := r.internal(state.HostReboot, 99)
	require.NotNil(t, *refused)
	assert.Contains(t, (*refused).Text, "attempts")
	r.pass(time.Second)
	assert.Equal(t, state.HostStateQuiesced, r.hostState())
	assert.Len(t, r.life.exhausted, 1)
	_, refused = r.internal(state.HostReboot, 99)
	require.NotNil(t, *refused)
	assert.Contains(t, (*refused).Text, "Quiesced")
	r.write(state.HostOff)
	r.pass(time.Minute)
	assert.Equal(t, state.HostStateOff, r.hostState(), "an operator is listened to")
}

// What the fault monitor had queued is not launched by the daemon's next run:
// it decides anew.
func TestQueuedInternalRequestEndsWithTheDaemon(t *testing.T) {
	r := runningHost(t)
	r.write(state.HostReboot)
	r.pass(100 * time.Millisecond)
	r.internal(state.ChassisPowerCycle, 99)
	seq := r.next
	r.restart(true)
	assert.Equal(t, state.Cancelled, r.status(seq))
}
