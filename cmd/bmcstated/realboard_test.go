package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/sequence"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

const mandatory = `{"Name": "PowerOut", "LineName": "POWER_OUT", "Type": "GPIO", "Polarity": "ActiveLow", "idle": "hold", "drive": "open-drain"},
	{"Name": "ResetOut", "chip": "1e780000.gpio", "offset": 7, "Type": "GPIO", "Polarity": "ActiveHigh"},
	{"Name": "PowerOk", "LineName": "PS_PWROK", "Type": "GPIO", "Polarity": "ActiveHigh", "debounce": "5ms", "bias": "pull-up"}`

func parse(t *testing.T, signals, rest string) *powerconfig.Config {
	t.Helper()
	pc, _, err := powerconfig.Parse("test", []byte(`{"gpio_configs": [`+signals+`]`+rest+`}`))
	require.NoError(t, err)
	return &pc
}

func TestLinesOfABoard(t *testing.T) {
	pc := parse(t, mandatory+`,
		{"Name": "SlotPower", "LineName": "SLOT", "Type": "GPIO", "Polarity": "ActiveHigh"},
		{"Name": "PowerButton", "DbusName": "a.b", "Path": "/a", "Interface": "a.b", "Property": "P", "Type": "DBUS"}`, "")
	assert.Equal(t, []gpio.Line{
		{Signal: "PowerOk", Name: "PS_PWROK", Debounce: 5 * time.Millisecond, Bias: gpio.BiasPullUp},
		{Signal: "PowerOut", Name: "POWER_OUT", ActiveLow: true, Hold: true, Drive: gpio.DriveOpenDrain},
		{Signal: "ResetOut", Chip: "1e780000.gpio", Offset: 7},
		{Signal: "SlotPower", Name: "SLOT", Level: true},
	}, linesOf(pc))
}

// A board with rails: lines of its own names, a sequence, and the levels that
// outputs get at a boot.
func TestPowerOnSequenceOfABoard(t *testing.T) {
	pc := parse(t, strings.Replace(mandatory, `"idle": "hold"`, `"level": true, "reset": "off"`, 1)+`,
		{"Name": "HpmStbyEn", "LineName": "HPM", "Type": "GPIO", "Polarity": "ActiveHigh"},
		{"Name": "SlotPower", "LineName": "SLOT", "Type": "GPIO", "Polarity": "ActiveHigh", "reset": "keep"}`,
		`, "sequence_gpio_configs": [
			{"Name": "RailEn", "direction": "output", "LineName": "RAIL_EN", "Type": "GPIO", "Polarity": "ActiveLow"},
			{"Name": "RailGood", "direction": "input", "LineName": "RAIL_GOOD", "Type": "GPIO", "Polarity": "ActiveHigh"}],
		"power_on_sequence": [
			{"set": "RailEn", "to": true},
			{"await": "RailGood", "to": true, "ms": 1500},
			{"delay": 20},
			{"pulse": "ResetOut", "ms": 5},
			{"set": "PowerOut", "to": true},
			{"await": "PowerOk", "to": true, "ms": 100},
			{"await": "RailGood", "to": true, "ms": 1}]`)
	acts, awaits := powerOnOf(pc)
	assert.Equal(t, []string{"RailGood", "PowerOk"}, awaits)
	assert.Equal(t, []sequence.Action{
		{Kind: sequence.ActionSet, Signal: "RailEn", On: true},
		{Kind: sequence.ActionAwait, Signal: "RailGood", On: true, Time: 1500 * time.Millisecond},
		{Kind: sequence.ActionDelay, Time: 20 * time.Millisecond},
		{Kind: sequence.ActionPulse, Signal: "ResetOut", Time: 5 * time.Millisecond},
		{Kind: sequence.ActionSet, Signal: "PowerOut", On: true},
		{Kind: sequence.ActionAwait, Signal: "PowerOk", On: true, Time: 100 * time.Millisecond, Input: 1},
		{Kind: sequence.ActionAwait, Signal: "RailGood", On: true, Time: time.Millisecond},
	}, acts)
	assert.Equal(t, []engine.Output{{Signal: "HpmStbyEn", On: true}, {Signal: "PowerOut"}}, resetsOf(pc))
	assert.True(t, options(config.Default(), pc).PowerLevel)
	assert.Contains(t, linesOf(pc), gpio.Line{Signal: "RailEn", Name: "RAIL_EN", ActiveLow: true, Level: true})
	assert.Contains(t, linesOf(pc), gpio.Line{Signal: "RailGood", Name: "RAIL_GOOD"})
}

