package gpio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state/slog"
)

// firstRound is how long OpenChardev waits for the lines before it leaves them
// to the background.
const firstRound = time.Second

// ChardevOptions says which lines a [Chardev] has.
type ChardevOptions struct {
	RunDir string // for the pulse marks, /run/bmcstate
	Host   int
	Lines  []Line
	Hook   Hook         // may be nil
	Log    *slog.Logger // nil = silent

	// Inherited holds descriptors of level-type outputs by [FDName], as systemd
	// kept them over a restart. OpenChardev owns them and closes what it has no
	// use for.
	Inherited map[string]*os.File
	// Store is called with each level-type output's descriptor once it is
	// requested, to be kept under its FDName. It must not keep f itself.
	Store func(name string, f *os.File)
}

// Chardev is a [Board] on Linux GPIO character devices. It needs uAPI v2,
// Linux 5.10.
//
// A line that is missing, busy or lost is asked for again with a back-off; the
// others work meanwhile. When it comes back, an Event with Gap set says so.
type Chardev struct {
	_ [0]func() // see state.Incomparable

	opt   ChardevOptions
	k     kernel
	lines map[string]*line // read-only
	in    *inputs
	out   *outputs
	queue *eventQueue
	crew  crew
	stop  chan struct{}
	once  sync.Once
}

// OpenChardev takes the lines. Only a wrong configuration is an error: what is
// wrong with single lines is in [Chardev.Problems]. It moves no line.
func OpenChardev(o ChardevOptions) (*Chardev, error) { return openChardev(o, linux{}) }

func openChardev(o ChardevOptions, k kernel) (*Chardev, error) {
	if err := validateLines(o.Lines); err != nil {
		for _, f := range o.Inherited {
			f.Close()
		}
		return nil, fmt.Errorf("gpio: host %d: %w", o.Host, err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Chardev{opt: o, k: k, lines: map[string]*line{}, queue: newEventQueue(), stop: make(chan struct{})}
	kinds := map[string]signalKind{}
	var readable []string
	for _, cfg := range o.Lines {
		l := newLine(cfg)
		c.lines[cfg.Signal] = l
		if l.kind == kindPulse || l.kind == kindLevel {
			kinds[cfg.Signal] = l.kind
		}
		if l.kind != kindPulse {
			readable = append(readable, cfg.Signal)
		}
	}
	c.adopt()
	c.in = newInputs(readable, c.read, c.where)
	c.out = newOutputs(c, newMarks(o.RunDir), o.Hook, kinds, c.queue.push, o.Log)
	c.start()
	return c, nil
}

// adopt takes the inherited descriptors over.
func (c *Chardev) adopt() {
	for _, l := range c.lines {
		name := FDName(c.opt.Host, l.cfg)
		f := c.opt.Inherited[name]
		if f == nil || l.kind != kindLevel {
			continue
		}
		delete(c.opt.Inherited, name)
		l.f = f
	}
	for _, f := range c.opt.Inherited {
		f.Close()
	}
}

// start runs a keeper per line and gives them firstRound to succeed or fail.
func (c *Chardev) start() {
	for _, l := range c.lines {
		c.crew.run(func() { c.keep(l) })
	}
	late := time.NewTimer(firstRound)
	defer late.Stop()
	for _, l := range c.lines {
		select {
		case <-l.tried:
		case <-late.C:
			return
		}
	}
}

// Read implements [Board].
func (c *Chardev) Read(ctx context.Context, settle time.Duration) (Levels, error) {
	return c.in.levels(ctx, settle)
}

// Pulse implements [Board].
func (c *Chardev) Pulse(ctx context.Context, signal string, width time.Duration, urgent bool) error {
	return c.out.pulse(ctx, signal, width, urgent)
}

// Release implements [Board].
func (c *Chardev) Release(signal string) { c.out.end(signal) }

// ReleaseAll implements [Board].
func (c *Chardev) ReleaseAll() { c.out.endAll() }

// SetLevel implements [Board].
func (c *Chardev) SetLevel(ctx context.Context, signal string, on bool) error {
	return c.out.setLevel(ctx, signal, on)
}

// Events implements [Board].
func (c *Chardev) Events() <-chan Event { return c.queue.out }

// Hold implements [Holder].
func (c *Chardev) Hold(ctx context.Context, signal string, hold bool) error {
	l := c.lines[signal]
	if l == nil || l.kind != kindPulse {
		return c.where("hold", signal, ErrMissing)
	}
	err := l.holds.do(ctx, &c.crew, ioTimeout, func() error { return c.holdIdle(l, hold) })
	if err != nil {
		return c.where("hold", signal, err)
	}
	return nil
}

// Problems implements [Reporter].
func (c *Chardev) Problems() []*LineError {
	var all []*LineError
	for s, l := range c.lines {
		if err := l.problem(); err != nil {
			all = append(all, c.lineError("request", s, err))
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Signal < all[j].Signal })
	return all
}

// Close implements [Board].
func (c *Chardev) Close() error {
	c.once.Do(func() {
		c.out.close()
		close(c.stop)
		for _, l := range c.lines {
			if f := l.shut(); f != nil {
				// Closing waits for a call that hangs on the same descriptor.
				c.crew.run(func() { f.Close() })
			}
		}
		c.in.crew.close(releaseAllIn)
		c.crew.close(releaseAllIn)
		c.queue.close()
	})
	return nil
}

// where implements driver.
func (c *Chardev) where(op, signal string, err error) error { return c.lineError(op, signal, err) }

func (c *Chardev) lineError(op, signal string, err error) *LineError {
	e := &LineError{Op: op, Signal: signal, Err: err}
	if l := c.lines[signal]; l != nil {
		e.Chip, e.Line = l.cfg.Chip, l.cfg.label()
		if at, ok := l.where(); ok {
			e.Chip = at.chip
		}
	}
	return e
}

// mark implements driver.
func (c *Chardev) mark(signal string) mark {
	l := c.lines[signal]
	k := mark{
		Kind: markChardev, Board: c.opt.Host, Signal: signal,
		Chip: l.cfg.Chip, Line: l.cfg.Name, Offset: l.cfg.Offset,
		ActiveLow: l.cfg.ActiveLow, Drive: l.cfg.Drive, Bias: l.cfg.Bias,
	}
	if at, ok := l.where(); ok {
		k.Dev, k.Chip, k.Offset, k.Line = at.dev, at.chip, at.offset, at.name
	}
	return k
}

// releaseChardev releases a marked line of a real chip: where it was, or, after
// the devices were renumbered, where its chip and name are now.
func releaseChardev(k kernel, m mark) error {
	l := Line{
		Signal: m.Signal, Chip: m.Chip, Name: m.Line, Offset: m.Offset,
		ActiveLow: m.ActiveLow, Drive: m.Drive, Bias: m.Bias,
	}
	f, err := request(k, place{dev: m.Dev, chip: m.Chip, offset: m.Offset, name: m.Line}, l.asOutput(false), 0)
	if err != nil && !errors.Is(lineCause(err), ErrBusy) {
		var at place
		if at, err = resolve(k, l); err == nil {
			f, err = request(k, at, l.asOutput(false), 0)
		}
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return &LineError{Op: "release", Signal: m.Signal, Chip: m.Chip, Line: l.label(), Err: lineCause(err)}
	}
	return nil
}
