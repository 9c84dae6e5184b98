package sim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
)

func TestProgressWithinARun(t *testing.T) {
	traffic := trace.Paper(0.1, 0, 0, 1)
	traffic.Requests = 10_000
	var shares []float64
	_, err := sim.Watch(trace.Generate(traffic), sim.Paper(state.FIFO), sim.Observer{
		Progress: func(share float64) { shares = append(shares, share) },
	})
	require.NoError(t, err)
	require.Len(t, shares, 2)
	assert.InDelta(t, 0.41, shares[0], 0.01)
	assert.InDelta(t, 0.82, shares[1], 0.01)
}

func TestProgressIsToldEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shares []float64
		tr := trace.Generate(trace.Paper(0.1, 0, 0, 1))
		stop := sim.Report(tr, 4, 2500, func(share float64) { shares = append(shares, share) })
		time.Sleep(2500 * time.Millisecond)
		stop()
		assert.Equal(t, []float64{0.625, 0.625}, shares)
	})
}

func TestBatchOfOneTrace(t *testing.T) {
	tr := trace.Generate(trace.Paper(0.2, 0.3, 0, 1000))
	out, err := sim.Batch(context.Background(), []sim.Task{
		{Trace: tr, Worlds: []sim.Options{sim.Paper(state.FIFO), sim.Paper(state.FIFODedup)}},
	}, 0, nil)
	require.NoError(t, err)
	assert.Equal(t, 200, out[0][0].Launches)
	assert.Equal(t, 159, out[0][1].Launches)
}
