package gpio

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state/slog"
)

// driver moves outputs. Each call may hang; there is at most one at a time per
// signal.
type driver interface {
	// drive sets the logical level of an output. A pulse output that is
	// driven inactive goes back to its idle state.
	drive(signal string, asserted bool) error
	// mark describes a pulse output for [ReleaseMarked].
	mark(signal string) mark
	// where fills in chip and line of an error.
	where(op, signal string, err error) error
}

// outputs owns the outputs of a board: one pulse or level change at a time per
// line, each on a goroutine of its own, so that a hung line holds nobody else.
type outputs struct {
	_ [0]func() // see state.Incomparable

	drv   driver
	marks marks
	hook  Hook
	kinds map[string]signalKind // kindPulse or kindLevel
	told  func(Event)           // hears of each pulse that is asserted
	log   *slog.Logger

	crew *crew
	stop chan struct{} // closed by close: gives up retrying releases

	mu     sync.Mutex
	closed bool
	lines  map[string]*pulse // the running pulse of a line
	levels map[string]*call  // of the level-type outputs; read-only
}

func newOutputs(drv driver, m marks, hook Hook, kinds map[string]signalKind, told func(Event), log *slog.Logger) *outputs {
	o := &outputs{
		drv: drv, marks: m, hook: hook, kinds: kinds, told: told, log: log,
		crew:   &crew{},
		stop:   make(chan struct{}),
		lines:  map[string]*pulse{},
		levels: map[string]*call{},
	}
	for signal, kind := range kinds {
		if kind == kindLevel {
			o.levels[signal] = &call{}
		}
	}
	return o
}

// end implements Board.Release.
func (o *outputs) end(signal string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.lines[signal]; p != nil {
		o.endLocked(p)
	}
}

func (o *outputs) endLocked(p *pulse) {
	p.ended = true
	p.until = time.Now()
	p.poke()
}

// endAll ends every pulse and waits for the releases, releaseAllIn at most.
func (o *outputs) endAll() {
	o.mu.Lock()
	running := make([]*pulse, 0, len(o.lines))
	for _, p := range o.lines {
		o.endLocked(p)
		running = append(running, p)
	}
	o.mu.Unlock()

	late := time.NewTimer(releaseAllIn)
	defer late.Stop()
	for _, p := range running {
		select {
		case <-p.done:
		case <-late.C:
			return
		}
	}
}

// pulsing reports whether the line carries a pulse.
func (o *outputs) pulsing(signal string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines[signal] != nil
}

// setLevel implements Board.SetLevel.
func (o *outputs) setLevel(ctx context.Context, signal string, on bool) error {
	if o.kinds[signal] != kindLevel {
		return o.drv.where("set level", signal, fmt.Errorf("not configured as a level output: %w", ErrMissing))
	}
	if err := ctx.Err(); err != nil {
		return o.drv.where("set level", signal, err)
	}
	err := o.levels[signal].do(ctx, o.crew, ioTimeout, func() error {
		o.hook.at(BeforeLevel, signal)
		err := o.drv.drive(signal, on)
		o.hook.at(AfterLevel, signal)
		return err
	})
	if err != nil {
		return o.drv.where("set level", signal, err)
	}
	return nil
}

// close ends the pulses and refuses new ones. A goroutine that hangs in the
// kernel is left behind after releaseAllIn; it ends when its call returns.
func (o *outputs) close() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	o.mu.Unlock()
	o.endAll()
	close(o.stop)
	o.crew.close(releaseAllIn)
}
