package powerconfig_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
)

const ownLines = `, "sequence_gpio_configs": [
{"Name": "RailEn", "direction": "output", "LineName": "EN", "Type": "GPIO", "Polarity": "ActiveHigh", "reset": "off"},
{"Name": "RailGood", "direction": "input", "LineName": "GOOD", "Type": "GPIO", "Polarity": "ActiveHigh", "debounce": "1ms"}]`

func TestPowerOnSequence(t *testing.T) {
	c, warnings, err := powerconfig.Parse("f.json", []byte(file("", `, "power_on_sequence": [
{"set": "RailEn", "to": true}, {"await": "RailGood", "to": true, "ms": 2000}, {"delay": 10}, {"pulse": "PowerOut"}]`+ownLines)))
	require.NoError(t, err)
	require.Empty(t, warnings)
	assert.Equal(t, []powerconfig.Action{
		{Set: "RailEn", To: true}, {Await: "RailGood", To: true, Time: 2 * time.Second}, {Time: 10 * time.Millisecond}, {Pulse: "PowerOut"},
	}, c.PowerOn)
	assert.True(t, c.Signals["RailEn"].Level)
	assert.Equal(t, powerconfig.ResetOff, c.Signals["RailEn"].Reset)
	assert.Equal(t, time.Millisecond, c.Signals["RailGood"].Debounce)
}

func TestPowerOnSequenceErrors(t *testing.T) {
	for steps, want := range map[string]string{
		``:                                     `power_on_sequence has 0 steps; allowed: 1 to 32`,
		`1`:                                    `power_on_sequence[0] is a number, not an object`,
		`{"delay": 1}`:                         `neither sets nor pulses PowerOut`,
		`{}`:                                   `must have one of set, pulse, await and delay`,
		`{"set": "RailEn", "delay": 1}`:        `must have one of set, pulse, await and delay`,
		`{"set": "RailEn"}`:                    `"to" belongs to set and await, which need it`,
		`{"pulse": "PowerOut", "to": true}`:    `"to" belongs to set and await, which need it`,
		`{"set": "RailEn", "to": 1}`:           `power_on_sequence[0].to is a number, not true or false`,
		`{"set": "PowerOut", "to": true}`:      `power_on_sequence[0].set is "PowerOut"; it must name a level-type output that is configured`,
		`{"pulse": "RailEn", "ms": 1}`:         `power_on_sequence[0].pulse is "RailEn"; it must name a pulse output that is configured`,
		`{"pulse": "ResetOut"}`:                `"ms" is the width of a pulse and the deadline of an await`,
		`{"await": "RailEn", "to": true}`:      `power_on_sequence[0].await is "RailEn"; it must name an input that is configured`,
		`{"await": "RailGood", "to": true}`:    `"ms" is the width of a pulse and the deadline of an await`,
		`{"delay": 0.5}`:                       `power_on_sequence[0].delay is 0.5; allowed: whole milliseconds, 1 to 600000`,
		`{"delay": 1, "then": 2}`:              `power_on_sequence[0] has an unknown key "then"; allowed: set, pulse, await, delay, to, ms`,
		`{"await": "No", "to": true, "ms": 1}`: `power_on_sequence[0].await is "No"; it must name an input that is configured`,
	} {
		_, _, err := powerconfig.Parse("f.json", []byte(file("", `, "power_on_sequence": [`+steps+`]`+ownLines)))
		require.ErrorContains(t, err, want, steps)
	}
	for entry, want := range map[string]string{
		`{"Name": "PowerOut"}`: `sequence_gpio_configs[0]: Name is "PowerOut"; a name of your own is needed: letters, digits and _`,
		`{"Name": "a b"}`:      `sequence_gpio_configs[0]: Name is "a b"; a name of your own`,
		`{"Name": "A"}`:        `A needs a direction, "input" or "output"`,
	} {
		_, _, err := powerconfig.Parse("f.json", []byte(file("", `, "sequence_gpio_configs": [`+entry+`]`)))
		require.ErrorContains(t, err, want)
	}
}

// Only what keeps a level has a reset state, and what is a pulse by its nature
// cannot be told to keep a level: a reset must end if we do.
func TestLevelAndReset(t *testing.T) {
	for entry, want := range map[string]string{
		`{"Name": "NMIOut", "LineName": "N", "Type": "GPIO", "Polarity": "ActiveLow", "level": true}`:     `NMIOut: level cannot be chosen here`,
		`{"Name": "NMIOut", "LineName": "N", "Type": "GPIO", "Polarity": "ActiveLow", "reset": "on"}`:     `NMIOut: reset is for level-type outputs only`,
		`{"Name": "HpmStbyEn", "LineName": "N", "Type": "GPIO", "Polarity": "ActiveLow", "reset": "low"}`: `HpmStbyEn: reset is "low"; allowed: ["keep" "off" "on"]`,
	} {
		_, _, err := powerconfig.Parse("f.json", []byte(file(","+entry, "")))
		require.ErrorContains(t, err, want)
	}
	c, _, err := powerconfig.Parse("f.json", []byte(file(`,
{"Name": "HpmStbyEn", "LineName": "N", "Type": "GPIO", "Polarity": "ActiveLow"},
{"Name": "SlotPower", "LineName": "S", "Type": "GPIO", "Polarity": "ActiveLow", "reset": "keep"}`, "")))
	require.NoError(t, err)
	assert.Equal(t, powerconfig.ResetOn, c.Signals["HpmStbyEn"].Reset, "as x86-power-control")
	assert.Equal(t, powerconfig.ResetKeep, c.Signals["SlotPower"].Reset)
}
