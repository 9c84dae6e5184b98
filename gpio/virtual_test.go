package gpio_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
)

const ms = time.Millisecond

// patience bounds every wait of these tests; nothing should come near it.
const patience = 2 * time.Minute

func open(t *testing.T, dir string, cfg gpio.VirtualConfig) *gpio.Virtual {
	t.Helper()
	v, err := gpio.OpenVirtual(gpio.VirtualOptions{RunDir: dir, Config: cfg, AllowHung: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v
}

// quick is a board whose power button needs a long press, for a loaded machine
// may lengthen any.
func quick() gpio.VirtualConfig {
	return gpio.VirtualConfig{Scale: 0.2, OverrideHold: gpio.Duration(5 * time.Second)}
}

func withFaults(f gpio.Faults) gpio.VirtualConfig {
	cfg := quick()
	cfg.Faults = f
	return cfg
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// next waits for an event of signal and answers it.
func next(t *testing.T, b gpio.Board, signal string) gpio.Event {
	t.Helper()
	ctx := deadline(t)
	for {
		select {
		case e, ok := <-b.Events():
			require.True(t, ok, "events closed while waiting for %s", signal)
			if e.Signal == signal {
				return e
			}
		case <-ctx.Done():
			require.FailNow(t, "no event", signal)
		}
	}
}

// await reads events of signal until it has the level.
func await(t *testing.T, b gpio.Board, signal string, asserted bool) {
	t.Helper()
	for next(t, b, signal).Asserted != asserted {
	}
}

func levels(t *testing.T, b gpio.Board) gpio.Levels {
	t.Helper()
	return settled(t, b, 0)
}

// settled reads until no line is late, as one may be on a busy machine.
func settled(t *testing.T, b gpio.Board, settle time.Duration) gpio.Levels {
	t.Helper()
	for ctx := deadline(t); ; {
		l, err := b.Read(ctx, settle)
		require.NoError(t, err)
		if !late(l) {
			return l
		}
	}
}

func late(l gpio.Levels) bool {
	for _, level := range l {
		if errors.Is(level.Err, gpio.ErrStuck) {
			return true
		}
	}
	return false
}

// widths lists how long signal was asserted, each time; -1 = still is.
func widths(t *testing.T, dir, signal string) []time.Duration {
	t.Helper()
	wires, err := gpio.ReadWires(dir, 0)
	require.NoError(t, err)
	var all []time.Duration
	var since time.Duration
	for _, w := range wires {
		switch {
		case w.Signal != signal:
		case w.Asserted:
			since = w.At
			all = append(all, -1)
		default:
			all[len(all)-1] = w.At - since
		}
	}
	return all
}

// lastMove is when signal moved last. A pulse's end is what a test can rely on: an
// assert that takes long counts as a part of its width.
func lastMove(t *testing.T, dir, signal string) (at time.Duration) {
	t.Helper()
	wires, err := gpio.ReadWires(dir, 0)
	require.NoError(t, err)
	for _, w := range wires {
		if w.Signal == signal {
			at = w.At
		}
	}
	return at
}

func powerOn(t *testing.T, v *gpio.Virtual) {
	t.Helper()
	require.NoError(t, v.Pulse(deadline(t), gpio.PowerOut, 20*ms, false))
	await(t, v, gpio.PowerOk, true)
	await(t, v, gpio.PostComplete, true)
}

func TestVirtualPowersOnAndOff(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, quick())
	require.True(t, v.Fresh())
	l := settled(t, v, 5*ms)
	require.True(t, l.Agreed())
	require.True(t, l.Configured(gpio.PowerOk))
	require.False(t, l.Configured(gpio.SIOS5))
	require.Equal(t, gpio.Level{Known: true, Agreed: true}, l[gpio.PowerOk])

	powerOn(t, v)
	require.True(t, levels(t, v).Asserted(gpio.PowerOk))
	began := gpio.BootTime()
	require.NoError(t, v.Pulse(deadline(t), gpio.PowerOut, 20*ms, false))
	require.GreaterOrEqual(t, lastMove(t, dir, gpio.PowerOut), began+20*ms)
	await(t, v, gpio.PowerOk, false)
	require.False(t, levels(t, v).Asserted(gpio.PostComplete))

	require.Len(t, widths(t, dir, gpio.PowerOut), 2)
}

func TestVirtualOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, quick())
	require.NoError(t, v.Pulse(deadline(t), gpio.PowerOut, 20*ms, false))
	require.NoError(t, v.Close())
	require.Eventually(t, func() bool {
		c, err := gpio.ReadChassis(dir, 0)
		return err == nil && c.Guest == gpio.GuestRunning
	}, patience, 5*ms)

	before, err := gpio.ReadWires(dir, 0)
	require.NoError(t, err)
	v = open(t, dir, quick())
	require.False(t, v.Fresh())
	l := levels(t, v)
	require.True(t, l.Asserted(gpio.PowerOk))
	require.True(t, l.Asserted(gpio.PostComplete))
	after, err := gpio.ReadWires(dir, 0)
	require.NoError(t, err)
	require.Equal(t, before, after, "opening the board moved a wire")
}

