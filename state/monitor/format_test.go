package monitor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// olderSnapshot has every field set; testdata/snapshot-v1.json is what version 1
// made of it when this test was written.
func olderSnapshot() monitor.Snapshot {
	mark := monitor.Mark{At: 2 * time.Second, Window: time.Second}
	return monitor.Snapshot{Version: 1, BootID: "a", At: time.Minute, Resources: []monitor.ResourceSnapshot{{
		Name: "unit", OperatorOff: true, Absent: true, Suspensions: []monitor.Suspension{{Owner: "me", Until: time.Hour}},
		Failures: []monitor.Failure{{Mark: mark, Weight: 60, Cause: 1, Elapsed: time.Millisecond}}, Restarts: []monitor.Mark{mark},
		FlapMarks: []time.Duration{time.Second}, Flapping: true, Frozen: time.Second, RestartSince: 3 * time.Second, InFlight: true,
		Ended: true, Quiesced: true, QuiesceDone: true, EscalateKind: monitor.EscalateFailover, Denials: 1, DeniedAt: time.Second,
		Generation: 7, Invocation: "i", Dead: "d", Step: 1, Stable: time.Second, Status: monitor.StatusFaulted, Message: "m",
		LastFailure: time.Second, Decision: 1, Decided: true, Ill: true, Bad: true, NextThorough: time.Second,
		GraceUntil: time.Second, OffSign: time.Second, OffWhat: "w",
		Records: []monitor.Record{{At: time.Second, Decision: 1, Status: 60, Sum: 60, Restarts: 1, Text: "t"}},
	}}}
}

func older(t *testing.T) string {
	data, err := os.ReadFile("testdata/snapshot-v1.json")
	require.NoError(t, err)
	return strings.TrimSpace(string(data))
}

// A snapshot of version 1 is read (upgrade), still written byte for byte
// (downgrade), and may have fields that this program does not know.
func TestSnapshotOfTheVersion(t *testing.T) {
	text := older(t)
	assert.Equal(t, text, string(jsonpos.Marshal(olderSnapshot())), "raise snapshotVersion, and go on reading the sample")
	for name, data := range map[string]string{
		"older":        text,
		"newer fields": strings.Replace(strings.Replace(text, `"name"`, `"new":[{"x":null}],"name"`, 1), `"version"`, `"more":{},"version"`, 1),
	} {
		var s monitor.Snapshot
		require.NoError(t, jsonpos.Unmarshal([]byte(data), &s), name)
		assert.Equal(t, olderSnapshot(), s, name)
		f := newFleet(t, monitor.Limits{}, base())
		_, err := f.mon.Restore(f.instant(), "b", s)
		require.NoError(t, err, name)
		assert.Equal(t, monitor.StatusOffline, f.view("unit").Status, name)
	}
}

// What the sample lacks has its zero value, and what an operator has wished
// counts all the same.
func TestSnapshotWithFieldsMissing(t *testing.T) {
	for _, boot := range []string{"a", "b"} {
		var s monitor.Snapshot
		require.NoError(t, jsonpos.Unmarshal([]byte(`{"version":1,"bootId":"a","resources":[{"name":"unit","operatorOff":true},{}]}`), &s))
		f := newFleet(t, monitor.Limits{}, base())
		_, err := f.mon.Restore(f.instant(), boot, s)
		require.NoError(t, err)
		f.step("unit", monitor.Died{})
		assert.Empty(t, f.restarts, boot)
	}
}
