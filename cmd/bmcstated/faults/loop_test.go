package faults_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// Cases 37 and 38: a probe that never returns is a failure at its deadline, the
// loop lives on, no second probe is started, and its late answer changes nothing.
func TestCase37And38StuckProbe(t *testing.T) {
	release := make(chan struct{})
	probes := make(chan struct{}, 100)
	cfg := quick("hung")
	cfg.ThoroughProbe, cfg.ProbeTimeout, cfg.Mode = 20*time.Millisecond, 50*time.Millisecond, monitor.ModeLogOnly
	cfg.TimeoutWeight = 40
	other := quick("well")
	other.ThoroughProbe, other.ProbeTimeout = 20*time.Millisecond, time.Second
	wells := make(chan struct{}, 1000)
	l, sc, _ := start(t, faults.Options{Resources: []faults.Resource{
		{Config: cfg, Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result {
			probes <- struct{}{}
			<-release
			return faults.Result{}
		})},
		{Config: other, Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result {
			wells <- struct{}{}
			return faults.Result{}
		})},
	}})
	v := sc.await(t, "hung", "a failure", func(v monitor.View) bool { return v.FailureSum >= 40 })
	assert.Equal(t, monitor.StatusDegraded, v.Status)
	for len(wells) > 0 {
		<-wells
	}
	<-wells // the loop lives
	assert.Len(t, probes, 1, "at most one probe in flight")
	sum := func() (sum uint32) {
		got := make(chan uint32)
		l.Inspect("hung", func(r *monitor.Resource) { got <- r.View().FailureSum })
		return <-got
	}
	before := sum()
	close(release)
	require.Eventually(t, func() bool { return len(probes) > 1 }, patience, time.Millisecond, "it is probed again")
	assert.GreaterOrEqual(t, sum(), before, "the late good answer took nothing back and counts for nothing")
}

// Case 48: history survives a restart of the daemon within a boot only.
func TestCase48Snapshot(t *testing.T) {
	dir := t.TempDir()
	cfg := quick("svc")
	cfg.ThoroughProbe, cfg.RetryInterval = time.Hour, monitor.NeverAges
	status := 50
	run := func(boot string) (*faults.Loop, *screen, func()) {
		return start(t, faults.Options{RunDir: dir, BootID: boot, Resources: []faults.Resource{{Config: cfg,
			Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result { return faults.Result{Status: status} })}}})
	}
	ask := func(l *faults.Loop) { l.Tell("svc", monitor.ProbeNow{}, nil) }
	l, sc, stop := run("one")
	ask(l)
	sc.await(t, "svc", "50", func(v monitor.View) bool { return v.FailureSum == 50 })
	stop()
	_, sc, stop = run("one")
	sc.await(t, "svc", "50 again", func(v monitor.View) bool { return v.FailureSum == 50 })
	stop()
	status = 0
	l, sc, stop = run("two")
	ask(l)
	v := sc.awaitStatus(t, "svc", monitor.StatusOK)
	assert.Zero(t, v.FailureSum)
	stop()

	n := 0
	for text, why := range map[string]string{
		"{":             "faults.json: 1:2",
		`{"version":2}`: "version 2, this program knows 1",
		`{"version":1,"resources":[{"name":"svc","status":200}]}`: "damaged",
	} {
		file := filepath.Join(dir, "faults.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		var log strings.Builder
		l, sc, stop = start(t, faults.Options{RunDir: dir, BootID: "two", Log: slog.New(slog.NewTextHandler(&log, slog.LevelWarn)),
			Resources: []faults.Resource{{Config: cfg,
				Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result { return faults.Result{} })}}})
		ask(l)
		sc.awaitStatus(t, "svc", monitor.StatusOK) // it is no reason not to start
		stop()
		aside, err := os.ReadFile(file + []string{".unreadable", ".unreadable.1", ".unreadable.2"}[n])
		require.NoError(t, err)
		require.Equal(t, text, string(aside), "nothing is lost")
		n++
		require.Contains(t, log.String(), why)
		require.Contains(t, log.String(), file)
	}
}

