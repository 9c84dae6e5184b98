package gpio

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
)

// Biases of a line; "" leaves it as the board has it.
const (
	BiasDisabled = "disabled"
	BiasPullUp   = "pull-up"
	BiasPullDown = "pull-down"
)

// Drives of an output; "" is push-pull.
const (
	DriveOpenDrain  = "open-drain"
	DriveOpenSource = "open-source"
)

// consumer is our name on the lines that we hold.
const consumer = "bmcstated"

// defaultBuffer is the number of edges that the kernel keeps for us per line.
const defaultBuffer = 64

// Line says where a signal is and how it is wired.
type Line struct {
	_ [0]func() // see state.Incomparable

	// Signal is one of x86-power-control's or a name of the board's own, which
	// is a level-type output with Level and an input without.
	Signal string
	// Chip is the label of the chip, or the name of its device (gpiochip0).
	// "" searches all chips, and then Name must occur once.
	Chip string
	// Name is the line's name. Where it is "", the line is Offset on Chip.
	Name      string
	Offset    int
	ActiveLow bool
	Bias      string // a Bias constant
	Drive     string // a Drive constant; outputs only
	// Debounce is how long an input must be stable (Linux 5.10); inputs only.
	Debounce time.Duration
	// Buffer is the number of edges that the kernel keeps; 0 means 64.
	Buffer int
	// Hold keeps a pulse output requested, and driven inactive, between its
	// pulses. Otherwise the line is free in between, so that a controller
	// which passes a front panel button through can do so.
	Hold bool
	// Level makes an output level-type: it keeps its level, and is requested
	// as it is. SlotPower and HpmStbyEn are so in any case.
	Level bool
}

// kind is what the board does with the line.
func (l Line) kind() signalKind {
	k := signalKinds[l.Signal]
	switch {
	case l.Level && (k == kindPulse || k == 0):
		return kindLevel
	case k == 0:
		return kindInput
	default:
		return k
	}
}

// label names the line within its chip.
func (l Line) label() string {
	if l.Name != "" {
		return l.Name
	}
	return strconv.Itoa(l.Offset)
}

// validate names what is wrong with the line.
func (l Line) validate() error {
	output := l.kind() == kindPulse || l.kind() == kindLevel
	_, bias := biasFlags[l.Bias]
	_, drive := driveFlags[l.Drive]
	for _, c := range []struct {
		bad bool
		why string
	}{
		{l.Signal == "", "needs a name"},
		{l.Name == "" && l.Chip == "", "needs a line name, or a chip and an offset"},
		{l.Offset < 0, "offset must not be negative"},
		{!bias, fmt.Sprintf("bias %q: must be %q, %q or %q", l.Bias, BiasDisabled, BiasPullUp, BiasPullDown)},
		{!drive, fmt.Sprintf("drive %q: must be %q or %q", l.Drive, DriveOpenDrain, DriveOpenSource)},
		{!output && l.Drive != "", "drive is for outputs"},
		{output && l.Debounce != 0, "debounce is for inputs"},
		{l.Debounce < 0 || l.Debounce > time.Minute, "debounce must be 0 to 1 min"},
		{l.Buffer < 0 || l.Buffer > 1024, "buffer must be 0 to 1024"},
		{!output && (l.Hold || l.Level), "hold and level are for outputs"},
		{l.Hold && l.kind() == kindLevel, "a level-type output is held in any case"},
	} {
		if c.bad {
			return fmt.Errorf("signal %q: %s", l.Signal, c.why)
		}
	}
	return nil
}

// validateLines refuses a set in which two signals share a name or a line.
func validateLines(lines []Line) error {
	var errs []error
	signals, places := map[string]bool{}, map[string]string{}
	for _, l := range lines {
		errs = append(errs, l.validate())
		if signals[l.Signal] {
			errs = append(errs, fmt.Errorf("signal %q: is configured twice", l.Signal))
		}
		signals[l.Signal] = true
		at := l.Chip + "/" + l.label()
		if other, taken := places[at]; taken && other != l.Signal {
			errs = append(errs, fmt.Errorf("signal %q: is on the same line %s as %q", l.Signal, l.label(), other))
		}
		places[at] = l.Signal
	}
	return errors.Join(errs...)
}

var biasFlags = map[string]uapi.LineFlagV2{
	"":           0,
	BiasDisabled: uapi.LineFlagV2BiasDisabled,
	BiasPullUp:   uapi.LineFlagV2BiasPullUp,
	BiasPullDown: uapi.LineFlagV2BiasPullDown,
}

var driveFlags = map[string]uapi.LineFlagV2{
	"":              0,
	DriveOpenDrain:  uapi.LineFlagV2OpenDrain,
	DriveOpenSource: uapi.LineFlagV2OpenSource,
}

func (l Line) polarity() uapi.LineFlagV2 {
	if l.ActiveLow {
		return uapi.LineFlagV2ActiveLow
	}
	return 0
}

// asInput requests the line with both edges.
func (l Line) asInput() uapi.LineConfig {
	cfg := uapi.LineConfig{
		Flags: uapi.LineFlagV2Input | uapi.LineFlagV2EdgeBoth | biasFlags[l.Bias] | l.polarity(),
	}
	if l.Debounce > 0 {
		cfg.AddAttribute(uapi.LineConfigAttribute{Attr: uapi.DebouncePeriod(l.Debounce).Encode(), Mask: 1})
	}
	return cfg
}

// asOutput requests the line with a level.
func (l Line) asOutput(asserted bool) uapi.LineConfig {
	cfg := uapi.LineConfig{
		Flags: uapi.LineFlagV2Output | driveFlags[l.Drive] | biasFlags[l.Bias] | l.polarity(),
	}
	cfg.AddAttribute(uapi.LineConfigAttribute{Attr: uapi.OutputValues(bit(asserted)).Encode(), Mask: 1})
	return cfg
}

// asIs requests the line without touching direction, drive or level.
func (l Line) asIs() uapi.LineConfig { return uapi.LineConfig{Flags: l.polarity()} }

// FDName is the name under which the descriptor of a level-type output of a
// host is kept in systemd's descriptor store. It changes with the place of the
// line, so that a changed configuration does not find the old line.
func FDName(host int, l Line) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s\x00%s\x00%d\x00%t", l.Chip, l.Name, l.Offset, l.ActiveLow)
	return fmt.Sprintf("%s%s-%08x", FDPrefix(host), l.Signal, h.Sum32())
}

// FDPrefix is what the [FDName] of every line of a host begins with.
func FDPrefix(host int) string { return fmt.Sprintf("gpio-%d-", host) }
