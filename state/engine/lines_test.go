package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// linesRig is a rig whose domain is run by targets that have its lines driven
// (DESIGN.md §4, "gpio with targets"). The test plays systemd, the rig the board.
func linesRig(t *testing.T, change ...func(*Config)) *rig {
	r := newRig(t, append([]func(*Config){withLines}, change...)...)
	r.pass(time.Second)
	return r
}

func withLines(c *Config) {
	c.Domains[0].Targets = &sequence.Targets{
		HostOn: "start", HostOff: "shutdown", HostReboot: "reboot", GracefulWarmReboot: "reboot",
		ChassisOn: "poweron", ChassisOff: "poweroff", HardOff: "hard-off", PowerCycle: "cycle",
	}
	c.Domains[0].Options.Lines = true
}

func linesRunning(t *testing.T, change ...func(*Config)) *rig {
	r := linesRig(t, change...)
	r.power(true)
	r.pass(time.Minute)
	require.Equal(t, state.HostStateRunning, r.hostState())
	return r
}

func (r *rig) driveAs(uid uint32, on bool) *reply {
	p := &reply{}
	r.step(DriveLines{Caller: Caller{UID: uid}, On: on, Reply: p.take(r.t)})
	return p
}

func (r *rig) drive(on bool) *reply {
	p := r.driveAs(0, on)
	r.pass(100 * time.Millisecond)
	return p
}

// refusedFor requires that a call was refused, with that in its text.
func (r *rig) refusedFor(p *reply, text string) {
	r.t.Helper()
	require.True(r.t, p.got)
	require.NotNil(r.t, p.answer.Err)
	assert.Contains(r.t, p.answer.Err.Text, text)
}

func (r *rig) drivenWell(p *reply) {
	r.t.Helper()
	require.True(r.t, p.got)
	require.Nil(r.t, p.answer.Err)
}

func TestLinesOn(t *testing.T) {
	r := linesRig(t)
	a := r.write(state.HostOn)
	r.pass(time.Second)
	require.Equal(t, []string{"start"}, r.startedUnits())
	assert.Empty(t, r.presses(), "the target's units come first")

	p := r.drive(true)
	assert.Equal(t, []string{"PowerOut"}, r.presses())
	assert.False(t, p.got, "power is not good yet")
	assert.Equal(t, state.HostStateTransitioningToRunning, r.hostState())
	r.pass(2 * time.Second)
	r.drivenWell(p)
	assert.Equal(t, state.Running, r.status(a.answer.Seq), "a unit behind the lines may still fail")
	r.jobEnds(true, nil)
	r.pass(time.Second)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Equal(t, state.HostStateRunning, r.hostState())
	r.drivenWell(r.drive(true)) // so it is already
	assert.Len(t, r.pulses, 1)
}

// What a unit has driven is journalled under the launch before it acts.
func TestLinesAreJournalledFirst(t *testing.T) {
	r := linesRig(t)
	r.write(state.ChassisOn)
	r.pass(time.Second)
	r.hang = true
	r.drive(true)
	assert.Empty(t, r.presses())
	r.flush()
	r.pass(0)
	assert.Equal(t, []string{"PowerOut"}, r.presses())
}

func TestLinesOffCutsAndAsks(t *testing.T) {
	for op, holds := range map[state.Operation]int{state.ChassisOff: 1, state.HostOff: 0} {
		r := linesRunning(t)
		a := r.write(op)
		r.pass(time.Second)
		p := r.drive(false)
		r.pass(20 * time.Second)
		r.drivenWell(p)
		require.Len(t, r.pulses, 1)
		assert.Equal(t, holds == 1, r.pulses[0].step.width > time.Second, "%s", op)
		r.jobEnds(true, nil)
		r.pass(time.Second)
		assert.Equal(t, state.Success, r.status(a.answer.Seq))
		assert.Equal(t, state.PowerStateOff, r.powerState())
	}
}

// A guest that hangs is asked, and then forced, by the lines alone.
func TestLinesOffForces(t *testing.T) {
	r := linesRunning(t)
	r.plant.guest = 0
	a := r.write(state.HostOff)
	r.pass(time.Second)
	p := r.drive(false)
	r.pass(301 * time.Second)
	assert.False(t, p.got)
	assert.Equal(t, state.Running, r.status(a.answer.Seq), "the job's own deadline waits for the lines")
	r.pass(10 * time.Second)
	r.drivenWell(p)
	r.jobEnds(true, nil)
	r.pass(time.Second)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Len(t, r.pulses, 2)
}

