package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// still is a loop that does not run: a test tells it what systemd says, one thing
// after the other, and takes its jobs. There is no systemd that it could ask.
type still struct {
	*Loop
	t    *testing.T
	ill  bool
	boot time.Duration
}

const web = "web.service"

func newStill(t *testing.T, backoff monitor.Backoff) *still {
	s := &still{t: t, boot: time.Hour}
	units := systemd.Open(systemd.Options{Address: "unix:path=" + t.TempDir() + "/none"})
	cfg := monitor.DefaultConfig(web)
	cfg.Backoff, cfg.StartGrace = backoff, 0
	probe := ProbeFunc(func(context.Context, bool) Result {
		if s.ill {
			return Result{monitor.ProbeCompleteFailure, "connection refused"}
		}
		return Result{}
	})
	l, err := New(Options{
		Units: units, Resources: []Resource{{Config: cfg, Unit: web, Probe: probe}}, Random: func() float64 { return 0.5 },
		Now: func() state.Instant { return state.Instant{Boot: s.boot} }, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		l.cancel()
		units.Close()
		l.workers.Wait()
	})
	s.Loop = l
	l.watchUnits()
	s.settle()
	s.reads("active", "a")
	return s
}

// settle takes the jobs that are there.
func (s *still) settle() {
	for job, ok := s.inbox.take(); ok; job, ok = s.inbox.take() {
		job()
	}
}

func (s *still) reads(active, invocation string) {
	s.unitEvent(systemd.UnitChanged{State: systemd.UnitState{Name: web, Load: "loaded", Active: active, InvocationID: invocation}})
}

func (s *still) queued(typ string) {
	s.unitEvent(systemd.JobQueued{Job: systemd.JobInfo{ID: 7, Unit: web, Type: typ}})
}

func (s *still) ended(result string) {
	s.unitEvent(systemd.JobEnded{Job: systemd.JobInfo{ID: 7, Unit: web}, Result: result})
}

// probe makes one, and waits for its result.
func (s *still) probe() {
	before := len(s.probes)
	s.step(web, monitor.ProbeNow{})
	require.Len(s.t, s.probes, before+1)
	for len(s.probes) > before {
		<-s.inbox.wake
		s.settle()
	}
	s.settle()
}

func (s *still) status() string {
	r, _ := s.mon.Resource(web)
	return r.View().Status.String()
}

// What fails while an operator's order is carried out is no failure of the
// service, and no restart takes the order's job away.
func TestProbeDuringAnOrder(t *testing.T) {
	for _, typ := range []string{"stop", "restart"} {
		t.Run(typ, func(t *testing.T) {
			s := newStill(t, monitor.Backoff{})
			s.probe()
			require.Equal(t, "OK", s.status())
			s.queued(typ)
			s.reads("deactivating", "a")
			s.ill = true
			s.probe()
			assert.Empty(t, s.restarts)
			s.reads("inactive", "a")
			assert.Equal(t, "OFFLINE", s.status())
			s.ended("done")
			s.reads("active", "b")
			s.probe()
			assert.Len(t, s.restarts, 1, "nothing explains this")
		})
	}
}

// newsOfStop tells of an operator's stop that is done, and waits until it is judged.
func (s *still) newsOfStop() {
	s.queued("stop")
	s.ended("done")
	s.boot += time.Second
	s.tick()
}

// A clean end waits for the news of the order that explains it, and so does what
// a probe has seen of it.
func TestProbeBeforeTheNewsOfAnOrder(t *testing.T) {
	s := newStill(t, monitor.Backoff{})
	s.ill = true
	s.reads("inactive", "a")
	s.probe()
	assert.Empty(t, s.restarts)
	s.newsOfStop()
	assert.Equal(t, "OFFLINE", s.status())
	assert.Empty(t, s.restarts)
}

// A restart that was decided before an operator's stop does not end the stop.
func TestRestartDueDuringAStop(t *testing.T) {
	s := newStill(t, monitor.Backoff{Min: time.Second, Factor: 2, Max: time.Minute})
	s.ill = true
	s.probe()
	require.Empty(t, s.restarts, "it waits")
	s.queued("stop")
	s.reads("deactivating", "a")
	s.boot += 2 * time.Second
	s.tick()
	s.settle()
	assert.Empty(t, s.restarts)
	s.reads("inactive", "a")
	assert.Equal(t, "OFFLINE", s.status())
}

// Nor does one that is due while the news of the stop is on its way.
func TestRestartDueBeforeTheNewsOfAStop(t *testing.T) {
	s := newStill(t, monitor.Backoff{Min: time.Second, Factor: 2, Max: time.Minute})
	s.ill = true
	s.probe()
	s.boot += time.Second - time.Millisecond
	s.reads("inactive", "a")
	s.boot += 2 * time.Millisecond
	s.tick()
	s.settle()
	assert.Empty(t, s.restarts)
	s.newsOfStop()
	assert.Equal(t, "OFFLINE", s.status())
	assert.Empty(t, s.restarts)
}

// News of a job that is lost on its way is not waited for without end.
func TestLostNewsOfAJobHidesNoDeath(t *testing.T) {
	s := newStill(t, monitor.Backoff{})
	s.unitEvent(systemd.UnitChanged{JobComes: true, State: systemd.UnitState{
		Name: web, Load: "loaded", Active: "failed", Result: "signal", InvocationID: "a"}})
	deaths := func() uint64 {
		r, _ := s.mon.Resource(web)
		return r.Counters().Failures[monitor.CauseDeath]
	}
	assert.Zero(t, deaths(), "it may have been stopped")
	s.boot += time.Second
	s.tick()
	assert.EqualValues(t, 1, deaths())
}
