package monitor_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is scds_fm_action written down once more, as simply as possible: no
// loop, no asynchrony, unbounded lists.
type model struct {
	cfg      monitor.Config
	f        []modelFailure
	r        []time.Duration
	denials  int
	over     bool
	quiesced bool
}

type modelFailure struct {
	at     time.Duration
	weight int
}

func (m *model) prune(now time.Duration) {
	if m.cfg.RetryInterval < 0 {
		return
	}
	var f []modelFailure
	for _, e := range m.f {
		if now-e.at <= m.cfg.RetryInterval {
			f = append(f, e)
		}
	}
	var r []time.Duration
	for _, at := range m.r {
		if now-at <= m.cfg.RetryInterval {
			r = append(r, at)
		}
	}
	m.f, m.r = f, r
}

func (m *model) sum() (s int) {
	for _, e := range m.f {
		s += e.weight
	}
	return s
}

// report returns what a probe's status leads to. restartOK and accepted are
// what the world would answer.
func (m *model) report(now time.Duration, status int, restartOK, accepted bool) string {
	m.prune(now)
	valid := status >= 0 && status <= 100 || status == 201
	if !valid || m.over {
		return "-"
	}
	if status > 0 {
		m.f = append(m.f, modelFailure{now, min(status, 100)})
	}
	escalates := m.cfg.Mode <= monitor.ModeHard && m.cfg.Escalation != monitor.EscalateNone
	forced := status == 201 && escalates
	switch {
	case m.quiesced, status == 0, !forced && m.sum() < 100, m.cfg.Mode == monitor.ModeLogOnly:
		return "-"
	case !forced && (m.cfg.RetryCount < 0 || len(m.r) < m.cfg.RetryCount):
		m.r = append(m.r, now)
		if restartOK {
			m.f = nil
			return "RESTART"
		}
		if !escalates {
			return "RESTART"
		}
		return "RESTART+" + m.giveover(accepted)
	case !escalates:
		return "-"
	}
	return m.giveover(accepted)
}

func (m *model) giveover(accepted bool) string {
	if accepted {
		m.over = true
		return "GIVEOVER"
	}
	m.f, m.r = nil, nil
	m.denials++
	m.quiesced = m.denials >= m.cfg.DenialLimit
	return "GIVEOVER"
}

func drawConfig(t *rapid.T) monitor.Config {
	cfg := base()
	cfg.RetryCount = rapid.IntRange(-1, 5).Draw(t, "RC")
	cfg.RetryInterval = rapid.SampledFrom([]time.Duration{monitor.NeverAges, time.Second, 100 * time.Second, 300 * time.Second}).Draw(t, "RI")
	cfg.Mode = rapid.SampledFrom([]monitor.Mode{monitor.ModeNone, monitor.ModeSoft, monitor.ModeHard,
		monitor.ModeRestartOnly, monitor.ModeLogOnly}).Draw(t, "mode")
	cfg.Escalation = rapid.SampledFrom([]monitor.Escalation{monitor.EscalateNone, monitor.EscalateFailover}).Draw(t, "escalation")
	cfg.StableFor = never // the model never forgives
	return cfg
}

var statuses = rapid.OneOf(rapid.SampledFrom([]int{0, 100, 201, -1, 150}), rapid.IntRange(0, 100))

// TestResourceDecidesAsTheModel compares every decision, F and R.
func TestResourceDecidesAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		m := &model{cfg: cfg}
		var restartOK, accepted bool
		g := newRigFor(t, cfg)
		g.restart = func(int) monitor.RestartDone {
			if restartOK {
				return monitor.RestartDone{Outcome: monitor.RestartOK}
			}
			return failRestart(0)
		}
		g.escalate = func(int) monitor.EscalationAnswer {
			if accepted {
				return monitor.EscalationAnswer{Answer: monitor.Accepted}
			}
			return deny("no")(0)
		}
		for range rapid.IntRange(1, 60).Draw(t, "reports") {
			g.now += time.Duration(rapid.IntRange(1, 120_000).Draw(t, "gap ms")) * time.Millisecond
			restartOK, accepted = rapid.Bool().Draw(t, "restart ok"), rapid.IntRange(0, 4).Draw(t, "accepted") == 0
			status := statuses.Draw(t, "status")
			n, e := len(g.restarts), len(g.escalated)
			g.report(status)
			got := words(len(g.restarts)-n, len(g.escalated)-e)
			if want := m.report(g.now, status, restartOK, accepted); want != got {
				t.Fatalf("status %d at %v: want %s, got %s", status, g.now, want, got)
			}
			if !m.over && (g.sum() != m.sum() || len(g.res.Restarts()) != len(m.r)) {
				t.Fatalf("at %v: sum %d and %d restarts, want %d and %d", g.now, g.sum(), len(g.res.Restarts()), m.sum(), len(m.r))
			}
		}
	})
}

func words(restarts, escalations int) string {
	switch {
	case restarts > 0 && escalations > 0:
		return "RESTART+GIVEOVER"
	case restarts > 0:
		return "RESTART"
	case escalations > 0:
		return "GIVEOVER"
	default:
		return "-"
	}
}

