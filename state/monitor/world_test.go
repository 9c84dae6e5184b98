package monitor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is an executor that answers late, wrongly or not at all, as a property
// draws it, and checks what must hold after every step.
type world struct {
	t       *rapid.T
	cfg     monitor.Config
	res     *monitor.Resource
	now     time.Duration
	wall    time.Time
	actions []monitor.Action // of the last event

	probes     []monitor.Tag // started and not answered
	generation uint64
	attempt    uint64
	off        bool
	suspended  map[string]bool
	inhibited  bool
	over       bool
}

// kinds are the events of [world.event].
var kinds = []string{
	"tick", "tick", "death", "result", "result", "result", "restarted", "answered", "suspend", "resume", "reset",
	"probe now", "off", "on", "started", "absent", "lost sight", "intent", "sign", "power on", "power off",
	"parent bad", "parent good", "inhibit", "release", "foreign restart", "stale",
}

func newWorld(t *rapid.T, cfg monitor.Config) *world {
	r, err := monitor.NewResource(state.Instant{}, cfg, func() float64 { return 0.25 })
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, cfg: cfg, res: r, suspended: map[string]bool{}}
}

// gap draws the time to the next event: often exactly to the next deadline.
func (w *world) gap() time.Duration {
	if at, ok := w.res.NextDeadline(); ok && rapid.Bool().Draw(w.t, "to the deadline") {
		return max(0, at-w.now)
	}
	return time.Duration(rapid.IntRange(0, 100_000).Draw(w.t, "gap ms")) * time.Millisecond
}

// event makes one of kinds happen at the given time and returns it.
func (w *world) event(at time.Duration, kind string) monitor.Event {
	w.now, w.actions = at, nil
	now := state.Instant{Boot: at, Wall: w.wall}
	ev := w.make(kind)
	for _, a := range w.res.Step(now, ev) {
		if l, ok := a.(monitor.LogEvent); ok {
			l.At.Wall = time.Time{} // for display only
			a = l
		}
		w.actions = append(w.actions, a)
		w.check(a)
	}
	if next, ok := w.res.NextDeadline(); ok && next <= w.now {
		w.t.Fatalf("after %T at %v the next deadline is %v", ev, w.now, next)
	}
	if v := w.res.View(); v.FailureSum > 0 && len(w.res.Failures()) == 0 {
		w.t.Fatalf("%+v", v)
	}
	return ev
}

// make returns the event and books what it changes.
func (w *world) make(kind string) monitor.Event {
	switch kind {
	case "death":
		return monitor.Died{N: 1 + int(w.now)%2}
	case "foreign restart":
		return monitor.Died{N: 1, Restarted: true}
	case "result":
		if len(w.probes) == 0 {
			return monitor.Tick{}
		}
		tag := w.probes[0]
		w.probes = nil
		status := []int{0, 100, 50, 201, -1, 1, 34}[int(w.now/time.Millisecond)%7]
		return monitor.ProbeResult{Tag: tag, Status: status}
	case "stale":
		return monitor.ProbeResult{Tag: monitor.Tag{Serial: 1 << 60}, Status: 100}
	case "restarted":
		outcome := monitor.RestartOutcome(1 + int(w.now/time.Millisecond)%5)
		return monitor.RestartDone{Generation: w.generation, Outcome: outcome}
	case "answered":
		answer := monitor.Answer(1 + int(w.now/time.Millisecond)%4)
		return monitor.EscalationAnswer{Attempt: w.attempt, Answer: answer}
	case "parent bad":
		return monitor.ParentBad{Parent: "p"}
	case "parent good":
		return monitor.ParentGood{Parent: "p"}
	case "started":
		return monitor.Started{}
	case "absent":
		return monitor.Absent{Reason: "absent"}
	case "lost sight":
		return monitor.LostSight{Reason: "bus"}
	case "sign":
		return monitor.OffSign{What: "S5"}
	case "power on", "power off":
		return monitor.PowerGood{On: kind == "power on"}
	case "probe now":
		return monitor.ProbeNow{}
	default:
		return w.makeOrder(kind)
	}
}

func (w *world) makeOrder(kind string) monitor.Event {
	switch kind {
	case "suspend":
		w.suspended["a"] = true
		return monitor.Suspend{Owner: "a"}
	case "resume":
		clear(w.suspended)
		return monitor.Resume{Owner: "a"}
	case "off":
		w.off = true
		return monitor.OperatorOff{Reason: "off"}
	case "on":
		w.off, w.over = false, false
		return monitor.OperatorOn{}
	case "reset":
		w.over = false
		return monitor.Reset{}
	case "intent":
		return monitor.Intent{Generation: uint64(w.now)}
	case "inhibit", "release":
		w.inhibited = kind == "inhibit"
		return monitor.Inhibit{Reason: map[bool]string{true: "code update"}[w.inhibited]}
	default:
		return monitor.Tick{}
	}
}

func (w *world) check(a monitor.Action) {
	switch a := a.(type) {
	case monitor.StartProbe:
		w.probes = append(w.probes, a.Tag)
		if len(w.probes) > 1 {
			w.t.Fatal("two probes in flight")
		}
	case monitor.Restart:
		w.generation = a.Generation
		w.act(a)
	case monitor.Escalate:
		w.attempt = a.Attempt
		w.act(a)
	case monitor.LogEvent:
		if a.Decision == monitor.GaveOver {
			w.over = true
		}
		if a.Row != "" && monitor.Decide(a.Inputs) != a.Decision {
			w.t.Fatalf("not repeatable: %+v", a)
		}
	}
}