func TestLinesReboot(t *testing.T) {
	r := linesRunning(t)
	a := r.write(state.HostReboot)
	r.pass(time.Second)
	off := r.drive(false)
	r.pass(5 * time.Second)
	r.drivenWell(off)
	s := r.starts()[0]
	r.step(jobOver{s.domain, s.request, s.step})
	r.jobEnds(true, nil)
	r.pass(5 * time.Second)
	r.foreign(7, "startmin", state.HostOn, 6) // by the helper: the second half
	on := r.drive(true)
	r.pass(5 * time.Second)
	r.drivenWell(on)
	assert.Equal(t, state.Running, r.status(a.answer.Seq), "its job goes on")
	r.step(Foreign{Job: 7, Unit: "startmin", Op: state.HostOn, Ended: true, Result: jobDone})
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Len(t, r.core.domains[0].q.Page(0, 100), 1, "nothing was adopted")
}

// The second half of a reboot fails behind the lines.
func TestLinesRebootFailsLate(t *testing.T) {
	r := linesRunning(t)
	a := r.write(state.HostReboot)
	r.pass(time.Second)
	r.drive(false)
	r.pass(5 * time.Second)
	r.jobEnds(true, nil)
	r.foreign(7, "startmin", state.HostOn, 6)
	r.drive(true)
	r.pass(5 * time.Second)
	r.step(Foreign{Job: 7, Unit: "startmin", Op: state.HostOn, Ended: true, Result: "dependency"})
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Contains(t, r.reason(a.answer.Seq), "startmin")
	assert.Contains(t, r.reason(a.answer.Seq), "dependency")
	assert.Equal(t, state.HostStateRunning, r.hostState(), "what is seen")
}

// A unit before the lines fails: nothing is driven.
func TestLinesUnitBeforeFails(t *testing.T) {
	r := linesRig(t)
	a := r.write(state.ChassisOn)
	r.pass(time.Second)
	r.jobEnds(true, errors.New("the job of poweron ended: dependency"))
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Equal(t, "the job of poweron ended: dependency", r.reason(a.answer.Seq))
	assert.Equal(t, state.PowerStateOff, r.powerState())
	p := r.drive(true) // a left-over
	r.pass(time.Minute)
	r.refusedFor(p, "no operation is under way")
	assert.Empty(t, r.presses())
}

// It fails, and the lines' own unit is started all the same, as only an order
// stands between them; how the job ended is not known yet.
func TestLinesAfterAFailedUnit(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := linesRig(t)
		a := r.write(state.ChassisOn)
		r.pass(time.Second)
		s := r.starts()[0]
		var p *reply
		if late { // the inputs are being read again for the press
			p = r.driveAs(0, true)
			r.pass(30 * time.Millisecond)
			require.Equal(t, modeCheck, r.core.domains[0].run.mode)
			r.step(jobOver{s.domain, s.request, s.step})
		} else {
			r.step(jobOver{s.domain, s.request, s.step})
			p = r.drive(true)
		}
		r.pass(time.Second)
		r.jobEnds(true, errors.New("the job of poweron ended: dependency"))
		r.pass(time.Minute)
		assert.NotNil(t, p.answer.Err)
		assert.Empty(t, r.presses())
		assert.Equal(t, state.Failed, r.status(a.answer.Seq))
		assert.Equal(t, "the job of poweron ended: dependency", r.reason(a.answer.Seq))
	}
}

// OnFailure= brings a power off while the press may still bring power.
func TestLinesOffAfterAnOpenPress(t *testing.T) {
	r := linesRig(t)
	r.plant.powerGood = 3 * time.Second
	r.write(state.ChassisOn)
	r.pass(time.Second)
	r.drive(true)
	r.pass(time.Second)
	r.jobEnds(true, errors.New("the job of poweron ended: timeout"))
	r.foreign(9, "poweroff", state.ChassisOff, 3)
	p := r.drive(false)
	assert.False(t, p.got, "power is off, and may come")
	r.pass(20 * time.Second)
	r.drivenWell(p)
	assert.Equal(t, state.PowerStateOff, r.powerState())
	assert.Len(t, r.pulses, 2)
	r.step(Foreign{Job: 9, Unit: "poweroff", Op: state.ChassisOff, Ended: true, Result: jobDone})
	assert.Equal(t, state.Success, r.newest().Status)
}

// A unit behind the lines fails: power is on, and the request has failed.
func TestLinesUnitBehindFails(t *testing.T) {
	r := linesRig(t)
	a := r.write(state.ChassisOn)
	r.pass(time.Second)
	r.drive(true)
	r.pass(2 * time.Second)
	r.jobEnds(true, errors.New("the job of poweron ended: dependency"))
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Equal(t, state.PowerStateOn, r.powerState())
}

