package monitor_test

import (
	"math/rand/v2"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/require"
)

// fleet drives a Monitor by hand; restarts succeed and escalations are
// accepted at once unless silent.
type fleet struct {
	t   tb
	mon *monitor.Monitor
	now time.Duration

	silent    bool
	probes    map[string]monitor.Tag
	running   map[string]running
	restarts  []monitor.Restart
	launched  []time.Duration // when
	escalated []monitor.Escalate
	did       []string
}

type running struct {
	generation uint64
	since      time.Duration
}

func newFleet(t tb, limits monitor.Limits, cfgs ...monitor.Config) *fleet {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	mon, err := monitor.New(limits, random.Float64)
	require.NoError(t, err)
	f := &fleet{t: t, mon: mon, probes: map[string]monitor.Tag{}, running: map[string]running{}}
	actions, err := mon.Configure(f.instant(), cfgs)
	require.NoError(t, err)
	f.take(actions)
	return f
}

func (f *fleet) instant() state.Instant { return state.Instant{Boot: f.now} }

func (f *fleet) at(seconds float64) *fleet {
	f.now = time.Duration(seconds * float64(time.Second))
	return f
}

func (f *fleet) view(name string) monitor.View {
	r, ok := f.mon.Resource(name)
	require.True(f.t, ok, name)
	return r.View()
}

func (f *fleet) step(name string, ev monitor.Event) {
	f.t.Helper()
	actions, err := f.mon.Step(f.instant(), name, ev)
	require.NoError(f.t, err)
	f.take(actions)
}

func (f *fleet) take(actions []monitor.Action) {
	f.t.Helper()
	for _, a := range actions {
		switch a := a.(type) {
		case monitor.StartProbe:
			f.probes[a.Resource] = a.Tag
		case monitor.CancelProbe:
			delete(f.probes, a.Resource)
			f.step(a.Resource, monitor.ProbeResult{Tag: a.Tag})
		case monitor.Restart:
			f.restarts = append(f.restarts, a)
			f.launched = append(f.launched, f.now)
			f.did = append(f.did, "RESTART")
			f.running[a.Resource] = running{a.Generation, f.now}
			if !f.silent {
				f.finish(a.Resource)
			}
		case monitor.Escalate:
			f.escalated = append(f.escalated, a)
			f.did = append(f.did, "GIVEOVER")
			f.step(a.Resource, monitor.EscalationAnswer{Attempt: a.Attempt, Answer: monitor.Accepted})
		case monitor.LogEvent:
			if a.Decision == monitor.Suppressed {
				f.did = append(f.did, a.Decision.String())
			}
		}
	}
	if at, ok := f.mon.NextDeadline(); ok && at < f.now {
		// Deadlines of other resources may have come: Tick is for them.
		f.take(f.mon.Tick(f.instant()))
	}
}

// finish answers the restart of name with ok.
func (f *fleet) finish(name string) {
	f.t.Helper()
	r := f.running[name]
	delete(f.running, name)
	f.step(name, monitor.RestartDone{Generation: r.generation, Outcome: monitor.RestartOK})
}

// report makes the probe of name report status and returns what it led to.
func (f *fleet) report(name string, status int) []string {
	f.t.Helper()
	f.take(f.mon.Tick(f.instant()))
	f.did = nil
	if _, ok := f.probes[name]; !ok {
		f.step(name, monitor.ProbeNow{})
	}
	tag, ok := f.probes[name]
	require.True(f.t, ok, "%s is not probed", name)
	delete(f.probes, name)
	f.step(name, monitor.ProbeResult{Tag: tag, Status: status, Elapsed: time.Millisecond})
	if len(f.did) == 0 {
		return []string{"-"}
	}
	return f.did
}
