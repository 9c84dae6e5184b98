package faults_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// Case 32: the restart after a death fails, the escalation is refused, and a last
// local restart follows at once.
func TestCase32RestartFailsAndEscalationIsRefused(t *testing.T) {
	double, l, sc := bed(t, func(o *faults.Options) {
		c := &o.Resources[0].Config
		c.Escalation, c.Target, c.Mode = monitor.EscalateUnit, "rescue.target", monitor.ModeSoft
	})
	probeNoMore(l)
	double.Script("rescue.target", systemdtest.Script{Refuse: "org.freedesktop.systemd1.UnitMasked"})
	double.Script(webserver, systemdtest.Script{Result: "failed"})
	kill(double)
	sc.await(t, webserver, "given up", func(v monitor.View) bool { return v.LastDecision == "RESTART_FAILED" })
	assert.Len(t, double.Calls("RestartUnit"), 2, "the one for the death, and the local one")
	assert.Len(t, double.Calls("StartUnit"), 1)
	v := inspect(l, (*monitor.Resource).View)
	assert.Equal(t, monitor.StatusFaulted, v.Status)
	assert.EqualValues(t, 1, v.RefusedEscalations)
}

// Case 33: a unit that dies while it is probed, where the probe fails, too, has
// failed once.
func TestCase33DeathDuringAProbe(t *testing.T) {
	var dying atomic.Bool
	probing, answer := make(chan struct{}, 10), make(chan int)
	double, l, sc := bed(t, func(o *faults.Options) {
		o.Resources[0].Probe = faults.ProbeFunc(func(context.Context, bool) faults.Result {
			if !dying.Load() {
				return faults.Result{}
			}
			probing <- struct{}{}
			select {
			case s := <-answer:
				return faults.Result{Status: s}
			case <-t.Context().Done():
				return faults.Result{}
			}
		})
	})
	dying.Store(true)
	<-probing
	kill(double)
	sc.await(t, webserver, "restarted", func(v monitor.View) bool { return v.LastDecision == "RESTARTED" })
	dying.Store(false)
	answer <- 100
	sc.await(t, webserver, "OK after the restart", func(v monitor.View) bool {
		return v.Status == monitor.StatusOK && v.RestartsInInterval == 1
	})
	c := inspect(l, (*monitor.Resource).Counters)
	assert.EqualValues(t, 1, c.Failures[monitor.CauseDeath]+c.Failures[monitor.CauseProbe])
	assert.Len(t, double.Calls("RestartUnit"), 1)
}

// Case 56: good probes tell nothing new, and nothing is told.
func TestCase56GoodProbesAreSilent(t *testing.T) {
	cfg := quick("svc")
	cfg.ThoroughProbe = time.Hour
	l, sc, _ := start(t, faults.Options{Resources: []faults.Resource{{Config: cfg,
		Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result { return faults.Result{} })}}})
	probed := func() uint64 {
		got := make(chan uint64)
		l.Inspect("svc", func(r *monitor.Resource) { got <- r.Counters().Probes })
		return <-got
	}
	l.Tell("svc", monitor.ProbeNow{}, nil)
	sc.awaitStatus(t, "svc", monitor.StatusOK)
	shown := len(sc.all("svc"))
	for probed() < 101 {
		l.Tell("svc", monitor.ProbeNow{}, nil)
	}
	assert.Len(t, sc.all("svc"), shown)
}

// Case 61: of twenty units that fail at once no more are restarted side by side
// than are allowed.
func TestCase61ManyAtOnce(t *testing.T) {
	const all, parallel = 20, 3
	address := systemdtest.StartBus(t)
	double := systemdtest.Start(t, address)
	units := systemd.Open(systemd.Options{Address: address})
	t.Cleanup(units.Close)
	o := faults.Options{Units: units, Limits: monitor.Limits{Parallel: parallel}}
	var names []string
	for i := range all {
		name := fmt.Sprintf("s%d.service", i)
		names = append(names, name)
		double.SetActive(name, "active")
		double.Script(name, systemdtest.Script{Unfinished: true})
		cfg := quick(name)
		cfg.ThoroughProbe = 100 * time.Millisecond
		cfg.Backoff = monitor.Backoff{Min: time.Millisecond, Max: time.Millisecond, Factor: 1, Jitter: 0.2}
		o.Resources = append(o.Resources, faults.Resource{Config: cfg, Unit: name})
	}
	_, sc, _ := start(t, o)
	for _, name := range names {
		sc.awaitStatus(t, name, monitor.StatusOK)
	}
	for _, name := range names {
		double.Change(name, func(u *systemdtest.Unit) { u.Active, u.Result = "failed", "signal" })
	}
	for done := 0; done < all; done++ {
		want := min(all, done+parallel)
		calls := double.WaitCalls("RestartUnit", want)
		require.Len(t, calls, want, "%d have ended", done)
		unit := calls[done].Unit
		require.Eventually(t, func() bool { return double.Job(unit) != 0 }, patience, time.Millisecond)
		double.Finish(double.Job(unit), "done")
	}
}
