package systemd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

func TestAbsentSystemdIsWaitedFor(t *testing.T) {
	address := systemdtest.StartBus(t)
	sd := systemdtest.New(t, address)
	u := open(t, address)
	u.Watch(worker)
	awaitUp(t, u, false)
	started := make(chan error, 1)
	go func() {
		_, err := u.Start(context.WithoutCancel(t.Context()), hostStart, systemd.ModeReplace)
		started <- err
	}()
	sd.SetActive(worker, "active")
	sd.Arrive()
	awaitActive(t, u, worker, "active")
	require.NoError(t, <-started)
	assert.Len(t, sd.Calls("StartUnit"), 1)
}

func TestSlowSubscribeIsRiddenOut(t *testing.T) {
	address := systemdtest.StartBus(t)
	sd := systemdtest.New(t, address)
	sd.Hang(true)
	sd.Arrive()
	u := open(t, address, func(o *systemd.Options) { o.Patience = 30 * time.Millisecond })
	u.Watch(worker)
	l := awaitUp(t, u, false) // the first Subscribe ran out of patience
	assert.Equal(t, systemd.NameNoReply, systemd.ErrorName(l.Err))
	sd.Hang(false)
	awaitActive(t, u, worker, "inactive")
	awaitSubscribed(t, sd, u)
}

// awaitSubscribed changes a unit until the change is seen through a signal.
func awaitSubscribed(t *testing.T, sd *systemdtest.Systemd, u *systemd.Units) {
	t.Helper()
	sd.WaitCalls("Subscribe", 1)
	sd.Change(worker, func(x *systemdtest.Unit) { x.NRestarts++ })
	await(t, u, "change", func(c systemd.UnitChanged) bool { return c.State.NRestarts > 0 })
}

func TestReexecInTheMiddleOfAJob(t *testing.T) {
	for _, watched := range []bool{true, false} {
		sd, u := bed(t, quickResync)
		if watched {
			u.Watch(hostStart)
			awaitActive(t, u, hostStart, "inactive")
		}
		sd.Script(hostStart, systemdtest.Script{Unfinished: true})
		j, err := u.Start(within(t), hostStart, systemd.ModeReplace)
		require.NoError(t, err)
		sd.Leave()
		awaitUp(t, u, false)
		sd.Arrive()
		awaitUp(t, u, true)
		sd.Finish(j.ID, "done")
		assert.Equal(t, systemd.ResultDone, result(t, j))
	}
}

func TestJobThatEndedUnseenIsLostNotOpen(t *testing.T) {
	for _, watched := range []bool{true, false} {
		sd, u := bed(t, quickResync)
		if watched {
			u.Watch(hostStart)
			awaitActive(t, u, hostStart, "inactive")
		}
		sd.Script(hostStart, systemdtest.Script{Unfinished: true})
		j, err := u.Start(within(t), hostStart, systemd.ModeReplace)
		require.NoError(t, err)
		sd.Leave()
		sd.Vanish(j.ID, "active")
		sd.Arrive()
		assert.Equal(t, systemd.ResultLost, result(t, j))
		if watched {
			e := await(t, u, "end", func(e systemd.JobEnded) bool { return e.Job.ID == j.ID })
			assert.Equal(t, systemd.ResultLost, e.Result)
			awaitActive(t, u, hostStart, "active")
		}
	}
}

func TestStateFollowsWhenTheSubscriptionWasDropped(t *testing.T) {
	sd, u := bed(t, quickResync)
	u.Watch(worker)
	awaitActive(t, u, worker, "inactive")
	sd.DropSubscriptions()
	sd.SetActive(worker, "active") // nobody is told
	awaitActive(t, u, worker, "active")
	require.Eventually(t, func() bool { return len(sd.Calls("Subscribe")) >= 2 }, patience, time.Millisecond)
}

// Nothing but the comparison of all units can tell here.
func TestSurveyFindsWhatNoSignalTold(t *testing.T) {
	sd, u := bed(t, quickResync)
	u.Watch(worker, hostStart)
	awaitKnown(t, u, worker, hostStart)
	sd.RefuseMethod("Subscribe", systemd.NameAlreadySubscribed)
	sd.DropSubscriptions()
	sd.SetActive(worker, "active")
	awaitActive(t, u, worker, "active")
	id := sd.Foreign(hostStart, "start")
	await(t, u, "job", func(q systemd.JobQueued) bool { return q.Job.ID == id && q.Job.Type == "start" })
	sd.Vanish(id, "active")
	await(t, u, "end", func(e systemd.JobEnded) bool { return e.Job.ID == id && e.Result == systemd.ResultLost })
}

func TestReloadReadsAgain(t *testing.T) {
	sd, u := bed(t)
	u.Watch(worker)
	awaitActive(t, u, worker, "inactive")
	sd.DropSubscriptions() // so that only the reload's re-reading can tell
	sd.Change(worker, func(x *systemdtest.Unit) { x.Load = "masked" })
	sd.Reload()
	await(t, u, "reloading", func(r systemd.Reloading) bool { return !r.Active })
	await(t, u, "masked", func(c systemd.UnitChanged) bool { return c.State.Load == "masked" })
}

func TestBusRestartIsRiddenOut(t *testing.T) {
	first, kill := systemdtest.RunBus(t)
	second := systemdtest.StartBus(t)
	systemdtest.Start(t, first)
	sd := systemdtest.Start(t, second)
	sd.SetActive(worker, "active")
	socket := filepath.Join(t.TempDir(), "bus")
	link := func(address string) {
		path, _, _ := strings.Cut(strings.TrimPrefix(address, "unix:path="), ",")
		require.NoError(t, os.Symlink(path, socket+".new"))
		require.NoError(t, os.Rename(socket+".new", socket))
	}
	link(first)
	u := open(t, "unix:path=/nonexistent;unix:path="+socket)
	u.Watch(worker)
	awaitActive(t, u, worker, "inactive")
	link(second)
	kill()
	awaitUp(t, u, false)
	awaitActive(t, u, worker, "active")
	awaitSubscribed(t, sd, u)
}

func TestCloseAnswersEveryone(t *testing.T) {
	address := systemdtest.StartBus(t)
	sd := systemdtest.Start(t, address)
	u := systemd.Open(systemd.Options{Address: address})
	sd.Script(worker, systemdtest.Script{Unfinished: true})
	j, err := u.Start(within(t), worker, systemd.ModeReplace)
	require.NoError(t, err)
	sd.Hang(true)
	waiting := make(chan error, 1)
	go func() {
		_, err := u.Start(context.Background(), hostStart, systemd.ModeReplace)
		waiting <- err
	}()
	u.Close()
	assert.Equal(t, systemd.ResultLost, result(t, j))
	require.Error(t, <-waiting)
	_, err = u.Start(within(t), worker, systemd.ModeReplace)
	assert.Equal(t, systemd.NameDisconnected, systemd.ErrorName(err))
	for range u.Events() {
	}
}