// newRigFor is newRig for a property.
func newRigFor(t *rapid.T, cfg monitor.Config) *rig {
	g := &rig{t: t, wall: time.Unix(1e9, 0)}
	r, err := monitor.NewResource(g.instant(), cfg, func() float64 { return 0.5 })
	if err != nil {
		t.Fatal(err)
	}
	g.res = r
	return g
}

// TestNeverMoreThanRetryCountRestartsInTheInterval also holds for restarts that
// take long, deaths at any time, back-off and a queue that is full at times.
func TestNeverMoreThanRetryCountRestartsInTheInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.RetryCount = rapid.IntRange(0, 5).Draw(t, "RC")
		cfg.Escalation = monitor.EscalateNone
		if rapid.Bool().Draw(t, "back-off") {
			cfg.Backoff = monitor.Backoff{Min: time.Second, Max: time.Minute, Factor: 3, Jitter: 0.2}
		}
		w := newWorld(t, cfg)
		var launches []time.Duration
		for range 80 {
			restarting := w.res.View().NextAction == "RESTARTING"
			done := w.event(w.now+w.gap(), rapid.SampledFrom([]string{"tick", "death", "result", "restarted"}).Draw(t, "event"))
			if d, ok := done.(monitor.RestartDone); ok && restarting && d.Outcome >= monitor.RestartCancelled {
				launches = launches[:len(launches)-1] // it never ran
			}
			for _, a := range w.actions {
				if r, ok := a.(monitor.Restart); ok && !r.ResetFailed {
					launches = append(launches, w.now)
				}
			}
			inside := 0
			for _, at := range launches {
				if cfg.RetryInterval < 0 || w.now-at <= cfg.RetryInterval {
					inside++
				}
			}
			if inside > cfg.RetryCount {
				t.Fatalf("%d restarts within %v, limit %d", inside, cfg.RetryInterval, cfg.RetryCount)
			}
		}
	})
}

func TestDeniedClearsBothAndFailedRestartKeepsF(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.Mode, cfg.Escalation, cfg.DenialLimit = monitor.ModeSoft, monitor.EscalateFailover, -1
		g := newRigFor(t, cfg)
		g.escalate = deny("no")
		fails := rapid.Bool().Draw(t, "restarts fail")
		if fails {
			g.restart = failRestart
		}
		for range 20 {
			g.now += time.Duration(rapid.IntRange(1, 200).Draw(t, "gap")) * time.Second
			before := len(g.escalated)
			g.report(statuses.Draw(t, "status"))
			if len(g.escalated) > before && (g.sum() != 0 || len(g.res.Restarts()) != 0) {
				t.Fatal("a denial leaves history")
			}
		}
	})
}

// TestWallClockDecidesNothing runs the same events under two wall clocks.
func TestWallClockDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		a, b := newWorld(t, cfg), newWorld(t, cfg)
		for range 60 {
			at := a.now + a.gap()
			b.wall = time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "wall"), 0)
			kind := rapid.SampledFrom(kinds).Draw(t, "event")
			a.event(at, kind)
			b.event(at, kind)
			if x, y := fmt.Sprint(a.actions), fmt.Sprint(b.actions); x != y {
				t.Fatalf("%s\nand\n%s", x, y)
			}
		}
	})
}

// TestNothingLeaks: 100,000 probes of every kind leave memory as it was.
func TestNothingLeaks(t *testing.T) {
	cfg := base()
	cfg.RetryInterval, cfg.RetryCount = monitor.NeverAges, -1
	cfg.Flap = monitor.FlapConfig{Count: 3, Clear: 1, Window: 10 * time.Minute}
	r, err := monitor.NewResource(state.Instant{}, cfg, func() float64 { return 0.5 })
	require.NoError(t, err)
	var tag monitor.Tag
	now := state.Instant{}
	step := func(ev monitor.Event) {
		for _, a := range r.Step(now, ev) {
			switch a := a.(type) {
			case monitor.StartProbe:
				tag = a.Tag
			case monitor.Restart:
				r.Step(now, monitor.RestartDone{Generation: a.Generation, Outcome: monitor.RestartOK})
			}
		}
	}
	probe := func(i int) {
		now.Boot += time.Minute
		step(monitor.Tick{})
		step(monitor.ProbeResult{Tag: tag, Status: []int{0, 1, 100, 50, -1}[i%5], Elapsed: time.Millisecond})
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range 5000 {
		probe(i)
	}
	before := heap()
	for i := range 100_000 {
		probe(i)
	}
	assert.EqualValues(t, 105_000, r.Counters().Probes)
	assert.Less(t, heap(), before+64<<10)
	assert.LessOrEqual(t, len(r.Failures()), 256)
	assert.LessOrEqual(t, len(r.Restarts()), 256)
	assert.LessOrEqual(t, len(r.Records(0)), 64)
	runtime.KeepAlive(r)
}
