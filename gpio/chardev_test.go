package gpio

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/warthog618/go-gpiocdev/uapi"

	"github.com/bmcstate/bmcstate/state/slog"
)

const patience = 2 * time.Minute

// bench is a board on one fake chip.
type bench struct {
	t   *testing.T
	k   *fakeKernel
	c   *fakeChip
	b   *Chardev
	dir string
}

const dev = "/dev/gpiochip0"

var benchNames = []string{"POWER_OUT", "RESET_OUT", "PS_PWROK", "POWER_BUTTON", "SLOT_PWR"}

func standard() []Line {
	return []Line{
		{Signal: PowerOut, Chip: "aspeed", Name: "POWER_OUT", ActiveLow: true},
		{Signal: ResetOut, Name: "RESET_OUT", Hold: true},
		{Signal: PowerOk, Chip: "gpiochip0", Offset: 2},
		{Signal: PowerButton, Name: "POWER_BUTTON", ActiveLow: true},
		{Signal: SlotPower, Name: "SLOT_PWR"},
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	k := newFakeKernel()
	b := &bench{t: t, k: k, c: k.add(dev, "aspeed", benchNames...), dir: t.TempDir()}
	for _, name := range []string{"POWER_OUT", "POWER_BUTTON", "SLOT_PWR"} {
		b.line(name).high = true
	}
	return b
}

func (b *bench) open(change func(*ChardevOptions)) *bench {
	b.t.Helper()
	o := ChardevOptions{RunDir: b.dir, Lines: standard()}
	if change != nil {
		change(&o)
	}
	c, err := openChardev(o, b.k)
	require.NoError(b.t, err)
	b.b = c
	b.t.Cleanup(func() {
		require.NoError(b.t, c.Close())
		b.k.closeAll()
	})
	return b
}

func (b *bench) line(name string) *fakeLine {
	for _, l := range b.c.lines {
		if l.name == name {
			return l
		}
	}
	b.t.Fatalf("no line %s", name)
	return nil
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// levels reads until no line is late, as one may be on a busy machine.
func (b *bench) levels() Levels {
	b.t.Helper()
	for {
		l := b.read()
		late := false
		for _, level := range l {
			late = late || errors.Is(level.Err, ErrStuck)
		}
		if !late {
			return l
		}
	}
}

func (b *bench) read() Levels {
	b.t.Helper()
	l, err := b.b.Read(b.ctx(), 0)
	require.NoError(b.t, err)
	return l
}

// next waits for an event of signal.
func (b *bench) next(signal string) Event {
	b.t.Helper()
	ctx := b.ctx()
	for {
		select {
		case e := <-b.b.Events():
			if e.Signal == signal {
				return e
			}
		case <-ctx.Done():
			require.FailNow(b.t, "no event", signal)
		}
	}
}

func (b *bench) eventually(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, patience, time.Millisecond, what)
}

func TestChardevStartsWithoutMovingALine(t *testing.T) {
	b := newBench(t).open(nil)
	require.Empty(t, b.b.Problems())
	for _, l := range b.c.lines {
		require.Empty(t, l.history(), l.name)
	}
	l := b.levels()
	require.Equal(t, Level{Known: true, Agreed: true}, l[PowerOk])
	require.Equal(t, Level{Known: true, Agreed: true}, l[PowerButton], "active low and high")
	require.True(t, l.Asserted(SlotPower))
	require.False(t, b.line("POWER_OUT").isRequested(), "free between pulses")
	require.True(t, b.line("RESET_OUT").isRequested(), "held between pulses")
}

func TestChardevPulse(t *testing.T) {
	for name, c := range map[string]struct {
		signal string
		moves  []bool
		held   bool
	}{
		"POWER_OUT": {PowerOut, []bool{false, true}, false},
		"RESET_OUT": {ResetOut, []bool{true, false}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).open(nil)
			for range 2 {
				require.NoError(t, b.b.Pulse(b.ctx(), c.signal, 5*time.Millisecond, false))
			}
			require.Equal(t, append(c.moves, c.moves...), b.line(name).history())
			require.Equal(t, c.held, b.line(name).isRequested())
			require.Empty(t, marksIn(t, b.dir))
		})
	}
}

