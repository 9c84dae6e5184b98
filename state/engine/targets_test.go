package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// targetsRig is a rig whose domain is run by systemd targets. Its host is off.
// The test plays systemd: it moves levels and ends jobs.
func targetsRig(t *testing.T, change ...func(*Config)) *rig {
	r := newRig(t, append([]func(*Config){func(c *Config) {
		c.Domains[0].Targets = &sequence.Targets{
			HostOn: "start", HostOff: "shutdown", HostReboot: "reboot", GracefulWarmReboot: "warm", ForceWarmReboot: "force-warm",
			ChassisOn: "poweron", ChassisOff: "poweroff", HardOff: "hard-off", PowerCycle: "cycle",
		}
	}}, change...)...)
	r.units(false)
	return r
}

// units moves power and the host's unit together.
func (r *rig) units(on bool) { r.unitLevels(state.LevelOf(on), state.LevelOf(on)) }

func (r *rig) unitLevels(power, host state.Level) {
	if r.levels.HostActive != host {
		r.levels.HostSince = r.now.Boot
	}
	r.levels.PowerGood, r.levels.PostComplete, r.levels.HostActive = power, state.LevelAbsent, host
	r.look()
}

// bug-reports.md 13: what only a running host has goes in the same step as the
// host, also where its power stays on, as in a warm reboot. A quiesced host keeps
// what tells how far it came.
func TestProgressGoesWithTheHostsUnit(t *testing.T) {
	statetest.Covers(t, "B13")
	for _, quiesced := range []bool{false, true} {
		r := targetsRig(t)
		r.unitLevels(state.LevelOn, state.LevelOn)
		r.setProp(PropBootProgress, uint64(state.BootProgressOSRunning))
		r.setProp(PropOSState, uint64(state.OSStateBootComplete))
		if quiesced {
			r.levels.Quiesced = state.LevelOn
			r.unitLevels(state.LevelOn, state.LevelOff)
			require.Equal(t, state.HostStateQuiesced, r.hostState())
			require.Equal(t, state.BootProgressOSRunning, r.host[len(r.host)-1].BootProgress)
			r.levels.Quiesced = state.LevelOff
		}
		r.unitLevels(state.LevelOn, state.LevelOff)
		for _, h := range r.host {
			if h.Current == state.HostStateOff {
				require.Equal(t, state.BootProgressUnspecified, h.BootProgress)
				require.Equal(t, state.OSStateInactive, h.OS)
			}
		}
		require.Equal(t, state.HostStateOff, r.hostState())
	}
}

// look has the levels read.
func (r *rig) look() {
	r.step(edge{})
	r.pass(0)
}

func targetsRunning(t *testing.T, change ...func(*Config)) *rig {
	r := targetsRig(t, change...)
	r.units(true)
	r.pass(time.Second)
	return r
}

func (r *rig) starts() (all []startEffect) {
	for _, e := range r.effects {
		if s, ok := e.(startEffect); ok {
			all = append(all, s)
		}
	}
	return all
}

func (r *rig) startedUnits() (names []string) {
	for _, s := range r.starts() {
		names = append(names, s.unit)
	}
	return names
}

func (r *rig) abandoned() (n int) {
	for _, e := range r.effects {
		if _, ok := e.(abandonEffect); ok {
			n++
		}
	}
	return n
}

func (r *rig) cancelled() (jobs []uint32) {
	for _, e := range r.effects {
		if c, ok := e.(cancelJobsEffect); ok {
			for _, j := range c.jobs {
				jobs = append(jobs, j.Job)
			}
		}
	}
	return jobs
}

// jobEnds ends the job of the unit that was started last.
func (r *rig) jobEnds(queued bool, err error) {
	all := r.starts()
	s := all[len(all)-1]
	r.step(acted{s.domain, s.request, s.step, queued, err})
}

func (r *rig) foreign(job uint32, unit string, op state.Operation, rank int) {
	r.step(Foreign{Job: job, Unit: unit, Op: op, Rank: rank})
}

