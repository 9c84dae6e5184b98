package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
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
