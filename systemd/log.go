package systemd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/bmcstate/bmcstate/state/slog"
)

// Attribute keys with a journal field of their own. Any other key becomes
// BMCSTATE_ and the key in upper case.
const (
	LogMessageID  = "message_id"         // MESSAGE_ID: one of the Msg… constants
	LogRequest    = "request"            // BMCSTATE_REQUEST: client id and request id
	LogDomain     = "domain"             // BMCSTATE_DOMAIN: number of the power domain
	LogTransition = "transition"         // BMCSTATE_TRANSITION: "Host On", …
	LogResult     = "result"             // BMCSTATE_RESULT: final status
	LogRedfish    = "redfish_message_id" // REDFISH_MESSAGE_ID: an entry of Redfish's event log
)

// Message ids of what an operator may want to find again
// (journalctl MESSAGE_ID=…).
const (
	MsgAccepted      = "d0e77a8ff2784a4f95ba8c3f7bd0a2c1" // a request was accepted
	MsgRefused       = "5a1c6d0b4f4e4e0fbe7b5d3c0a9f6e12" // a request was refused
	MsgLaunched      = "8f0b7c52c1c84a0e9d6b2f4e7a35d9c3" // a transition was launched
	MsgEnded         = "e4c2a96b7d1f4b5f8a03c5d7196e2b84" // a request got its final status
	MsgForeignJob    = "2b9d84f06c3a4d17b5e1f7a8c4903d65" // somebody else's job was adopted or cancelled
	MsgLinesReleased = "c71e35a8d2064f9fa4b8096de3f15a76" // marked lines were released after a death
	MsgDegraded      = "93f6b1d4e85c4c2ab7d0a2f46e8c1957" // storage, bus, systemd or a chip does not answer
	MsgPower         = "b3f2790d6c5e4a81a7d4e96f21c8053b" // power came or went
	MsgPanel         = "4e17c9d20b8f46a3957d3fe1a6c280b9" // a button was pressed, or an NMI sent
	MsgFault         = "6ad8e0c97b2f4315a9c4d6f0817b3e28" // the fault monitor decided
)

// logQueue is how many records wait for a journald that does not read. Beyond
// it records are dropped and counted: logging never holds up the engine.
const logQueue = 512

// LogOptions configure [NewLogHandler].
type LogOptions struct {
	Level slog.Level // the lowest that is logged; the zero value is slog.LevelInfo
	// Fallback takes text lines when stderr is not the journal; nil = stderr.
	Fallback io.Writer
}

// LogHandler is a [slog.Handler] that writes structured records to journald
// when the process's stderr is connected to it, else text to stderr. Records
// are handed to a goroutine of its own; [LogHandler.Close] waits for it.
type LogHandler struct {
	sink  *logSink
	level slog.Level
}

var _ slog.Handler = (*LogHandler)(nil)

// NewLogHandler starts a handler.
func NewLogHandler(o LogOptions) *LogHandler {
	if o.Fallback == nil {
		o.Fallback = os.Stderr
	}
	s := &logSink{
		records: make(chan slog.Record, logQueue),
		done:    make(chan struct{}),
		text:    slog.NewTextHandler(o.Fallback, o.Level),
		raw:     o.Fallback,
	}
	s.journal = stderrIsJournal()
	go s.run()
	return &LogHandler{sink: s, level: o.Level}
}

// Enabled reports whether the level is logged.
func (h *LogHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle queues the record. It never blocks and never fails.
func (h *LogHandler) Handle(_ context.Context, r slog.Record) error {
	h.sink.put(r)
	return nil
}

// Close writes what is queued, waiting at most until ctx ends, and stops. What
// is logged later is dropped.
func (h *LogHandler) Close(ctx context.Context) error {
	h.sink.close()
	select {
	case <-h.sink.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("systemd: the log is not written out: %w", ctx.Err())
	}
}

// logSink is a handler's goroutine and what it shares with it.
type logSink struct {
	_ [0]func() // see state.Incomparable

	records chan slog.Record
	done    chan struct{}
	text    slog.Handler
	raw     io.Writer
	journal bool

	mu      sync.Mutex // guards closed and dropped, and sending on records
	closed  bool
	dropped int
}

func (s *logSink) put(r slog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	select {
	case s.records <- r:
	default:
		s.dropped++
	}
}

func (s *logSink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.records)
	}
}

func (s *logSink) run() {
	defer close(s.done)
	for r := range s.records {
		s.write(r)
		s.mu.Lock()
		dropped := s.dropped
		s.dropped = 0
		s.mu.Unlock()
		if dropped > 0 {
			s.write(slog.Record{Time: time.Now(), Level: slog.LevelWarn,
				Message: "log records were dropped because the log was not read fast enough",
				Attrs:   []slog.Attr{slog.Int("dropped", dropped)}})
		}
	}
}

func (s *logSink) write(r slog.Record) {
	if s.journal {
		priority := priorityOf(r.Level)
		if journal.Send(lineOf(r), priority, fieldsOf(r)) == nil {
			return
		}
		// stderr goes to the journal too, as a stream with a level in front.
		fmt.Fprintf(s.raw, "<%d>%s\n", priority, strings.ReplaceAll(lineOf(r), "\n", " "))
		return
	}
	var shown []slog.Attr
	for _, a := range r.Attrs {
		if a.Key != LogMessageID {
			shown = append(shown, a)
		}
	}
	r.Attrs = shown
	_ = s.text.Handle(context.Background(), r) // there is nowhere to report it
}

func priorityOf(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	case l >= slog.LevelInfo:
		return journal.PriInfo
	default:
		return journal.PriDebug
	}
}

// lineOf is MESSAGE: what journalctl shows by itself, so the attributes are in it.
func lineOf(r slog.Record) string {
	line := r.Message
	for _, a := range r.Attrs {
		if a.Key != LogMessageID {
			line += " " + a.Key + "=" + slog.Quoted(a.Value)
		}
	}
	return line
}

func fieldsOf(r slog.Record) map[string]string {
	f := make(map[string]string, len(r.Attrs)+1)
	f["SYSLOG_IDENTIFIER"] = "bmcstated"
	for _, a := range r.Attrs {
		f[fieldName(a.Key)] = a.Value
	}
	return f
}

// fieldName makes a journal field of an attribute key: capitals, digits and "_"
// only, at most 64 characters.
func fieldName(key string) string {
	switch key {
	case LogMessageID:
		return "MESSAGE_ID"
	case LogRedfish:
		return "REDFISH_MESSAGE_ID"
	}
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		default:
			return '_'
		}
	}, key)
	name = "BMCSTATE_" + name
	return name[:min(len(name), 64)]
}
