package paper_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/paper"
	"github.com/bmcstate/bmcstate/state"
)

// experiment runs the 2,000 runs once for all tests.
var experiment = sync.OnceValues(func() (*paper.Runs, error) {
	return paper.Run(context.Background(), paper.Configs(), paper.FirstSeed, paper.Seeds, 0, nil)
})

func all(t testing.TB) *paper.Runs {
	t.Helper()
	r, err := experiment()
	require.NoError(t, err)
	return r
}

// article are the 28 numbers of the article's text.
var article = []struct{ name, value string }{
	{"S2 CHECK S %", "52.21"},
	{"S2 DEDUP S %", "54.98"},
	{"S2 FIFO S %", "81.54"},
	{"S2 FIFO_DEDUP S %", "79.62"},
	{"S2 FIFO L u", "14.63"},
	{"S2 FIFO_DEDUP L u", "8.35"},
	{"S2 change of L, FIFO to FIFO_DEDUP %", "-42.9"},
	{"S2 FIFO max queue", "16.84"},
	{"S2 FIFO_DEDUP max queue", "8.74"},
	{"S2 difference of L, 95 % interval, low", "-7.46"},
	{"S2 difference of L, 95 % interval, high", "-5.10"},
	{"S2 FIFO_DEDUP E /100", "0.00"},
	{"S1 FIFO E /100", "6.19"},
	{"S1 FIFO_DEDUP E /100", "0.00"},
	{"S1 FIFO L u", "3.82"},
	{"S1 FIFO_DEDUP L u", "3.71"},
	{"S3 FIFO_DEDUP E /100", "0.00"},
	{"S3 FIFO_DEDUP L u", "5.55"},
	{"L0.40 FIFO L u", "175.48"},
	{"L0.40 FIFO_DEDUP L u", "71.90"},
	{"L0.40 CHECK S %", "37.95"},
	{"L0.40 DEDUP S %", "40.71"},
	{"L0.01 FIFO_DEDUP S %", "79.62"},
	{"L0.02 FIFO_DEDUP S %", "79.62"},
	{"L0.05 FIFO_DEDUP S %", "79.62"},
	{"L0.10 FIFO_DEDUP S %", "79.62"},
	{"L0.20 FIFO_DEDUP S %", "79.62"},
	{"L0.40 FIFO_DEDUP S %", "79.62"},
}

func TestFigures(t *testing.T) {
	r := all(t)
	figures := paper.Figures()
	require.Len(t, figures, len(article))
	for i, f := range figures {
		assert.Equal(t, article[i].name, f.Name)
		ours, exact := f.Compare(r)
		assert.Equal(t, article[i].value, ours, f.Name)
		assert.True(t, exact, f.Name)
		assert.InDelta(t, 0, f.Difference(r), 0.05, f.Name)
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	exact, err := paper.Report(&out, all(t))
	require.NoError(t, err)
	assert.True(t, exact)
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	assert.Equal(t, "28 of 28 EXACT", lines[len(lines)-1])
	assert.Equal(t, 28, strings.Count(out.String(), "EXACT\n")-1)
	assert.Equal(t, 25, strings.Count(out.String(), "*")-1, "cells that the text confirms")
}

func TestReportTellsADifference(t *testing.T) {
	other, err := paper.Run(context.Background(), paper.Configs(), 1, 2, 0, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	exact, err := paper.Report(&out, other)
	require.NoError(t, err)
	assert.False(t, exact)
	assert.Contains(t, out.String(), "differs by ")
	assert.NotContains(t, out.String(), "28 of 28")
}

func TestParallelismChangesNothing(t *testing.T) {
	configs := paper.Configs()[2:4]
	one, err := paper.Run(context.Background(), configs, 5000, 6, 1, nil)
	require.NoError(t, err)
	many, err := paper.Run(context.Background(), configs, 5000, 6, 5, nil)
	require.NoError(t, err)
	assert.Equal(t, one, many)
}

func TestCancelledRunFails(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := paper.Run(ctx, paper.Configs(), 1, 1, 1, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// metrics by their column of the reference files.
var metrics = map[string]paper.Metric{
	"S_pct": paper.S, "E_per100": paper.E, "L_u": paper.L, "B_pct": paper.B, "max_queue": paper.Queue,
}

// TestBands compares blocks of fresh seeds with the spread over 1000 runs. What
// has no band is zero in every run.
func TestBands(t *testing.T) {
	f, err := os.Open("../../testdata/bands.csv")
	require.NoError(t, err)
	defer f.Close()
	bands, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	configs := append(paper.Configs()[:4:4], paper.Configs()[9])
	for _, first := range []uint64{30_000, 40_000} {
		r, err := paper.Run(context.Background(), configs, first, paper.Seeds, 0, nil)
		require.NoError(t, err)
		banded := map[string]bool{}
		for _, b := range bands[1:] {
			p, err := state.ParsePolicy(b[1])
			require.NoError(t, err)
			low, err1 := strconv.ParseFloat(b[3], 64)
			high, err2 := strconv.ParseFloat(b[4], 64)
			require.NoError(t, err1)
			require.NoError(t, err2)
			got := r.Mean(b[0], p, metrics[b[2]]).Value
			assert.True(t, got >= low && got <= high, "seeds from %d: %v: got %v", first, b, got)
			banded[b[0]+b[1]+b[2]] = true
		}
		for _, c := range configs {
			for _, p := range paper.Policies() {
				for name, m := range metrics {
					if banded[c.Name+p.String()+name] {
						continue
					}
					for _, run := range r.Results(c.Name, p) {
						assert.Zero(t, m.Of(run), "%s %s %s", c.Name, p, name)
					}
				}
			}
		}
	}
}

// BenchmarkPaper prints how long the 2,000 runs take, in seconds of the wall
// clock and of all cores together (which other load does not change), and how
// many events (arrivals and ends of requests) a second brings.
func BenchmarkPaper(b *testing.B) {
	events := 0
	start, cpu := time.Now(), cpuTime(b)
	for range b.N {
		r, err := paper.Run(context.Background(), paper.Configs(), paper.FirstSeed, paper.Seeds, 0, nil)
		require.NoError(b, err)
		for _, c := range paper.Configs() {
			for _, p := range paper.Policies() {
				for _, run := range r.Results(c.Name, p) {
					events += run.Deliveries + run.Ended.Success + run.Ended.Noop + run.Ended.Invalid
				}
			}
		}
	}
	elapsed := time.Since(start).Seconds()
	b.ReportMetric(elapsed/float64(b.N), "s/2000runs")
	b.ReportMetric((cpuTime(b)-cpu)/float64(b.N), "cpu-s/2000runs")
	b.ReportMetric(float64(events)/elapsed, "events/s")
}

// cpuTime returns the seconds that this process has computed.
func cpuTime(b *testing.B) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