func TestVirtualACLoss(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	v := open(t, dir, quick())
	powerOn(t, v)
	require.NoError(t, os.RemoveAll(dir))
	for e := next(t, v, gpio.PowerOk); e != (gpio.Event{Signal: gpio.PowerOk, Gap: true}); {
		e = next(t, v, gpio.PowerOk)
	}
	require.False(t, levels(t, v).Asserted(gpio.PowerOk))
	powerOn(t, v)
}

func TestPulseHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, gpio.VirtualConfig{})
	done := make(chan error)
	go func() { done <- v.Pulse(context.Background(), gpio.ResetOut, time.Hour, false) }()
	awaitWire(t, dir, gpio.ResetOut, true)

	for _, takeOver := range []bool{false, true} {
		err := v.Pulse(deadline(t), gpio.ResetOut, ms, takeOver)
		require.ErrorIs(t, err, gpio.ErrAsserted)
		var le *gpio.LineError
		require.ErrorAs(t, err, &le)
		require.Equal(t, gpio.ResetOut, le.Signal)
	}
	require.NoError(t, v.Pulse(deadline(t), gpio.NMIOut, ms, false), "another line is free")
	v.Release(gpio.ResetOut)
	require.NoError(t, <-done)
	v.Release(gpio.ResetOut)
	require.Len(t, widths(t, dir, gpio.ResetOut), 1)
}

func awaitWire(t *testing.T, dir, signal string, asserted bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := gpio.ReadChassis(dir, 0)
		return err == nil && c.Wires[signal] == asserted
	}, patience, ms)
}

func TestPulseTakeOverKeepsTheLineAsserted(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, quick())
	powerOn(t, v)
	first := make(chan error)
	go func() { first <- v.Pulse(context.Background(), gpio.PowerOut, time.Hour, false) }()
	awaitWire(t, dir, gpio.PowerOut, true)
	second := make(chan error)
	go func() { second <- v.Pulse(context.Background(), gpio.PowerOut, time.Hour, true) }()
	require.ErrorIs(t, <-first, gpio.ErrTakenOver)
	await(t, v, gpio.PowerOk, false)
	v.Release(gpio.PowerOut)
	require.NoError(t, <-second)
	require.Len(t, widths(t, dir, gpio.PowerOut), 2, "power-on press and one hold")
}

func TestPulseEndsWhateverItsContext(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, gpio.VirtualConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	began := gpio.BootTime()
	go func() { done <- v.Pulse(ctx, gpio.ResetOut, time.Second, false) }()
	require.Eventually(t, func() bool { return len(widths(t, dir, gpio.ResetOut)) > 0 }, patience, ms)
	cancel()
	require.NoError(t, <-done, "the pulse was carried out")
	require.Len(t, widths(t, dir, gpio.ResetOut), 1)
	require.GreaterOrEqual(t, lastMove(t, dir, gpio.ResetOut), began+time.Second)

	require.ErrorIs(t, v.Pulse(ctx, gpio.ResetOut, ms, false), context.Canceled)
	require.Len(t, widths(t, dir, gpio.ResetOut), 1)
}

