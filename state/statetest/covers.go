package statetest

import (
	"strings"
	"testing"
)

// Covers says which rows of dbus/scenarios/COVERAGE.md a test covers. It counts
// only where the test was run to its end and passed: make test reads it from the
// test's output.
func Covers(t testing.TB, rows ...string) {
	t.Helper()
	t.Log("covers: " + strings.Join(rows, " "))
}
