package gpio

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/warthog618/go-gpiocdev/uapi"

	"github.com/bmcstate/bmcstate/state/slog"
)

func TestEventsCoalesce(t *testing.T) {
	edge := func(signal string, asserted bool) Event { return Event{Signal: signal, Asserted: asserted} }
	up, down := edge(PowerOk, true), edge(PowerOk, false)
	gap := func(e Event) Event { e.Gap = true; return e }
	other := edge(PostComplete, true)
	for name, c := range map[string]struct{ in, want []Event }{
		"one edge":          {[]Event{up}, []Event{up}},
		"there and back":    {[]Event{down, up}, []Event{down, up}},
		"three edges":       {[]Event{down, up, down}, []Event{down}},
		"four edges":        {[]Event{down, up, down, up}, []Event{down, up}},
		"same level twice":  {[]Event{up, up}, []Event{up}},
		"order among lines": {[]Event{up, other, down}, []Event{up, other, down}},
		"a gap stays":       {[]Event{gap(down), up, down}, []Event{gap(down)}},
		"a gap is added":    {[]Event{up, gap(up)}, []Event{gap(up)}},
	} {
		t.Run(name, func(t *testing.T) {
			var pending []Event
			for _, e := range c.in {
				pending = addInput(pending, e)
			}
			require.Equal(t, c.want, pending)
		})
	}
}

func TestButtonEventsDoNotCoalesce(t *testing.T) {
	var pending []Event
	for i := range buttonBacklog {
		pending = addButton(pending, Event{Signal: PowerButton, Asserted: i%2 == 0})
	}
	require.Len(t, pending, buttonBacklog)
	pending = addButton(pending, Event{Signal: PowerButton, Asserted: true})
	require.Len(t, pending, buttonBacklog)
	require.Equal(t, Event{Signal: PowerButton, Asserted: true, Gap: true}, pending[buttonBacklog-1])
	require.Len(t, addButton(pending, Event{Signal: IdButton}), buttonBacklog+1, "each button has its own backlog")
}

func TestVirtualConfigJSON(t *testing.T) {
	dec := json.NewDecoder(strings.NewReader(`{"powerGoodDelay": "1.5s", "scale": 0.5, "inputs": ["SIOS5"],
		"faults": {"dropPowerGoodAfter": "20ms", "lineBusy": ["PowerOut"]}}`))
	dec.DisallowUnknownFields()
	var c VirtualConfig
	require.NoError(t, dec.Decode(&c))
	r := c.resolved()
	require.Equal(t, "750ms", r.PowerGoodDelay.String())
	require.Equal(t, "250ms", r.PostDelay.String(), "a default, scaled")
	require.Equal(t, []string{PowerOk, SIOS5}, r.Inputs)
	require.Equal(t, Duration(20*ms), r.Faults.DropPowerGoodAfter)

	for _, bad := range []string{`"fast"`, `"-1s"`, `"5"`} {
		var d Duration
		require.ErrorContains(t, json.Unmarshal([]byte(bad), &d), `such as "300ms" or "1.5s"`)
	}
}

func TestLineErrorNamesThePlace(t *testing.T) {
	for want, e := range map[string]*LineError{
		"gpio: pulse PowerOut (chip aspeed, line POWER_OUT): no such line": {Op: "pulse", Signal: PowerOut, Chip: "aspeed", Line: "POWER_OUT", Err: ErrMissing},
		"gpio: read PowerOk (line PS_PWROK): no such line":                 {Op: "read", Signal: PowerOk, Line: "PS_PWROK", Err: ErrMissing},
		"gpio: read PowerOk (chip aspeed): no such line":                   {Op: "read", Signal: PowerOk, Chip: "aspeed", Err: ErrMissing},
		"gpio: read PowerOk: no such line":                                 {Op: "read", Signal: PowerOk, Err: ErrMissing},
	} {
		require.EqualError(t, e, want)
	}
}

// fakeDriver notes when a line moves.
type fakeDriver struct {
	assertTakes time.Duration
	began       time.Time
	moves       []time.Duration
}

func (d *fakeDriver) drive(_ string, asserted bool) error {
	if asserted {
		time.Sleep(d.assertTakes)
	}
	d.moves = append(d.moves, time.Since(d.began))
	return nil
}