func marksIn(t *testing.T, dir string) []mark {
	t.Helper()
	all, err := newMarks(dir).list()
	require.NoError(t, err)
	return all
}

func TestChardevEvents(t *testing.T) {
	b := newBench(t).open(nil)
	require.Equal(t, Event{Signal: PowerOk, Gap: true}, b.next(PowerOk), "the line came")
	ok := b.line("PS_PWROK")
	ok.pull(true, 0)
	require.Equal(t, Event{Signal: PowerOk, Asserted: true}, b.next(PowerOk))
	require.True(t, b.levels().Asserted(PowerOk))
	ok.pull(false, 3)
	require.Equal(t, Event{Signal: PowerOk, Gap: true}, b.next(PowerOk), "edges were lost")
	ok.pull(true, 0)
	require.Equal(t, Event{Signal: PowerOk, Asserted: true}, b.next(PowerOk))

	button := b.line("POWER_BUTTON")
	for range 3 {
		button.pull(false, 0)
		button.pull(true, 0)
	}
	for range 3 {
		for e := b.next(PowerButton); !e.Asserted; e = b.next(PowerButton) {
		}
	}
}

func TestChardevGlitchEndsAtTheRightLevel(t *testing.T) {
	b := newBench(t).open(nil)
	ok := b.line("PS_PWROK")
	for i := range 201 {
		ok.pull(i%2 == 0, 0)
	}
	last := b.next(PowerOk)
	b.eventually("the last event is the level", func() bool {
		select {
		case e := <-b.b.Events():
			if e.Signal == PowerOk {
				last = e
			}
		default:
		}
		return last.Asserted && len(b.b.queue.waiting()) == 0
	})
}

func (q *eventQueue) waiting() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]Event(nil), q.pending...)
}

func TestChardevMissingLineComesLater(t *testing.T) {
	b := newBench(t)
	b.line("PS_PWROK").name = "OTHER"
	b.open(func(o *ChardevOptions) { o.Lines[2] = Line{Signal: PowerOk, Chip: "aspeed", Name: "PS_PWROK"} })
	p := b.b.Problems()
	require.Len(t, p, 1)
	require.ErrorIs(t, p[0], ErrMissing)
	require.EqualError(t, p[0], "gpio: request PowerOk (chip aspeed, line PS_PWROK): no such line")
	l := b.levels()
	require.ErrorIs(t, l[PowerOk].Err, ErrMissing)
	require.True(t, l[PowerButton].Known, "the rest works")
	require.NoError(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false))

	b.k.remove(dev)
	b.line("OTHER").name = "PS_PWROK"
	b.k.plug(dev, b.c)
	b.eventually("all lines work", func() bool { return len(b.b.Problems()) == 0 })
	require.True(t, b.levels()[PowerOk].Known)
}

func TestChardevBusyLineIsReleasedLater(t *testing.T) {
	b := newBench(t)
	b.line("PS_PWROK").setConsumer("gpio-keys")
	b.line("POWER_OUT").setConsumer("other")
	b.open(nil)
	p := b.b.Problems()
	require.Len(t, p, 2)
	require.ErrorIs(t, p[0], ErrBusy)
	require.EqualError(t, p[0], `gpio: request PowerOk (chip aspeed, line 2): line is held by another process: "gpio-keys" has it`)
	require.ErrorContains(t, p[1], `(chip aspeed, line POWER_OUT): line is held by another process: "other" has it`)
	require.ErrorIs(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false), ErrBusy)
	require.Empty(t, marksIn(t, b.dir))

	b.line("PS_PWROK").setConsumer("")
	b.line("POWER_OUT").setConsumer("")
	b.eventually("all lines work", func() bool { return len(b.b.Problems()) == 0 })
	require.True(t, b.next(PowerOk).Gap)
	require.NoError(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false))
}