func TestReleaseAllAndClose(t *testing.T) {
	for name, end := range map[string]func(*gpio.Virtual){
		"ReleaseAll": func(v *gpio.Virtual) { v.ReleaseAll() },
		"Close":      func(v *gpio.Virtual) { _ = v.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v := open(t, dir, gpio.VirtualConfig{})
			done := make(chan error, 2)
			for _, s := range []string{gpio.PowerOut, gpio.ResetOut} {
				go func() { done <- v.Pulse(context.Background(), s, time.Hour, false) }()
				awaitWire(t, dir, s, true)
			}
			end(v)
			c, err := gpio.ReadChassis(dir, 0)
			require.NoError(t, err)
			require.False(t, c.Wires[gpio.PowerOut])
			require.False(t, c.Wires[gpio.ResetOut])
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			require.Empty(t, markFiles(t, dir))
		})
	}
}

func TestClosedBoardRefuses(t *testing.T) {
	v := open(t, t.TempDir(), gpio.VirtualConfig{SlotPower: true})
	require.NoError(t, v.Close())
	require.ErrorIs(t, v.Pulse(deadline(t), gpio.PowerOut, ms, false), gpio.ErrClosed)
	require.ErrorIs(t, v.SetLevel(deadline(t), gpio.SlotPower, false), gpio.ErrClosed)
	l, _ := v.Read(deadline(t), 0)
	require.ErrorIs(t, l[gpio.PowerOk].Err, gpio.ErrClosed)
	for range v.Events() {
	}
}

func TestPulseRefusesWhatIsNoPulse(t *testing.T) {
	v := open(t, t.TempDir(), gpio.VirtualConfig{SlotPower: true})
	require.ErrorIs(t, v.Pulse(deadline(t), gpio.SlotPower, ms, false), gpio.ErrMissing)
	require.ErrorIs(t, v.Pulse(deadline(t), gpio.PowerOk, ms, false), gpio.ErrMissing)
	require.ErrorIs(t, v.SetLevel(deadline(t), gpio.PowerOut, true), gpio.ErrMissing)
	require.ErrorContains(t, v.Pulse(deadline(t), gpio.PowerOut, 0, false), "must be positive")
}

func TestLevelOutputKeepsItsLevel(t *testing.T) {
	dir := t.TempDir()
	cfg := gpio.VirtualConfig{SlotPower: true}
	v := open(t, dir, cfg)
	require.True(t, levels(t, v).Asserted(gpio.SlotPower))
	require.NoError(t, v.SetLevel(deadline(t), gpio.SlotPower, false))
	require.NoError(t, v.Close())
	v = open(t, dir, cfg)
	require.Eventually(t, func() bool { return levels(t, v)[gpio.SlotPower].Known }, patience, ms)
	require.False(t, levels(t, v).Asserted(gpio.SlotPower))
}

func TestButtonPressesAreNotLost(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, gpio.VirtualConfig{})
	const presses = 5
	for range presses {
		require.NoError(t, gpio.Stimulate(dir, 0, gpio.Stimulus{Do: gpio.DoPress, Signal: gpio.IdButton, Hold: gpio.Duration(ms)}))
		awaitWire(t, dir, gpio.IdButton, false)
	}
	for range presses {
		require.Equal(t, gpio.Event{Signal: gpio.IdButton, Asserted: true}, next(t, v, gpio.IdButton))
		require.Equal(t, gpio.Event{Signal: gpio.IdButton}, next(t, v, gpio.IdButton))
	}
}

func TestFlickerOverflowsIntoAGap(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, quick())
	powerOn(t, v)
	require.NoError(t, v.Close())
	require.NoError(t, gpio.Stimulate(dir, 0, gpio.Stimulus{Do: gpio.DoFlicker, Count: 100}))
	v = open(t, dir, quick())
	awaitQuiet(t, dir)
	require.Eventually(t, func() bool {
		l, err := v.Read(context.Background(), 5*ms)
		return err == nil && l.Agreed(gpio.PowerOk) && l.Asserted(gpio.PowerOk)
	}, patience, ms)
}

