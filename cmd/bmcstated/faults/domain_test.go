package faults_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// power is an engine that answers internal requests as a test wants.
type power struct {
	mu     sync.Mutex
	asked  []engine.Internal
	cancel []uint64
	answer []engine.Answer
	news   chan struct{}
}

func (p *power) post(ev engine.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case engine.Internal:
		p.asked = append(p.asked, ev)
		for _, a := range p.answer {
			ev.Follow(a)
		}
	case engine.Cancel:
		p.cancel = append(p.cancel, ev.Seq)
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *power) requests() []engine.Internal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]engine.Internal(nil), p.asked...)
}

func (p *power) cancelled() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]uint64(nil), p.cancel...)
}

func answers(statuses ...state.Status) (all []engine.Answer) {
	for _, s := range statuses {
		all = append(all, engine.Answer{Seq: 7, Status: s, Requests: []state.Request{{Status: s, Reason: "as the test says"}}})
	}
	return all
}

func refuses(code engine.Code) []engine.Answer {
	return []engine.Answer{{Err: &engine.Refusal{Code: code, Text: "refused by the test"}}}
}

// hostLoop is a loop that watches the host of domain 3, whose power is on.
func hostLoop(t *testing.T, p *power, change func(*monitor.Config)) (*faults.Loop, *screen) {
	p.news = make(chan struct{}, 1)
	cfg := quick("host")
	cfg.ThoroughProbe = time.Hour
	if change != nil {
		change(&cfg)
	}
	l, sc, _ := start(t, faults.Options{Post: p.post, Resources: []faults.Resource{{
		Config: cfg, Host: true, Domain: 3, Op: state.HostReboot,
		Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result { return faults.Result{} }),
	}}})
	l.Sign(engine.Sign{Domain: 3, Kind: engine.SignPower, On: true})
	l.Sign(engine.Sign{Domain: 3, Kind: engine.SignIntent, Intent: 5})
	l.Tell("host", monitor.ProbeNow{}, nil)
	sc.awaitStatus(t, "host", monitor.StatusOK)
	return l, sc
}

func lose(l *faults.Loop) { l.Sign(engine.Sign{Domain: 3, Kind: engine.SignPower, Intent: 5}) }

func TestRestartOfAHost(t *testing.T) {
	for name, c := range map[string]struct {
		answer   []engine.Answer
		status   monitor.Status
		outcome  monitor.RestartOutcome
		restarts uint32
		message  string
	}{
		"done":        {answers(state.Pending, state.Running, state.Success), monitor.StatusDegraded, monitor.RestartOK, 1, "restarted"},
		"so already":  {answers(state.Noop), monitor.StatusDegraded, monitor.RestartOK, 1, "restarted"},
		"failed":      {answers(state.Running, state.Failed), monitor.StatusFaulted, monitor.RestartFailed, 1, "Failed: as the test says"},
		"cancelled":   {answers(state.Cancelled), monitor.StatusDegraded, monitor.RestartCancelled, 0, "cancelled"},
		"superseded":  {answers(state.Running, state.Superseded), monitor.StatusDegraded, monitor.RestartCancelled, 0, "cancelled"},
		"no room":     {refuses(engine.CodeFull), monitor.StatusDegraded, monitor.RestartPostponed, 0, "room in the queue"},
		"busy":        {refuses(engine.CodeBusy), monitor.StatusDegraded, monitor.RestartPostponed, 0, "room in the queue"},
		"a gate":      {refuses(engine.CodeUnavailable), monitor.StatusDegraded, monitor.RestartPostponed, 0, "waiting for refused by the test"},
		"not Ready":   {refuses(engine.CodeBMCNotReady), monitor.StatusDegraded, monitor.RestartPostponed, 0, "waiting for refused by the test"},
		"no attempts": {refuses(engine.CodeNotAllowed), monitor.StatusFaulted, monitor.RestartFailed, 1, "refused by the test"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &power{answer: c.answer}
			l, sc := hostLoop(t, p, nil)
			lose(l)
			v := sc.await(t, "host", c.message, func(v monitor.View) bool { return strings.Contains(v.Message, c.message) })
			assert.Equal(t, c.status, v.Status)
			assert.Equal(t, c.restarts, v.RestartsInInterval)
			asked := p.requests()
			require.Len(t, asked, 1)
			assert.Equal(t, state.HostReboot, asked[0].Op)
			assert.Equal(t, 3, asked[0].Domain)
			assert.EqualValues(t, 5, asked[0].Intent)
			got := make(chan monitor.Counters)
			l.Inspect("host", func(r *monitor.Resource) { got <- r.Counters() })
			assert.EqualValues(t, 1, (<-got).Restarts[c.outcome])
		})
	}
}