// act is a restart or escalation: nothing of what forbids it may hold.
func (w *world) act(a monitor.Action) {
	if w.off || len(w.suspended) > 0 || w.inhibited || w.over || w.cfg.Mode == monitor.ModeLogOnly || w.cfg.DryRun {
		w.t.Fatalf("%+v while off %v, suspended %v, inhibited %v, given over %v, mode %v, dry run %v",
			a, w.off, w.suspended, w.inhibited, w.over, w.cfg.Mode, w.cfg.DryRun)
	}
}

// TestAnythingCanHappen throws every event at a resource in any order.
func TestAnythingCanHappen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.StableFor = time.Minute
		cfg.DryRun = rapid.IntRange(0, 9).Draw(t, "dry run") == 0
		cfg.StartGrace = time.Duration(rapid.IntRange(0, 20).Draw(t, "grace")) * time.Second
		cfg.CheapProbe = time.Duration(rapid.IntRange(0, 20).Draw(t, "cheap")) * time.Second
		cfg.PowerDebounce = time.Duration(rapid.IntRange(0, 2).Draw(t, "debounce")) * time.Second
		if rapid.Bool().Draw(t, "quiesce") {
			cfg.QuiesceTarget = "q.target"
		}
		if rapid.Bool().Draw(t, "back-off") {
			cfg.Backoff = monitor.Backoff{Min: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.2}
		}
		w := newWorld(t, cfg)
		for range 120 {
			w.event(w.now+w.gap(), rapid.SampledFrom(kinds).Draw(t, "event"))
		}
	})
}

// TestSnapshotChangesNothing: a daemon that was restarted between two reports
// decides like one that was not.
func TestSnapshotChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		f := newFleet(t, monitor.Limits{}, cfg)
		for range rapid.IntRange(0, 10).Draw(t, "before") {
			f.now += time.Duration(rapid.IntRange(1, 120).Draw(t, "gap")) * time.Second
			f.tryReport(statuses.Draw(t, "status"))
		}
		fresh := newFleet(t, monitor.Limits{}, cfg)
		fresh.now = f.now
		actions, err := fresh.mon.Restore(fresh.instant(), "a", f.mon.Snapshot(f.instant(), "a"))
		require.NoError(t, err)
		fresh.take(actions)
		for range rapid.IntRange(1, 10).Draw(t, "after") {
			f.now += time.Duration(rapid.IntRange(1, 120).Draw(t, "gap")) * time.Second
			fresh.now = f.now
			status := statuses.Draw(t, "status")
			want, got := f.tryReport(status), fresh.tryReport(status)
			assert.Equal(t, want, got)
			assert.Equal(t, f.view("unit"), fresh.view("unit"))
			if t.Failed() {
				t.FailNow()
			}
		}
	})
}

// tryReport is report for a resource that may no longer be probed.
func (f *fleet) tryReport(status int) []string {
	f.take(f.mon.Tick(f.instant()))
	f.did = nil
	if _, ok := f.probes["unit"]; !ok {
		f.step("unit", monitor.ProbeNow{})
	}
	if _, ok := f.probes["unit"]; !ok {
		return nil
	}
	return f.report("unit", status)
}

// TestGlobalLimits: never more restarts in any minute, nor at once, than
// allowed, and whoever waits gets its turn.
func TestGlobalLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := monitor.Limits{
			RestartsPerMinute: rapid.IntRange(0, 4).Draw(t, "per minute"), Parallel: rapid.IntRange(0, 3).Draw(t, "parallel"),
		}
		var cfgs []monitor.Config
		for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			c := base()
			c.Name, c.RetryCount, c.Mode = n, -1, monitor.ModeRestartOnly
			cfgs = append(cfgs, c)
		}
		f := newFleet(t, limits, cfgs...)
		f.silent = true
		for range 60 {
			f.now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "gap ms")) * time.Millisecond
			f.take(f.mon.Tick(f.instant()))
			name := cfgs[rapid.IntRange(0, len(cfgs)-1).Draw(t, "who")].Name
			if _, ok := f.running[name]; ok {
				f.finish(name)
			} else {
				f.step(name, monitor.Died{})
			}
			if p := limits.Parallel; p > 0 && len(f.running) > p {
				t.Fatalf("%d at once, limit %d", len(f.running), p)
			}
			inMinute := 0
			for _, at := range f.launched {
				if f.now-at <= time.Minute {
					inMinute++
				}
			}
			if m := limits.RestartsPerMinute; m > 0 && inMinute > m {
				t.Fatalf("%d within a minute, limit %d", inMinute, m)
			}
		}
		// Whoever waits now has its turn before long.
		waiting := map[string]bool{}
		for _, c := range cfgs {
			if strings.Contains(f.view(c.Name).Message, "waiting for") {
				waiting[c.Name] = true
			}
		}
		before := len(f.restarts)
		for range 60 {
			for _, c := range cfgs {
				if _, ok := f.running[c.Name]; ok {
					f.finish(c.Name)
				}
			}
			f.now += 10 * time.Second
			f.take(f.mon.Tick(f.instant()))
		}
		for _, r := range f.restarts[before:] {
			delete(waiting, r.Resource)
		}
		assert.Empty(t, waiting)
	})
}
