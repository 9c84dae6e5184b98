package board_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

const ms = time.Millisecond

// press says how long a button is held, and from when.
type press struct{ from, width time.Duration }

func (p press) at(now time.Duration) bool { return now >= p.from && now < p.from+p.width }

// shown is what the board shows when it changes.
type shown struct {
	at                time.Duration
	powerGood, postOK bool
}

// play steps the board every millisecond and returns every change that it shows.
func play(b *board.Board, span time.Duration, power, reset press) []shown {
	var changes []shown
	last := shown{powerGood: b.PowerGood(), postOK: b.PostComplete()}
	for now := ms; now <= span; now += ms {
		b.Step(now, power.at(now), reset.at(now))
		s := shown{now, b.PowerGood(), b.PostComplete()}
		if s.powerGood != last.powerGood || s.postOK != last.postOK {
			changes = append(changes, s)
			last = s
		}
	}
	return changes
}

func TestBoard(t *testing.T) {
	const begin = 100 * ms
	for name, tt := range map[string]struct {
		on     bool
		guest  board.Guest
		faults board.Faults
		power  press
		reset  press
		want   []shown
	}{
		"a press brings power and then the firmware": {
			power: press{begin, 200 * ms},
			want:  []shown{{320 * ms, true, false}, {620 * ms, true, true}},
		},
		"a press that is shorter than the debounce is none": {power: press{begin, 15 * ms}},
		"power may never come":                              {faults: board.Faults{NoPowerGood: true}, power: press{begin, 200 * ms}},
		"a short press asks the guest, which obeys": {
			on: true, power: press{begin, 200 * ms},
			want: []shown{{620 * ms, false, false}},
		},
		"a guest may hang": {on: true, guest: board.GuestHangs, power: press{begin, 200 * ms}},
		"a guest may come back up": {
			on: true, guest: board.GuestReboots, power: press{begin, 200 * ms},
			want: []shown{{320 * ms, true, false}, {620 * ms, true, true}},
		},
		"a long press takes power away while it is held": {
			on: true, power: press{begin, 3 * time.Second},
			want: []shown{{1120 * ms, false, false}},
		},
		"a long press may fail":  {on: true, faults: board.Faults{StuckOn: true}, power: press{begin, 3 * time.Second}},
		"a board may be deaf":    {on: true, faults: board.Faults{Deaf: true}, power: press{begin, 3 * time.Second}},
		"reset may lead nowhere": {on: true, faults: board.Faults{ResetDead: true}, reset: press{begin, 100 * ms}},
		"reset without power":    {reset: press{begin, 100 * ms}},
		"reset restarts firmware": {
			on: true, reset: press{begin, 100 * ms},
			want: []shown{{120 * ms, true, false}, {520 * ms, true, true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := board.New(board.Quick())
			b.Guest, b.Faults = tt.guest, tt.faults
			if tt.on {
				b.GainPower()
			}
			assert.Equal(t, tt.want, play(b, 5*time.Second, tt.power, tt.reset))
		})
	}
}

func TestEnable(t *testing.T) {
	b := board.New(board.Quick())
	b.Enable = true
	assert.Equal(t, []shown{{320 * ms, true, false}, {620 * ms, true, true}, {2120 * ms, false, false}},
		play(b, 5*time.Second, press{100 * ms, 2 * time.Second}, press{}))
}

func TestLosePowerForgetsWhatWasComing(t *testing.T) {
	b := board.New(board.Quick())
	play(b, 250*ms, press{ms, 200 * ms}, press{})
	b.LosePower()
	assert.Empty(t, play(b, 2*time.Second, press{}, press{}))
}

// wires are two ends of copper.
type wires map[string]bool

func (w wires) Read(line string) (bool, error)     { return w[line], nil }
func (w wires) Drive(line string, high bool) error { w[line] = high; return nil }

func TestPlayer(t *testing.T) {
	w := wires{}
	b := board.New(board.Timing{ForceHold: time.Hour})
	pins := board.Stock()
	pins.Watched = []string{"NMI_OUT"}
	p := board.NewPlayer(b, pins, w, ms)
	assert.NoError(t, p.Redrive())
	assert.True(t, w["POWER_OUT"], "an idle line that is asserted low is pulled high")
	assert.NoError(t, p.Step())
	assert.Equal(t, wires{
		"POWER_OUT": true, "RESET_OUT": true, "NMI_OUT": false, "PS_PWROK": false, "POST_COMPLETE": true,
		"POWER_BUTTON": true, "RESET_BUTTON": true, "NMI_BUTTON": true, "ID_BUTTON": true,
	}, w)

	mark := p.Mark()
	w["POWER_OUT"] = false
	assert.NoError(t, p.Step())
	assert.NoError(t, p.Step())
	w["POWER_OUT"] = true
	assert.True(t, w["PS_PWROK"])
	assert.True(t, p.Asserted("PS_PWROK"))
	assert.NoError(t, p.Step())
	pulses := p.Pulses(mark, "POWER_OUT")
	if assert.Len(t, pulses, 1) {
		assert.Positive(t, pulses[0].Shortest)
		assert.Less(t, pulses[0].Shortest, pulses[0].Width)
		assert.Less(t, pulses[0].Width, pulses[0].Longest)
	}

	mark = p.Mark()
	w["NMI_OUT"] = true
	assert.NoError(t, p.Step())
	assert.Len(t, p.Since(mark, "NMI_OUT"), 1, "an output that does nothing to the board is watched, too")

	// The other side forgets everything, as a controller does at reset.
	clear(w)
	assert.NoError(t, p.Redrive())
	assert.True(t, w["POWER_OUT"])

	p.Press("ID_BUTTON", true)
	assert.NoError(t, p.Step())
	assert.False(t, w["ID_BUTTON"])
}