// A restart that an operator's Off ends is withdrawn from the queue, also where
// its number comes only later.
func TestRestartIsWithdrawn(t *testing.T) {
	for name, known := range map[string]bool{"known": true, "not answered yet": false} {
		t.Run(name, func(t *testing.T) {
			p := &power{}
			if known {
				p.answer = answers(state.Pending)
			}
			l, sc := hostLoop(t, p, nil)
			lose(l)
			require.Eventually(t, func() bool { return len(p.requests()) == 1 }, patience, time.Millisecond)
			l.Sign(engine.Sign{Domain: 3, Kind: engine.SignOperatorOff, What: "Chassis Off", Intent: 6})
			sc.awaitStatus(t, "host", monitor.StatusOffline)
			if !known {
				require.Eventually(t, func() bool { // from the moment on that its end has reached the worker
					p.requests()[0].Follow(answers(state.Pending)[0])
					return len(p.cancelled()) > 0
				}, patience, time.Millisecond)
			}
			require.Eventually(t, func() bool { return len(p.cancelled()) > 0 }, patience, time.Millisecond)
			assert.EqualValues(t, 7, p.cancelled()[0])
		})
	}
}

func TestEscalationByTransition(t *testing.T) {
	for name, c := range map[string]struct {
		answer  []engine.Answer
		message string
		denials uint32
	}{
		"launched":   {answers(state.Pending, state.Running), "gave over: transition Host Off", 0},
		"so already": {answers(state.Noop), "gave over", 0},
		"invalid":    {answers(state.Invalid), "transition refused: Invalid", 1},
		"refused":    {refuses(engine.CodeNotAllowed), "transition refused: refused by the test", 1},
		"no room":    {refuses(engine.CodeFull), "room in the queue", 0},
		"a gate":     {refuses(engine.CodeUnavailable), "waiting for refused by the test", 0},
		"not Ready":  {refuses(engine.CodeBMCNotReady), "waiting for refused by the test", 0},
		"cancelled":  {answers(state.Cancelled), "escalation cancelled", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &power{answer: c.answer}
			l, sc := hostLoop(t, p, func(cfg *monitor.Config) {
				cfg.RetryCount, cfg.Escalation, cfg.Target, cfg.Mode = 0, monitor.EscalateTransition, "Host Off", monitor.ModeSoft
			})
			lose(l)
			v := sc.await(t, "host", c.message, func(v monitor.View) bool { return strings.Contains(v.Message, c.message) })
			assert.Equal(t, c.denials, v.RefusedEscalations)
			require.NotEmpty(t, p.requests())
			assert.Equal(t, state.HostOff, p.requests()[0].Op)
		})
	}
}

func TestFailoverThatNothingHereCanAskForIsDenied(t *testing.T) {
	p := &power{}
	l, sc := hostLoop(t, p, func(cfg *monitor.Config) { cfg.RetryCount, cfg.Escalation = 0, monitor.EscalateFailover })
	lose(l)
	sc.await(t, "host", "denied", func(v monitor.View) bool { return v.RefusedEscalations == 1 })
	assert.Empty(t, p.requests())
}

// Nothing is restarted while firmware is updated: the queue would refuse it, and
// that is no failure of the host.
func TestFirmwareUpdateHoldsBack(t *testing.T) {
	p := &power{answer: answers(state.Success)}
	l, sc := hostLoop(t, p, nil)
	l.Sign(engine.Sign{Kind: engine.SignFirmware, On: true})
	lose(l)
	sc.await(t, "host", "held back", func(v monitor.View) bool { return strings.Contains(v.Message, "waiting for firmware update") })
	assert.Empty(t, p.requests())
	l.Sign(engine.Sign{Kind: engine.SignFirmware})
	sc.await(t, "host", "restarted", func(v monitor.View) bool { return v.LastDecision == "RESTARTED" })
}

func TestSignsOfOtherDomainsAreOthers(t *testing.T) {
	p := &power{}
	l, sc := hostLoop(t, p, nil)
	l.Sign(engine.Sign{Domain: 4, Kind: engine.SignPower, On: true})
	l.Sign(engine.Sign{Domain: 4, Kind: engine.SignPower})
	l.Sign(engine.Sign{Domain: 3, Kind: engine.SignOff, What: "S5", Intent: 5})
	lose(l)
	v := sc.awaitStatus(t, "host", monitor.StatusOffline)
	assert.Contains(t, v.Message, "off: S5")
	assert.Empty(t, p.requests())
}