// awaitQuiet waits until power good has bounced to its end.
func awaitQuiet(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		wires, err := gpio.ReadWires(dir, 0)
		n := 0
		for _, w := range wires {
			if w.Signal == gpio.PowerOk {
				n++
			}
		}
		return err == nil && n == 201
	}, patience, 5*ms)
}

func faults(t *testing.T, dir string, f gpio.Faults) {
	t.Helper()
	require.NoError(t, gpio.Stimulate(dir, 0, gpio.Stimulus{Do: gpio.DoFaults, Faults: &f}))
}

func TestLineFaults(t *testing.T) {
	for name, c := range map[string]struct {
		f    gpio.Faults
		want error
	}{
		"missing": {gpio.Faults{LineMissing: []string{gpio.PowerOut, gpio.PowerOk}}, gpio.ErrMissing},
		"busy":    {gpio.Faults{LineBusy: []string{gpio.PowerOut, gpio.PowerOk}}, gpio.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v := open(t, dir, withFaults(c.f))
			require.ErrorIs(t, v.Pulse(deadline(t), gpio.PowerOut, ms, false), c.want)
			require.Empty(t, markFiles(t, dir))
			l := levels(t, v)
			require.ErrorIs(t, l[gpio.PowerOk].Err, c.want)
			require.False(t, l[gpio.PowerOk].Known)
			require.False(t, l.Agreed(gpio.PowerOk))
			require.True(t, l[gpio.PostComplete].Known, "the rest works")
			require.True(t, l.Agreed(gpio.PostComplete, gpio.SIOS5))
			p := v.Problems()
			require.Len(t, p, 2)
			require.Equal(t, gpio.PowerOk, p[0].Signal)
			require.ErrorIs(t, p[1], c.want)

			faults(t, dir, gpio.Faults{})
			require.Empty(t, v.Problems())
			require.True(t, next(t, v, gpio.PowerOk).Gap)
			powerOn(t, v)
		})
	}
}

// untilAsserted repeats a pulse until its time was enough for the assert to begin.
func untilAsserted(pulse func(context.Context) error) error {
	for {
		short, cancel := context.WithTimeout(context.Background(), 50*ms)
		err := pulse(short)
		cancel()
		if gpio.Moved(err) {
			return err
		}
	}
}

func TestHungLineHoldsNobodyElse(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, quick())
	faults(t, dir, gpio.Faults{LineHung: []string{gpio.PowerOut, gpio.PowerOk}})

	require.ErrorIs(t, untilAsserted(func(ctx context.Context) error { return v.Pulse(ctx, gpio.PowerOut, 20*ms, false) }), gpio.ErrStuck)
	// On a busy machine a line that is not hung may be late once.
	require.Eventually(t, func() bool {
		l, err := v.Read(context.Background(), 0)
		return err == nil && errors.Is(l[gpio.PowerOk].Err, gpio.ErrStuck) && l[gpio.PostComplete].Known
	}, patience, ms)
	require.NoError(t, v.Pulse(deadline(t), gpio.ResetOut, ms, false))
	require.Len(t, markFiles(t, dir), 1, "the hung line may be asserted")

	// The call returns at last: the pulse that nobody waits for is dropped.
	faults(t, dir, gpio.Faults{})
	require.Eventually(t, func() bool { return len(markFiles(t, dir)) == 0 }, patience, ms)
	awaitWire(t, dir, gpio.PowerOut, false)
	require.Eventually(t, func() bool { return levels(t, v)[gpio.PowerOk].Known }, patience, ms)
}

func TestCloseDoesNotWaitForAHungLine(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, gpio.VirtualConfig{})
	faults(t, dir, gpio.Faults{LineHung: []string{gpio.PowerOut}})
	done := make(chan error)
	go func() { done <- v.Pulse(context.Background(), gpio.PowerOut, ms, false) }()
	require.Eventually(t, func() bool { return len(markFiles(t, dir)) == 1 }, patience, ms)
	require.NoError(t, v.Close())
	require.Error(t, <-done)
}

