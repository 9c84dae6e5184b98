package powerconfig_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// The files in testdata are written anew from what is known of the
// configurations that x86-power-control and the boards' layers ship: signals,
// line names, polarities and times that differ. What is not known has the
// stock configuration's value.
func TestBoards(t *testing.T) {
	const oldWatchdog = "PsPowerOKWatchdogMs is the old name of PowerOKWatchdogMs"
	const empty = "has an empty LineName"
	asrock := []string{empty, empty, empty, oldWatchdog}
	tests := map[string]struct {
		signals  int
		warnings []string
		check    func(*testing.T, powerconfig.Config)
	}{
		"default": {12, []string{"gpio_configs[12] has no Name and is ignored"}, func(t *testing.T, c powerconfig.Config) {
			assert.Equal(t, "PS_PWROK", c.Signals[gpio.PowerOk].Line)
			assert.False(t, c.Signals[gpio.PowerOk].ActiveLow)
			assert.True(t, c.Signals[gpio.PowerOut].ActiveLow)
			assert.True(t, c.HasSIO())
			assert.True(t, c.NMIWhenPoweredOff)
			assert.True(t, c.GracefulSet, "times behind the nameless entry are read")
		}},
		"intel-acrp": {11, nil, func(t *testing.T, c powerconfig.Config) {
			assert.Equal(t, 12*time.Second, c.Timings.SIOWatchdog)
			assert.Equal(t, "PLTRST_N", c.Signals[gpio.PlatformReset].Line)
			assert.NotContains(t, c.Signals, gpio.PostComplete)
		}},
		"intel-jcrp": {13, nil, func(t *testing.T, c powerconfig.Config) {
			assert.Equal(t, 30*time.Second, c.Timings.ForceOffPulse)
			assert.Equal(t, "FM_P3V3_SW_ENA", c.Signals[gpio.PowerOk].Line)
		}},
		"ethanolx": {9, nil, func(t *testing.T, c powerconfig.Config) {
			assert.False(t, c.Signals[gpio.PowerOut].ActiveLow)
			assert.False(t, c.HasSIO())
		}},
		"daytonax":           {9, []string{oldWatchdog}, nil},
		"asrock-e3c246d4i":   {9, asrock, nil},
		"asrock-e3c256d4i":   {9, asrock, nil},
		"asrock-romed8hm3":   {9, asrock, nil},
		"asrock-spc621d8hm3": {9, asrock, nil},
		"asrock-x570d4u": {9, asrock, func(t *testing.T, c powerconfig.Config) {
			assert.False(t, c.HasSIO(), "empty line names are no SIO")
		}},
		"g220a": {7, nil, nil},
		"rl300-g11": {9, []string{oldWatchdog}, func(t *testing.T, c powerconfig.Config) {
			assert.Equal(t, &powerconfig.Property{
				Service: "xyz.openbmc_project.Chassis.Gpios", Path: "/xyz/openbmc_project/chassis/gpios",
				Interface: "xyz.openbmc_project.Chassis.Gpios", Name: "PGood",
			}, c.Signals[gpio.PowerOk].DBus)
		}},
		"evb-npcm845": {9, nil, nil},
		"nvl32-obmc": {3, nil, func(t *testing.T, c powerconfig.Config) {
			assert.Equal(t, 6*time.Second, c.Timings.ResetPulse)
			assert.Equal(t, 6*time.Second, c.Timings.PowerCycle)
		}},
		"gbs":  {9, nil, nil},
		"s6q":  {9, []string{oldWatchdog}, nil},
		"tyan": {9, []string{oldWatchdog}, nil},
	}
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(tests), "every file has its row")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".json")
			require.NoError(t, err)
			c, warnings, err := powerconfig.Parse(name, data)
			require.NoError(t, err)
			assert.Len(t, c.Signals, tc.signals)
			requireTexts(t, tc.warnings, warnings)
			assert.Equal(t, 8*time.Second, c.Timings.PowerOKWatchdog)
			if tc.check != nil {
				tc.check(t, c)
			}
		})
	}
}

func requireTexts(t *testing.T, want []string, got []powerconfig.Warning) {
	t.Helper()
	require.Len(t, got, len(want), "%v", got)
	for i, w := range want {
		assert.Contains(t, got[i].String(), w)
	}
}

// file returns a minimal valid file with more in it.
func file(entries, sections string) string {
	return fmt.Sprintf(`{"gpio_configs": [
{"Name": "PowerOut", "LineName": "OUT", "Type": "GPIO", "Polarity": "ActiveLow"},
{"Name": "ResetOut", "LineName": "RST", "Type": "GPIO", "Polarity": "ActiveLow"},
{"Name": "PowerOk", "LineName": "PG", "Type": "GPIO", "Polarity": "ActiveHigh"}
%s]%s}`, entries, sections)
}

