package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// byWords tells lines apart without a kernel; PGOOD is on offset 7.
func byWords(a, b gpio.Line) bool {
	at := func(l gpio.Line) string {
		if l.Name == "PGOOD" || l.Chip == "aspeed" && l.Name == "" && l.Offset == 7 {
			return "aspeed 7"
		}
		return l.Chip + " " + l.Name
	}
	return at(a) == at(b)
}

func lineProbe(name string, l config.LineProbe) config.Watched {
	return config.Watched{Config: monitor.Config{Name: name}, Line: &l}
}

// A line that a board has is read through it, in the probe's own sense; the others
// are requested once each, however many probes read them.
func TestProbesShareLines(t *testing.T) {
	power := map[int]*powerconfig.Config{2: {Signals: map[string]powerconfig.Signal{
		gpio.PowerOk:  {Line: "PGOOD", Offset: -1},
		gpio.PowerOut: {Line: "POWER_OUT", Offset: -1},
	}}}
	fm := &faultMonitor{m: &machine{power: power}}
	all := []config.Watched{
		lineProbe("signal", config.LineProbe{Signal: gpio.PowerOk, Offset: -1}),
		lineProbe("name", config.LineProbe{Name: "PGOOD", Offset: -1, Asserted: true}),
		lineProbe("offset", config.LineProbe{Chip: "aspeed", Offset: 7, Asserted: true, ActiveLow: true}),
		lineProbe("output", config.LineProbe{Name: "POWER_OUT", Offset: -1}),
		lineProbe("fan", config.LineProbe{Name: "FAN", Offset: -1, Asserted: true}),
		lineProbe("fan again", config.LineProbe{Name: "FAN", Offset: -1, Asserted: true, ActiveLow: true}),
		{Config: monitor.Config{Name: "unit"}, Unit: "a.service"},
	}
	p := &fm.lines
	p.collect(all, power, byWords)
	require.Len(t, p.lines, 1, "one line that no board has")
	assert.Equal(t, gpio.Line{Signal: "probe0", Name: "FAN"}, p.lines[0])
	assert.Equal(t, map[string][]string{"probe0": {"fan", "fan again"}}, p.users)
	assert.Equal(t, onBoard{domain: 2, signal: gpio.PowerOk}, p.found["name"])

	p.board = new(gpio.Chardev) // is not read here
	for n, want := range map[int]bool{1: true, 2: false, 4: true, 5: false} {
		w := all[n]
		_, asserted, err := fm.lineOf(0, w.Config.Name, w.Line)
		require.NoError(t, err, w.Config.Name)
		assert.Equal(t, want, asserted, w.Config.Name)
	}
	_, _, err := fm.lineOf(0, "output", all[3].Line)
	require.ErrorContains(t, err, "output PowerOut of domain 2")
	p.board = nil // as with --simulate
	_, _, err = fm.lineOf(0, "fan", all[4].Line)
	require.ErrorContains(t, err, "no line FAN here")
}