func (r *rig) newest() state.Request {
	page := r.core.domains[0].q.Page(0, 1000)
	return page[len(page)-1]
}

func TestTargetsOn(t *testing.T) {
	r := targetsRig(t)
	a := r.write(state.HostOn)
	r.pass(50 * time.Millisecond)
	require.Equal(t, []string{"start"}, r.startedUnits())
	assert.Equal(t, state.HostStateTransitioningToRunning, r.hostState())

	r.unitLevels(state.LevelOn, state.LevelOff)
	assert.Equal(t, state.PowerStateOn, r.powerState())
	assert.Equal(t, state.Running, r.status(a.answer.Seq))

	r.units(true)
	assert.Equal(t, state.Success, r.status(a.answer.Seq), "what is seen decides, not the job")
	assert.Equal(t, state.HostStateRunning, r.hostState())
	assert.Zero(t, r.abandoned(), "a job that goes on after success is left alone")
}

func TestTargetsJobDoneIsNotEnough(t *testing.T) {
	r := targetsRig(t)
	a := r.write(state.HostOn)
	r.pass(50 * time.Millisecond)
	r.jobEnds(true, nil)
	assert.Equal(t, state.Running, r.status(a.answer.Seq))
	r.pass(quickTimings().ConfirmTimeout + 5*time.Second)
	assert.Equal(t, state.Unknown, r.status(a.answer.Seq))
	r.pass(quickTimings().ReconcileTimeout + time.Second)
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Equal(t, state.HostStateOff, r.hostState())
	assert.Equal(t, 1, r.abandoned(), "helpers that may still act are stopped")
}

func TestTargetsRefusal(t *testing.T) {
	r := targetsRig(t)
	a := r.write(state.HostOn)
	r.pass(50 * time.Millisecond)
	r.jobEnds(false, errors.New("org.freedesktop.systemd1.UnitMasked"))
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Equal(t, "org.freedesktop.systemd1.UnitMasked", r.reason(a.answer.Seq))
	assert.EqualValues(t, 3, r.host[len(r.host)-1].AttemptsLeft, "no job was queued: the attempt is given back")
}

// A reboot's own job is done at power off; a helper starts the host, and its
// job looks like somebody else's.
func TestTargetsRebootTakesItsSecondHalfForItsOwn(t *testing.T) {
	r := targetsRunning(t)
	a := r.write(state.HostReboot)
	r.pass(50 * time.Millisecond)
	require.Equal(t, []string{"reboot"}, r.startedUnits())
	r.units(false)
	r.jobEnds(true, nil)
	r.pass(5 * time.Second)
	r.foreign(7, "startmin", state.HostOn, 6)
	assert.Empty(t, r.cancelled())
	r.units(true)
	r.step(Foreign{Job: 7, Unit: "startmin", Op: state.HostOn, Ended: true, Result: "done"})
	r.pass(time.Second)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Equal(t, a.answer.Seq, r.newest().Seq, "nothing was adopted")
}

// However long the helper takes, off is shown until it begins, and not only when
// nobody believes in it any more.
func TestTargetsCycleShowsOff(t *testing.T) {
	for _, op := range []state.Operation{state.HostReboot, state.ChassisPowerCycle} {
		r := targetsRunning(t)
		r.write(op)
		r.pass(50 * time.Millisecond)
		r.host, r.chassis = nil, nil
		r.unitLevels(state.LevelOn, state.LevelOff) // the host goes before its power does
		r.units(false)
		r.jobEnds(true, nil)
		r.pass(5 * time.Second)
		assert.Equal(t, state.HostStateOff, r.hostState(), op)
		assert.Equal(t, state.PowerStateOff, r.powerState(), op)
		r.units(true)
		r.pass(time.Second)
		assert.Equal(t, state.HostStateRunning, r.hostState(), op)
		assert.Equal(t, state.PowerStateOn, r.powerState(), op)
	}
}

