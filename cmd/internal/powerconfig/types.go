package powerconfig

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

type signalFacts struct {
	output, mandatory bool
	level             bool // keeps its level without being told
	pulse             bool // cannot be told to
	own               bool // not one of x86-power-control's
	reset             Reset
}

var signals = map[string]signalFacts{
	gpio.PowerOut:     {output: true, mandatory: true},
	gpio.ResetOut:     {output: true, mandatory: true, pulse: true},
	gpio.PowerOk:      {mandatory: true},
	gpio.NMIOut:       {output: true, pulse: true},
	gpio.SlotPower:    {output: true, level: true, reset: ResetOn},
	gpio.HpmStbyEn:    {output: true, level: true, reset: ResetOn},
	gpio.SioPowerGood: {}, gpio.SioOnControl: {}, gpio.SIOS5: {}, gpio.PostComplete: {}, gpio.PlatformReset: {},
	gpio.PowerButton: {}, gpio.ResetButton: {}, gpio.NMIButton: {}, gpio.IdButton: {},
}

// Bias is the resistor that an input line asks its controller for.
type Bias uint8

// The biases.
const (
	BiasAsIs Bias = iota
	BiasDisabled
	BiasPullUp
	BiasPullDown
)

// Drive is how an output line is driven.
type Drive uint8

// The drives.
const (
	DrivePushPull Drive = iota
	DriveOpenDrain
	DriveOpenSource
)

// Idle is what becomes of a pulse output between two pulses.
type Idle uint8

// The idle states.
const (
	IdleRelease Idle = iota // given back to the kernel, as x86-power-control does
	IdleHold                // held at its inactive level
)

// Reset is the level that a level-type output gets once per boot of the BMC, as
// soon as the host's power is known to be off.
type Reset uint8

// The reset states.
const (
	ResetKeep Reset = iota // left as it is
	ResetOff
	ResetOn
)

// Signal is one configured input or output.
type Signal struct {
	_ state.Incomparable

	Name      string
	Output    bool
	ActiveLow bool
	At        jsonpos.Position // of its entry

	// Of a GPIO line:
	Line     string // kernel name; empty when found by Chip and Offset
	Chip     string // label; empty = any chip
	Offset   int    // on Chip; -1 = found by Line
	Bias     Bias
	Drive    Drive
	Debounce time.Duration
	Idle     Idle
	Level    bool // keeps its level instead of pulsing
	Reset    Reset

	// DBus is set for an input that is a D-Bus property, and nil for a line.
	DBus *Property
}

// Property is where an input of Type "DBUS" is read.
type Property struct {
	_ state.Incomparable

	Service, Path, Interface, Name string
	// Match makes the property a string that means asserted when it matches as
	// a whole. Nil: the property is a boolean, true means asserted.
	Match *Pattern
}

// Timings are the file's timing_configs.
type Timings struct {
	PowerPulse       time.Duration // press for on and for graceful off
	ForceOffPulse    time.Duration // longest hold for force-off
	ResetPulse       time.Duration
	PowerCycle       time.Duration // dwell between off and on
	SIOWatchdog      time.Duration // from power good to SIO power good
	PowerOKWatchdog  time.Duration // from the press to power good
	GracefulPowerOff time.Duration // graceful time-out; see Config.GracefulSet
	WarmResetCheck   time.Duration
	PowerOffSave     time.Duration // quiet time before the state is stored
	SlotPowerCycle   time.Duration
	PropertyRetry    time.Duration // between attempts to read a D-Bus input
}

// Config is one host's file.
type Config struct {
	Signals           map[string]Signal // by name; only those that are present
	PowerOn           []Action          // ours; empty = PowerOut alone
	Timings           Timings
	GracefulSet       bool // the file has GracefulPowerOffS
	NMIWhenPoweredOff bool
	ButtonPassthrough bool   // ours: presses are passed on by software
	WarmResetSource   string // ours: PostComplete, PlatformReset or "none"; "" is the former where the board has it
}

// HasSIO reports whether all three SIO inputs are configured, without which
// none is used.
func (c *Config) HasSIO() bool {
	for _, n := range []string{gpio.SioPowerGood, gpio.SioOnControl, gpio.SIOS5} {
		if _, ok := c.Signals[n]; !ok {
			return false
		}
	}
	return true
}

// Warning is something odd in a file that x86-power-control tolerated.
type Warning struct {
	_ state.Incomparable

	File string
	At   jsonpos.Position
	Text string
}

// String returns "file:line:column: text".
func (w Warning) String() string { return fmt.Sprintf("%s:%s: %s", w.File, w.At, w.Text) }

// Error says what is wrong in a file. It is an error.
type Error Warning

// Error returns "file:line:column: text".
func (e *Error) Error() string { return Warning(*e).String() }

var _ error = (*Error)(nil)

func defaults() Config {
	return Config{
		Signals: map[string]Signal{},
		Timings: Timings{
			PowerPulse:       200 * time.Millisecond,
			ForceOffPulse:    15 * time.Second,
			ResetPulse:       500 * time.Millisecond,
			PowerCycle:       5 * time.Second,
			SIOWatchdog:      time.Second,
			PowerOKWatchdog:  8 * time.Second,
			GracefulPowerOff: 300 * time.Second,
			WarmResetCheck:   500 * time.Millisecond,
			PowerOffSave:     7 * time.Second,
			SlotPowerCycle:   200 * time.Millisecond,
			PropertyRetry:    time.Second,
		},
		NMIWhenPoweredOff: true,
	}
}