// The graceful time-out of our own file rules over the board's, which rules
// over the default.
func TestGracefulTimeoutPrecedence(t *testing.T) {
	with := parse(t, mandatory, `, "timing_configs": {"GracefulPowerOffS": 60, "PsPowerOKWatchdogMs": 9000}`)
	without := parse(t, mandatory, "")
	ours, err := config.Parse("test", []byte(`{"gracefulTimeout": "7s"}`))
	require.NoError(t, err)
	for _, c := range []struct {
		cfg  config.Config
		pc   *powerconfig.Config
		want time.Duration
	}{
		{config.Default(), without, 300 * time.Second},
		{config.Default(), with, 60 * time.Second},
		{ours, without, 7 * time.Second},
		{ours, with, 7 * time.Second},
	} {
		assert.Equal(t, c.want, timings(c.cfg, c.pc).GracefulTimeout)
	}
	assert.Equal(t, 9*time.Second, timings(ours, with).PowerOKWatchdog, "the old name of the key")
}

func TestHalfASIOIsNone(t *testing.T) {
	half := `, {"Name": "SioPowerGood", "LineName": "SIO_POWER_GOOD", "Type": "GPIO", "Polarity": "ActiveHigh"},
		{"Name": "SIOS5", "LineName": "SIO_S5", "Type": "GPIO", "Polarity": "ActiveLow"}`
	pc := parse(t, mandatory+half, "")
	withoutHalfSIO(pc, slog.New(slog.DiscardHandler))
	assert.NotContains(t, pc.Signals, "SioPowerGood")
	assert.NotContains(t, pc.Signals, "SIOS5")

	pc = parse(t, mandatory+half+`, {"Name": "SioOnControl", "LineName": "SIO_ONCONTROL", "Type": "GPIO", "Polarity": "ActiveLow"}`, "")
	withoutHalfSIO(pc, slog.New(slog.DiscardHandler))
	assert.Contains(t, pc.Signals, "SioPowerGood")
}

// A plain stop says which outputs systemd does not keep (DESIGN.md P6).
func TestStopSaysWhichLevelsMayBeLost(t *testing.T) {
	said := func(fdstore string) string {
		t.Setenv("NOTIFY_SOCKET", "/nowhere")
		t.Setenv("FDSTORE", fdstore)
		m := &machine{notify: systemd.NewNotifier(), power: map[int]*powerconfig.Config{0: parse(t, mandatory+`,
			{"Name": "SlotPower", "LineName": "SLOT", "Type": "GPIO", "Polarity": "ActiveHigh"}`, "")}}
		var log bytes.Buffer
		m.sayLevels(slog.New(slog.NewTextHandler(&log, slog.LevelInfo)))
		return log.String()
	}
	assert.Contains(t, said(""), "may lose its level while the daemon is stopped")
	assert.Contains(t, said(""), "signal=SlotPower chip=\"\" line=SLOT")
	assert.NotContains(t, said(""), "ResetOut", "a pulse line has nothing to lose")
	assert.Empty(t, said("64"))
}

// What stands of a sequence is told from the outputs themselves, so that another
// daemon can take it back.
func TestAppliedByASequence(t *testing.T) {
	b := board{sets: firstSets([]sequence.Action{
		{Kind: sequence.ActionSet, Signal: "RailEn", On: true},
		{Kind: sequence.ActionSet, Signal: "HoldReset", On: true},
		{Kind: sequence.ActionDelay, Time: 1},
		{Kind: sequence.ActionSet, Signal: "HoldReset", On: false},
		{Kind: sequence.ActionPulse, Signal: "PowerOut", Time: 1},
	})}
	read := func(rail, reset, known bool) gpio.Levels {
		return gpio.Levels{"RailEn": {Asserted: rail, Known: known}, "HoldReset": {Asserted: reset, Known: true}}
	}
	assert.Equal(t, state.LevelOff, b.applied(read(false, false, true)))
	assert.Equal(t, state.LevelOn, b.applied(read(true, false, true)))
	assert.Equal(t, state.LevelOn, b.applied(read(false, true, false)), "in the middle")
	assert.Equal(t, state.LevelOff, b.applied(read(false, false, false)))
	assert.Equal(t, state.LevelUnknown, b.applied(nil))
	assert.Equal(t, state.LevelAbsent, (&board{}).applied(nil))
}
