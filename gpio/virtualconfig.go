package gpio

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that JSON writes as Go does: "300ms", "1.5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error { return d.SetText(string(b)) }

// SetText implements jsonpos.Texter.
func (d *Duration) SetText(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration: write a number and a unit, such as \"300ms\" or \"1.5s\"", text)
	}
	*d = Duration(v)
	return nil
}

// String formats like time.Duration.
func (d Duration) String() string { return time.Duration(d).String() }

// VirtualConfig describes a simulated board. Zero times take the value of
// [DefaultVirtual]. It is the part of the daemon's `simulate` block that one
// board needs.
type VirtualConfig struct {
	PowerGoodDelay Duration `json:"powerGoodDelay,omitempty"` // from the press to power good
	SioDelay       Duration `json:"sioDelay,omitempty"`       // from power good to SIO power good
	PostDelay      Duration `json:"postDelay,omitempty"`      // from there to POST complete
	GuestShutdown  Duration `json:"guestShutdown,omitempty"`  // from a short press to power off
	OverrideHold   Duration `json:"overrideHold,omitempty"`   // a press this long cuts the power
	FlickerPeriod  Duration `json:"flickerPeriod,omitempty"`  // of PowerGoodFlickers
	// Scale multiplies every time once, when the board is opened; 0 means 1.
	Scale float64 `json:"scale,omitempty"`

	// Inputs names the inputs that the board has; nil means DefaultVirtual's.
	// PowerOk is always there.
	Inputs []string `json:"inputs,omitempty"`
	// SlotPower gives the board a level-type output that cuts its supply. It
	// is on when AC is applied.
	SlotPower bool `json:"slotPower,omitempty"`
	// PowerLevel makes PowerOut a level-type output: power is on while it is
	// asserted.
	PowerLevel bool `json:"powerLevel,omitempty"`
	// HpmStbyEn gives the board that level-type output. It is off when AC is
	// applied, and without it no power comes up.
	HpmStbyEn bool `json:"hpmStbyEn,omitempty"`
	// StartOn: the board powers itself on when AC is applied; with PowerLevel its
	// latch does.
	StartOn bool `json:"startOn,omitempty"`

	Faults Faults `json:"faults"`
}

// Faults are what a simulated board does wrong. They last until they are
// replaced.
type Faults struct {
	NeverPowerGood       bool     `json:"neverPowerGood,omitempty"`
	NeverPostComplete    bool     `json:"neverPostComplete,omitempty"`
	DropPowerGoodAfter   Duration `json:"dropPowerGoodAfter,omitempty"` // after each power good; 0 = never
	PowerGoodFlickers    int      `json:"powerGoodFlickers,omitempty"`  // times that the wire bounces after each power good
	GuestHangsOnShutdown bool     `json:"guestHangsOnShutdown,omitempty"`
	GuestCrash           bool     `json:"guestCrash,omitempty"`      // as soon as POST is complete
	ForceOffIgnored      int      `json:"forceOffIgnored,omitempty"` // the next n long presses do nothing

	LineBusy    []string `json:"lineBusy,omitempty"`    // signals that another process holds
	LineMissing []string `json:"lineMissing,omitempty"` // signals without a line
	// LineHung: calls for these signals do not return until the fault is gone.
	// Only boards opened with VirtualOptions.AllowHung honour it.
	LineHung []string `json:"lineHung,omitempty"`
}

// DefaultVirtual is a quick board: a host is up 0.8 s after the press.
func DefaultVirtual() VirtualConfig {
	return VirtualConfig{
		PowerGoodDelay: Duration(300 * time.Millisecond),
		SioDelay:       Duration(50 * time.Millisecond),
		PostDelay:      Duration(500 * time.Millisecond),
		GuestShutdown:  Duration(500 * time.Millisecond),
		OverrideHold:   Duration(400 * time.Millisecond),
		FlickerPeriod:  Duration(time.Millisecond),
		Scale:          1,
		Inputs:         []string{PowerOk, PostComplete, PowerButton, ResetButton, NMIButton, IdButton},
	}
}

// Validate names the first field that cannot be used.
func (c VirtualConfig) Validate() error {
	if c.Scale < 0 {
		return fmt.Errorf("scale: %v: must be positive", c.Scale)
	}
	for _, s := range c.Inputs {
		if !IsInput(s) {
			return fmt.Errorf("inputs: %q is no input signal", s)
		}
	}
	return c.Faults.Validate()
}

// Validate names the first field that cannot be used.
func (f Faults) Validate() error {
	if f.PowerGoodFlickers < 0 || f.PowerGoodFlickers > 10000 {
		return fmt.Errorf("faults.powerGoodFlickers: %d: must be 0 to 10000", f.PowerGoodFlickers)
	}
	if f.ForceOffIgnored < 0 {
		return fmt.Errorf("faults.forceOffIgnored: %d: must not be negative", f.ForceOffIgnored)
	}
	lists := map[string][]string{"lineBusy": f.LineBusy, "lineMissing": f.LineMissing, "lineHung": f.LineHung}
	for name, signals := range lists {
		for _, s := range signals {
			if signalKinds[s] == 0 {
				return fmt.Errorf("faults.%s: %q is no signal", name, s)
			}
		}
	}
	return nil
}

// resolved fills in the defaults and applies Scale.
func (c VirtualConfig) resolved() VirtualConfig {
	d := DefaultVirtual()
	if c.Scale == 0 {
		c.Scale = 1
	}
	for _, t := range []struct{ v, def *Duration }{
		{&c.PowerGoodDelay, &d.PowerGoodDelay},
		{&c.SioDelay, &d.SioDelay},
		{&c.PostDelay, &d.PostDelay},
		{&c.GuestShutdown, &d.GuestShutdown},
		{&c.OverrideHold, &d.OverrideHold},
		{&c.FlickerPeriod, &d.FlickerPeriod},
	} {
		if *t.v == 0 {
			*t.v = *t.def
		}
		*t.v = c.scaled(*t.v)
	}
	if c.Inputs == nil {
		c.Inputs = d.Inputs
	}
	if !contains(c.Inputs, PowerOk) {
		c.Inputs = append([]string{PowerOk}, c.Inputs...)
	}
	return c
}

func (c VirtualConfig) scaled(d Duration) Duration {
	return Duration(float64(d) * c.Scale)
}

// kind is what the board does with a signal.
func (c VirtualConfig) kind(signal string) signalKind {
	if signal == PowerOut && c.PowerLevel {
		return kindLevel
	}
	return signalKinds[signal]
}

// has reports whether the board has the wire.
func (c VirtualConfig) has(signal string) bool {
	switch signal {
	case SlotPower:
		return c.SlotPower
	case HpmStbyEn:
		return c.HpmStbyEn
	default:
		return signalKinds[signal] == kindPulse || contains(c.Inputs, signal)
	}
}