func TestHoldMasksTheFrontPanel(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, quick())
	press := gpio.Stimulus{Do: gpio.DoPress, Signal: gpio.PowerButton, Hold: gpio.Duration(ms)}
	require.NoError(t, v.Hold(deadline(t), gpio.PowerOut, true))
	require.NoError(t, gpio.Stimulate(dir, 0, press))
	await(t, v, gpio.PowerButton, false)
	c, err := gpio.ReadChassis(dir, 0)
	require.NoError(t, err)
	require.Equal(t, gpio.GuestOff, c.Guest)
	require.NoError(t, v.Hold(deadline(t), gpio.PowerOut, false))
	require.NoError(t, gpio.Stimulate(dir, 0, press))
	await(t, v, gpio.PowerOk, true)
}

func TestFaultsFromOutsideOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, gpio.VirtualConfig{})
	faults(t, dir, gpio.Faults{NeverPowerGood: true})
	require.NoError(t, v.Close())
	v = open(t, dir, gpio.VirtualConfig{})
	c, err := gpio.ReadChassis(dir, 0)
	require.NoError(t, err)
	require.True(t, c.Config.Faults.NeverPowerGood)
	require.NoError(t, v.Close())
	open(t, dir, gpio.VirtualConfig{Faults: gpio.Faults{ForceOffIgnored: 1}})
	c, err = gpio.ReadChassis(dir, 0)
	require.NoError(t, err)
	require.Equal(t, gpio.Faults{ForceOffIgnored: 1}, c.Config.Faults)
}

func TestStimulateRefuses(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, gpio.Stimulate(dir, 0, gpio.Stimulus{Do: gpio.DoWake}), os.ErrNotExist)
	open(t, dir, gpio.VirtualConfig{})
	for want, s := range map[string]gpio.Stimulus{
		"is not known":               {Do: "dance"},
		"is no button of this board": {Do: gpio.DoPress, Signal: gpio.PowerOk},
		"is no input of this board":  {Do: gpio.DoWire, Signal: gpio.SIOS5},
		"is no signal":               {Do: gpio.DoFaults, Faults: &gpio.Faults{LineBusy: []string{"Power"}}},
	} {
		require.ErrorContains(t, gpio.Stimulate(dir, 0, s), want)
	}
}

func TestVirtualConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]gpio.VirtualConfig{
		`inputs: "PowerOut" is no input signal`: {Inputs: []string{gpio.PowerOut}},
		"scale: -1: must be positive":           {Scale: -1},
		"faults.powerGoodFlickers: -1":          {Faults: gpio.Faults{PowerGoodFlickers: -1}},
		"faults.forceOffIgnored: -1":            {Faults: gpio.Faults{ForceOffIgnored: -1}},
	} {
		_, err := gpio.OpenVirtual(gpio.VirtualOptions{RunDir: t.TempDir(), Config: cfg})
		require.ErrorContains(t, err, want)
	}
}

func TestReadWithEndedContext(t *testing.T) {
	v := open(t, t.TempDir(), gpio.VirtualConfig{})
	var ctx context.Context
	var l gpio.Levels
	for l == nil || late(l) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var err error
		l, err = v.Read(ctx, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.False(t, l.Agreed(gpio.PowerOk))
	require.True(t, l[gpio.PowerOk].Known, "the first sample stands")
	require.ErrorIs(t, v.Pulse(ctx, gpio.PowerOut, ms, false), context.DeadlineExceeded)
}

func TestHookSeesEachPointInOrder(t *testing.T) {
	var seen []gpio.Point
	v, err := gpio.OpenVirtual(gpio.VirtualOptions{
		RunDir: t.TempDir(), Config: gpio.VirtualConfig{SlotPower: true},
		Hook: func(p gpio.Point, _ string) { seen = append(seen, p) },
	})
	require.NoError(t, err)
	require.NoError(t, v.Pulse(deadline(t), gpio.NMIOut, ms, false))
	require.NoError(t, v.SetLevel(deadline(t), gpio.SlotPower, true))
	require.NoError(t, v.Close())
	require.Equal(t, gpio.Points(), seen)
	require.True(t, slices.Contains(seen, gpio.AfterAssert))
}
