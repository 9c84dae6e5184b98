// Package slog is the part of log/slog that bmcstate uses, under the same names.
//
// log/slog links encoding/json and much of package reflect even where only text
// is written: 190 KB of a BMC's flash, against 8 KB here.
package slog

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Level is how important a record is; the numbers are those of log/slog.
type Level int

// The levels.
const (
	LevelDebug Level = -4
	LevelInfo  Level = 0
	LevelWarn  Level = 4
	LevelError Level = 8
)

// String returns the name of the highest level that l reaches, for example
// "WARN".
func (l Level) String() string {
	switch {
	case l >= LevelError:
		return "ERROR"
	case l >= LevelWarn:
		return "WARN"
	case l >= LevelInfo:
		return "INFO"
	default:
		return "DEBUG"
	}
}

// Attr is a key with its value as text. It is rendered when it is logged: the
// caller may change the value afterwards.
type Attr struct {
	_ [0]func() // see state.Incomparable

	Key, Value string
}

// Any returns the attribute of a value: what %+v says of it.
func Any(key string, value any) Attr {
	if text, ok := value.(string); ok {
		return Attr{Key: key, Value: text}
	}
	return Attr{Key: key, Value: fmt.Sprintf("%+v", value)}
}

// String is [Any] for a text.
func String(key, value string) Attr { return Attr{Key: key, Value: value} }

// Int is [Any] for a number.
func Int(key string, value int) Attr { return Attr{Key: key, Value: strconv.Itoa(value)} }

// Uint64 is [Any] for a number.
func Uint64(key string, value uint64) Attr {
	return Attr{Key: key, Value: strconv.FormatUint(value, 10)}
}

// Record is one message.
type Record struct {
	Time    time.Time
	Level   Level
	Message string
	Attrs   []Attr // not to be changed
}

// Handler takes records. It is safe for concurrent use.
type Handler interface {
	Enabled(ctx context.Context, l Level) bool
	Handle(ctx context.Context, r Record) error
}

// Logger makes records for a handler. It is safe for concurrent use.
type Logger struct {
	handler Handler
	attrs   []Attr
}

// New returns a logger that writes to h.
func New(h Handler) *Logger { return &Logger{handler: h} }

// With returns a logger that adds attributes to every record. args are keys, each
// followed by its value.
func (l *Logger) With(args ...any) *Logger {
	return &Logger{handler: l.handler, attrs: attrsOf(l.attrs, args)}
}

// Debug logs at that level; args are as in [Logger.With].
func (l *Logger) Debug(text string, args ...any) {
	l.Log(context.Background(), LevelDebug, text, args...)
}

// Info logs at that level; args are as in [Logger.With].
func (l *Logger) Info(text string, args ...any) {
	l.Log(context.Background(), LevelInfo, text, args...)
}

// Warn logs at that level; args are as in [Logger.With].
func (l *Logger) Warn(text string, args ...any) {
	l.Log(context.Background(), LevelWarn, text, args...)
}

// Error logs at that level; args are as in [Logger.With].
func (l *Logger) Error(text string, args ...any) {
	l.Log(context.Background(), LevelError, text, args...)
}

// Log logs at a level; args are as in [Logger.With].
func (l *Logger) Log(ctx context.Context, level Level, text string, args ...any) {
	l.LogAttrs(ctx, level, text, attrsOf(nil, args)...)
}

// LogAttrs logs at a level.
func (l *Logger) LogAttrs(ctx context.Context, level Level, text string, attrs ...Attr) {
	if l.handler.Enabled(ctx, level) {
		// There is nowhere to report that a record could not be written.
		_ = l.handler.Handle(ctx, Record{time.Now(), level, text, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)})
	}
}

func attrsOf(before []Attr, args []any) []Attr {
	all := append([]Attr(nil), before...)
	for len(args) > 0 {
		key, ok := args[0].(string)
		if !ok || len(args) == 1 {
			all = append(all, Any("!BADKEY", args[0]))
			args = args[1:]
			continue
		}
		all = append(all, Any(key, args[1]))
		args = args[2:]
	}
	return all
}

// DiscardHandler takes nothing.
var DiscardHandler Handler = discard{}

type discard struct{}

func (discard) Enabled(context.Context, Level) bool  { return false }
func (discard) Handle(context.Context, Record) error { return nil }

// TextHandler writes a line for each record, in the form of log/slog's.
type TextHandler struct {
	_ [0]func() // see state.Incomparable

	least Level
	mu    sync.Mutex
	out   io.Writer
}

// NewTextHandler returns a handler that writes records of least and above to w.
func NewTextHandler(w io.Writer, least Level) *TextHandler { return &TextHandler{least: least, out: w} }

// Enabled implements [Handler].
func (h *TextHandler) Enabled(_ context.Context, l Level) bool { return l >= h.least }

// Handle implements [Handler]. It writes the whole line at once.
func (h *TextHandler) Handle(_ context.Context, r Record) error {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format("time=2006-01-02T15:04:05.000Z07:00 "))
	}
	b.WriteString("level=" + r.Level.String() + " msg=" + Quoted(r.Message))
	for _, a := range r.Attrs {
		b.WriteString(" " + Quoted(a.Key) + "=" + Quoted(a.Value))
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, b.String())
	return err
}

// Quoted puts a text in quotes where a reader of lines could not tell where it
// ends.
func Quoted(s string) string {
	unsafe := func(r rune) bool {
		return r == ' ' || r == '"' || r == '=' || r == unicode.ReplacementChar || !unicode.IsPrint(r)
	}
	if s == "" || strings.ContainsFunc(s, unsafe) {
		return strconv.Quote(s)
	}
	return s
}