// A host that goes down and up between two readings shows by its unit's time.
func TestTargetsPassageBetweenReadings(t *testing.T) {
	r := targetsRunning(t)
	a := r.write(state.HostForceWarmReboot)
	r.pass(50 * time.Millisecond)
	require.Equal(t, []string{"force-warm"}, r.startedUnits())
	r.jobEnds(true, nil)
	r.look()
	assert.Equal(t, state.Running, r.status(a.answer.Seq))
	r.levels.HostSince = r.now.Boot
	r.look()
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
}

func TestTargetsChassisOffTakesOver(t *testing.T) {
	r := targetsRunning(t)
	a := r.write(state.HostReboot)
	r.pass(50 * time.Millisecond)
	r.units(false)
	r.jobEnds(true, nil)
	r.unitLevels(state.LevelOn, state.LevelOff) // power is still, or again, on
	b := r.write(state.ChassisOff)
	require.Equal(t, state.Superseded, r.status(a.answer.Seq))
	require.Equal(t, []string{"reboot", "hard-off"}, r.startedUnits())
	assert.True(t, r.starts()[1].urgent)
	assert.Equal(t, 1, r.abandoned())

	r.foreign(9, "startmin", state.HostOn, 6) // the helper was quicker
	assert.Equal(t, []uint32{9}, r.cancelled())
	r.jobEnds(true, nil)
	r.units(false)
	assert.Equal(t, state.Success, r.status(b.answer.Seq))

	r.pass(20 * time.Second)
	r.foreign(10, "startmin", state.HostOn, 6)
	assert.Equal(t, []uint32{9, 10}, r.cancelled(), "within offGuard")
	r.pass(20 * time.Second)
	r.foreign(11, "startmin", state.HostOn, 6)
	assert.Equal(t, []uint32{9, 10}, r.cancelled(), "after offGuard")
}

func TestForeignJobIsAdopted(t *testing.T) {
	r := targetsRig(t)
	r.foreign(1, "poweron", state.ChassisOn, 4)
	r.foreign(2, "start", state.HostOn, 7)
	r.foreign(3, "startmin", state.HostOn, 6)
	b := r.write(state.HostOn)
	r.pass(150 * time.Millisecond)
	req := r.newest()
	assert.Equal(t, state.Running, req.Status)
	assert.Equal(t, ForeignClient, req.Key.Client)
	assert.Equal(t, "start", req.Cause, "the job that was asked for, not those it pulled in")
	assert.Equal(t, state.HostOn, req.Op)
	assert.Equal(t, state.HostStateTransitioningToRunning, r.hostState())

	r.units(true)
	assert.Equal(t, state.Success, r.status(req.Seq))
	r.pass(time.Second)
	assert.Equal(t, state.Noop, r.status(b.answer.Seq), "what waited meanwhile is judged by what is seen")
	assert.Empty(t, r.startedUnits())
	for _, j := range []uint32{1, 2, 3} {
		r.step(Foreign{Job: j, Ended: true, Result: "done"})
	}
	r.pass(time.Second)
	assert.Equal(t, req.Seq, r.newest().Seq, "nothing else was adopted")
}

func TestForeignJobFails(t *testing.T) {
	r := targetsRig(t)
	r.foreign(2, "start", state.HostOn, 7)
	r.pass(150 * time.Millisecond)
	r.step(Foreign{Job: 2, Unit: "start", Op: state.HostOn, Ended: true, Result: "dependency"})
	assert.Equal(t, state.Failed, r.newest().Status)
	assert.Contains(t, r.newest().Reason, "dependency")
	assert.Equal(t, state.HostStateOff, r.hostState())
}

func TestForeignJobHangs(t *testing.T) {
	r := targetsRig(t)
	r.foreign(2, "start", state.HostOn, 7)
	r.pass(quickTimings().JobTimeout + 10*time.Second)
	assert.Equal(t, state.Failed, r.newest().Status)
}

