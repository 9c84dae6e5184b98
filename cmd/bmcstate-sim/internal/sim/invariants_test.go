package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
)

func mustRun(t require.TestingT, p trace.Params, o sim.Options) sim.Result {
	r, err := sim.Run(trace.Generate(p), o)
	require.NoError(t, err)
	return r
}

// TestPaperInvariants are those of the admission model, section 8, on any seed.
func TestPaperInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		lambda := rapid.Float64Range(0.005, 1).Draw(t, "lambda")
		p, f := rapid.Float64Range(0, 1).Draw(t, "p"), rapid.Float64Range(0, 1).Draw(t, "f")
		traffic := trace.Paper(lambda, p, f, seed)
		by := map[state.Policy]sim.Result{}
		for _, policy := range []state.Policy{state.Check, state.Dedup, state.FIFO, state.FIFODedup} {
			by[policy] = mustRun(t, traffic, sim.Paper(policy))
		}

		require.Zero(t, by[state.Dedup].E)
		require.Zero(t, by[state.FIFODedup].E)
		require.Zero(t, by[state.FIFO].B)
		require.Zero(t, by[state.FIFODedup].B)
		require.Zero(t, by[state.Check].MaxQueue)
		require.Zero(t, by[state.Dedup].MaxQueue)

		// FIFO_DEDUP's S depends on the operations alone.
		plain := mustRun(t, trace.Paper(0.02, 0, 0, seed), sim.Paper(state.FIFODedup))
		require.Equal(t, plain.S, by[state.FIFODedup].S)

		// FIFO's S and E depend on the order of the deliveries, not on durations.
		undelayed := traffic
		undelayed.F = 0
		quick := sim.Paper(state.FIFO)
		quick.Durations = sim.Durations{On: 0.1, Off: 0.1, Reboot: 0.1}
		for _, o := range []sim.Options{sim.Paper(state.FIFO), quick} {
			r := mustRun(t, undelayed, o)
			require.Equal(t, by[state.FIFO].S, r.S)
			require.Equal(t, by[state.FIFO].E, r.E)
		}

		// Without repeats a history changes nothing.
		once := traffic
		once.P = 0
		for _, pair := range [][2]state.Policy{{state.Check, state.Dedup}, {state.FIFO, state.FIFODedup}} {
			require.Equal(t, mustRun(t, once, sim.Paper(pair[0])), mustRun(t, once, sim.Paper(pair[1])))
		}
	})
}

// TestDrawsAreUnconditional: f and p move neither arrivals nor operations.
func TestDrawsAreUnconditional(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		probability := rapid.Float64Range(0, 1)
		a := originals(trace.Paper(0.2, probability.Draw(t, "p"), probability.Draw(t, "f"), seed))
		require.Equal(t, originals(trace.Paper(0.2, 0, 0, seed)), a)
	})
}

func originals(p trace.Params) (out []trace.Delivery) {
	for _, d := range trace.Generate(p).Deliveries {
		if !d.Repeat {
			d.Delayed = false
			out = append(out, d)
		}
	}
	return out
}
