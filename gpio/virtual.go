package gpio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state/slog"
)

// VirtualOptions says which simulated board to open, and how.
type VirtualOptions struct {
	RunDir string // holds the board's files; created if needed
	Board  int    // the host's number
	Config VirtualConfig
	Hook   Hook         // may be nil
	Log    *slog.Logger // nil = silent
	// AllowHung makes Faults.LineHung effective. For tests and builds that
	// inject faults.
	AllowHung bool
}

// Virtual is a [Board] whose wires live in a file: a simulated chassis
// (DESIGN.md §4). It goes on by the clock while no process has it open, and
// any number of processes may look at it and act on it; see [Stimulate],
// [ReadChassis] and [ReadWires]. One process at a time should drive it.
type Virtual struct {
	_ [0]func() // see state.Incomparable

	opt   VirtualOptions
	file  boardFile
	in    *inputs
	out   *outputs
	queue *eventQueue
	watch *dirWatch
	done  chan struct{} // the watcher has ended
	fresh bool
	once  sync.Once
	held  func() // gives up what tells others that a living process drives the board; the watcher's once it runs

	// Of the watcher goroutine alone.
	id     string
	seq    uint64
	faulty []string  // signals without a usable line
	gone   time.Time // since when the board's file is missing; zero = it is there
}

// OpenVirtual opens a simulated board, and creates it, with power off, if the
// run directory does not hold it. It moves no wire.
func OpenVirtual(o VirtualOptions) (*Virtual, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("gpio: virtual board %d: %w", o.Board, err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Config = o.Config.resolved()
	v := &Virtual{opt: o, file: boardFile{o.RunDir, o.Board}, done: make(chan struct{})}
	create := func() (*world, error) {
		v.fresh = true
		return v.file.create(o.Config)()
	}
	err := v.file.with(create, func(w *world) {
		w.configure(o.Config)
		v.id, v.seq, v.faulty = w.ID, w.Seq, w.faulty()
	})
	if err != nil {
		return nil, err
	}
	if v.held, err = v.file.hold(); err != nil {
		return nil, err
	}
	if v.watch, err = watchDir(o.RunDir); err != nil {
		v.held()
		return nil, err
	}
	v.in = newInputs(v.signals(kindInput, kindButton, kindLevel), v.read, v.where)
	if !o.AllowHung {
		v.in.limit = time.Minute // no line hangs; where one is late the machine is busy
	}
	v.queue = newEventQueue()
	v.out = newOutputs(v, newMarks(o.RunDir), o.Hook, v.outputKinds(), v.queue.push, o.Log)
	go v.run()
	return v, nil
}

// Fresh reports whether this open created the board: AC was applied since it
// was last open.
func (v *Virtual) Fresh() bool { return v.fresh }

func (v *Virtual) signals(kinds ...signalKind) []string {
	var all []string
	for s := range signalKinds {
		for _, k := range kinds {
			if k == v.opt.Config.kind(s) && v.opt.Config.has(s) {
				all = append(all, s)
			}
		}
	}
	return all
}

func (v *Virtual) outputKinds() map[string]signalKind {
	kinds := map[string]signalKind{}
	for _, s := range v.signals(kindPulse, kindLevel) {
		kinds[s] = v.opt.Config.kind(s)
	}
	return kinds
}

// Read implements [Board].
func (v *Virtual) Read(ctx context.Context, settle time.Duration) (Levels, error) {
	return v.in.levels(ctx, settle)
}

// Pulse implements [Board].
func (v *Virtual) Pulse(ctx context.Context, signal string, width time.Duration, urgent bool) error {
	return v.out.pulse(ctx, signal, width, urgent)
}

// Release implements [Board].
func (v *Virtual) Release(signal string) { v.out.end(signal) }

// ReleaseAll implements [Board].
func (v *Virtual) ReleaseAll() { v.out.endAll() }

// SetLevel implements [Board].
func (v *Virtual) SetLevel(ctx context.Context, signal string, on bool) error {
	return v.out.setLevel(ctx, signal, on)
}

// Events implements [Board].
func (v *Virtual) Events() <-chan Event { return v.queue.out }

// Hold implements [Holder].
func (v *Virtual) Hold(_ context.Context, signal string, hold bool) error {
	if v.opt.Config.kind(signal) != kindPulse {
		return v.where("hold", signal, ErrMissing)
	}
	err := v.file.with(nil, func(w *world) { w.hold(signal, hold) })
	if err != nil {
		return v.where("hold", signal, err)
	}
	return nil
}

// Problems implements [Reporter].
func (v *Virtual) Problems() []*LineError {
	var f Faults
	err := v.file.with(nil, func(w *world) { f = w.Config.Faults })
	var all []*LineError
	for _, s := range v.signals(kindInput, kindButton, kindPulse, kindLevel) {
		cause := err
		switch {
		case err != nil:
		case contains(f.LineMissing, s):
			cause = ErrMissing
		case contains(f.LineBusy, s):
			cause = ErrBusy
		default:
			continue
		}
		all = append(all, v.lineError("request", s, cause))
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Signal < all[j].Signal })
	return all
}

