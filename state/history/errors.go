package history

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/bmcstate/bmcstate/state"
)

// Errors of the journal, for errors.Is. What is returned wraps them with the
// place and the way out.
var (
	// ErrVersion: a newer program wrote the journal.
	ErrVersion = errors.New("history: journal of an unknown version")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("history: the journal is closed")
	// ErrNoToken: a zero, foreign or mismatched token was shown.
	ErrNoToken = errors.New("history: no proof that the record is durable")
	// ErrNoBarrier: a NotDurable was asked for what is no unfinished Chassis Off.
	ErrNoBarrier = errors.New("history: only an unfinished Chassis Off may act unrecorded")
)

// IOError is a failed operation on the journal's files. Its text is fit for an
// operator.
type IOError struct {
	_ state.Incomparable

	Op   string // "write", "sync", "create", …
	Path string
	Err  error
	// Uncertain is set where the journal could not take back what it had
	// written: the entries may be on disk. They were marked void.
	Uncertain bool
}

// Error names the operation, the file, the reason and the way out.
func (e *IOError) Error() string {
	s := fmt.Sprintf("history: %s %s: %v", e.Op, e.Path, reason(e.Err))
	if hint := hintFor(e.Err); hint != "" {
		s += "; " + hint
	}
	if e.Uncertain {
		s += "; the request may be on disk"
	}
	return s
}

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

var _ error = (*IOError)(nil)

// reason drops the operation and path that the os package repeats.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func hintFor(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "requests are refused until there is space"
	case errors.Is(err, syscall.EROFS):
		return "requests are refused until it is mounted writable"
	case errors.Is(err, syscall.EIO):
		return "the storage fails; requests are refused while it does"
	case errors.Is(err, fs.ErrPermission):
		return "the directory must be writable for the daemon's user"
	default:
		return ""
	}
}

// ReportKind says what a [Report] is about.
type ReportKind uint8

// The kinds of reports.
const (
	ReportTorn     ReportKind = iota + 1 // an unfinished tail was cut
	ReportVoid                           // records that had been answered with an error were dropped
	ReportDamaged                        // damage was found; see Text
	ReportSetAside                       // a damaged file got another name
	ReportEnded                          // replay ended a request
	ReportIgnored                        // an entry changed nothing
	ReportFailed                         // the journal cannot be written
	ReportRepaired                       // the journal can be written again
	ReportCompact                        // compaction failed; it is tried again later
)

// Report is something that an operator should find in the log.
type Report struct {
	_ state.Incomparable

	Kind ReportKind
	File string // name within the state directory, "" where it is about none
	Text string // a whole sentence
}

// String returns file and text.
func (r Report) String() string {
	if r.File == "" {
		return "history: " + r.Text
	}
	return "history: " + r.File + ": " + r.Text
}