func TestChardevChipRemovedAndBack(t *testing.T) {
	b := newBench(t).open(nil)
	require.True(t, b.next(PowerOk).Gap)
	require.NoError(t, b.b.SetLevel(b.ctx(), SlotPower, true))
	b.k.remove(dev)
	require.Equal(t, Event{Signal: PowerOk, Gap: true}, b.next(PowerOk), "the line went")
	before := b.k.readCount()
	l := b.levels()
	for _, s := range []string{PowerOk, PowerButton, SlotPower} {
		require.ErrorIs(t, l[s].Err, ErrMissing, s)
	}
	require.ErrorIs(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false), ErrMissing)
	require.ErrorIs(t, b.b.Pulse(b.ctx(), ResetOut, time.Millisecond, false), ErrMissing)
	require.Error(t, b.b.SetLevel(b.ctx(), SlotPower, false))
	require.Less(t, b.k.readCount()-before, 20, "a removed chip is not read in a loop")

	b.k.plug("/dev/gpiochip7", b.c)
	// Offset 2 was on a chip named by its device, which has another name now.
	b.eventually("lines by name work", func() bool {
		p := b.b.Problems()
		return len(p) == 1 && p[0].Signal == PowerOk
	})
	require.NoError(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false))
	require.NoError(t, b.b.Pulse(b.ctx(), ResetOut, time.Millisecond, false))
	require.True(t, b.levels().Asserted(SlotPower))
	require.NoError(t, b.b.SetLevel(b.ctx(), SlotPower, false))
	require.Equal(t, []bool{false}, b.line("SLOT_PWR").history())
}

func TestChardevChipRemovedMidPulseIsReleasedWhenItReturns(t *testing.T) {
	for name, signal := range map[string]string{"POWER_OUT": PowerOut, "RESET_OUT": ResetOut} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).open(nil)
			idle := b.line(name).level()
			done := make(chan error)
			go func() { done <- b.b.Pulse(context.Background(), signal, time.Hour, false) }()
			b.eventually("asserted", func() bool { return b.line(name).level() != idle })
			b.k.remove(dev)
			b.b.Release(signal)
			require.Len(t, marksIn(t, b.dir), 1)
			b.k.plug(dev, b.c)
			require.NoError(t, <-done)
			require.Equal(t, idle, b.line(name).level())
			require.Empty(t, marksIn(t, b.dir))
		})
	}
}

func TestChardevLevelOutput(t *testing.T) {
	b := newBench(t)
	stored := map[string]bool{}
	b.open(func(o *ChardevOptions) { o.Store = func(name string, f *os.File) { stored[name] = f != nil } })
	slot := b.line("SLOT_PWR")
	require.Equal(t, map[string]bool{FDName(0, standard()[4]): true}, stored)
	require.Zero(t, slot.config.Flags&uapi.LineFlagV2DirectionMask, "requested as it is")
	for _, on := range []bool{true, false, true} {
		require.NoError(t, b.b.SetLevel(b.ctx(), SlotPower, on))
		require.Equal(t, on, b.levels().Asserted(SlotPower))
	}
	require.Equal(t, []bool{false, true}, slot.history())
	require.NoError(t, b.b.Close())
	require.True(t, slot.level(), "closing keeps the level")
}

func TestChardevInheritsALevelOutput(t *testing.T) {
	b := newBench(t)
	cfg := standard()[4]
	at, err := resolve(b.k, cfg)
	require.NoError(t, err)
	f, err := request(b.k, at, cfg.asOutput(true), 0)
	require.NoError(t, err)
	stale, other, err := os.Pipe()
	require.NoError(t, err)
	defer other.Close()
	b.open(func(o *ChardevOptions) {
		o.Inherited = map[string]*os.File{FDName(0, cfg): f, "gpio-0-SlotPower-00000000": stale}
		o.Store = func(string, *os.File) { t.Error("stored again") }
	})
	require.Empty(t, b.b.Problems(), "the line is not requested a second time")
	require.Error(t, stale.Close(), "what has no use is closed")
	require.True(t, b.levels().Asserted(SlotPower))
	require.NoError(t, b.b.SetLevel(b.ctx(), SlotPower, false))
	require.Equal(t, []bool{false}, b.line("SLOT_PWR").history())
}

