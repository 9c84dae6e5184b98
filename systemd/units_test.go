package systemd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

const (
	hostStart    = "obmc-host-start@0.target"
	hostStartMin = "obmc-host-startmin@0.target"
	hostStop     = "obmc-host-stop@0.target"
	powerOn      = "obmc-chassis-poweron@0.target"
	worker       = "worker.service"
)

// patience is how long a test waits for what must come; nothing is judged by it.
const patience = 2 * time.Minute

func open(t *testing.T, address string, change ...func(*systemd.Options)) *systemd.Units {
	t.Helper()
	o := systemd.Options{Address: address}
	for _, c := range change {
		c(&o)
	}
	u := systemd.Open(o)
	t.Cleanup(func() { returns(t, "Close", u.Close) })
	return u
}

// returns fails a test whose call does not return.
func returns(t *testing.T, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(t, what+" does not return")
	}
}

func bed(t *testing.T, change ...func(*systemd.Options)) (*systemdtest.Systemd, *systemd.Units) {
	t.Helper()
	address := systemdtest.StartBus(t)
	return systemdtest.Start(t, address), open(t, address, change...)
}

func quickResync(o *systemd.Options) { o.Resync = 200 * time.Millisecond }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await takes events until one fits, and returns it.
func await[E systemd.Event](t *testing.T, u *systemd.Units, what string, fits func(E) bool) E {
	t.Helper()
	late := time.After(patience)
	var seen []string
	for {
		select {
		case e, ok := <-u.Events():
			require.True(t, ok, "events closed while waiting for %s", what)
			seen = append(seen, fmt.Sprintf("%T%+v", e, e))
			if x, ok := e.(E); ok && fits(x) {
				return x
			}
		case <-late:
			require.FailNow(t, "no event", "%s; saw %v", what, seen)
		}
	}
}

func awaitActive(t *testing.T, u *systemd.Units, unit, active string) systemd.UnitState {
	t.Helper()
	return await(t, u, unit+" "+active, func(c systemd.UnitChanged) bool {
		return c.State.Name == unit && c.State.Active == active
	}).State
}

func awaitKnown(t *testing.T, u *systemd.Units, units ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, unit := range units {
		missing[unit] = true
	}
	await(t, u, "first states", func(c systemd.UnitChanged) bool {
		delete(missing, c.State.Name)
		return len(missing) == 0
	})
}

func awaitUp(t *testing.T, u *systemd.Units, up bool) systemd.LinkChanged {
	t.Helper()
	return await(t, u, fmt.Sprintf("link %v", up), func(l systemd.LinkChanged) bool { return l.Up == up })
}

func result(t *testing.T, j systemd.Job) string {
	t.Helper()
	select {
	case r := <-j.Result:
		return r
	case <-time.After(patience):
		require.FailNow(t, "no result", "job %d of %s", j.ID, j.Unit)
		return ""
	}
}

func TestStartDeliversTheResult(t *testing.T) {
	for _, tc := range []struct {
		script systemdtest.Script
		want   string
	}{
		{systemdtest.Script{}, systemd.ResultDone},
		{systemdtest.Script{EndBeforeReply: true}, systemd.ResultDone},
		{systemdtest.Script{EndBeforeReply: true, ReplyDelay: 5 * time.Millisecond}, systemd.ResultDone},
		{systemdtest.Script{Result: "failed"}, systemd.ResultFailed},
		{systemdtest.Script{Result: "canceled"}, systemd.ResultCanceled},
		{systemdtest.Script{Result: "timeout"}, systemd.ResultTimeout},
		{systemdtest.Script{Result: "dependency"}, systemd.ResultDependency},
		{systemdtest.Script{Result: "skipped"}, systemd.ResultSkipped},
	} {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v watched=%v", tc.script, watched), func(t *testing.T) {
				sd, u := bed(t)
				sd.Script(hostStart, tc.script)
				if watched {
					u.Watch(hostStart)
					awaitActive(t, u, hostStart, "inactive")
				}
				j, err := u.Start(within(t), hostStart, systemd.ModeReplace)
				require.NoError(t, err)
				assert.Equal(t, tc.want, result(t, j))
				assert.False(t, j.Joined)
				calls := sd.Calls("StartUnit")
				require.Len(t, calls, 1)
				assert.Equal(t, "StartUnit("+hostStart+", replace)", calls[0].String())
			})
		}
	}
}