func (d *fakeDriver) mark(signal string) mark { return mark{Kind: markVirtual, Signal: signal} }

func (d *fakeDriver) where(op, signal string, err error) error {
	return &LineError{Op: op, Signal: signal, Err: err}
}

// The widths of P6, in virtual time.
func TestPulseWidth(t *testing.T) {
	for name, c := range map[string]struct {
		takes    time.Duration
		released time.Duration
	}{
		"prompt":                        {0, 200 * ms},
		"slow assert does not count":    {5 * ms, 205 * ms},
		"slower assert shortens it":     {100 * ms, 210 * ms},
		"assert longer than the width":  {500 * ms, 500 * ms},
		"assert that nearly hangs ends": {1900 * ms, 1900 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				d := &fakeDriver{assertTakes: c.takes, began: time.Now()}
				o := newOutputs(d, newMarks(dir), nil, map[string]signalKind{PowerOut: kindPulse}, func(Event) {}, slog.New(slog.DiscardHandler))
				require.NoError(t, o.pulse(context.Background(), PowerOut, 200*ms, false))
				require.Equal(t, []time.Duration{c.takes, c.released}, d.moves)
				o.close()
			})
		})
	}
}

func TestPulseTakeOverHoldsOnFromNow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{began: time.Now()}
		o := newOutputs(d, newMarks(dir), nil, map[string]signalKind{PowerOut: kindPulse}, func(Event) {}, slog.New(slog.DiscardHandler))
		first := make(chan error, 1)
		go func() { first <- o.pulse(context.Background(), PowerOut, 200*ms, false) }()
		time.Sleep(100 * ms)
		require.NoError(t, o.pulse(context.Background(), PowerOut, 15*time.Second, true))
		require.ErrorIs(t, <-first, ErrTakenOver)
		require.Equal(t, []time.Duration{0, 15100 * ms}, d.moves)
		o.close()
	})
}

func TestPulseCancelledBeforeItsMarkMovesNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{began: time.Now()}
		gate := make(chan struct{})
		hook := func(p Point, _ string) {
			if p == BeforeMark {
				<-gate
			}
		}
		o := newOutputs(d, newMarks(dir), hook, map[string]signalKind{PowerOut: kindPulse}, func(Event) {}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
		defer cancel()
		require.ErrorIs(t, o.pulse(ctx, PowerOut, 200*ms, false), context.DeadlineExceeded)
		close(gate)
		synctest.Wait()
		require.Empty(t, d.moves)
		o.close()
	})
}

// TestAMarkThatStaysSpoilsNoPulse: the line is released, whatever the disk says.
func TestAMarkThatStaysSpoilsNoPulse(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{began: time.Now()}
		hook := func(p Point, _ string) {
			if p == BeforeRelease { // a directory that is not empty is in the way of the removal
				files, err := filepath.Glob(filepath.Join(dir, "pulses", "*"))
				require.NoError(t, err)
				for _, f := range files {
					require.NoError(t, os.Remove(f))
					require.NoError(t, os.MkdirAll(filepath.Join(f, "x"), 0o700))
				}
			}
		}
		var log strings.Builder
		o := newOutputs(d, newMarks(dir), hook, map[string]signalKind{PowerOut: kindPulse}, func(Event) {}, slog.New(slog.NewTextHandler(&log, slog.LevelInfo)))
		require.NoError(t, o.pulse(t.Context(), PowerOut, 10*ms, false))
		require.Len(t, d.moves, 2)
		require.Contains(t, log.String(), "mark")
		o.close()
	})
}

func TestKernelRefusesWhatIsNoChip(t *testing.T) {
	var k linux
	c, err := k.open("/dev/null")
	require.NoError(t, err)
	defer c.close()
	_, _, _, err = c.info()
	require.Error(t, err)
	_, _, _, err = c.line(0)
	require.Error(t, err)
	require.Error(t, c.request(&uapi.LineRequest{Lines: 1}))
	_, err = k.get(^uintptr(0))
	require.Error(t, err)
	require.Error(t, k.set(^uintptr(0), true))
	require.Error(t, k.configure(^uintptr(0), Line{}.asIs()))
}