func TestChardevPulseOutputAsLevelType(t *testing.T) {
	b := newBench(t).open(func(o *ChardevOptions) { o.Lines[1] = Line{Signal: ResetOut, Name: "RESET_OUT", Level: true} })
	require.ErrorIs(t, b.b.Pulse(b.ctx(), ResetOut, time.Millisecond, false), ErrMissing)
	require.NoError(t, b.b.SetLevel(b.ctx(), ResetOut, true))
	require.True(t, b.levels().Asserted(ResetOut))
}

// untilCalled repeats what is given little time until that was enough to begin.
func untilCalled(do func(context.Context) error) error {
	for {
		short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		err := do(short)
		cancel()
		if Moved(err) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

func TestChardevHungLine(t *testing.T) {
	b := newBench(t).open(nil)
	slot, ok := b.line("SLOT_PWR").hangs(), b.line("PS_PWROK").hangs()
	defer slot()
	defer ok()
	b.eventually("the other lines are read", func() bool { // on a busy machine one of them may be late, too
		l := b.read()
		return errors.Is(l[PowerOk].Err, ErrStuck) && l[PowerButton].Known
	})
	require.ErrorIs(t, untilCalled(func(ctx context.Context) error { return b.b.SetLevel(ctx, SlotPower, false) }), ErrStuck)
	require.NoError(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false))
	slot()
	ok()
	b.eventually("the late call has worked", func() bool { return !b.line("SLOT_PWR").level() })
	b.eventually("the line can be read again", func() bool { return b.levels()[PowerOk].Known })
}

func TestChardevHungPulse(t *testing.T) {
	b := newBench(t).open(nil)
	resume := b.line("RESET_OUT").hangs()
	defer resume()
	require.ErrorIs(t, untilCalled(func(ctx context.Context) error { return b.b.Pulse(ctx, ResetOut, time.Hour, false) }), ErrStuck)
	require.Len(t, marksIn(t, b.dir), 1)
	resume()
	b.eventually("released and unmarked", func() bool { return len(marksIn(t, b.dir)) == 0 })
	require.False(t, b.line("RESET_OUT").level())
}

func TestChardevHold(t *testing.T) {
	b := newBench(t).open(nil)
	out := b.line("POWER_OUT")
	require.NoError(t, b.b.Hold(b.ctx(), PowerOut, true))
	require.True(t, out.isRequested())
	require.NoError(t, b.b.Pulse(b.ctx(), PowerOut, time.Millisecond, false))
	require.True(t, out.isRequested(), "pulses leave it held")
	require.NoError(t, b.b.Hold(b.ctx(), PowerOut, false))
	require.False(t, out.isRequested())
	require.Equal(t, []bool{false, true}, out.history(), "holding moves nothing")
	require.ErrorIs(t, b.b.Hold(b.ctx(), PowerOk, true), ErrMissing)
	out.setConsumer("other")
	require.ErrorIs(t, b.b.Hold(b.ctx(), PowerOut, true), ErrBusy)
}

func TestChardevLeavesALineThatIsAsserted(t *testing.T) {
	b := newBench(t)
	b.line("RESET_OUT").high = true
	b.open(nil)
	p := b.b.Problems()
	require.Len(t, p, 1)
	require.ErrorIs(t, p[0], ErrAsserted)
	require.Empty(t, b.line("RESET_OUT").history())
}

func TestReleaseMarkedChardev(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	died := mark{Kind: markChardev, Signal: PowerOut, Dev: dev, Chip: "aspeed", Line: "POWER_OUT", ActiveLow: true}
	t.Run("where it was", func(t *testing.T) {
		b := newBench(t)
		b.line("POWER_OUT").high = false
		require.NoError(t, newMarks(b.dir).put(died))
		require.NoError(t, releaseMarked(b.dir, log, b.k))
		require.True(t, b.line("POWER_OUT").level())
		require.False(t, b.line("POWER_OUT").isRequested())
		require.Empty(t, marksIn(t, b.dir))
		for _, l := range b.c.lines[1:] {
			require.Empty(t, l.history(), "marked lines only")
		}
	})
	t.Run("on a device with another number", func(t *testing.T) {
		b := newBench(t)
		b.line("POWER_OUT").high = false
		b.k.remove(dev)
		b.k.add(dev, "expander", "POWER_OUT")
		b.k.plug("/dev/gpiochip1", b.c)
		require.NoError(t, newMarks(b.dir).put(died))
		require.NoError(t, releaseMarked(b.dir, log, b.k))
		require.True(t, b.line("POWER_OUT").level())
	})
	t.Run("held by another process", func(t *testing.T) {
		b := newBench(t)
		b.line("POWER_OUT").setConsumer("other")
		require.NoError(t, newMarks(b.dir).put(died))
		require.ErrorIs(t, releaseMarked(b.dir, log, b.k), ErrBusy)
		require.Len(t, marksIn(t, b.dir), 1, "the mark stays")
	})
	t.Run("chip gone", func(t *testing.T) {
		b := newBench(t)
		b.k.remove(dev)
		require.NoError(t, newMarks(b.dir).put(died))
		require.ErrorIs(t, releaseMarked(b.dir, log, b.k), ErrMissing)
		require.Len(t, marksIn(t, b.dir), 1)
	})
}

func TestResolve(t *testing.T) {
	k := newFakeKernel()
	k.add(dev, "aspeed", "A", "B", "TWICE")
	k.add("/dev/gpiochip1", "expander", "TWICE", "C", "C")
	k.add("/dev/gpiochip2", "expander", "D")
	for name, c := range map[string]struct {
		line Line
		want place
		err  string
	}{
		"by name":              {Line{Name: "B"}, place{dev: dev, chip: "aspeed", offset: 1, name: "B"}, ""},
		"by label and name":    {Line{Chip: "aspeed", Name: "TWICE"}, place{dev: dev, chip: "aspeed", offset: 2, name: "TWICE"}, ""},
		"by device and offset": {Line{Chip: "gpiochip2"}, place{dev: "/dev/gpiochip2", chip: "expander", offset: 0, name: "D"}, ""},
		"on two chips":         {Line{Name: "TWICE"}, place{}, "found more than once; name its chip, or give chip and offset: /dev/gpiochip0 offset 2, /dev/gpiochip1 offset 0"},
		"twice on a chip":      {Line{Name: "C"}, place{}, "found more than once"},
		"label of two chips":   {Line{Chip: "expander"}, place{}, "found more than once"},
		"nowhere":              {Line{Name: "X"}, place{}, "no such line"},
		"offset too large":     {Line{Chip: "aspeed", Offset: 3}, place{}, "chip aspeed has no offset 3, only 3 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := resolve(k, c.line)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, at)
		})
	}
}

