package trace_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
)

// paperTraces are the two reference traces, recorded from the paper's stream.
var paperTraces = map[string]trace.Params{
	"trace_S2_seed1000.csv": trace.Paper(0.20, 0.30, 0, 1000),
	"trace_S3_seed1000.csv": trace.Paper(0.10, 0.30, 0.05, 1000),
}

func TestReferenceTracesRecordByRecord(t *testing.T) {
	for name, params := range paperTraces {
		want := read(t, "../../testdata/"+name)
		got := trace.Generate(params)
		require.Len(t, want.Deliveries, 397)
		require.Len(t, got.Deliveries, 397)
		assert.Equal(t, want.Intents, got.Intents)
		for i, d := range got.Deliveries {
			w := want.Deliveries[i]
			assert.InDelta(t, w.At, d.At, 1e-9, "record %d", i)
			w.At, w.Intent, d.At, d.Intent = 0, 0, 0, 0
			assert.Equal(t, w, d, "record %d", i)
		}
	}
}

// TestStream compares all 50 traces of S2 by their digest.
func TestStream(t *testing.T) {
	h := sha256.New()
	for seed := uint64(1000); seed < 1050; seed++ {
		for _, d := range trace.Generate(trace.Paper(0.20, 0.30, 0, seed)).Deliveries {
			op := map[string]string{"Host On": "ON", "Host Off": "OFF", "Host Reboot": "REBOOT"}[d.Op.String()]
			fmt.Fprintf(h, "%.6f,%s,%s,%s,%d,%d\n", d.At, d.Key.Client, d.Key.Request, op, bit(d.Repeat), bit(d.Delayed))
		}
	}
	assert.Equal(t, "ad18f36ff80acf7b0450f06d4f85c6ad00d37e26e2bf24a312fc626ce6c45c52", hex.EncodeToString(h.Sum(nil)))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func read(t *testing.T, file string) *trace.Trace {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	tr, err := trace.Read(file, f)
	require.NoError(t, err)
	return tr
}
