package systemd_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

func TestLogFallsBackToText(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	var out bytes.Buffer
	h := systemd.NewLogHandler(systemd.LogOptions{Fallback: &out})
	log := slog.New(h).With(systemd.LogDomain, 0)
	log.Info("launched", systemd.LogMessageID, systemd.MsgLaunched, "a", 1, "e", errors.New("x y"))
	log.Debug("hidden")
	require.NoError(t, h.Close(t.Context()))
	log.Info("too late")
	line := out.String()
	assert.Equal(t, 1, strings.Count(line, "\n"))
	assert.Contains(t, line, `level=INFO msg=launched domain=0`)
	assert.Contains(t, line, `domain=0 a=1 e="x y"`)
	assert.NotContains(t, line, "too late")
}

// stuck blocks every write until it is let go.
type stuck struct {
	release chan struct{}
	mu      sync.Mutex
	out     bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func TestAStuckLogHoldsNobodyUp(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	s := &stuck{release: make(chan struct{})}
	h := systemd.NewLogHandler(systemd.LogOptions{Fallback: s, Level: slog.LevelDebug})
	for range 10_000 {
		slog.New(h).Debug("x")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.Close(ctx), context.Canceled)
	close(s.release)
	require.NoError(t, h.Close(within(t)))
	assert.Contains(t, s.out.String(), "dropped=")
}
