package main

import (
	"context"
	"errors"
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// board shows a gpio.Board to the engine, in the engine's terms.
type board struct {
	gpio.Board
	awaits []string        // inputs that a power-on sequence waits for, by number
	sets   map[string]bool // outputs that it sets, and to what first
	edges  chan engine.Edge
	stop   chan struct{}
	ended  chan struct{}

	markers *bootMarkers // nil where targets have no part in it
}

var _ engine.Board = (*board)(nil)

// newBoard starts to pass the board's events on, until Close.
func newBoard(b gpio.Board, acts []sequence.Action, awaits []string) *board {
	a := &board{Board: b, awaits: awaits, sets: firstSets(acts), edges: make(chan engine.Edge, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	go a.pass()
	return a
}

func firstSets(acts []sequence.Action) map[string]bool {
	sets := map[string]bool{}
	for _, a := range acts {
		if _, known := sets[a.Signal]; a.Kind == sequence.ActionSet && !known {
			sets[a.Signal] = a.On
		}
	}
	return sets
}

func (b *board) pass() {
	defer close(b.ended)
	defer close(b.edges)
	for ev := range b.Events() {
		e := engine.Edge{Signal: ev.Signal, Asserted: ev.Asserted}
		if ev.Gap {
			e = engine.Edge{} // edges were lost: read the levels, guess no press
		}
		select {
		case b.edges <- e:
		case <-b.stop:
			return
		}
	}
}

// Close releases the lines and waits for the events' goroutine.
func (b *board) Close() error {
	close(b.stop)
	err := b.Board.Close()
	<-b.ended
	return err
}

func (b *board) Edges() <-chan engine.Edge { return b.edges }

// Read samples the inputs. A line that cannot be read is unknown, and its
// error is the reading's where it matters for the power state.
func (b *board) Read(ctx context.Context, settle time.Duration) (state.Levels, bool, error) {
	all, err := b.Board.Read(ctx, settle)
	l := state.Levels{
		PowerGood:     level(all, gpio.PowerOk),
		SIOGood:       level(all, gpio.SioPowerGood),
		PostComplete:  level(all, gpio.PostComplete),
		PlatformReset: level(all, gpio.PlatformReset),
		PowerOut:      level(all, gpio.PowerOut),
		Slot:          level(all, gpio.SlotPower),
		Applied:       b.applied(all),
	}
	for b, signal := range buttonSignals {
		l.Pressed[b] = level(all, signal)
	}
	for i, signal := range b.awaits {
		if in := all[signal]; in.Known {
			l.InputsKnown |= 1 << i
			if in.Asserted {
				l.Inputs |= 1 << i
			}
		}
	}
	err = errors.Join(err, all[gpio.PowerOk].Err, all[gpio.SioPowerGood].Err)
	if b.markers != nil && err == nil {
		b.markers.keep(l, true)
	}
	return l, all.Agreed(gpio.PowerOk, gpio.SioPowerGood), err
}

// applied says whether an output stands as the power-on sequence first sets it.
// To take a sequence back is to set each to the opposite of that.
func (b *board) applied(all gpio.Levels) state.Level {
	applied := state.LevelAbsent
	for signal, on := range b.sets {
		switch l := all[signal]; {
		case !l.Known:
			applied = max(applied, state.LevelUnknown)
		case l.Asserted == on:
			return state.LevelOn
		default:
			applied = max(applied, state.LevelOff)
		}
	}
	return applied
}

var buttonSignals = [state.Buttons]string{
	state.ButtonPower: gpio.PowerButton, state.ButtonReset: gpio.ResetButton,
	state.ButtonNMI: gpio.NMIButton, state.ButtonID: gpio.IdButton,
}

// errNoHolder says that a mask cannot be held.
var errNoHolder = errors.New("this board cannot hold a line at its idle level")

// Hold implements engine.Holder.
func (b *board) Hold(ctx context.Context, signal string, hold bool) error {
	if h, ok := b.Board.(gpio.Holder); ok {
		return h.Hold(ctx, signal, hold)
	}
	return errNoHolder
}

func level(all gpio.Levels, signal string) state.Level {
	l, ok := all[signal]
	switch {
	case !ok:
		return state.LevelAbsent
	case !l.Known:
		return state.LevelUnknown
	default:
		return state.LevelOf(l.Asserted)
	}
}

// Pulse asserts an output for a while. A pulse that ended because another took
// the line over, or before it began, has done what was asked.
func (b *board) Pulse(ctx context.Context, signal string, width time.Duration, urgent bool) (bool, error) {
	err := b.Board.Pulse(ctx, signal, width, urgent)
	moved := gpio.Moved(err)
	if errors.Is(err, gpio.ErrTakenOver) || errors.Is(err, gpio.ErrNotDriven) {
		err = nil
	}
	return moved, err
}