// The lines fail: their reason is the request's, beside what the job says.
func TestLinesFail(t *testing.T) {
	r := linesRig(t)
	r.plant.powerGood = 0
	a := r.write(state.ChassisOn)
	r.pass(time.Second)
	p := r.drive(true)
	r.pass(10 * time.Second)
	r.refusedFor(p, "no power good within PowerOKWatchdogMs")
	assert.Equal(t, state.Running, r.status(a.answer.Seq), "its job says when it is over")
	again := r.drive(true)
	r.pass(10 * time.Second)
	r.refusedFor(again, "no power good")
	assert.Len(t, r.pulses, 1, "no second press in one launch")
	r.jobEnds(true, errors.New("the job of poweron ended: dependency"))
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Regexp(t, "^no power good within .*; the job of poweron ended: dependency$", r.reason(a.answer.Seq))
	assert.Equal(t, state.PowerStateOff, r.powerState())
}

// The job ends while lines are driven: whoever asked has gone.
func TestLinesJobEndsMeanwhile(t *testing.T) {
	r := linesRig(t)
	r.plant.powerGood = 0
	a := r.write(state.ChassisOn)
	r.pass(time.Second)
	p := r.drive(true)
	r.pass(time.Second)
	r.jobEnds(true, errors.New("the job of poweron ended: timeout"))
	assert.True(t, p.got)
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Equal(t, "the job of poweron ended: timeout", r.reason(a.answer.Seq))
	r.pass(time.Minute)
	assert.Len(t, r.pulses, 1)
}

// A job that is not ours is the running operation before its lines are driven.
func TestLinesForeignJobIsAdoptedFirst(t *testing.T) {
	r := linesRig(t)
	p := r.driveAs(0, true) // systemd's news of the job comes after the call
	r.pass(time.Second)
	assert.Empty(t, r.presses())
	r.foreign(7, "poweron", state.ChassisOn, 4)
	r.foreign(8, "lines-on", state.ChassisOn, 1)
	r.hang = true
	r.pass(time.Second)
	assert.Empty(t, r.presses(), "it is not in the journal")
	r.hang = false
	r.flush()
	r.pass(5 * time.Second)
	assert.Equal(t, []string{"PowerOut"}, r.presses())
	r.drivenWell(p)
	req := r.newest()
	assert.Equal(t, ForeignClient, req.Key.Client)
	assert.Equal(t, state.Running, req.Status, "its job goes on")
	r.step(Foreign{Job: 8, Unit: "lines-on", Op: state.ChassisOn, Ended: true, Result: jobDone})
	r.step(Foreign{Job: 7, Unit: "poweron", Op: state.ChassisOn, Ended: true, Result: jobDone})
	assert.Equal(t, state.Success, r.status(req.Seq))
}

func TestLinesForeignJobFails(t *testing.T) {
	r := linesRig(t)
	r.foreign(7, "poweron", state.ChassisOn, 4)
	r.pass(time.Second)
	p := r.drive(true)
	r.pass(5 * time.Second)
	r.drivenWell(p)
	r.step(Foreign{Job: 7, Unit: "poweron", Op: state.ChassisOn, Ended: true, Result: "failed"})
	assert.Equal(t, state.Failed, r.newest().Status)
	assert.Contains(t, r.newest().Reason, "poweron")
	assert.Equal(t, state.PowerStateOn, r.powerState())
}

// Raising is refused while an Off runs and within offGuard after it.
func TestLinesOffGuard(t *testing.T) {
	r := linesRunning(t)
	r.write(state.ChassisOff)
	r.pass(time.Second)
	off := r.drive(false)
	r.pass(10 * time.Second)
	r.drivenWell(off)
	p := r.drive(true)
	r.refusedFor(p, "power is being switched off")
	r.jobEnds(true, nil)
	r.pass(29 * time.Second)
	p = r.drive(true)
	r.refusedFor(p, "offGuard")
	on := r.write(state.ChassisOn) // ours is not refused
	r.pass(time.Second)
	p = r.drive(true)
	r.pass(2 * time.Second)
	r.drivenWell(p)
	r.jobEnds(true, nil)
	r.pass(time.Second)
	assert.Equal(t, state.Success, r.status(on.answer.Seq))
}

// Chassis Off takes over from lines that are being driven for on.
func TestLinesTakenOver(t *testing.T) {
	r := linesRig(t)
	r.plant.powerGood = 3 * time.Second
	on := r.write(state.ChassisOn)
	r.pass(time.Second)
	p := r.drive(true)
	r.pass(time.Second)
	off := r.write(state.ChassisOff)
	r.pass(100 * time.Millisecond)
	assert.Equal(t, []string{"poweron", "hard-off"}, r.startedUnits())
	r.refusedFor(p, "has ended")
	assert.Equal(t, state.Superseded, r.status(on.answer.Seq))
	p = r.drive(false)
	assert.Len(t, r.pulses, 1, "the press may still bring power: a hold now would do nothing")
	r.pass(20 * time.Second)
	r.drivenWell(p)
	r.jobEnds(true, nil)
	r.pass(time.Second)
	assert.Equal(t, state.Success, r.status(off.answer.Seq))
	assert.Len(t, r.pulses, 2)
	assert.Equal(t, state.PowerStateOff, r.powerState())
}

