package slog_test

import (
	"bytes"
	"context"
	"errors"
	standard "log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
)

// logger is what both packages have.
type logger interface {
	Debug(string, ...any)
	Info(string, ...any)
	Warn(string, ...any)
	Error(string, ...any)
	Log(context.Context, level, string, ...any)
}

type level = slog.Level

// stdlib lets log/slog's Logger be used as a logger.
type stdlib struct{ *standard.Logger }

func (s stdlib) Log(ctx context.Context, l level, text string, args ...any) {
	s.Logger.Log(ctx, standard.Level(l), text, args...)
}

// fatal is an error whose pointer may be nil.
type fatal struct{ text string }

func (f *fatal) Error() string { return f.text }

func TestLinesAsLogSlog(t *testing.T) {
	write := func(log, with logger) {
		log.Debug("hidden", "a", 1)
		log.Info("plain")
		log.Warn("two words", "string", "x", "int", -1, "uint", uint32(7), "bool", true, "float", 0.5, "nil", nil)
		log.Error("", "empty", "", "space", "a b", "quote", `a"b`, "equals", "a=b", "line", "a\nb", "umlaut", "ä", "bad", "\xff")
		log.Info("values", "err", errors.New("no such line"), "duration", 90*time.Second, "kind", state.HostOn,
			"list", []string{"a", "b"}, "two words", 1, "nilError", (*fatal)(nil))
		log.Info("odd", "alone")
		log.Info("odd", 1, "key", "value")
		with.Info("with", "b", 2)
		with.Log(t.Context(), slog.LevelError, "with", "c", 3)
	}
	var ours, want bytes.Buffer
	a := slog.New(slog.NewTextHandler(&ours, slog.LevelInfo))
	write(a, a.With("a", 1, "x", "y z"))
	b := standard.New(standard.NewTextHandler(&want, nil))
	write(stdlib{b}, stdlib{b.With("a", 1, "x", "y z")})
	assert.Equal(t, untimed(t, want.String()), untimed(t, ours.String()))
}

// untimed takes the times off lines, after a look at their form.
func untimed(t *testing.T, lines string) (all []string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		stamp, rest, _ := strings.Cut(line, " ")
		_, err := time.Parse("time=2006-01-02T15:04:05.000Z07:00", stamp)
		require.NoError(t, err)
		all = append(all, rest)
	}
	return all
}

func TestLevelsAsLogSlog(t *testing.T) {
	for _, l := range []level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		assert.Equal(t, standard.Level(l).String(), l.String())
	}
}

func TestWithSharesNothing(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, slog.LevelDebug)).With("a", 1)
	one, two := log.With("b", 1), log.With("b", 2)
	one.Debug("x")
	two.LogAttrs(t.Context(), slog.LevelInfo, "x", slog.Int("n", 1), slog.Uint64("u", 1<<63), slog.String("s", "t"), slog.Any("e", nil))
	lines := untimed(t, out.String())
	assert.Equal(t, []string{"level=DEBUG msg=x a=1 b=1\n", "level=INFO msg=x a=1 b=2 n=1 u=9223372036854775808 s=t e=<nil>\n"}, lines)
}

func TestConcurrentLinesStayWhole(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, slog.LevelInfo))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				log.With("k", 1).Info("text", "v", 2)
			}
		})
	}
	wg.Wait()
	for _, line := range untimed(t, out.String()) {
		assert.Equal(t, "level=INFO msg=text k=1 v=2\n", line)
	}
	slog.New(slog.DiscardHandler).Info("nobody sees it")
}
