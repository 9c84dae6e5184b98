package sim_test

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
)

// tolerance is for the last bit of math.Log, which differs between languages.
const tolerance = 1e-6

// rows reads a reference file as one map per row.
func rows(t *testing.T, file string) []map[string]string {
	t.Helper()
	f, err := os.Open("../../testdata/" + file)
	require.NoError(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	var out []map[string]string
	for _, row := range all[1:] {
		m := map[string]string{}
		for i, name := range all[0] {
			m[name] = row[i]
		}
		out = append(out, m)
	}
	return out
}

func number(t *testing.T, row map[string]string, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(row[name], 64)
	require.NoError(t, err, name)
	return v
}

func compare(t *testing.T, row map[string]string, got sim.Result) {
	t.Helper()
	assert.InDelta(t, number(t, row, "S_pct"), got.S, tolerance, "S %v", row)
	assert.InDelta(t, number(t, row, "E_per100"), got.E, tolerance, "E %v", row)
	assert.InDelta(t, number(t, row, "L_u"), got.L, tolerance, "L %v", row)
	assert.InDelta(t, number(t, row, "B_pct"), got.B, tolerance, "B %v", row)
	assert.Equal(t, number(t, row, "max_queue"), float64(got.MaxQueue), "queue %v", row)
}

func TestExpectedRuns(t *testing.T) {
	all := rows(t, "expected_runs.csv")
	require.Len(t, all, 500)
	for _, row := range all {
		p, err := state.ParsePolicy(row["policy"])
		require.NoError(t, err)
		tr := trace.Generate(trace.Paper(number(t, row, "lambda"), number(t, row, "p"), number(t, row, "f"), uint64(number(t, row, "seed"))))
		got, err := sim.Run(tr, sim.Paper(p))
		require.NoError(t, err)
		compare(t, row, got)
	}
}

func TestSeed1000(t *testing.T) {
	for _, s := range []string{"S2", "S3"} {
		f, err := os.Open("../../testdata/trace_" + s + "_seed1000.csv")
		require.NoError(t, err)
		defer f.Close()
		tr, err := trace.Read(f.Name(), f)
		require.NoError(t, err)
		for _, row := range rows(t, "expected_"+s+"_seed1000.csv") {
			p, err := state.ParsePolicy(row["policy"])
			require.NoError(t, err)
			got, err := sim.Run(tr, sim.Paper(p))
			require.NoError(t, err)
			compare(t, row, got)
			for name, n := range map[string]int{
				"launches": got.Launches, "successes": got.Successes, "noop_ok": got.NoopOK,
				"busy": got.Busy, "deliveries": got.Deliveries,
			} {
				assert.Equal(t, row[name], strconv.Itoa(n), "%s %s %v", s, name, p)
			}
		}
	}
}
