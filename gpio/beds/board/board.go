// Package board plays the server board on the far side of a BMC's power lines,
// so that a test bed has something to switch on.
//
// [Board] is the board's behaviour as a pure machine: what its buttons do, and
// when power good and POST complete follow. [Player] joins it to wires, be they
// gpio-sim's sysfs files or an emulator's pins, and keeps a record of every
// level that it saw or set.
package board

import "time"

// Guest is what the operating system does when it is asked to shut down.
type Guest uint8

// The kinds of guests.
const (
	GuestObeys   Guest = iota // powers off after Timing.Shutdown
	GuestHangs                // does nothing
	GuestReboots              // comes back up: POST complete goes and returns, power stays
)

// Timing is how long the board takes.
type Timing struct {
	PowerGood time.Duration // from the press of the power button to power good
	Post      time.Duration // from power good, or the end of a reset, to POST complete
	Shutdown  time.Duration // from the end of a short press to power off
	ForceHold time.Duration // a button held this long takes power away
	Debounce  time.Duration // a button counts as pressed or let go after this long
}

// Quick is a board that does in tenths of a second what takes others seconds.
// The pulses of a configuration for it must be shorter than ForceHold, and its
// hold for force-off longer.
func Quick() Timing {
	return Timing{
		PowerGood: 200 * time.Millisecond,
		Post:      300 * time.Millisecond,
		Shutdown:  300 * time.Millisecond,
		ForceHold: time.Second,
		Debounce:  20 * time.Millisecond,
	}
}

// Faults is what is wrong with the board.
type Faults struct {
	NoPowerGood bool // power never comes up
	StuckOn     bool // a long press does not take power away
	Deaf        bool // no button has any effect
	ResetDead   bool // the reset button leads nowhere
}

// Steady is a board for a BMC whose clock is not the player's: a busy host may
// stretch a short press several times without making it a long one.
func Steady() Timing {
	return Timing{
		PowerGood: 300 * time.Millisecond,
		Post:      500 * time.Millisecond,
		Shutdown:  500 * time.Millisecond,
		ForceHold: 3 * time.Second,
		Debounce:  30 * time.Millisecond,
	}
}

// Board is the machine. Its zero value is a board without power whose delays are
// all zero. It is not safe for concurrent use.
type Board struct {
	Timing Timing
	Guest  Guest
	Faults Faults
	// Enable: the power line is no button. Power is on as long as it is asserted.
	Enable bool

	powerGood bool
	post      bool

	power, resets button

	pressed   bool // the power button, from either side
	pressedAt time.Duration
	pressedOn bool // power was on when the press began
	spent     bool // this press has had its effect
	reset     bool

	at [eventCount]time.Duration // when each pending event is due, 0 = not pending
}

// button is one debounced input.
type button struct {
	raw, stable bool
	since       time.Duration // when raw last changed
}

func (b *button) step(now, debounce time.Duration, raw bool) bool {
	if raw != b.raw {
		b.raw, b.since = raw, now
	}
	if now-b.since >= debounce {
		b.stable = b.raw
	}
	return b.stable
}

type event uint8

const (
	eventPowerGood event = iota
	eventPost
	eventShutdown
	eventCount
)

// New returns a board without power.
func New(t Timing) *Board { return &Board{Timing: t} }

// PowerGood reports the level of the power-good signal.
func (b *Board) PowerGood() bool { return b.powerGood }

// PostComplete reports whether the firmware has finished.
func (b *Board) PostComplete() bool { return b.post }

// LosePower takes power away, as a failing supply does.
func (b *Board) LosePower() {
	b.powerGood, b.post = false, false
	b.at = [eventCount]time.Duration{}
}

// GainPower puts the board into the state of a server that has been running for
// a while.
func (b *Board) GainPower() {
	b.at = [eventCount]time.Duration{}
	b.powerGood, b.post = true, true
}

// Step tells the board what its two buttons look like at a moment, where a
// button counts as pressed by the BMC or by a finger. Moments only grow, and
// are above zero.
func (b *Board) Step(now time.Duration, power, reset bool) {
	if b.Faults.Deaf {
		power, reset = false, false
	}
	if power = b.power.step(now, b.Timing.Debounce, power); b.Enable {
		b.stepEnable(now, power)
	} else {
		b.stepPowerButton(now, power)
	}
	b.stepResetButton(now, b.resets.step(now, b.Timing.Debounce, reset) && !b.Faults.ResetDead)
	b.settle(now)
}

func (b *Board) stepPowerButton(now time.Duration, pressed bool) {
	switch {
	case pressed && !b.pressed:
		b.pressedAt, b.pressedOn, b.spent = now, b.powerGood, false
		if !b.powerGood && b.at[eventPowerGood] == 0 && !b.Faults.NoPowerGood {
			b.at[eventPowerGood] = now + b.Timing.PowerGood
		}
	case pressed && !b.spent && now-b.pressedAt >= b.Timing.ForceHold:
		b.spent = true
		if !b.Faults.StuckOn {
			b.LosePower()
		}
	case !pressed && b.pressed && b.pressedOn && b.powerGood && !b.spent:
		b.askGuest(now)
	}
	b.pressed = pressed
}

func (b *Board) stepEnable(now time.Duration, enabled bool) {
	switch {
	case enabled && !b.pressed && !b.Faults.NoPowerGood:
		b.at[eventPowerGood] = now + b.Timing.PowerGood
	case !enabled && b.pressed:
		b.LosePower()
	}
	b.pressed = enabled
}

func (b *Board) askGuest(now time.Duration) {
	switch b.Guest {
	case GuestObeys:
		b.at[eventShutdown] = now + b.Timing.Shutdown
	case GuestReboots:
		b.post = false
		b.at[eventPost] = now + b.Timing.Post
	case GuestHangs:
	}
}

func (b *Board) stepResetButton(now time.Duration, pressed bool) {
	if b.powerGood && (pressed || b.reset) {
		b.post = false
		b.at[eventShutdown] = 0
		b.at[eventPost] = now + b.Timing.Post
	}
	b.reset = pressed
}

// settle lets what is due happen.
func (b *Board) settle(now time.Duration) {
	due := func(e event) bool {
		if b.at[e] == 0 || now < b.at[e] {
			return false
		}
		b.at[e] = 0
		return true
	}
	if due(eventPowerGood) {
		b.powerGood = true
		b.at[eventPost] = now + b.Timing.Post
	}
	if due(eventPost) {
		b.post = b.powerGood
	}
	if due(eventShutdown) {
		b.LosePower()
	}
}
