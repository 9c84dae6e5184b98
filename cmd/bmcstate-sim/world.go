package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// world is what the flags say about the server and the admission.
type world struct {
	sim.Options
	crashAt    string
	crashEvery *float64
	boot       *string

	depth, share, historyMax             *int
	pendingTTL, historyTTL, repeatWindow *float64
}

// worldFlags defines the flags of the world: without any it is the paper's.
func worldFlags(f *flags) *world {
	w := &world{Options: sim.Paper(state.FIFODedup)}
	times := []struct {
		name  string
		field *float64
		what  string
	}{
		{"on", &w.Durations.On, "u that a power-on takes"},
		{"off", &w.Durations.Off, "u that a graceful off takes"},
		{"reboot", &w.Durations.Reboot, "u that a reboot takes, its off included"},
		{"cut", &w.Durations.Cut, "u that a forced off takes"},
		{"cycle", &w.Durations.Cycle, "u that a power cycle takes, its off included"},
		{"warm", &w.Durations.Warm, "u that a graceful warm reboot takes"},
		{"reset", &w.Durations.Reset, "u that a reset takes"},
		{"unknown-after", &w.UnknownAfter, "u from the launch after which an unconfirmed request is UNKNOWN"},
		{"reconcile", &w.Reconcile, "u that the reconciliation of an UNKNOWN request takes"},
		{"down", &w.Down, "u from a crash to the restart"},
	}
	for _, t := range times {
		value := f.number(t.name, *t.field, 0, t.what)
		f.checks = append(f.checks, func() error { *t.field = *value; return nil })
	}
	w.depth = f.count("depth", "requests that may wait")
	w.share = f.count("share", "requests of one uid that may wait")
	w.historyMax = f.count("history-max", "records that are kept")
	w.pendingTTL = f.number("pending-ttl", 0, 0, "u after which a waiting request expires; 0 = never")
	w.historyTTL = f.number("history-ttl", 0, 0, "u that a finished key is remembered; 0 = for ever")
	w.repeatWindow = f.number("repeat-window", 600, 0, "u in which a finished record is not evicted")
	f.BoolVar(&w.Overtaking, "overtaking", false, "let forced and emergency requests overtake, as the daemon does")
	f.BoolVar(&w.Queue.RetryInvalid, "retry-after-invalid", false, "judge the repeat of a key that ended INVALID again")
	f.BoolVar(&w.RebootWhenOff, "reboot-when-off", false, "let a reboot of a server that is off power it on")
	f.StringVar(&w.crashAt, "crash-at", "", "u at which the daemon dies, several with commas between")
	w.crashEvery = f.number("crash-every", 0, 0, "u between crashes of the daemon; 0 = none")
	w.boot = f.String("crash-boot", "same", "same or other: whether a crash takes the BMC's boot with it")
	f.BoolVar(&w.NoJournal, "no-journal", false, "lose the queue and the history with a crash")
	return w
}

// options returns the world for a policy and a trace.
func (w *world) options(p state.Policy, t *trace.Trace) (sim.Options, error) {
	o := w.Options
	o.Queue.Policy = p
	o.Queue.DepthLimit, o.Queue.Share, o.Queue.HistoryMax = limit(*w.depth), limit(*w.share), limit(*w.historyMax)
	o.Queue.PendingTTL, o.Queue.HistoryTTL = lifetime(*w.pendingTTL), lifetime(*w.historyTTL)
	o.Queue.RepeatWindow = lifetime(*w.repeatWindow)
	if *w.boot != "same" && *w.boot != "other" {
		return o, bad("--crash-boot", *w.boot, "allowed is same or other")
	}
	o.OtherBoot = *w.boot == "other"
	var err error
	o.Crashes, err = w.crashes(t)
	return o, err
}

// limit turns the command line's 0 for "unlimited" into the queue's.
func limit(n int) int {
	if n == 0 {
		return queue.Unlimited
	}
	return n
}

func lifetime(u float64) time.Duration {
	if u == 0 {
		return queue.Unlimited
	}
	return time.Duration(u * float64(time.Second))
}

// crashes returns when the daemon dies: at the given times, or regularly up to
// the last arrival.
func (w *world) crashes(t *trace.Trace) ([]float64, error) {
	if w.crashAt != "" && *w.crashEvery > 0 {
		return nil, bad("--crash-every", strconv.FormatFloat(*w.crashEvery, 'g', -1, 64), "allowed is one of --crash-at and --crash-every")
	}
	if w.crashAt == "" {
		return regular(*w.crashEvery, t.Deliveries[len(t.Deliveries)-1].At)
	}
	var out []float64
	for _, part := range strings.Split(w.crashAt, ",") {
		at, err := strconv.ParseFloat(part, 64)
		if err != nil || !(at >= 0 && at <= 1e9) || len(out) > 0 && at <= out[len(out)-1] {
			return nil, bad("--crash-at", part, "allowed are numbers of u from 0 to 1e9, rising")
		}
		out = append(out, at)
	}
	return out, nil
}

// maxCrashes keeps a typing error from filling the memory.
const maxCrashes = 1_000_000

func regular(every, last float64) ([]float64, error) {
	if every == 0 {
		return nil, nil
	}
	if last/every > maxCrashes {
		return nil, bad("--crash-every", strconv.FormatFloat(every, 'g', -1, 64), "that gives more than a million crashes: allowed is a longer time")
	}
	var out []float64
	for i := 1; float64(i)*every <= last; i++ {
		out = append(out, float64(i)*every)
	}
	return out, nil
}
