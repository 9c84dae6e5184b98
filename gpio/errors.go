package gpio

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that a [LineError] wraps.
var (
	// ErrMissing: the chip or the line does not exist, or is not configured.
	ErrMissing = errors.New("no such line")
	// ErrBusy: another process holds the line.
	ErrBusy = errors.New("line is held by another process")
	// ErrAsserted: the line already carries a pulse.
	ErrAsserted = errors.New("line is already asserted")
	// ErrTakenOver: another pulse took the asserted line over.
	ErrTakenOver = errors.New("pulse was taken over")
	// ErrStuck: a call into the kernel did not return in time. The line may or
	// may not have moved.
	ErrStuck = errors.New("stuck: the call did not return in time")
	// ErrNotDriven: the pulse was ended before it was asserted; no line moved.
	ErrNotDriven = errors.New("pulse ended before the line was asserted")
	// ErrClosed: the board is closed.
	ErrClosed = errors.New("board is closed")
	// ErrUnmoved comes with the cause of a pulse that failed before its line
	// was touched.
	ErrUnmoved = errors.New("no line moved")
)

// untouched are the errors of a pulse after which its line has not moved.
var untouched = []error{ErrUnmoved, ErrMissing, ErrBusy, ErrAsserted, ErrNotDriven, ErrClosed}

// Moved reports whether a pulse that returned err may have moved its line.
func Moved(err error) bool {
	for _, e := range untouched {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

func unmoved(cause error) error { return fmt.Errorf("%w: %w", ErrUnmoved, cause) }

// LineError says which line failed at what. It is returned as a pointer.
type LineError struct {
	_ [0]func() // see state.Incomparable

	Op     string // "read", "pulse", "release", "set level", "request", "watch", "mark"
	Signal string
	Chip   string // label of the chip, "" where there is none
	Line   string // name of the line, or its offset
	Err    error
}

// Error names the signal, the chip and the line.
func (e *LineError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gpio: %s %s", e.Op, e.Signal)
	switch {
	case e.Chip != "" && e.Line != "":
		fmt.Fprintf(&b, " (chip %s, line %s)", e.Chip, e.Line)
	case e.Line != "":
		fmt.Fprintf(&b, " (line %s)", e.Line)
	case e.Chip != "":
		fmt.Fprintf(&b, " (chip %s)", e.Chip)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }
