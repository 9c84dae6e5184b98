package main

import (
	"context"
	"time"

	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
)

// joinedBoard is a board some of whose inputs are D-Bus properties.
type joinedBoard struct {
	_ state.Incomparable

	gpio.Board
	source *inputs.Source
	events chan gpio.Event
	stop   chan struct{}
	ended  chan struct{}
}

var _ gpio.Board = (*joinedBoard)(nil)

// joinInputs adds the inputs of a source to a board, and owns both.
func joinInputs(b gpio.Board, s *inputs.Source) *joinedBoard {
	j := &joinedBoard{Board: b, source: s, events: make(chan gpio.Event), stop: make(chan struct{}), ended: make(chan struct{})}
	go j.pass()
	return j
}

// Events carries the events of both.
func (j *joinedBoard) Events() <-chan gpio.Event { return j.events }

func (j *joinedBoard) pass() {
	defer close(j.ended)
	defer close(j.events)
	lines, props := j.Board.Events(), j.source.Events()
	for lines != nil || props != nil {
		var ev gpio.Event
		select {
		case e, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			ev = e
		case e, ok := <-props:
			if !ok {
				props = nil
				continue
			}
			ev = gpio.Event{Signal: e.Signal, Asserted: e.Asserted, Gap: e.Gap}
		case <-j.stop:
			return
		}
		select {
		case j.events <- ev:
		case <-j.stop:
			return
		}
	}
}

// Read samples the properties before and after the lines, so that a settled
// reading has two samples of both.
func (j *joinedBoard) Read(ctx context.Context, settle time.Duration) (gpio.Levels, error) {
	first := j.source.Read(ctx)
	all, err := j.Board.Read(ctx, settle)
	second := first
	if settle > 0 {
		second = j.source.Read(ctx)
	}
	for signal, l := range second {
		f := first[signal]
		all[signal] = gpio.Level{
			Asserted: l.Asserted && l.Err == nil, Known: l.Err == nil, Err: l.Err,
			Agreed: l.Err == nil && f.Err == nil && f.Asserted == l.Asserted,
		}
	}
	return all, err
}

// Hold implements [gpio.Holder] for the lines.
func (j *joinedBoard) Hold(ctx context.Context, signal string, hold bool) error {
	if h, ok := j.Board.(gpio.Holder); ok {
		return h.Hold(ctx, signal, hold)
	}
	return errNoHolder
}

// Close ends both.
func (j *joinedBoard) Close() error {
	close(j.stop)
	j.source.Close()
	err := j.Board.Close()
	<-j.ended
	return err
}