func TestLinesEntitled(t *testing.T) {
	r := linesRig(t)
	p := r.driveAs(1000, true)
	require.True(t, p.got)
	assert.Equal(t, CodeAccessDenied, p.answer.Err.Code)
	q := newRig(t)
	q.pass(time.Second)
	p = q.drive(true)
	q.refusedFor(p, "gpio-targets")
}

// A forced warm reboot has no unit: the reset line is ours.
func TestLinesReset(t *testing.T) {
	r := linesRunning(t)
	a := r.write(state.HostForceWarmReboot)
	r.pass(5 * time.Second)
	assert.Equal(t, []string{"ResetOut"}, r.presses())
	assert.Empty(t, r.startedUnits())
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
}

// The daemon is killed after a press: the unit asks again, and nothing is
// pressed twice (DESIGN.md P3); what had come of it is found.
func TestLinesOverARestart(t *testing.T) {
	r := linesRig(t)
	r.plant.powerGood = 3 * time.Second
	a := r.write(state.ChassisOn)
	r.pass(time.Second)
	r.drive(true)
	r.pass(time.Second)
	require.Len(t, r.pulses, 1)
	r.restart(true)
	r.pass(time.Second)
	p := r.drive(true)
	assert.False(t, p.got)
	r.pass(5 * time.Second)
	r.drivenWell(p)
	assert.Len(t, r.pulses, 1)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
}

// What the daemon's earlier run started is the launch's own, although it looks
// like another's.
func TestLinesJobOverARestart(t *testing.T) {
	for _, result := range []string{jobDone, "dependency"} {
		r := linesRig(t)
		a := r.write(state.ChassisOn)
		r.pass(time.Second)
		r.restart(true)
		r.foreign(7, "poweron", state.ChassisOn, 4)
		r.pass(time.Second)
		r.drivenWell(func() *reply { p := r.drive(true); r.pass(5 * time.Second); return p }())
		assert.Equal(t, state.Running, r.status(a.answer.Seq))
		r.step(Foreign{Job: 7, Unit: "poweron", Op: state.ChassisOn, Ended: true, Result: result})
		want := state.Success
		if result != jobDone {
			want = state.Failed
		}
		assert.Equal(t, want, r.status(a.answer.Seq), result)
	}
}

// Chassis Off before the lines: units of the On may still apply power, so the
// target for off is started although there is nothing to cut.
func TestOffTakesBackWhatWasBegun(t *testing.T) {
	for _, rig := range []*rig{linesRig(t), targetsRig(t)} {
		rig.write(state.ChassisOn)
		rig.pass(time.Second)
		off := rig.write(state.ChassisOff)
		rig.pass(time.Second)
		assert.Equal(t, []string{"poweron", "hard-off"}, rig.startedUnits())
		rig.jobEnds(true, nil)
		rig.pass(time.Second)
		assert.Equal(t, state.Success, rig.status(off.answer.Seq))
	}
}

// Killed in a hold that power outlasts: the hold is P3's counted repeat.
func TestLinesHoldOverARestart(t *testing.T) {
	r := linesRunning(t)
	a := r.write(state.ChassisOff)
	r.pass(time.Second)
	r.drive(false)
	r.pass(time.Second)
	require.Len(t, r.pulses, 1)
	r.restart(true)
	r.pass(time.Second)
	p := r.drive(false)
	r.pass(10 * time.Second)
	r.drivenWell(p)
	assert.Len(t, r.pulses, 2)
	assert.Equal(t, state.Success, r.status(a.answer.Seq))
	assert.Equal(t, state.PowerStateOff, r.powerState())
}

// Without anybody who asks, an operation still ends.
func TestLinesNobodyAsks(t *testing.T) {
	r := linesRig(t)
	a := r.write(state.ChassisOn)
	r.pass(301 * time.Second)
	assert.Equal(t, state.Failed, r.status(a.answer.Seq))
	assert.Contains(t, r.reason(a.answer.Seq), "jobTimeout")
	assert.Empty(t, r.presses())
}

// What a sequence has left is taken back by us: no target does anything about it.
func TestLinesTakeBack(t *testing.T) {
	r := linesRig(t, rails)
	r.levels.Applied = state.LevelOn
	r.pass(10 * time.Second)
	p := r.submit("c", "1", state.ChassisOff)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq), r.reason(p.answer.Seq))
	require.Equal(t, []string{"HoldReset true", "RailEn false"}, r.sets)
	require.Empty(t, r.startedUnits())
}