// Case 43: steps of the wall clock by a day, either way, change nothing but what
// is displayed.
func TestCase43WallClockDecidesNothing(t *testing.T) {
	var off atomic.Int64 // of the wall clock
	cfg := quick("svc")
	cfg.ThoroughProbe, cfg.RetryCount = time.Hour, -1
	restarts := make(chan struct{}, 10)
	l, _, _ := start(t, faults.Options{
		Now: func() state.Instant {
			return state.Instant{Boot: time.Since(began), Wall: began.Add(time.Duration(off.Load()))}
		},
		Resources: []faults.Resource{{
			Config: cfg,
			Probe:  faults.ProbeFunc(func(context.Context, bool) faults.Result { return faults.Result{Status: 50} }),
			Restart: func(context.Context, monitor.Restart) monitor.RestartDone {
				restarts <- struct{}{}
				return monitor.RestartDone{Outcome: monitor.RestartOK}
			},
		}},
	})
	sum := func() uint32 {
		got := make(chan uint32)
		l.Inspect("svc", func(r *monitor.Resource) { got <- r.View().FailureSum })
		return <-got
	}
	for _, step := range []time.Duration{24 * time.Hour, -48 * time.Hour, 24 * time.Hour} {
		l.Tell("svc", monitor.ProbeNow{}, nil)
		require.Eventually(t, func() bool { return sum() == 50 }, patience, time.Millisecond)
		off.Add(int64(step))
		l.Tell("svc", monitor.ProbeNow{}, nil)
		select {
		case <-restarts:
		case <-time.After(patience):
			require.Fail(t, "50 and 50 are a restart whatever the wall clock says", "step %v", step)
		}
		require.Eventually(t, func() bool { return sum() == 0 }, patience, time.Millisecond)
	}
	assert.Empty(t, restarts)
}

// A refused call is told why, others are told nothing.
func TestTellAnswers(t *testing.T) {
	l, _, _ := start(t, faults.Options{Resources: []faults.Resource{{Config: quick("a")}}})
	ask := func(name string, ev monitor.Event) string {
		got := make(chan string, 1)
		l.Tell(name, ev, func(refusal string) { got <- refusal })
		return <-got
	}
	assert.Empty(t, ask("a", monitor.Suspend{Owner: "me"}))
	assert.NotEmpty(t, ask("a", monitor.Resume{Owner: "you"}))
	assert.Empty(t, ask("a", monitor.Resume{Owner: "you", All: true}))
	assert.Contains(t, ask("b", monitor.Reset{}), "no such resource")
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	bad := quick("bad")
	bad.RetryInterval = 0
	for what, resources := range map[string][]faults.Resource{
		"range":      {{Config: bad}},
		"twice":      {{Config: quick("a")}, {Config: quick("a")}},
		"no systemd": {{Config: quick("a"), Unit: "a.service"}},
	} {
		_, err := faults.New(faults.Options{Resources: resources, Now: now, Random: func() float64 { return 0 }})
		assert.Error(t, err, what)
	}
}

// What two resources would share, or nobody could watch, is refused.
func TestNewRefuses(t *testing.T) {
	units := systemd.Open(systemd.Options{Address: "unix:path=/nonexistent"})
	t.Cleanup(units.Close)
	for want, o := range map[string]faults.Options{
		`resource "a" is there twice`:                          {Resources: []faults.Resource{{Config: quick("a")}, {Config: quick("a")}}},
		`resources "a" and "b" watch one unit, x.service`:      {Units: units, Resources: []faults.Resource{{Config: quick("a"), Unit: "x.service"}, {Config: quick("b"), Unit: "x.service"}}},
		`has a unit, and there is no systemd to watch it with`: {Resources: []faults.Resource{{Config: quick("a"), Unit: "x.service"}}},
	} {
		o.Now, o.Log, o.Random = now, slog.New(slog.DiscardHandler), func() float64 { return 0 }
		_, err := faults.New(o)
		assert.ErrorContains(t, err, want)
	}
}