func TestOwnKeys(t *testing.T) {
	c, warnings, err := powerconfig.Parse("f.json", []byte(file(`,
{"Name": "PowerButton", "LineName": "BTN", "Type": "GPIO", "Polarity": "ActiveLow",
 "chip": "1e780000.gpio", "bias": "pull-up", "debounce": "5ms"},
{"Name": "NMIOut", "Type": "GPIO", "Polarity": "ActiveHigh", "chip": "sgpio", "offset": 7, "drive": "open-drain", "idle": "hold"},
{"Name": "HpmStbyEn", "LineName": "STBY", "Type": "GPIO", "Polarity": "ActiveHigh"},
{"Name": "SlotPower", "LineName": "SLOT", "Type": "GPIO", "Polarity": "ActiveHigh", "level": false}`,
		`, "event_configs": {"NMIWhenPoweredOff": false}`)))
	require.NoError(t, err)
	require.Empty(t, warnings)
	assert.Equal(t, powerconfig.Signal{
		Name: "PowerButton", ActiveLow: true, Line: "BTN", Chip: "1e780000.gpio", Offset: -1,
		Bias: powerconfig.BiasPullUp, Debounce: 5 * time.Millisecond, At: jsonpos.Position{Line: 6, Column: 1},
	}, c.Signals[gpio.PowerButton])
	assert.Equal(t, powerconfig.Signal{
		Name: "NMIOut", Output: true, Chip: "sgpio", Offset: 7,
		Drive: powerconfig.DriveOpenDrain, Idle: powerconfig.IdleHold, At: jsonpos.Position{Line: 8, Column: 1},
	}, c.Signals[gpio.NMIOut])
	assert.True(t, c.Signals[gpio.HpmStbyEn].Level, "keeps its level without being told")
	assert.False(t, c.Signals[gpio.SlotPower].Level)
	assert.False(t, c.NMIWhenPoweredOff)
	assert.False(t, c.GracefulSet)
}

func TestDBusInput(t *testing.T) {
	const entry = `,{"Name": "PostComplete", "Type": "DBUS", "DbusName": "a.b", "Path": "/p", "Interface": "i.j",
"Property": "P", "Polarity": "ActiveLow", "MatchRegex": "On|.*\\.Running"}`
	c, warnings, err := powerconfig.Parse("f.json", []byte(file(entry, "")))
	require.NoError(t, err)
	requireTexts(t, []string{`f.json:6:30: PostComplete: Polarity is ignored for Type "DBUS": true means asserted`}, warnings)
	s := c.Signals[gpio.PostComplete]
	assert.False(t, s.ActiveLow)
	for text, want := range map[string]bool{"On": true, "State.Running": true, "xOn": false, "On.": false, "Off": false} {
		assert.Equal(t, want, s.DBus.Match.Match(text), text)
	}
}