// Two ways to say which line is meant are one line, which can be requested once.
func TestSameLine(t *testing.T) {
	k := newFakeKernel()
	k.add(dev, "aspeed", "A", "B", "TWICE")
	k.add("/dev/gpiochip1", "expander", "TWICE")
	for name, c := range map[string]struct {
		a, b Line
		want bool
	}{
		"the same words":           {Line{Name: "A"}, Line{Name: "A", ActiveLow: true}, true},
		"name, and chip and name":  {Line{Name: "A"}, Line{Chip: "aspeed", Name: "A"}, true},
		"name, and device and pin": {Line{Name: "B"}, Line{Chip: "gpiochip0", Offset: 1}, true},
		"label and device":         {Line{Chip: "aspeed", Offset: 2}, Line{Chip: "gpiochip0", Name: "TWICE"}, true},
		"another line":             {Line{Name: "A"}, Line{Name: "B"}, false},
		"another chip":             {Line{Chip: "aspeed", Name: "TWICE"}, Line{Chip: "expander", Name: "TWICE"}, false},
		"one that is not there":    {Line{Name: "A"}, Line{Name: "X"}, false},
		"not there, same words":    {Line{Chip: "late", Offset: 4}, Line{Chip: "late", Offset: 4}, true},
	} {
		require.Equal(t, c.want, sameLine(k, c.a, c.b), name)
		require.Equal(t, c.want, sameLine(k, c.b, c.a), name)
	}
}

