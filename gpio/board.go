package gpio

import (
	"context"
	"time"
)

// Signals, by x86-power-control's names.
const (
	PowerOut  = "PowerOut"
	ResetOut  = "ResetOut"
	NMIOut    = "NMIOut"
	SlotPower = "SlotPower"
	HpmStbyEn = "HpmStbyEn"

	PowerOk       = "PowerOk"
	SioPowerGood  = "SioPowerGood"
	SioOnControl  = "SioOnControl"
	SIOS5         = "SIOS5"
	PostComplete  = "PostComplete"
	PlatformReset = "PlatformReset"
	PowerButton   = "PowerButton"
	ResetButton   = "ResetButton"
	NMIButton     = "NMIButton"
	IdButton      = "IdButton"
)

// signalKind says what a board does with a signal.
type signalKind uint8

const (
	kindInput  signalKind = iota + 1
	kindButton            // an input whose every press counts
	kindPulse             // an output with an idle level
	kindLevel             // an output that keeps its level
)

// signalKinds holds every known signal. A configuration may declare a pulse
// output to be level-type.
var signalKinds = map[string]signalKind{
	PowerOut: kindPulse, ResetOut: kindPulse, NMIOut: kindPulse,
	SlotPower: kindLevel, HpmStbyEn: kindLevel,
	PowerOk: kindInput, SioPowerGood: kindInput, SioOnControl: kindInput, SIOS5: kindInput,
	PostComplete: kindInput, PlatformReset: kindInput,
	PowerButton: kindButton, ResetButton: kindButton, NMIButton: kindButton, IdButton: kindButton,
}

// IsOutput reports whether signal is one that the BMC drives.
func IsOutput(signal string) bool {
	k := signalKinds[signal]
	return k == kindPulse || k == kindLevel
}

// IsInput reports whether signal is one that the BMC only watches.
func IsInput(signal string) bool {
	k := signalKinds[signal]
	return k == kindInput || k == kindButton
}

// Board is the set of lines of one host.
type Board interface {
	// Read samples every input and every level-type output twice, settle
	// apart; with settle 0 once. A line that cannot be read does not spoil the
	// others: its [Level] carries the error. The error of Read itself is the
	// context's, when it ended between the samples, or ErrClosed.
	Read(ctx context.Context, settle time.Duration) (Levels, error)

	// Pulse asserts a pulse output and releases it after width, whatever
	// happens to ctx or the caller. It returns when the line is released. A
	// ctx that has ended before the line was asserted leaves the line alone;
	// one that ends while a call into the kernel hangs gives ErrStuck, and the
	// line is released as soon as that call returns.
	//
	// A line that is asserted already gives ErrAsserted, and one whose mark
	// cannot be written is left alone. An urgent pulse of PowerOut is a power
	// off: a running pulse becomes this one without being released (its own
	// caller gets ErrTakenOver), and it goes ahead without a mark. [Moved]
	// tells whether the line moved in spite of an error.
	Pulse(ctx context.Context, signal string, width time.Duration, urgent bool) error

	// Release ends a running pulse early. It does not wait, and does nothing
	// when no pulse runs.
	Release(signal string)

	// ReleaseAll ends every running pulse and returns when all are released,
	// after a second at most. Meant for SIGTERM and for a hard reboot.
	ReleaseAll()

	// SetLevel drives a level-type output.
	SetLevel(ctx context.Context, signal string, on bool) error

	// Events carries hints that a level may have changed. The consumer reads
	// the levels again; only a button's events are a record, one per edge. A
	// pulse gives one when its output is asserted, or taken over asserted.
	// There is one channel; Close closes it.
	Events() <-chan Event

	// Close releases every pulse as ReleaseAll does and frees the lines. A
	// level-type output keeps its level as far as the controller lets it.
	Close() error
}

// Holder is implemented by boards that can keep a pulse output at its idle
// level, which defeats a front panel button that the hardware passes through
// to the same wire (x86-power-control's button mask). Pulses of a held line go
// on working.
type Holder interface {
	Hold(ctx context.Context, signal string, hold bool) error
}

// Reporter is implemented by boards that know which of their lines do not work
// at present. The list is by signal.
type Reporter interface {
	Problems() []*LineError
}

var (
	_ Board    = (*Virtual)(nil)
	_ Holder   = (*Virtual)(nil)
	_ Reporter = (*Virtual)(nil)
	_ Board    = (*Chardev)(nil)
	_ Holder   = (*Chardev)(nil)
	_ Reporter = (*Chardev)(nil)
)

// Event says that a signal may have changed.
type Event struct {
	Signal   string
	Asserted bool // the level after the edge
	// Gap: edges were lost, or the line came or went. Asserted is a guess.
	Gap bool
}

// Level is what is known about one line.
type Level struct {
	_ [0]func() // see state.Incomparable

	Asserted bool  // the newer sample; false unless Known
	Known    bool  // the line could be read
	Agreed   bool  // both samples could be read and are equal
	Err      error // why the line could not be read: a *LineError
}

// Levels holds a Level for each configured input and level-type output. A
// signal that is not configured has no entry.
type Levels map[string]Level

// Configured reports whether the board has the signal.
func (l Levels) Configured(signal string) bool {
	_, ok := l[signal]
	return ok
}

// Asserted reports whether the signal is known to be asserted.
func (l Levels) Asserted(signal string) bool { return l[signal].Asserted }

// Agreed reports whether both samples of every named signal that is configured
// are known and equal; without names, of every signal.
func (l Levels) Agreed(signals ...string) bool {
	if len(signals) == 0 {
		for _, v := range l {
			if !v.Agreed {
				return false
			}
		}
		return true
	}
	for _, s := range signals {
		if v, ok := l[s]; ok && !v.Agreed {
			return false
		}
	}
	return true
}

// Point names a moment in the life of a pulse or of a level change.
type Point string

// The points at which a [Hook] is called, in their order. The level points
// belong to SetLevel.
const (
	BeforeMark    Point = "before-mark"
	BeforeAssert  Point = "before-assert" // the mark is written
	AfterAssert   Point = "after-assert"
	BeforeRelease Point = "before-release"
	AfterRelease  Point = "after-release" // the mark still stands
	AfterUnmark   Point = "after-unmark"
	BeforeLevel   Point = "before-level"
	AfterLevel    Point = "after-level"
)

// Points lists every Point, for tests that enumerate them.
func Points() []Point {
	return []Point{BeforeMark, BeforeAssert, AfterAssert, BeforeRelease, AfterRelease, AfterUnmark, BeforeLevel, AfterLevel}
}

// Hook is called on the goroutine that drives the line. It may kill the
// process or block; a nil Hook is allowed everywhere.
type Hook func(point Point, signal string)

func (h Hook) at(p Point, signal string) {
	if h != nil {
		h(p, signal)
	}
}