func TestDoneButInactiveIsSeenInTheState(t *testing.T) {
	sd, u := bed(t)
	sd.Script(hostStartMin, systemdtest.Script{Active: "inactive"})
	u.Watch(hostStartMin)
	awaitActive(t, u, hostStartMin, "inactive")
	j, err := u.Start(within(t), hostStartMin, systemd.ModeReplace)
	require.NoError(t, err)
	require.Equal(t, systemd.ResultDone, result(t, j))
	await(t, u, "end", func(e systemd.JobEnded) bool { return e.Job.ID == j.ID && e.Job.Own })
	s, err := u.Read(within(t), hostStartMin)
	require.NoError(t, err)
	assert.Equal(t, "inactive", s.Active)
	assert.False(t, s.Up())
}

func TestRefusalsCarrySystemdsName(t *testing.T) {
	for name, short := range map[string]string{
		systemd.NameUnitMasked:  "UnitMasked",
		systemd.NameNoSuchUnit:  "NoSuchUnit",
		systemd.NameDestructive: "TransactionIsDestructive",
	} {
		sd, u := bed(t)
		sd.Script(hostStart, systemdtest.Script{Refuse: name})
		_, err := u.Start(within(t), hostStart, systemd.ModeReplace)
		var e *systemd.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, systemd.Error{Op: "StartUnit", Unit: hostStart, Name: name, Err: e.Err}, *e)
		assert.Equal(t, short, e.Short())
		assert.Equal(t, name == systemd.NameDestructive, e.Temporary())
	}
}

func TestInvalidNamesNeverReachTheBus(t *testing.T) {
	sd, u := bed(t)
	awaitUp(t, u, true)
	for _, name := range []string{"", "x", "a'b.service", "foo@.service", "x.conf", "/etc/passwd"} {
		_, err := u.Start(within(t), name, systemd.ModeReplace)
		assert.Equal(t, systemd.NameInvalidArgs, systemd.ErrorName(err), name)
		_, err = u.Read(within(t), name)
		assert.Equal(t, systemd.NameInvalidArgs, systemd.ErrorName(err), name)
	}
	assert.Empty(t, sd.Calls("StartUnit"))
	u.Watch("a'b.service")
	c := await(t, u, "error", func(c systemd.UnitChanged) bool { return c.Err != nil })
	assert.Equal(t, "a'b.service", c.State.Name)
}

// Bug-report 46: an unread job or event never blocks anything else.
func TestUnfinishedAndUnreadJobsBlockNothing(t *testing.T) {
	t.Log("covers: B46") // as statetest.Covers does: systemd/ stands alone
	sd, u := bed(t)
	u.Watch(hostStart)
	sd.Script(hostStart, systemdtest.Script{Unfinished: true})
	start := func(unit string) { // result and events left unread
		t.Helper()
		var err error
		returns(t, "Start of "+unit, func() { _, err = u.Start(within(t), unit, systemd.ModeReplace) })
		require.NoError(t, err)
	}
	start(hostStart)
	for i := range 49 {
		unit := fmt.Sprintf("w%d.service", i)
		returns(t, "Watch of "+unit, func() { u.Watch(unit) })
		start(unit)
	}
	assert.Len(t, sd.Calls("StartUnit"), 50)
	var err error
	returns(t, "Read", func() { _, err = u.Read(within(t), worker) })
	require.NoError(t, err)
}

func TestHungSystemdFailsCallsByDeadlineOnly(t *testing.T) {
	sd, u := bed(t)
	awaitUp(t, u, true)
	sd.Hang(true)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // in which even a busy machine sends a call
	defer cancel()
	_, err := u.Start(ctx, hostStart, systemd.ModeReplace)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, systemd.NameNoReply, systemd.ErrorName(err))
	// The late reply must not leave a job behind that nobody owns.
	sd.Script(hostStart, systemdtest.Script{Unfinished: true})
	sd.Hang(false)
	cancels := sd.WaitCalls("CancelJob", 1)
	assert.NotZero(t, cancels[0].JobID)
	assert.Zero(t, sd.Job(hostStart))
	j, err := u.Start(within(t), worker, systemd.ModeReplace)
	require.NoError(t, err)
	assert.Equal(t, systemd.ResultDone, result(t, j))
}

func TestCancelAndStop(t *testing.T) {
	sd, u := bed(t)
	sd.Script(worker, systemdtest.Script{Unfinished: true, Once: true})
	j, err := u.Start(within(t), worker, systemd.ModeReplace)
	require.NoError(t, err)
	require.NoError(t, u.Cancel(within(t), j.ID))
	assert.Equal(t, systemd.ResultCanceled, result(t, j))
	require.NoError(t, u.Cancel(within(t), j.ID), "a job that is gone is cancelled")

	stop, err := u.Stop(within(t), worker, systemd.ModeReplace)
	require.NoError(t, err)
	assert.Equal(t, systemd.ResultDone, result(t, stop))
	again, err := u.Restart(within(t), worker, systemd.ModeReplace)
	require.NoError(t, err)
	assert.Equal(t, systemd.ResultDone, result(t, again))
	assert.Equal(t, "active", sd.Unit(worker).Active)
}

func TestRebootAndResetFailed(t *testing.T) {
	sd, u := bed(t)
	sd.SetActive(worker, "failed")
	require.NoError(t, u.ResetFailed(within(t), worker))
	assert.Equal(t, "inactive", sd.Unit(worker).Active)
	require.NoError(t, u.Reboot(within(t)))
	assert.Len(t, sd.Calls("Reboot"), 1)
	sd.RefuseMethod("Reboot", systemd.NameShuttingDown)
	err := u.Reboot(within(t))
	assert.Equal(t, systemd.NameShuttingDown, systemd.ErrorName(err))
}

func TestWatchReportsStatesAndRestarts(t *testing.T) {
	sd, u := bed(t)
	u.Watch(worker, hostStop)
	first := awaitActive(t, u, worker, "inactive")
	assert.Equal(t, "loaded", first.Load)
	assert.Equal(t, "success", first.Result)

	sd.Change(worker, func(x *systemdtest.Unit) { x.Active, x.MainPID = "active", 41 })
	up := awaitActive(t, u, worker, "active")
	assert.Equal(t, uint32(41), up.MainPID)
	assert.Len(t, up.InvocationID, 32)
	assert.Positive(t, up.StateChangeMonotonic)

	// A restart that leaves it active again shows as a new invocation.
	sd.Change(worker, func(x *systemdtest.Unit) {
		x.InvocationID, x.MainPID, x.NRestarts = "000000000000000000000000000000ff", 42, 1
	})
	again := await(t, u, "restart", func(c systemd.UnitChanged) bool { return c.State.NRestarts == 1 }).State
	assert.NotEqual(t, up.InvocationID, again.InvocationID)
	cached, ok := u.State(worker)
	assert.True(t, ok)
	assert.Equal(t, again, cached)

	u.Unwatch(worker)
	_, ok = u.State(worker)
	assert.False(t, ok)
}

func TestForeignJobsAreReported(t *testing.T) {
	sd, u := bed(t)
	running := sd.Foreign(hostStop, "stop") // there before we look
	u.Watch(hostStart, hostStop)
	q := await(t, u, "old job", func(q systemd.JobQueued) bool { return q.Job.Unit == hostStop })
	assert.Equal(t, systemd.JobInfo{ID: running, Unit: hostStop, Type: "stop"}, q.Job)
	assert.True(t, q.Job.Foreign())

	id := sd.Foreign(hostStart, "start")
	q = await(t, u, "job", func(q systemd.JobQueued) bool { return q.Job.ID == id })
	assert.Equal(t, systemd.JobInfo{ID: id, Unit: hostStart, Type: "start"}, q.Job)

	joined, err := u.Start(within(t), hostStart, systemd.ModeReplace)
	require.NoError(t, err)
	assert.Equal(t, id, joined.ID)
	assert.True(t, joined.Joined)
	sd.Finish(id, "done")
	e := await(t, u, "end", func(e systemd.JobEnded) bool { return e.Job.ID == id })
	assert.Equal(t, systemd.ResultDone, e.Result)
	assert.Equal(t, systemd.ResultDone, result(t, joined))
	sd.Finish(running, "canceled")
	e = await(t, u, "end", func(e systemd.JobEnded) bool { return e.Job.ID == running })
	assert.Equal(t, systemd.ResultCanceled, e.Result)
}

