package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

func bmcRig(t *testing.T) *rig {
	r := newRig(t, func(c *Config) { c.BMCUnits = true })
	r.step(BMCUnits{Ready: true})
	r.pass(time.Second)
	require.Equal(t, state.BMCStateReady, r.bmc.Current)
	return r
}

func (r *rig) bmcWrite(op state.Operation) *reply {
	p := &reply{}
	r.step(Write{Caller: Caller{Sender: ":1.0"}, Object: bmcObject, Op: op, Reply: p.take(r.t)})
	return p
}

func (r *rig) bmcSet(s state.BMCState) {
	r.step(Set{Object: bmcObject, Prop: PropBMCState, Value: uint64(s), Reply: func(a Answer) { require.Nil(r.t, a.Err) }})
}

func (r *rig) released() (n int) {
	for _, e := range r.effects {
		if _, ok := e.(releaseAllEffect); ok {
			n++
		}
	}
	return n
}

// DESIGN.md P5: what others write is shown until something is observed, and for a
// while at most; a stable value is replaced at once, and Quiesced rules over all.
func TestBMCStateWrittenByOthers(t *testing.T) {
	r := bmcRig(t)
	r.bmcSet(state.BMCStateUpdateInProgress)
	assert.Equal(t, state.BMCStateUpdateInProgress, r.bmc.Current)
	r.pass(DefaultTimes().Hint + time.Second)
	assert.Equal(t, state.BMCStateReady, r.bmc.Current)

	r.bmcSet(state.BMCStateUpdateInProgress)
	r.step(BMCUnits{Ready: true})
	assert.Equal(t, state.BMCStateUpdateInProgress, r.bmc.Current, "nothing new")
	r.step(BMCUnits{})
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current, "Ready is not for ever")
	r.step(BMCUnits{Ready: true})

	for _, s := range []state.BMCState{state.BMCStateNotReady, state.BMCStateQuiesced} {
		r.bmcSet(s)
		assert.Equal(t, state.BMCStateReady, r.bmc.Current)
	}
	r.bmcSet(state.BMCStateUpdateInProgress)
	r.step(BMCUnits{Ready: true, Quiesced: true})
	assert.Equal(t, state.BMCStateQuiesced, r.bmc.Current)
	r.bmcSet(state.BMCStateUpdateInProgress)
	assert.Equal(t, state.BMCStateQuiesced, r.bmc.Current)
	assert.Zero(t, r.reboots)
}

// LastRebootTime is reckoned once, and once more when the clock is right.
func TestLastRebootTime(t *testing.T) {
	r := bmcRig(t)
	booted := func() uint64 { return uint64(r.now.Wall.Add(-r.now.Boot).UnixMilli()) }
	first := booted()
	assert.Equal(t, first, r.bmc.LastRebootTime)
	r.now.Wall = r.now.Wall.Add(24 * time.Hour)
	r.pass(time.Minute)
	assert.Equal(t, first, r.bmc.LastRebootTime)
	r.step(BMCUnits{Ready: true, TimeSynced: true})
	assert.Equal(t, booted(), r.bmc.LastRebootTime)
	r.now.Wall = r.now.Wall.Add(time.Hour)
	r.step(BMCUnits{Ready: true, TimeSynced: true})
	assert.NotEqual(t, booted(), r.bmc.LastRebootTime, "only once")
}

// A reboot waits while a line is asserted, and while a cycle stands between off
// and on.
func TestBMCRebootWaits(t *testing.T) {
	r := linesOff(t)
	r.write(state.HostOn)
	r.pass(100 * time.Millisecond)
	require.NotEmpty(t, r.pulses)
	r.bmcWrite(state.BMCReboot)
	assert.Zero(t, r.reboots)
	assert.Equal(t, state.BMCStateReady, r.bmc.Current)
	r.pass(time.Second)
	assert.Equal(t, 1, r.reboots)

	r = runningHost(t)
	r.write(state.ChassisPowerCycle)
	r.pass(7 * time.Second) // off, and in the dwell
	require.Equal(t, state.PowerStateOff, r.powerState())
	r.bmcWrite(state.BMCReboot)
	assert.Zero(t, r.reboots)
	r.pass(10 * time.Second)
	assert.Equal(t, 1, r.reboots)
}

func linesOff(t *testing.T) *rig {
	r := newRig(t)
	r.pass(time.Second)
	return r
}

// A hard reboot waits for nothing but its record; the lines are let go at once,
// even while the journal hangs.
func TestBMCHardReboot(t *testing.T) {
	r := linesOff(t)
	r.write(state.HostOn)
	r.pass(100 * time.Millisecond)
	r.hang = true
	p := r.bmcWrite(state.BMCHardReboot)
	assert.Equal(t, 1, r.released())
	assert.Zero(t, r.reboots)
	assert.False(t, p.got)
	r.hang = false
	r.flush()
	assert.Equal(t, 1, r.reboots)
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current)
}

// A hard reboot is for one that hangs, too.
func TestBMCHardRebootOvertakes(t *testing.T) {
	r := bmcRig(t)
	soft := r.bmcWrite(state.BMCReboot)
	r.pass(time.Second)
	assert.Equal(t, 1, r.reboots)
	r.bmcWrite(state.BMCHardReboot)
	assert.Equal(t, 2, r.reboots)
	req, _ := r.core.bmc.q.Get(soft.answer.Seq)
	assert.Equal(t, state.Superseded, req.Status)
	r.step(rebootFailed{soft.answer.Seq, errors.New("late")})
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current, "of another request")
}

// What systemd refuses leads back to what is true, and the next one may try.
func TestBMCRebootRefused(t *testing.T) {
	r := bmcRig(t)
	p := r.bmcWrite(state.BMCReboot)
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current)
	r.step(rebootFailed{p.answer.Seq, errors.New("refused")})
	assert.Equal(t, state.BMCStateReady, r.bmc.Current)
	req, _ := r.core.bmc.q.Get(p.answer.Seq)
	assert.Equal(t, state.Failed, req.Status)
	assert.Equal(t, "refused", req.Reason)
	r.bmcWrite(state.BMCReboot)
	assert.Equal(t, 2, r.reboots)
	r.step(BMCUnits{Ready: true, Quiesced: true})
	r.step(rebootFailed{r.core.bmc.going, errors.New("refused")})
	assert.Equal(t, state.BMCStateQuiesced, r.bmc.Current, "quiesced meanwhile")
}