func TestLineConfigFlags(t *testing.T) {
	in := Line{ActiveLow: true, Bias: BiasPullUp, Debounce: 5 * time.Millisecond}.asInput()
	require.Equal(t, uapi.LineFlagV2Input|uapi.LineFlagV2EdgeBoth|uapi.LineFlagV2ActiveLow|uapi.LineFlagV2BiasPullUp, in.Flags)
	require.EqualValues(t, 1, in.NumAttrs)
	require.Equal(t, uapi.LineAttributeIDDebounce, in.Attrs[0].Attr.ID)
	require.EqualValues(t, 5000, in.Attrs[0].Attr.Value32())
	require.EqualValues(t, 1, in.Attrs[0].Mask)

	out := Line{Drive: DriveOpenDrain, Bias: BiasDisabled}.asOutput(true)
	require.Equal(t, uapi.LineFlagV2Output|uapi.LineFlagV2OpenDrain|uapi.LineFlagV2BiasDisabled, out.Flags)
	require.EqualValues(t, 1, out.Attrs[0].Attr.Value64())
	require.EqualValues(t, eventSize, len(mustEncode(t, uapi.LineEvent{})))
}

func TestChardevAsksForItsBuffer(t *testing.T) {
	b := newBench(t).open(func(o *ChardevOptions) { o.Lines[2].Buffer = 200 })
	require.EqualValues(t, 200, b.line("PS_PWROK").buffer)
	require.EqualValues(t, defaultBuffer, b.line("POWER_BUTTON").buffer)
}

func TestLinesAreChecked(t *testing.T) {
	for want, lines := range map[string][]Line{
		`signal "": needs a name`:                                                   {{Name: "X"}},
		`signal "PowerOk": needs a line name, or a chip and an offset`:              {{Signal: PowerOk}},
		`signal "PowerOk": bias "up": must be "disabled", "pull-up" or "pull-down"`: {{Signal: PowerOk, Name: "X", Bias: "up"}},
		`signal "PowerOut": drive "od": must be "open-drain" or "open-source"`:      {{Signal: PowerOut, Name: "X", Drive: "od"}},
		`signal "PowerOk": drive is for outputs`:                                    {{Signal: PowerOk, Name: "X", Drive: DriveOpenDrain}},
		`signal "PowerOut": debounce is for inputs`:                                 {{Signal: PowerOut, Name: "X", Debounce: 1}},
		`signal "PowerOk": buffer must be 0 to 1024`:                                {{Signal: PowerOk, Name: "X", Buffer: -1}},
		`signal "PowerOk": hold and level are for outputs`:                          {{Signal: PowerOk, Name: "X", Level: true}},
		`signal "SlotPower": a level-type output is held in any case`:               {{Signal: SlotPower, Name: "X", Hold: true}},
		`signal "PowerOk": is configured twice`:                                     {{Signal: PowerOk, Name: "X"}, {Signal: PowerOk, Name: "Y"}},
		`signal "SIOS5": is on the same line X as "PowerOk"`:                        {{Signal: PowerOk, Name: "X"}, {Signal: SIOS5, Name: "X"}},
		`signal "PowerOk": debounce must be 0 to 1 min`:                             {{Signal: PowerOk, Name: "X", Debounce: time.Hour}},
		`signal "PowerOk": offset must not be negative`:                             {{Signal: PowerOk, Chip: "X", Offset: -1}},
	} {
		_, err := OpenChardev(ChardevOptions{Lines: lines})
		require.ErrorContains(t, err, want)
	}
}

func TestChardevWithoutAnyChip(t *testing.T) {
	b, err := OpenChardev(ChardevOptions{RunDir: filepath.Join(t.TempDir()), Lines: []Line{{Signal: PowerOk, Chip: "no such chip", Name: "X"}}})
	require.NoError(t, err, "objects are served meanwhile")
	require.Len(t, b.Problems(), 1)
	require.NoError(t, b.Close())
}