func TestForeignJobThatChangesNothing(t *testing.T) {
	r := targetsRunning(t)
	r.foreign(2, "start", state.HostOn, 7)
	r.pass(time.Second)
	assert.Empty(t, r.core.domains[0].q.Page(0, 10))
}

// An adopted power off does not hold ours back.
func TestChassisOffTakesOverForAdopted(t *testing.T) {
	r := targetsRunning(t)
	r.foreign(2, "shutdown", state.HostOff, 5)
	r.pass(150 * time.Millisecond)
	adopted := r.newest()
	require.Equal(t, state.Running, adopted.Status)
	r.write(state.ChassisOff)
	assert.Equal(t, state.Superseded, r.status(adopted.Seq))
	assert.Equal(t, []string{"hard-off"}, r.startedUnits())
}

// A foreign power on is cancelled with the operation that it became.
func TestChassisOffCancelsAdoptedPowerOn(t *testing.T) {
	r := targetsRig(t)
	r.foreign(2, "start", state.HostOn, 7)
	r.pass(150 * time.Millisecond)
	r.unitLevels(state.LevelOn, state.LevelOff)
	r.write(state.ChassisOff)
	assert.Equal(t, []uint32{2}, r.cancelled())
	assert.Equal(t, []string{"hard-off"}, r.startedUnits())
}

func TestAdoptedIsSettledAfterARestart(t *testing.T) {
	r := targetsRig(t)
	r.foreign(2, "start", state.HostOn, 7)
	r.pass(150 * time.Millisecond)
	req := r.newest()
	r.restart(true)
	r.pass(time.Second)
	assert.Equal(t, state.Running, r.status(req.Seq))
	r.units(true)
	assert.Equal(t, state.Success, r.status(req.Seq))
}

// A reboot that ended while the daemon was down is proven by the unit's time.
func TestTargetsRebootIsProvenAfterARestart(t *testing.T) {
	r := targetsRunning(t)
	a := r.write(state.HostReboot)
	r.pass(50 * time.Millisecond)
	r.levels.HostSince = r.now.Boot + time.Second
	r.setTime(r.now.Boot + 2*time.Second)
	r.restart(true)
	r.pass(time.Second)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Equal(t, []string{"reboot"}, r.startedUnits())
}

func TestTargetsQuiesceIsShown(t *testing.T) {
	r := targetsRunning(t)
	r.levels.Quiesced = state.LevelOn
	r.look()
	assert.Equal(t, state.HostStateQuiesced, r.hostState())
	r.write(state.HostOn)
	r.pass(50 * time.Millisecond)
	assert.Equal(t, []string{"reboot"}, r.startedUnits(), "DESIGN.md §3.2, column Quiesced")
}

func TestBMCUnits(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BMCUnits, c.RebootCause = true, state.RebootCauseWatchdog })
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current)
	assert.Equal(t, state.RebootCauseWatchdog, r.bmc.LastRebootCause)
	r.step(BMCUnits{Ready: true})
	assert.Equal(t, state.BMCStateReady, r.bmc.Current)
	r.step(BMCUnits{Ready: true, Quiesced: true})
	assert.Equal(t, state.BMCStateQuiesced, r.bmc.Current)
	r.step(BMCUnits{Ready: true})
	assert.Equal(t, state.BMCStateQuiesced, r.bmc.Current, "until the next boot")
}

func TestBMCRebootThatDoesNotHappen(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BMCUnits = true })
	r.step(BMCUnits{Ready: true})
	r.step(Write{Object: bmcObject, Op: state.BMCReboot, Reply: func(Answer) {}})
	require.Equal(t, 1, r.reboots)
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current)
	r.step(BMCUnits{Ready: true})
	assert.Equal(t, state.BMCStateNotReady, r.bmc.Current, "a late job does not bring Ready back")
	r.pass(DefaultTimes().Reboot + time.Second)
	assert.Equal(t, state.BMCStateReady, r.bmc.Current)
}
