// Package paper repeats the published experiment on the same random stream and
// compares the outcome with every figure that the article prints.
package paper

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
)

// The seeds of the article.
const (
	FirstSeed = 1000
	Seeds     = 50
)

// Config is one traffic of the experiment.
type Config struct {
	Name         string
	Lambda, P, F float64
}

// Configs are the four scenarios, then the sweep over lambda.
func Configs() []Config {
	configs := []Config{{"S0", 0.02, 0, 0}, {"S1", 0.02, 0.30, 0}, {"S2", 0.20, 0.30, 0}, {"S3", 0.10, 0.30, 0.05}}
	for _, lambda := range []float64{0.01, 0.02, 0.05, 0.10, 0.20, 0.40} {
		configs = append(configs, Config{fmt.Sprintf("L%.2f", lambda), lambda, 0.30, 0})
	}
	return configs
}

// Policies are the four, in the order of the tables.
func Policies() []state.Policy {
	return []state.Policy{state.Check, state.Dedup, state.FIFO, state.FIFODedup}
}

// Runs are all results of one experiment.
type Runs struct {
	byName map[string]map[state.Policy][]sim.Result // by seed
}

// Run runs configs under the four policies for seeds first to first+n-1.
func Run(ctx context.Context, configs []Config, first uint64, n, workers int, progress sim.Progress) (*Runs, error) {
	var worlds []sim.Options
	for _, p := range Policies() {
		worlds = append(worlds, sim.Paper(p))
	}
	var tasks []sim.Task
	for _, c := range configs {
		for i := range n {
			tasks = append(tasks, sim.Task{Params: trace.Paper(c.Lambda, c.P, c.F, first+uint64(i)), Worlds: worlds})
		}
	}
	results, err := sim.Batch(ctx, tasks, workers, progress)
	if err != nil {
		return nil, err
	}
	runs := &Runs{byName: map[string]map[state.Policy][]sim.Result{}}
	for i, c := range configs {
		byPolicy := map[state.Policy][]sim.Result{}
		for _, seed := range results[i*n : (i+1)*n] {
			for j, p := range Policies() {
				byPolicy[p] = append(byPolicy[p], seed[j])
			}
		}
		runs.byName[c.Name] = byPolicy
	}
	return runs, nil
}

// Results returns the runs of a configuration under a policy, by seed.
func (r *Runs) Results(config string, p state.Policy) []sim.Result { return r.byName[config][p] }

// Metric is one measured figure of a run.
type Metric struct {
	Name string // with its unit
	Of   func(sim.Result) float64
}

// The metrics of the article.
var (
	S     = Metric{"S %", func(r sim.Result) float64 { return r.S }}
	E     = Metric{"E /100", func(r sim.Result) float64 { return r.E }}
	L     = Metric{"L u", func(r sim.Result) float64 { return r.L }}
	B     = Metric{"B %", func(r sim.Result) float64 { return r.B }}
	Queue = Metric{"max queue", func(r sim.Result) float64 { return float64(r.MaxQueue) }}
)

// Metrics are all of them, in the order of the tables.
func Metrics() []Metric { return []Metric{S, E, L, B, Queue} }

// Mean is a mean over runs and half the width of its 95 % interval.
type Mean struct{ Value, Half float64 }

// meanOf returns the mean of xs and its approximate interval,
// 1.96 standard errors to each side.
func meanOf(xs []float64) Mean {
	mean, sd := stat.MeanStdDev(xs, nil)
	if len(xs) < 2 {
		sd = 0
	}
	return Mean{mean, 1.96 * sd / math.Sqrt(float64(len(xs)))}
}

// MeanOf returns the mean of a metric over runs.
func MeanOf(results []sim.Result, m Metric) Mean {
	xs := make([]float64, len(results))
	for i, r := range results {
		xs[i] = m.Of(r)
	}
	return meanOf(xs)
}

// Mean returns the mean of a metric over the seeds.
func (r *Runs) Mean(config string, p state.Policy, m Metric) Mean {
	return MeanOf(r.Results(config, p), m)
}

// LatencyDifference returns the mean over the seeds of FIFO_DEDUP's L less
// FIFO's, run by run.
func (r *Runs) LatencyDifference(config string) Mean {
	with, without := r.Results(config, state.FIFODedup), r.Results(config, state.FIFO)
	xs := make([]float64, len(with))
	for i := range with {
		xs[i] = with[i].L - without[i].L
	}
	return meanOf(xs)
}
