package monitor_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/require"
)

// never is a Suspension without an expiry, as Suspensions shows it.
const never = time.Duration(1<<63 - 1)

// base is the setup of fault-monitor.md §4: no grace, no back-off, no flap
// detection, so that each case shows the table alone.
func base() monitor.Config {
	return monitor.Config{
		Name: "unit", Mode: monitor.ModeSoft, RetryCount: 2, RetryInterval: 300 * time.Second,
		ThoroughProbe: time.Minute, ProbeTimeout: 30 * time.Second, TimeoutWeight: 100,
		RestartTimeout: 300 * time.Second, EscalateTimeout: time.Minute,
		Escalation: monitor.EscalateFailover, DenialLimit: 3, StableFor: 10 * time.Minute,
		GracefulTimeout: 300 * time.Second,
	}
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	require.TestingT
	Helper()
}

// rig drives one resource by hand and answers its actions at once.
type rig struct {
	t   tb
	res *monitor.Resource
	now time.Duration
	// wall is added to the boot clock; tests step it.
	wall time.Time

	restart  func(n int) monitor.RestartDone      // nil = ok
	escalate func(n int) monitor.EscalationAnswer // nil = accepted
	silent   bool                                 // answer nothing

	restarts  []monitor.Restart
	escalated []monitor.Escalate
	logs      []monitor.LogEvent
	published []monitor.View
	refused   []string
	probe     *monitor.StartProbe // in flight
	did       []string            // since the last take
}

func newRig(t tb, cfg monitor.Config) *rig {
	t.Helper()
	g := &rig{t: t, wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r, err := monitor.NewResource(g.instant(), cfg, func() float64 { return 0.5 })
	require.NoError(t, err)
	g.res = r
	return g
}

func (g *rig) instant() state.Instant {
	return state.Instant{Boot: g.now, Wall: g.wall.Add(g.now)}
}

// step sends one event and answers what it leads to, until nothing is left.
func (g *rig) step(ev monitor.Event) {
	g.t.Helper()
	queue := []monitor.Event{ev}
	for len(queue) > 0 {
		actions := g.res.Step(g.instant(), queue[0])
		queue = queue[1:]
		for _, a := range actions {
			if answer := g.take(a); answer != nil && !g.silent {
				queue = append(queue, answer)
			}
		}
	}
	if at, ok := g.res.NextDeadline(); ok {
		require.Greater(g.t, at, g.now, "a deadline that has passed would spin the loop")
	}
}

// take books an action and returns its answer.
func (g *rig) take(a monitor.Action) monitor.Event {
	switch a := a.(type) {
	case monitor.StartProbe:
		require.Nil(g.t, g.probe, "a second probe in flight")
		g.probe = &a
	case monitor.CancelProbe:
		if !g.silent { // a well-behaved executor ends at once
			g.probe = nil
			return monitor.ProbeResult{Tag: a.Tag, Status: 100}
		}
	case monitor.Restart:
		g.restarts = append(g.restarts, a)
		g.did = append(g.did, "RESTART")
		done := monitor.RestartDone{Outcome: monitor.RestartOK}
		if g.restart != nil {
			done = g.restart(len(g.restarts))
		}
		done.Generation = a.Generation
		return done
	case monitor.Escalate:
		g.escalated = append(g.escalated, a)
		g.did = append(g.did, "GIVEOVER")
		if a.Kind == monitor.EscalateQuiesce {
			g.did[len(g.did)-1] = "QUIESCE"
		}
		answer := monitor.EscalationAnswer{Answer: monitor.Accepted}
		if g.escalate != nil {
			answer = g.escalate(len(g.escalated))
		}
		answer.Attempt = a.Attempt
		return answer
	case monitor.LogEvent:
		g.logs = append(g.logs, a)
		switch a.Decision {
		case monitor.WouldRestart, monitor.WouldEscalate, monitor.RestartGaveUp, monitor.Exhausted, monitor.WasDenied,
			monitor.Flapping, monitor.FlappingEnded, monitor.Suppressed, monitor.MonitorError, monitor.Recovered:
			g.did = append(g.did, a.Decision.String())
		}
		if a.Row != "" {
			require.Equal(g.t, a.Decision, monitor.Decide(a.Inputs), "a decision must be repeatable from its inputs")
		}
	case monitor.Publish:
		g.published = append(g.published, a.View)
	case monitor.Refused:
		g.refused = append(g.refused, a.Reason)
	}
	return nil
}

// at sets the boot clock, in seconds.
func (g *rig) at(seconds float64) *rig {
	g.now = time.Duration(seconds * float64(time.Second))
	return g
}

// tick lets time pass to the given second.
func (g *rig) tick(seconds float64) *rig {
	g.at(seconds).step(monitor.Tick{})
	return g
}

// report makes a probe report status now.
func (g *rig) report(status int) {
	g.t.Helper()
	g.step(monitor.Tick{})
	if g.probe == nil {
		g.step(monitor.ProbeNow{})
	}
	if g.probe == nil {
		return // nothing is probed any more
	}
	tag := g.probe.Tag
	g.probe = nil
	g.step(monitor.ProbeResult{Tag: tag, Status: status, Elapsed: time.Millisecond})
}

// run plays "50@0 0@60 100@120" and returns what each report led to.
func (g *rig) run(script string) []string {
	g.t.Helper()
	var out []string
	for _, word := range strings.Fields(script) {
		w, at, ok := strings.Cut(word, "@")
		require.True(g.t, ok, word)
		status, err := strconv.Atoi(w)
		require.NoError(g.t, err)
		seconds, err := strconv.ParseFloat(at, 64)
		require.NoError(g.t, err)
		g.did = nil
		g.at(seconds)
		g.report(status)
		out = append(out, g.result())
	}
	return out
}

func (g *rig) result() string {
	if len(g.did) == 0 {
		return "-"
	}
	return strings.Join(g.did, "+")
}

func (g *rig) status() monitor.Status { return g.res.View().Status }

func (g *rig) sum() int { return int(g.res.View().FailureSum) }

// count returns how often d was logged.
func (g *rig) count(d monitor.Decision) int {
	n := 0
	for _, l := range g.logs {
		if l.Decision == d {
			n++
		}
	}
	return n
}

func deny(reason string) func(int) monitor.EscalationAnswer {
	return func(int) monitor.EscalationAnswer {
		return monitor.EscalationAnswer{Answer: monitor.Denied, Reason: reason}
	}
}

func failRestart(int) monitor.RestartDone {
	return monitor.RestartDone{Outcome: monitor.RestartFailed, Reason: "start failed"}
}

// every returns a script of n reports of w, each step seconds apart.
func every(w, n int, step float64) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d@%g ", w, float64(i)*step)
	}
	return b.String()
}