// Close implements [Board]. The board itself lives on in its file.
func (v *Virtual) Close() error {
	v.once.Do(func() {
		v.out.close()
		v.watch.close()
		<-v.done
		v.held()
		v.in.crew.close(releaseAllIn)
		v.queue.close()
	})
	return nil
}

// usable answers whether the fault list lets a call for signal through. It
// blocks while the line hangs.
func (v *Virtual) usable(signal string) error {
	for {
		var f Faults
		err := v.file.with(nil, func(w *world) { f = w.Config.Faults })
		switch {
		case err != nil:
			return err
		case contains(f.LineMissing, signal):
			return ErrMissing
		case contains(f.LineBusy, signal):
			return ErrBusy
		case !v.opt.AllowHung || !contains(f.LineHung, signal):
			return nil
		}
		t := time.NewTimer(5 * time.Millisecond)
		select {
		case <-t.C:
		case <-v.out.stop:
			t.Stop()
			return ErrClosed
		}
	}
}

// read is one call for one input.
func (v *Virtual) read(signal string) (asserted bool, err error) {
	if err := v.usable(signal); err != nil {
		return false, err
	}
	err = v.file.with(nil, func(w *world) { asserted = w.Wires[signal] })
	return asserted, err
}

// drive implements driver. Like a real line, one that is gone while asserted
// still lets go: the wire is no longer driven.
func (v *Virtual) drive(signal string, asserted bool) error {
	if err := v.usable(signal); err != nil && (asserted || errors.Is(err, ErrClosed)) {
		return err
	}
	return v.file.with(nil, func(w *world) { w.drive(signal, asserted, os.Getpid()) })
}

// mark implements driver.
func (v *Virtual) mark(signal string) mark {
	return mark{Kind: markVirtual, Board: v.opt.Board, Signal: signal}
}

// where implements driver.
func (v *Virtual) where(op, signal string, err error) error { return v.lineError(op, signal, err) }

func (v *Virtual) lineError(op, signal string, err error) *LineError {
	return &LineError{Op: op, Signal: signal, Chip: fmt.Sprintf("virtual%d", v.opt.Board), Line: signal, Err: err}
}

// run turns what happens on the wires into events, and keeps the board going
// on time.
func (v *Virtual) run() {
	defer close(v.done)
	for {
		next, err := v.look()
		if err != nil {
			v.opt.Log.Error("virtual board cannot be read", "board", v.opt.Board, "err", err)
			next = time.Second
		}
		if !v.watch.wait(next) {
			return
		}
	}
}

// deleteTime is how long a board's file may be missing before the watcher
// applies AC anew: whoever deletes the directory gets that long to finish.
const deleteTime = 100 * time.Millisecond

// look reports what is new, and how long nothing happens of itself.
func (v *Virtual) look() (time.Duration, error) {
	next := time.Second
	var events []Event
	// Told once the board is stored: who hears of it may look, or delete it.
	defer func() {
		for _, e := range events {
			v.queue.push(e)
		}
	}()
	see := func(w *world) {
		v.gone = time.Time{}
		events = v.report(w)
		if at, ok := w.nextDue(); ok {
			next = min(next, max(at-BootTime(), 0))
		}
	}
	err := v.file.with(nil, see)
	if !errors.Is(err, fs.ErrNotExist) {
		return next, err
	}
	if v.gone.IsZero() {
		v.gone = time.Now()
	}
	if left := deleteTime - time.Since(v.gone); left > 0 {
		return left, nil
	}
	if err := v.file.with(v.file.create(v.opt.Config), see); err != nil {
		return next, err
	}
	v.held()
	v.held, err = v.file.hold() // the lock went with the directory
	return next, err
}

// report lists what is new on the wires.
func (v *Virtual) report(w *world) (events []Event) {
	faulty := w.faulty()
	edges, lost := w.since(v.seq)
	if w.ID != v.id { // AC was lost meanwhile
		edges, lost = nil, true
	}
	for _, e := range edges {
		if !contains(faulty, e.Signal) {
			events = append(events, Event{Signal: e.Signal, Asserted: e.Asserted})
		}
	}
	for _, s := range v.signals(kindInput, kindButton) {
		if lost || contains(faulty, s) != contains(v.faulty, s) {
			events = append(events, Event{Signal: s, Asserted: w.Wires[s], Gap: true})
		}
	}
	v.id, v.seq, v.faulty = w.ID, w.Seq, faulty
	return events
}

// faulty lists the signals whose line is missing or busy.
func (w *world) faulty() []string {
	return append(append([]string(nil), w.Config.Faults.LineMissing...), w.Config.Faults.LineBusy...)
}
