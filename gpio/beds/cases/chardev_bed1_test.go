//go:build bed1

package cases

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/slog"
)

// within is a bound for things that take milliseconds: the machine is emulated,
// and may have to share its processor.
const within = 20 * time.Second

// wired is the stock wiring of the signals that these cases use.
var wired = []gpio.Line{
	{Signal: gpio.PowerOut, Name: "POWER_OUT", ActiveLow: true},
	{Signal: gpio.ResetOut, Name: "RESET_OUT", ActiveLow: true},
	{Signal: gpio.PowerOk, Name: "PS_PWROK"},
	{Signal: gpio.PowerButton, Name: "POWER_BUTTON", ActiveLow: true},
	{Signal: gpio.SlotPower, Name: "SLOT_POWER"},
}

func simChip(t *testing.T) *chip {
	t.Helper()
	return newChip(t, "bed", "POWER_OUT", "RESET_OUT", "PS_PWROK", "POWER_BUTTON", "SLOT_POWER")
}

func openBoard(t *testing.T, o gpio.ChardevOptions) *gpio.Chardev {
	t.Helper()
	if o.Lines == nil {
		o.Lines = wired
	}
	if o.RunDir == "" {
		o.RunDir = t.TempDir()
	}
	b, err := gpio.OpenChardev(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// awaitLevel awaits a level of a signal by reading, at every event and at least ten
// times a second.
func awaitLevel(t *testing.T, b *gpio.Chardev, signal string, ok func(gpio.Level) bool) {
	t.Helper()
	end := time.After(within)
	for {
		all, err := b.Read(t.Context(), 0)
		require.NoError(t, err)
		if ok(all[signal]) {
			return
		}
		select {
		case <-b.Events():
		case <-time.After(100 * time.Millisecond):
		case <-end:
			t.Fatalf("%s does not get there: %+v", signal, all[signal])
		}
	}
}

// nextEdge returns the next event that is an edge. A line that came or went
// gives events that are none.
func nextEdge(t *testing.T, b *gpio.Chardev) gpio.Event {
	t.Helper()
	end := time.After(within)
	for {
		select {
		case e := <-b.Events():
			if !e.Gap {
				return e
			}
		case <-end:
			t.Fatal("an edge was lost")
		}
	}
}

func asserted(l gpio.Level) bool   { return l.Known && l.Asserted }
func deasserted(l gpio.Level) bool { return l.Known && !l.Asserted }
func unknown(l gpio.Level) bool    { return !l.Known }

func TestChardevPulse(t *testing.T) {
	c := simChip(t)
	b := openBoard(t, gpio.ChardevOptions{})
	high, err := c.Read("POWER_OUT")
	require.NoError(t, err)
	assert.True(t, high, "opening the board moved a line")

	done := make(chan error, 1)
	go func() { done <- b.Pulse(t.Context(), gpio.PowerOut, 300*time.Millisecond, false) }()
	assert.Eventually(t, func() bool { high, err := c.Read("POWER_OUT"); return err == nil && !high }, within, time.Millisecond)
	assert.NoError(t, <-done)
	high, err = c.Read("POWER_OUT")
	require.NoError(t, err)
	assert.True(t, high, "the line is still asserted")
}

func TestChardevEdges(t *testing.T) {
	c := simChip(t)
	require.NoError(t, c.Drive("PS_PWROK", false))
	b := openBoard(t, gpio.ChardevOptions{})
	awaitLevel(t, b, gpio.PowerOk, deasserted)

	// More edges than the kernel keeps: the last level counts.
	for i := range 200 {
		require.NoError(t, c.Drive("PS_PWROK", i%2 == 0))
	}
	require.NoError(t, c.Drive("PS_PWROK", true))
	awaitLevel(t, b, gpio.PowerOk, asserted)
}

func TestChardevButtonPressesAreARecord(t *testing.T) {
	c := simChip(t)
	b := openBoard(t, gpio.ChardevOptions{})
	for range 3 {
		for _, pressed := range []bool{true, false} {
			require.NoError(t, c.Drive("POWER_BUTTON", !pressed))
			assert.Equal(t, gpio.Event{Signal: gpio.PowerButton, Asserted: pressed}, nextEdge(t, b))
		}
	}
}

// TestChardevDebounce needs a controller or kernel that debounces; the kernel
// does it in software where the chip cannot.
func TestChardevDebounce(t *testing.T) {
	c := simChip(t)
	lines := append([]gpio.Line(nil), wired...)
	lines[2].Debounce = 500 * time.Millisecond
	b := openBoard(t, gpio.ChardevOptions{Lines: lines})
	awaitLevel(t, b, gpio.PowerOk, asserted)
	require.NoError(t, c.Drive("PS_PWROK", false))
	require.NoError(t, c.Drive("PS_PWROK", true))
	require.NoError(t, c.Drive("POWER_BUTTON", false))
	assert.Equal(t, gpio.PowerButton, nextEdge(t, b).Signal, "the short drop came through")
}

func TestChardevBusyLineIsTakenWhenFree(t *testing.T) {
	c := simChip(t)
	holder := exec.Command("gpiomon", c.dev, "2")
	require.NoError(t, holder.Start())
	t.Cleanup(func() { holder.Process.Kill(); _ = holder.Wait() })
	require.Eventually(t, func() bool {
		out, err := exec.Command("gpioinfo", c.dev).Output()
		return err == nil && bytes.Contains(out, []byte("gpiomon"))
	}, within, 100*time.Millisecond)

	b := openBoard(t, gpio.ChardevOptions{})
	problems := b.Problems()
	require.Len(t, problems, 1)
	assert.ErrorIs(t, problems[0], gpio.ErrBusy)
	assert.ErrorContains(t, problems[0], "PS_PWROK")
	assert.ErrorContains(t, problems[0], "bed")
	awaitLevel(t, b, gpio.PowerOk, unknown)
	awaitLevel(t, b, gpio.PowerButton, deasserted)

	require.NoError(t, holder.Process.Kill())
	_ = holder.Wait() // it was killed
	awaitLevel(t, b, gpio.PowerOk, asserted)
	assert.Empty(t, b.Problems())
}

func TestChardevMissingLine(t *testing.T) {
	simChip(t)
	lines := append([]gpio.Line(nil), wired...)
	lines[1].Name = "NO_SUCH_LINE"
	b := openBoard(t, gpio.ChardevOptions{Lines: lines})
	problems := b.Problems()
	require.Len(t, problems, 1)
	assert.ErrorIs(t, problems[0], gpio.ErrMissing)
	assert.ErrorContains(t, problems[0], "NO_SUCH_LINE")
	assert.ErrorIs(t, b.Pulse(t.Context(), gpio.ResetOut, 10*time.Millisecond, false), gpio.ErrMissing)
	assert.NoError(t, b.Pulse(t.Context(), gpio.PowerOut, 10*time.Millisecond, false))
}

func TestChardevDuplicateNameIsRefused(t *testing.T) {
	simChip(t)
	newChip(t, "other", "PS_PWROK")
	b := openBoard(t, gpio.ChardevOptions{})
	problems := b.Problems()
	require.Len(t, problems, 1)
	assert.ErrorContains(t, problems[0], "PS_PWROK")

	lines := append([]gpio.Line(nil), wired...)
	lines[2].Chip = "other"
	second := openBoard(t, gpio.ChardevOptions{Lines: lines[2:3]})
	assert.Empty(t, second.Problems())
}

func TestChardevChipGoesAndReturns(t *testing.T) {
	c := simChip(t)
	b := openBoard(t, gpio.ChardevOptions{})
	awaitLevel(t, b, gpio.PowerOk, asserted)

	c.unplug(t)
	awaitLevel(t, b, gpio.PowerOk, unknown)
	assert.Error(t, b.Pulse(t.Context(), gpio.PowerOut, 10*time.Millisecond, false))

	// A loop that spins on the dead descriptor would show.
	before := cpu(t)
	time.Sleep(2 * time.Second) // a span to measure, not a wait
	assert.Less(t, cpu(t)-before, time.Second, "processor time used in 2 s without a chip")

	c.plug(t)
	awaitLevel(t, b, gpio.PowerOk, asserted)
	require.NoError(t, c.Drive("PS_PWROK", false))
	awaitLevel(t, b, gpio.PowerOk, deasserted)
	assert.NoError(t, b.Pulse(t.Context(), gpio.PowerOut, 10*time.Millisecond, false))
}

func TestChardevChipGoesWhilePulseRuns(t *testing.T) {
	c := simChip(t)
	b := openBoard(t, gpio.ChardevOptions{})
	done := make(chan error, 1)
	go func() { done <- b.Pulse(t.Context(), gpio.PowerOut, 500*time.Millisecond, false) }()
	require.Eventually(t, func() bool { high, err := c.Read("POWER_OUT"); return err == nil && !high }, within, time.Millisecond)
	c.unplug(t)
	select {
	case <-done:
	case <-time.After(within):
		t.Fatal("the pulse hangs on a chip that is gone")
	}
}

func TestChardevLevelOutputIsInherited(t *testing.T) {
	c := simChip(t)
	require.NoError(t, c.Drive("SLOT_POWER", false))
	kept := map[string]*os.File{}
	store := func(name string, f *os.File) {
		// As systemd does: a descriptor of our own for the same open file.
		kept[name] = duplicate(t, f)
	}
	first := openBoard(t, gpio.ChardevOptions{Lines: wired[4:], Store: store})
	require.NoError(t, first.SetLevel(t.Context(), gpio.SlotPower, true))
	require.NoError(t, first.Close())
	high, err := c.Read("SLOT_POWER")
	require.NoError(t, err)
	require.True(t, high, "the level fell while nobody but the store held the line")

	second := openBoard(t, gpio.ChardevOptions{Lines: wired[4:], Inherited: kept, Store: func(string, *os.File) {}})
	awaitLevel(t, second, gpio.SlotPower, asserted)
	high, err = c.Read("SLOT_POWER")
	require.NoError(t, err)
	assert.True(t, high)
	require.NoError(t, second.SetLevel(t.Context(), gpio.SlotPower, false))
	high, err = c.Read("SLOT_POWER")
	require.NoError(t, err)
	assert.False(t, high)
}

// TestChardevReleaseMarkedAfterDeath runs itself as the process that dies.
func TestChardevReleaseMarkedAfterDeath(t *testing.T) {
	if dir := os.Getenv("BED_DIES_IN"); dir != "" {
		b := openBoard(t, gpio.ChardevOptions{RunDir: dir})
		_ = b.Pulse(t.Context(), gpio.PowerOut, time.Minute, false) // is killed in here
		return
	}
	c := simChip(t)
	dir := t.TempDir()
	victim := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	victim.Env = append(os.Environ(), "BED_DIES_IN="+dir)
	require.NoError(t, victim.Start())
	require.Eventually(t, func() bool { high, err := c.Read("POWER_OUT"); return err == nil && !high }, within, time.Millisecond)

	log := slog.New(slog.DiscardHandler)
	assert.ErrorIs(t, gpio.ReleaseMarked(dir, log), gpio.ErrBusy, "the line of a living process")
	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait() // it was killed
	assert.NoError(t, gpio.ReleaseMarked(dir, log))
	high, err := c.Read("POWER_OUT")
	require.NoError(t, err)
	assert.True(t, high)
	left, err := os.ReadDir(dir + "/pulses")
	require.NoError(t, err)
	assert.Empty(t, left)
}