func TestWarnings(t *testing.T) {
	tests := map[string]struct{ entries, sections, want string }{
		"comment":          {`/* more */`, ``, ``},
		"no name":          {`,{"Type": "GPIO"}`, ``, `f.json:5:2: gpio_configs[3] has no Name and is ignored`},
		"empty line":       {`,{"Name": "IdButton", "LineName": "", "Type": "GPIO", "Polarity": "ActiveLow"}`, ``, `f.json:5:2: IdButton has an empty LineName: the board is taken not to have it`},
		"unknown key":      {``, `, "gpio": 1`, `f.json:5:4: unknown key "gpio" is ignored`},
		"unknown timing":   {``, `, "timing_configs": {"PowerPulse": 1}`, `f.json:5:23: unknown key timing_configs.PowerPulse is ignored`},
		"unknown event":    {``, `, "event_configs": {"NMI": 1}`, `f.json:5:22: unknown key event_configs.NMI is ignored`},
		"unknown in entry": {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO", "Polarity": "ActiveLow", "Pol": 1}`, ``, `f.json:5:82: IdButton: unknown key "Pol" is ignored`},
		"old timing":       {``, `, "timing_configs": {"PsPowerOKWatchdogMs": 8000}`, `f.json:5:23: timing_configs.PsPowerOKWatchdogMs is the old name of PowerOKWatchdogMs and is read as that`},
		"both timings":     {``, `, "timing_configs": {"PsPowerOKWatchdogMs": 1, "PowerOKWatchdogMs": 8000}`, `f.json:5:23: timing_configs.PsPowerOKWatchdogMs is the old name of PowerOKWatchdogMs, which is there too and counts`},
		"negative":         {``, `, "timing_configs": {"PowerOKWatchdogMs": -1}`, `f.json:5:44: timing_configs.PowerOKWatchdogMs: -1 makes no sense; the default of 8s is kept`},
		"too large":        {``, `, "timing_configs": {"PowerOKWatchdogMs": 1e99}`, `f.json:5:44: timing_configs.PowerOKWatchdogMs: 1e99 makes no sense; the default of 8s is kept`},
		"zero pulse":       {``, `, "timing_configs": {"ResetPulseMs": 0}`, `f.json:5:39: timing_configs.ResetPulseMs: 0 makes no sense; the default of 500ms is kept`},
		"fraction":         {``, `, "timing_configs": {"PowerOKWatchdogMs": 8000.9}`, `f.json:5:44: timing_configs.PowerOKWatchdogMs: 8000.9 is cut to 8000`},
		"twice":            {`,{"Name": "PowerOk", "LineName": "PG2", "Type": "GPIO", "Polarity": "ActiveHigh"}`, ``, `f.json:5:2: PowerOk is there twice; this one replaces the one at 4:1`},
		"key twice":        {``, `, "timing_configs": {"PowerPulseMs": 1, "PowerPulseMs": 200}`, `f.json:5:23: "PowerPulseMs" is there twice; the last one counts`},
		"same line":        {`,{"Name": "PostComplete", "LineName": "PG", "Type": "GPIO", "Polarity": "ActiveHigh"}`, ``, `f.json:4:1: PostComplete and PowerOk are the same line`},
		"D-Bus output":     {`,{"Name": "NMIOut", "Type": "DBUS", "DbusName": "a", "Path": "/", "Interface": "i", "Property": "P"}`, ``, `f.json:5:2: NMIOut is an output and cannot be of Type "DBUS"; it is ignored`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, warnings, err := powerconfig.Parse("f.json", []byte(file(tc.entries, tc.sections)))
			require.NoError(t, err)
			assert.Equal(t, 8*time.Second, c.Timings.PowerOKWatchdog)
			if tc.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1, "%v", warnings)
			assert.Equal(t, tc.want, warnings[0].String())
		})
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct{ entries, sections, want string }{
		"syntax":          {`,`, ``, `f.json:5:2: not valid JSON: invalid character ']' looking for beginning of value`},
		"open comment":    {`/*`, ``, `f.json:5:1: not valid JSON: comment /* is not closed by */`},
		"unknown signal":  {`,{"Name": "PowerUp"}`, ``, `f.json:5:11: gpio_configs[3]: Name is "PowerUp", which is no signal`},
		"no object":       {`,1`, ``, `f.json:5:2: gpio_configs[3] is a number, not an object`},
		"no type":         {`,{"Name": "IdButton"}`, ``, `f.json:5:2: IdButton has no Type; it must be "GPIO" or "DBUS"`},
		"type":            {`,{"Name": "IdButton", "Type": "gpio"}`, ``, `f.json:5:31: IdButton: Type is "gpio", not "GPIO" or "DBUS"`},
		"no polarity":     {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO"}`, ``, `f.json:5:2: IdButton has no Polarity; it must be "ActiveLow" or "ActiveHigh"`},
		"polarity":        {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO", "Polarity": "Low"}`, ``, `f.json:5:69: IdButton: Polarity is "Low", not "ActiveLow" or "ActiveHigh"`},
		"no line":         {`,{"Name": "IdButton", "Type": "GPIO", "Polarity": "ActiveLow"}`, ``, `f.json:5:2: IdButton has no LineName and no chip and offset`},
		"offset alone":    {`,{"Name": "IdButton", "Type": "GPIO", "Polarity": "ActiveLow", "offset": 3}`, ``, `f.json:5:74: IdButton: offset needs chip`},
		"offset":          {`,{"Name": "IdButton", "Type": "GPIO", "Polarity": "ActiveLow", "chip": "c", "offset": -1}`, ``, `f.json:5:87: IdButton: offset is -1, not a line's number`},
		"bias":            {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO", "Polarity": "ActiveLow", "bias": "up"}`, ``, `f.json:5:90: IdButton: bias is "up"; allowed: ["as-is" "disabled" "pull-up" "pull-down"]`},
		"drive of input":  {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO", "Polarity": "ActiveLow", "drive": "push-pull"}`, ``, `f.json:5:91: IdButton: drive is for outputs only`},
		"level of input":  {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO", "Polarity": "ActiveLow", "level": true}`, ``, `f.json:5:91: IdButton: level is for outputs only`},
		"idle of level":   {`,{"Name": "SlotPower", "LineName": "S", "Type": "GPIO", "Polarity": "ActiveLow", "idle": "hold"}`, ``, `f.json:5:90: SlotPower: idle is for pulse outputs only`},
		"debounce":        {`,{"Name": "IdButton", "LineName": "ID", "Type": "GPIO", "Polarity": "ActiveLow", "debounce": 5}`, ``, `f.json:5:94: IdButton: debounce is 5; allowed: a duration from "0s" to "1s", for example "5ms"`},
		"debounced pulse": {`,{"Name": "NMIOut", "LineName": "N", "Type": "GPIO", "Polarity": "ActiveLow", "debounce": "5ms"}`, ``, `f.json:5:91: NMIOut: debounce is for inputs only`},
		"D-Bus property":  {`,{"Name": "IdButton", "Type": "DBUS", "DbusName": "a", "Path": "/", "Interface": "i"}`, ``, `f.json:5:2: IdButton: Type "DBUS" needs Property, a string that is not empty`},
		"regex":           {`,{"Name": "IdButton", "Type": "DBUS", "DbusName": "a", "Path": "/", "Interface": "i", "Property": "P", "MatchRegex": "a)|(b"}`, ``, "f.json:5:118: IdButton: MatchRegex \"a)|(b\" cannot be used: the ) at position 2 closes nothing"},
		"timing type":     {``, `, "timing_configs": {"PowerPulseMs": "200"}`, `f.json:5:39: timing_configs.PowerPulseMs is a string, not a number`},
		"timings type":    {``, `, "timing_configs": []`, `f.json:5:22: timing_configs is a list, not an object`},
		"event type":      {``, `, "event_configs": {"NMIWhenPoweredOff": 1}`, `f.json:5:43: event_configs.NMIWhenPoweredOff is a number, not true or false`},
		"not complete": {`,{"Name": "PowerOk", "LineName": "", "Type": "GPIO"}`, ``,
			`f.json:5:2: PowerOk has no Polarity; it must be "ActiveLow" or "ActiveHigh"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, _, err := powerconfig.Parse("f.json", []byte(file(tc.entries, tc.sections)))
			require.EqualError(t, err, tc.want)
			assert.Empty(t, c.Signals, "nothing to drive by")
			var typed *powerconfig.Error
			assert.ErrorAs(t, err, &typed)
		})
	}
}

func TestMandatorySignals(t *testing.T) {
	_, _, err := powerconfig.Parse("f.json", []byte(`{"gpio_configs": [
{"Name": "PowerOut", "LineName": "", "Type": "GPIO", "Polarity": "ActiveLow"},
{"Name": "ResetOut", "Type": "DBUS"}]}`))
	require.Error(t, err)
	assert.Equal(t, []string{
		`f.json:3:1: ResetOut is an output and cannot be of Type "DBUS"`,
		`f.json:1:1: gpio_configs has no usable entry for PowerOk, PowerOut, ResetOut; the host cannot be driven without`,
	}, strings.Split(err.Error(), "\n"))
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "power-config-host1.json"), []byte(file("", "")), 0o600))
	c, warnings, err := powerconfig.Load(dir, 1)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Len(t, c.Signals, 3)

	_, _, err = powerconfig.Load(dir, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "power configuration of host 0 cannot be read")
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(file(`,{"Name": "IdButton", "Type": "GPIO", "chip": "c", "offset": 1, "bias": "x"}`, `, "event_configs": 1`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := powerconfig.Parse("f.json", data)
		var typed *powerconfig.Error
		switch {
		case err != nil && !errors.As(err, &typed):
			t.Fatalf("error without a place: %v", err)
		case err == nil && len(c.Signals) < 3:
			t.Fatalf("no error and only %d signals", len(c.Signals))
		}
	})
}

func TestWarmResetSource(t *testing.T) {
	const lines = `"gpio_configs": [
		{"Name": "PowerOut", "LineName": "A", "Type": "GPIO", "Polarity": "ActiveLow"},
		{"Name": "ResetOut", "LineName": "B", "Type": "GPIO", "Polarity": "ActiveLow"},
		{"Name": "PowerOk", "LineName": "C", "Type": "GPIO", "Polarity": "ActiveHigh"}]`
	for value, ok := range map[string]bool{`"PostComplete"`: true, `"PlatformReset"`: true, `"none"`: true, `"SIOS5"`: false, `1`: false} {
		c, _, err := powerconfig.Parse("file", []byte(`{`+lines+`, "event_configs": {"WarmResetSource": `+value+`}}`))
		if !ok {
			require.ErrorContains(t, err, "WarmResetSource", value)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, value, `"`+c.WarmResetSource+`"`)
	}
}