func TestJobsOfOurTransactionAreNotForeign(t *testing.T) {
	sd, u := bed(t)
	u.Watch(hostStart, powerOn, hostStop)
	awaitKnown(t, u, hostStart, powerOn, hostStop)
	sd.Script(hostStart, systemdtest.Script{Pulls: []string{powerOn}, Unfinished: true})
	sd.Script(powerOn, systemdtest.Script{Unfinished: true})
	j, err := u.Start(within(t), hostStart, systemd.ModeReplace)
	require.NoError(t, err)
	kinds := map[string]systemd.JobInfo{}
	for len(kinds) < 2 {
		q := await(t, u, "jobs", func(systemd.JobQueued) bool { return true })
		kinds[q.Job.Unit] = q.Job
	}
	assert.True(t, kinds[hostStart].Own)
	assert.Equal(t, j.ID, kinds[powerOn].Parent)
	assert.False(t, kinds[powerOn].Foreign())

	foreign := sd.Foreign(hostStop, "start")
	q := await(t, u, "foreign", func(q systemd.JobQueued) bool { return q.Job.ID == foreign })
	assert.True(t, q.Job.Foreign())
}

func TestUnreadEventsCoalesce(t *testing.T) {
	sd, u := bed(t)
	u.Watch(worker)
	require.Eventually(t, func() bool { _, ok := u.State(worker); return ok }, patience, time.Millisecond)
	for range 60 {
		sd.Finish(sd.Foreign(worker, "start"), "done")
		sd.Finish(sd.Foreign(worker, "stop"), "done")
	}
	sd.Change(worker, func(x *systemdtest.Unit) { x.NRestarts = 77 })
	require.Eventually(t, func() bool { s, _ := u.State(worker); return s.NRestarts == 77 }, patience, time.Millisecond)
	jobs, missed := 0, 0
	for last := false; !last; {
		await(t, u, "last state", func(e systemd.Event) bool {
			switch e := e.(type) {
			case systemd.UnitChanged:
				missed += e.MissedJobs
				last = e.State.NRestarts == 77
				return last
			default:
				jobs++
				return false
			}
		})
	}
	assert.Less(t, jobs, 50)
	assert.Positive(t, missed)
}

func TestErrorsAreTyped(t *testing.T) {
	u := open(t, "unix:path=/nonexistent/bus")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := u.Start(ctx, hostStart, systemd.ModeReplace)
	var e *systemd.Error
	require.True(t, errors.As(err, &e))
	assert.Equal(t, systemd.NameDisconnected, e.Name)
	assert.True(t, e.NotSent())
	l := awaitUp(t, u, false)
	assert.ErrorContains(t, l.Err, "/nonexistent/bus")
}

func TestFailedBelow(t *testing.T) {
	s, u := bed(t)
	for unit, requires := range map[string][]string{hostStart: {hostStartMin}, hostStartMin: {powerOn, worker}, powerOn: {hostStart}} {
		s.Change(unit, func(x *systemdtest.Unit) { x.Requires = requires })
	}
	assert.Empty(t, u.FailedBelow(within(t), hostStart))
	s.SetActive(worker, "failed")
	assert.Equal(t, []string{worker}, u.FailedBelow(within(t), hostStart))
	s.SetActive(hostStartMin, "failed")
	assert.Equal(t, []string{hostStartMin, worker}, u.FailedBelow(within(t), hostStart))
	assert.Empty(t, u.FailedBelow(within(t), hostStop))
}

// While a call of ours is not answered, it is not known whose a new job is. A
// state that is told meanwhile says that the news of a job is to come.
func TestStateBeforeTheNewsOfItsJob(t *testing.T) {
	double, u := bed(t)
	double.SetActive(worker, "active")
	u.Watch(worker)
	awaitActive(t, u, worker, "active")
	double.Script(hostStart, systemdtest.Script{ReplyDelay: patience})
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	go func() {
		defer close(started)
		_, _ = u.Start(ctx, hostStart, systemd.ModeReplace)
	}()
	double.WaitCalls("StartUnit", 1)
	double.Finish(double.Foreign(worker, "stop"), systemd.ResultDone)
	queued, down := false, false
	for !queued || !down {
		await(t, u, "the stop", func(ev systemd.Event) bool {
			switch ev := ev.(type) {
			case systemd.JobQueued:
				queued = queued || ev.Job.Unit == worker
			case systemd.UnitChanged:
				if ev.State.Active == "inactive" {
					down = true
					assert.Equal(t, !queued, ev.JobComes)
				}
			}
			return queued || down
		})
	}
	cancel()
	<-started
}
