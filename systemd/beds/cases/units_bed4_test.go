//go:build bed4

package cases

import (
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

const (
	sleeper = "[Service]\nExecStart=/bin/sleep 1000\n"
	hanger  = "[Service]\nType=notify\nExecStart=/bin/sleep 1000\nTimeoutStartSec=infinity\nTimeoutStopSec=1\n"
)

func TestStartAndStop(t *testing.T) {
	install(t, map[string]string{"t-sleep.service": sleeper})
	u := open(t)
	u.Watch("t-sleep.service")
	s := awaitState(t, u, "t-sleep.service", "inactive")
	assert.Equal(t, "loaded", s.Load)
	assert.Empty(t, s.InvocationID)

	assert.Equal(t, systemd.ResultDone, result(t, start(t, u, "t-sleep.service")))
	s = awaitState(t, u, "t-sleep.service", "active")
	assert.Len(t, s.InvocationID, 32)
	assert.NotZero(t, s.MainPID)
	assert.Positive(t, s.StateChangeMonotonic)

	j, err := u.Stop(within(t), "t-sleep.service", systemd.ModeReplace)
	require.NoError(t, err)
	assert.Equal(t, systemd.ResultDone, result(t, j))
	awaitState(t, u, "t-sleep.service", "inactive")
}

func TestResultsOfJobs(t *testing.T) {
	install(t, map[string]string{
		"t-false.service":   "[Service]\nType=oneshot\nExecStart=/bin/false\n",
		"t-timeout.service": "[Service]\nType=notify\nExecStart=/bin/sleep 1000\nTimeoutStartSec=300ms\n",
		"t-late.target":     "[Unit]\nRequires=t-hang.service\nJobTimeoutSec=300ms\n",
		"t-hang.service":    hanger,
		"t-needs.service":   "[Unit]\nRequires=t-false.service\nAfter=t-false.service\n" + sleeper,
		"t-absent.service":  "[Unit]\nConditionPathExists=/nonexistent\n" + sleeper,
	})
	u := open(t)
	for _, tc := range []struct{ unit, job, active, result string }{
		{"t-false.service", systemd.ResultFailed, "failed", "exit-code"},
		{"t-timeout.service", systemd.ResultFailed, "failed", "timeout"},
		{"t-late.target", systemd.ResultTimeout, "inactive", ""},
		{"t-needs.service", systemd.ResultDependency, "inactive", "success"},
		{"t-absent.service", systemd.ResultDone, "inactive", "success"},
	} {
		assert.Equal(t, tc.job, result(t, start(t, u, tc.unit)), tc.unit)
		s := read(t, u, tc.unit)
		assert.Equal(t, tc.active, s.Active, tc.unit)
		assert.Equal(t, tc.result, s.Result, tc.unit)
	}
	require.NoError(t, u.ResetFailed(within(t), "t-false.service"))
	assert.Equal(t, "inactive", read(t, u, "t-false.service").Active)
}

func TestRefusals(t *testing.T) {
	install(t, map[string]string{"t-hang.service": hanger})
	shell(t, "systemctl", "mask", "--runtime", "t-masked.service")
	t.Cleanup(func() { shell(t, "systemctl", "unmask", "--runtime", "t-masked.service") })
	u := open(t)
	_, err := u.Start(within(t), "t-masked.service", systemd.ModeReplace)
	assert.Equal(t, systemd.NameUnitMasked, systemd.ErrorName(err))
	_, err = u.Start(within(t), "t-nowhere.service", systemd.ModeReplace)
	assert.Equal(t, systemd.NameNoSuchUnit, systemd.ErrorName(err))
	_, err = u.Start(within(t), "obmc-power-on@0.target", systemd.ModeReplace)
	assert.Equal(t, systemd.NameOnlyByDependency, systemd.ErrorName(err))

	u.Watch("t-masked.service", "t-nowhere.service")
	for unit, load := range map[string]string{"t-masked.service": "masked", "t-nowhere.service": "not-found"} {
		eventually(t, unit, func() bool { s, _ := u.State(unit); return s.Load == load })
	}

	hard, err := u.Start(within(t), "t-hang.service", systemd.ModeReplaceIrreversibly)
	require.NoError(t, err)
	_, err = u.Stop(within(t), "t-hang.service", systemd.ModeReplace)
	assert.Equal(t, systemd.NameDestructive, systemd.ErrorName(err))
	require.NoError(t, u.Cancel(within(t), hard.ID))
	assert.Equal(t, systemd.ResultCanceled, result(t, hard))
}

func TestHangingJobBlocksNothingAndIsCancelled(t *testing.T) {
	install(t, map[string]string{"t-hang.service": hanger, "t-sleep.service": sleeper})
	u := open(t)
	j := start(t, u, "t-hang.service")
	for range 20 {
		start(t, u, "t-sleep.service")
	}
	assert.Equal(t, j.ID, read(t, u, "t-hang.service").Job)
	require.NoError(t, u.Cancel(within(t), j.ID))
	assert.Equal(t, systemd.ResultCanceled, result(t, j))
	require.NoError(t, u.Cancel(within(t), j.ID))
}

func TestForeignJobs(t *testing.T) {
	install(t, map[string]string{"t-hang.service": hanger, "t-sleep.service": sleeper})
	u := open(t)
	u.Watch("t-hang.service", "t-sleep.service")
	awaitState(t, u, "t-hang.service", "inactive")
	shell(t, "systemctl", "start", "--no-block", "t-hang.service")
	q := await(t, u, "start job", func(q systemd.JobQueued) bool { return q.Job.Unit == "t-hang.service" })
	assert.True(t, q.Job.Foreign())
	assert.Equal(t, "start", q.Job.Type)
	assert.True(t, start(t, u, "t-hang.service").Joined)

	shell(t, "systemctl", "stop", "t-hang.service")
	e := await(t, u, "end of the start job", func(e systemd.JobEnded) bool { return e.Job.ID == q.Job.ID })
	assert.Equal(t, systemd.ResultCanceled, e.Result)

	shell(t, "systemctl", "start", "--no-block", "t-hang.service")
	q = await(t, u, "second start job", func(q systemd.JobQueued) bool { return q.Job.Type == "start" })
	require.NoError(t, u.Cancel(within(t), q.Job.ID))
	await(t, u, "its end", func(e systemd.JobEnded) bool { return e.Job.ID == q.Job.ID })
}

func TestWatcherThatComesLateSeesTheJob(t *testing.T) {
	install(t, map[string]string{"t-hang.service": hanger})
	shell(t, "systemctl", "start", "--no-block", "t-hang.service")
	u := open(t)
	u.Watch("t-hang.service")
	q := await(t, u, "job", func(systemd.JobQueued) bool { return true })
	assert.Equal(t, "start", q.Job.Type)
	assert.True(t, q.Job.Foreign())
}

func TestAliasIsFollowed(t *testing.T) {
	install(t, map[string]string{"t-real.service": sleeper + "[Install]\nAlias=t-alias.service\n"})
	shell(t, "ln", "-sf", unitDir+"/t-real.service", unitDir+"/t-alias.service")
	t.Cleanup(func() { shell(t, "rm", "-f", unitDir+"/t-alias.service") })
	shell(t, "systemctl", "daemon-reload")
	u := open(t)
	j := start(t, u, "t-alias.service")
	assert.Contains(t, []string{systemd.ResultDone, systemd.ResultLost}, result(t, j))
	u.Watch("t-alias.service")
	awaitState(t, u, "t-alias.service", "active")
	shell(t, "systemctl", "stop", "t-real.service")
	awaitState(t, u, "t-alias.service", "inactive")
}

func TestReloadInTheMiddleOfAJob(t *testing.T) {
	install(t, map[string]string{"t-slow.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 2\n"})
	u := open(t)
	u.Watch("t-slow.service")
	awaitState(t, u, "t-slow.service", "inactive")
	j := start(t, u, "t-slow.service")
	shell(t, "systemctl", "daemon-reload")
	await(t, u, "end of the reload", func(r systemd.Reloading) bool { return !r.Active })
	assert.Equal(t, systemd.ResultDone, result(t, j))
	awaitState(t, u, "t-slow.service", "active")
}

func TestReexecInTheMiddleOfAJob(t *testing.T) {
	install(t, map[string]string{"t-slow.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 3\n", "t-sleep.service": sleeper})
	u := open(t)
	u.Watch("t-slow.service", "t-sleep.service")
	awaitState(t, u, "t-slow.service", "inactive")
	j := start(t, u, "t-slow.service")
	unwatched := start(t, u, "t-sleep.service")
	assert.Equal(t, systemd.ResultDone, result(t, unwatched))
	shell(t, "systemctl", "daemon-reexec")
	assert.Equal(t, systemd.ResultDone, result(t, j))
	awaitState(t, u, "t-slow.service", "active")
	// Signals come again without waiting for the next resync.
	shell(t, "systemctl", "stop", "t-sleep.service")
	awaitState(t, u, "t-sleep.service", "inactive")
}

func TestCallsRideOutAReexec(t *testing.T) {
	install(t, map[string]string{"t-sleep.service": sleeper})
	u := open(t)
	start(t, u, "t-sleep.service")
	reexec := exec.Command("systemctl", "daemon-reexec")
	require.NoError(t, reexec.Start())
	lost := 0
	for range 30 {
		_, err := u.Start(within(t), "t-sleep.service", systemd.ModeReplace)
		if err != nil {
			require.Equal(t, systemd.NameNoReply, systemd.ErrorName(err), "only a call that was under way may fail: %v", err)
			lost++
		}
		time.Sleep(20 * time.Millisecond)
	}
	require.NoError(t, reexec.Wait())
	assert.LessOrEqual(t, lost, 1)
}

func TestKillIsSeenAsANewInvocation(t *testing.T) {
	install(t, map[string]string{"t-again.service": "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep 1000\nRestart=always\nRestartSec=20ms\n"})
	u := open(t)
	u.Watch("t-again.service")
	start(t, u, "t-again.service")
	s := awaitState(t, u, "t-again.service", "active")
	var seen, back []time.Duration
	for range 30 {
		old := s
		killed := time.Now()
		require.NoError(t, syscall.Kill(int(old.MainPID), syscall.SIGKILL))
		await(t, u, "death", func(c systemd.UnitChanged) bool {
			return c.State.Active != "active" || c.State.InvocationID != old.InvocationID
		})
		seen = append(seen, time.Since(killed))
		eventually(t, "restart", func() bool {
			s, _ = u.State("t-again.service")
			return s.Active == "active" && s.InvocationID != old.InvocationID && s.MainPID != 0
		})
		back = append(back, time.Since(killed))
		assert.Equal(t, old.NRestarts+1, s.NRestarts)
	}
	report("kill to death seen", seen)
	report("kill to restart seen (RestartSec=20ms)", back)
}

func report(what string, d []time.Duration) {
	slices.Sort(d)
	fmt.Printf("BED %s: median %v, p95 %v, max %v\n", what, d[len(d)/2], d[len(d)*95/100], d[len(d)-1])
}
