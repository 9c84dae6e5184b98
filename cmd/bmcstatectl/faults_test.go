package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The real daemon watches a port; the commands show, suspend and reset it.
func TestFaults(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	m := startMachine(t, fmt.Sprintf(`{"monitor": {"resources": [{"name": "port", "mode": "LOG_ONLY",
		"thoroughProbe": "1h", "startGrace": "0s", "retryInterval": "never", "net": {"host": "127.0.0.1", "port": %d}}]}}`, port))
	shows := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			code, out, _ := m.ctl("faults")
			return code == exitOK && strings.Contains(out, what)
		}, patience, 20*time.Millisecond, what)
	}
	run := func(want int, args ...string) {
		t.Helper()
		code, _, stderr := m.ctl(append([]string{"faults"}, args...)...)
		assert.Equal(t, want, code, "%v: %s", args, stderr)
	}
	shows("UNKNOWN")
	run(exitOK, "probe", "port")
	shows("OK")
	require.NoError(t, l.Close())
	run(exitOK, "probe", "port")
	shows("FAULTED")
	run(exitOK, "suspend", "port", "--owner", "me", "--for", "1h")
	shows("suspended")
	run(exitRefused, "resume", "port", "--owner", "you")
	run(exitOK, "resume", "port", "--owner", "me")
	run(exitOK, "reset", "port")
	code, out, _ := m.ctl("faults", "history", "port")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, "WOULD_RESTART")
	assert.Contains(t, out, "histories cleared")
	run(exitUsage, "mend", "port")
	run(exitUsage, "reset")
}
