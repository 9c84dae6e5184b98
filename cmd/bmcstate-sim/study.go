package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/paper"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
)

// variant is one world of a study and its name.
type variant struct {
	name string
	sim.Options
}

// study measures one question on one traffic.
type study struct {
	title    string
	traffic  func(seed uint64) trace.Params
	variants []variant
	columns  []paper.Metric
}

func runStudy(ctx context.Context, e *env, args []string) error {
	f := newFlags(e, "study")
	workers := f.workers()
	if err := f.parse(args); err != nil {
		return err
	}
	for i, s := range studies() {
		if i > 0 {
			fmt.Fprintln(e.out)
		}
		if err := s.write(ctx, e.out, *workers, e.progress); err != nil {
			return err
		}
	}
	return nil
}

// write runs the study on the paper's seeds and writes a Markdown table.
func (s study) write(ctx context.Context, w io.Writer, workers int, progress sim.Progress) error {
	var worlds []sim.Options
	for _, v := range s.variants {
		worlds = append(worlds, v.Options)
	}
	var tasks []sim.Task
	for i := range paper.Seeds {
		tasks = append(tasks, sim.Task{Params: s.traffic(paper.FirstSeed + uint64(i)), Worlds: worlds})
	}
	results, err := sim.Batch(ctx, tasks, workers, progress)
	if err != nil {
		return err
	}
	header, rule := "| "+s.title+" |", "|---|"
	for _, c := range s.columns {
		header += " " + c.Name + " |"
		rule += "---|"
	}
	fmt.Fprintln(w, header)
	fmt.Fprintln(w, rule)
	for i, v := range s.variants {
		var runs []sim.Result
		for _, seed := range results {
			runs = append(runs, seed[i])
		}
		row := "| " + v.name + " |"
		for _, c := range s.columns {
			mean := paper.MeanOf(runs, c)
			row += fmt.Sprintf(" %.2f ±%.2f |", mean.Value, mean.Half)
		}
		if _, err := fmt.Fprintln(w, row); err != nil {
			return err
		}
	}
	return nil
}

// Further columns of the studies.
var (
	full       = paper.Metric{Name: "Full %", Of: func(r sim.Result) float64 { return 100 * float64(r.Full) / float64(r.Deliveries) }}
	superseded = perKey("superseded /100", func(r sim.Result) int { return r.Ended.Superseded })
	expired    = perKey("expired /100", func(r sim.Result) int { return r.Ended.Expired })
	unproven   = perKey("interrupted /100", func(r sim.Result) int { return r.Ended.Interrupted })
	lost       = perKey("lost /100", func(r sim.Result) int { return r.Lost })
	urgentL    = paper.Metric{Name: "L urgent u", Of: func(r sim.Result) float64 { return r.LUrgent }}
	launches   = perKey("launches /100", func(r sim.Result) int { return r.Launches })
)

func perKey(name string, of func(sim.Result) int) paper.Metric {
	return paper.Metric{Name: name, Of: func(r sim.Result) float64 { return 100 * float64(of(r)) / float64(r.Keys) }}
}

func paperTraffic(lambda float64) func(uint64) trace.Params {
	return func(seed uint64) trace.Params { return trace.Paper(lambda, 0.3, 0, seed) }
}

// urgentTraffic is the paper's S2 with every other OFF a Chassis Off and every other
// REBOOT a power cycle.
func urgentTraffic(seed uint64) trace.Params {
	p := trace.Paper(0.2, 0.3, 0, seed)
	p.Mix = []trace.Share{
		{Op: state.HostOn, Weight: 0.3}, {Op: state.HostOff, Weight: 0.15}, {Op: state.ChassisOff, Weight: 0.15},
		{Op: state.HostReboot, Weight: 0.2}, {Op: state.ChassisPowerCycle, Weight: 0.2},
	}
	return p
}

// studies are the questions that the article leaves open.
func studies() []study {
	base := append(paper.Metrics()[:4:4], paper.Queue)
	return []study{
		{"bound of the queue, FIFO_DEDUP, S2 (λ 0.20)", paperTraffic(0.2), depths(), append(base[:5:5], full)},
		{"bound of the queue, FIFO_DEDUP, λ 0.40", paperTraffic(0.4), depths(), append(base[:5:5], full)},
		{"lifetime of a waiting request, FIFO_DEDUP, λ 0.40", paperTraffic(0.4), lifetimes(), append(base[:5:5], expired)},
		{"overtaking, S2 with urgent requests", urgentTraffic, overtaking(), append(base[:5:5], urgentL, superseded)},
		{"repeat after INVALID, S2", paperTraffic(0.2), retries(), append(base[:5:5], launches)},
		{"a crash every 100 u, 5 u down, S2", paperTraffic(0.2), crashes(), append(base[:5:5], lost, expired, unproven)},
	}
}

// with returns the paper's world under a policy with a change.
func with(name string, p state.Policy, change func(*sim.Options)) variant {
	o := sim.Paper(p)
	change(&o)
	return variant{name, o}
}

func depths() []variant {
	var out []variant
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		out = append(out, with(fmt.Sprint(n), state.FIFODedup, func(o *sim.Options) { o.Queue.DepthLimit = n }))
	}
	return append(out,
		with("none (as published)", state.FIFODedup, func(*sim.Options) {}),
		with("for comparison: DEDUP", state.Dedup, func(*sim.Options) {}))
}

func lifetimes() []variant {
	var out []variant
	for _, u := range []int{5, 10, 20, 40, 80} {
		out = append(out, with(fmt.Sprintf("%d u", u), state.FIFODedup, func(o *sim.Options) {
			o.Queue.PendingTTL = time.Duration(u) * time.Second
		}))
	}
	return append(out, with("no end (as published)", state.FIFODedup, func(*sim.Options) {}))
}

func overtaking() []variant {
	var out []variant
	for _, p := range []state.Policy{state.FIFO, state.FIFODedup} {
		out = append(out,
			with(p.String()+", off", p, func(*sim.Options) {}),
			with(p.String()+", on (the daemon)", p, func(o *sim.Options) { o.Overtaking = true }))
	}
	return out
}

func retries() []variant {
	return []variant{
		with("FIFO_DEDUP, stored (as published)", state.FIFODedup, func(*sim.Options) {}),
		with("FIFO_DEDUP, retry", state.FIFODedup, func(o *sim.Options) { o.Queue.RetryInvalid = true }),
		with("FIFO_DEDUP, a reboot of a server that is off powers it on", state.FIFODedup, func(o *sim.Options) { o.RebootWhenOff = true }),
		with("FIFO, for comparison", state.FIFO, func(*sim.Options) {}),
	}
}

func crashes() []variant {
	crash := func(o *sim.Options) {
		o.Down = 5
		for at := 100.0; at < 3000; at += 100 {
			o.Crashes = append(o.Crashes, at)
		}
	}
	var out []variant
	for _, p := range []state.Policy{state.Dedup, state.FIFODedup} {
		out = append(out,
			with(p.String()+", no crash", p, func(*sim.Options) {}),
			with(p.String()+", journal, same boot", p, crash),
			with(p.String()+", journal, other boot", p, func(o *sim.Options) { crash(o); o.OtherBoot = true }),
			with(p.String()+", history in memory only", p, func(o *sim.Options) { crash(o); o.NoJournal = true }))
	}
	return out
}
