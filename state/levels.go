package state

import "time"

// Level is what one input shows.
type Level uint8

// The levels. The zero value is an input that the board does not have.
const (
	LevelAbsent  Level = iota // not configured
	LevelUnknown              // configured, but could not be read
	LevelOff                  // de-asserted
	LevelOn                   // asserted
)

// LevelOf returns the level for a value that was read.
func LevelOf(asserted bool) Level {
	if asserted {
		return LevelOn
	}
	return LevelOff
}

// Known reports whether the level was read.
func (l Level) Known() bool { return l >= LevelOff }

// Levels is one reading of a board's inputs. Polarity is already taken into
// account: On means asserted.
type Levels struct {
	PowerGood     Level // PowerOk, or what stands in for it
	SIOGood       Level // SioPowerGood
	PostComplete  Level
	PlatformReset Level
	HostActive    Level // the host's run-time unit, on boards run by systemd targets

	PowerOut Level // of a level-type output: what it is driven to
	Slot     Level // of SlotPower, likewise
	Applied  Level // on while an output that a power-on sequence sets stands as set

	// Inputs and InputsKnown are what the further inputs show that a board's
	// power-on sequence waits for, a bit each; see [Levels.Input].
	Inputs, InputsKnown uint32

	Pressed    [Buttons]Level // by [Button]
	Quiesced   Level          // the host's quiesce unit, likewise
	Diagnostic Level          // the host's diagnostic unit, likewise

	// HostSince is when HostActive last changed, by the boot clock; 0 = not
	// told. A unit that was started anew between two readings shows here only.
	HostSince time.Duration
	// PowerSince is when PowerGood last came to be, where that shows how the
	// power got to be as it is; 0 = not known.
	PowerSince time.Duration
}

// MaxInputs bounds the further inputs of a board.
const MaxInputs = 32

// Input returns the level of the further input i.
func (l Levels) Input(i int) Level {
	if l.InputsKnown&(1<<i) == 0 {
		return LevelUnknown
	}
	return LevelOf(l.Inputs&(1<<i) != 0)
}

// Power returns what the levels say about power: known is false while nothing
// can be said. With both inputs present power is on as soon as one says so
// (power-sequencing.md §6.1 no. 32).
func (l Levels) Power() (on, known bool) {
	if l.PowerGood == LevelOn || l.SIOGood == LevelOn {
		return true, true
	}
	return false, l.PowerGood == LevelOff
}

// HostRunning reports whether the host runs: power good and, where the board
// has it, SIO power good; with strict also POST complete (DESIGN.md §3.2).
func (l Levels) HostRunning(strict bool) bool {
	if l.HostActive != LevelAbsent {
		return l.HostActive == LevelOn && l.PowerGood != LevelOff // a unit may outlast the power
	}
	if l.PowerGood != LevelOn || l.SIOGood == LevelOff || l.SIOGood == LevelUnknown {
		return false
	}
	return !strict || l.PostComplete == LevelOn || l.PostComplete == LevelAbsent
}

// ResetVisible reports whether some input can show that the host went through
// a reset.
func (l Levels) ResetVisible() bool {
	return l.PostComplete != LevelAbsent || l.PlatformReset != LevelAbsent
}

// InReset reports whether the levels show a host held in reset or before the
// end of its POST.
func (l Levels) InReset() bool {
	return l.PostComplete == LevelOff || l.PlatformReset == LevelOn
}
