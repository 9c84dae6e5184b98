package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
)

// full has every key, with values that differ from the defaults.
const full = `{
  "policy": {"default": "CHECK", "1": "FIFO"},
  "depthLimit": 6000, "share": 5500, "connShare": 5400,
  "historyMax": 100000, "historyTTL": "24h", "repeatWindow": "1m", "repeatAfterInvalid": "retry", "pendingTTL": "30s",
  "allowedUids": [101, 102],
  "gracefulTimeout": "2s", "onGracefulTimeout": "fail", "confirmTimeout": "3s", "reconcileTimeout": "4s",
  "knownTimeout": "5s", "commitTimeout": "6s", "settle": "0s", "hintTTL": "7s",
  "rebootWhenOff": "on", "hostRunning": "postComplete", "postTimeout": "8s", "resumeCycle": false, "retryAttempts": 9,
  "executor": {"default": "systemd", "1": "gpio-targets"}, "offGuard": "16s", "warmReboot": "reboot", "jobTimeout": "17s",
  "chassisSystem": "target", "hypervisor": true, "settings": "client", "settingsWait": "18s", "overdueMax": "21s", "requireBMCReady": true, "requireActiveBMC": true, "requireSupplies": true, "restoreSettle": "19s", "restoreStagger": "20s", "restoreAfter": ["Watchdog", "POR"],
  "restoreOnlyAfterPowerLoss": true, "restoreAfterForcedOff": false,
  "phosphorDir": "/var/psm", "powerControlDir": "/var/xpc", "powerConfigDir": "/etc/power/",
  "hosts": [{"host": 1, "chassis": 1}, {"host": 0, "chassis": 0}],
  "simulate": {
    "count": 3,
    "timings": {"powerPulse": "1ms", "forceOffPulse": "2ms", "resetPulse": "3ms", "powerCycle": "4ms",
      "powerOKWatchdog": "5ms", "sioPowerGoodWatchdog": "6ms", "powerGoodDelay": "7ms", "sioDelay": "8ms",
      "postDelay": "9ms", "guestShutdown": "10ms", "overrideHold": "11ms", "flickerPeriod": "12ms"},
    "inputs": ["PowerOk", "PostComplete"], "slotPower": true, "powerLevel": true, "hpmStbyEn": true, "startOn": true,
    "faults": {"neverPowerGood": true, "neverPostComplete": true, "dropPowerGoodAfter": "13ms", "powerGoodFlickers": 14,
      "guestHangsOnShutdown": true, "guestCrash": true, "forceOffIgnored": 15,
      "lineBusy": ["PowerOut"], "lineMissing": ["IdButton", "NMIOut"], "lineHung": ["ResetOut"]}
  }
}`

func TestParseReadsEveryKey(t *testing.T) {
	const ms = time.Millisecond
	got, err := config.Parse("full.json", []byte(full))
	require.NoError(t, err)
	assert.Equal(t, config.Config{
		Driven: true, Monitor: config.Default().Monitor,
		Policy: state.Check, Policies: map[int]state.Policy{1: state.FIFO},
		DepthLimit: 6000, Share: 5500, ConnShare: 5400,
		HistoryMax: 100000, HistoryTTL: 24 * time.Hour, RepeatWindow: time.Minute, RepeatAfterInvalid: true,
		PendingTTL: 30 * time.Second, AllowedUIDs: []uint32{101, 102},
		GracefulTimeout: 2 * time.Second, GracefulSet: true, ConfirmTimeout: 3 * time.Second, ReconcileTimeout: 4 * time.Second,
		KnownTimeout: 5 * time.Second, CommitTimeout: 6 * time.Second, HintTTL: 7 * time.Second,
		RebootWhenOff: true, PostComplete: true, PostTimeout: 8 * time.Second, RetryAttempts: 9,
		Executor: config.ExecutorSystemd, Executors: map[int]config.Executor{1: config.ExecutorGPIOTargets},
		OffGuard: 16 * time.Second, NoWarmReboot: true, JobTimeout: 17 * time.Second,
		System: config.SystemTarget, Hypervisor: true, Settings: config.SettingsClient, SettingsWait: 18 * time.Second, OverdueMax: 21 * time.Second, RequireBMCReady: true, RequireActiveBMC: true, RequireSupplies: true, RestoreSettle: 19 * time.Second, RestoreStagger: 20 * time.Second,
		RestoreAfter: []state.RebootCause{state.RebootCauseWatchdog, state.RebootCausePOR}, RestoreOnlyLost: true,
		PhosphorDir: "/var/psm", PowerControlDir: "/var/xpc", PowerConfigDir: "/etc/power",
		Hosts: []config.Mapping{{Host: 0, Chassis: 0}, {Host: 1, Chassis: 1}},
		Simulate: config.Simulate{
			Count: 3,
			Timings: config.Timings{
				PowerPulse: 1 * ms, ForceOffPulse: 2 * ms, ResetPulse: 3 * ms, PowerCycle: 4 * ms,
				PowerOKWatchdog: 5 * ms, SIOWatchdog: 6 * ms,
			},
			Board: gpio.VirtualConfig{
				PowerGoodDelay: gpio.Duration(7 * ms), SioDelay: gpio.Duration(8 * ms), PostDelay: gpio.Duration(9 * ms),
				GuestShutdown: gpio.Duration(10 * ms), OverrideHold: gpio.Duration(11 * ms),
				FlickerPeriod: gpio.Duration(12 * ms), Scale: 1,
				Inputs: []string{"PowerOk", "PostComplete"}, SlotPower: true, PowerLevel: true, HpmStbyEn: true, StartOn: true,
				Faults: gpio.Faults{
					NeverPowerGood: true, NeverPostComplete: true, DropPowerGoodAfter: gpio.Duration(13 * ms),
					PowerGoodFlickers: 14, GuestHangsOnShutdown: true, GuestCrash: true, ForceOffIgnored: 15,
					LineBusy: []string{"PowerOut"}, LineMissing: []string{"IdButton", "NMIOut"},
					LineHung: []string{"ResetOut"},
				},
			},
		},
	}, got)
	assert.Equal(t, state.FIFO, got.PolicyOf(1))
	assert.Equal(t, state.Check, got.PolicyOf(0))
	assert.Equal(t, config.ExecutorSystemd, got.ExecutorOf(0))
	assert.Equal(t, config.ExecutorGPIOTargets, got.ExecutorOf(1))
	assert.Len(t, got.SimulatedHosts(), 3)
	assert.NoError(t, got.Simulate.Board.Validate())
}

func TestParseDefaults(t *testing.T) {
	want := config.Default()
	want.Driven = true
	got, err := config.Parse("empty.json", []byte("{}"))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, state.FIFODedup, got.PolicyOf(7))
	assert.Equal(t, got.Hosts, got.SimulatedHosts())
}

func TestParseHosts(t *testing.T) {
	got, err := config.Parse("hosts.json", []byte(`{"hosts": 2}`))
	require.NoError(t, err)
	assert.Equal(t, []config.Mapping{{Host: 0, Chassis: 0}, {Host: 1, Chassis: 1}}, got.Hosts)
}

// TestErrors holds the exact messages: operators search for them.
func TestErrors(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"no JSON": {
			"{\n  \"depthLimit\": 8\n  \"share\": 4\n}",
			[]string{`f.json:3:3: not valid JSON: invalid character '"' after object key:value pair`},
		},
		"empty file": {"", []string{`f.json:1:1: not valid JSON: unexpected end of JSON input`}},
		"no object":  {"[]", []string{`f.json:1:1: [] is a list; allowed: an object`}},
		"unknown key": {
			"{\n  \"simulate\": {\"cuont\": 2}\n}",
			[]string{`f.json:2:16: simulate.cuont: 2 has an unknown key (did you mean "count"?); allowed: count, timings, inputs, slotPower, powerLevel, hpmStbyEn, startOn, faults`},
		},
		"unknown key without a neighbour": {
			`{"simulate": {"x": 2}}`,
			[]string{`f.json:1:15: simulate.x: 2 has an unknown key; allowed: count, timings, inputs, slotPower, powerLevel, hpmStbyEn, startOn, faults`},
		},
		"wrong types": {
			`{"depthLimit": "8", "gracefulTimeout": 300, "resumeCycle": null, "allowedUids": 1, "simulate": true}`,
			[]string{
				`f.json:1:16: depthLimit: "8" is a string; allowed: a whole number from 1 to 65535`,
				`f.json:1:40: gracefulTimeout: 300 is a number; allowed: a duration from "1ms" to "24h", for example "90s" or "1h30m"`,
				`f.json:1:60: resumeCycle: null is no value; allowed: true or false`,
				`f.json:1:81: allowedUids: 1 is a number; allowed: a list of at most 64 different elements`,
				`f.json:1:96: simulate: true is a boolean; allowed: an object`,
			},
		},
		"out of range": {
			`{"share": 0, "historyMax": 1e3, "retryAttempts": -1, "settle": "2s", "onGracefulTimeout": "Force"}`,
			[]string{
				`f.json:1:11: share: 0 is not allowed here; allowed: a whole number from 1 to 65535`,
				`f.json:1:28: historyMax: 1e3 is not allowed here; allowed: a whole number from 16 to 1000000`,
				`f.json:1:50: retryAttempts: -1 is not allowed here; allowed: a whole number from 0 to 100`,
				`f.json:1:64: settle: "2s" is not allowed here; allowed: a duration from "0s" to "1s", for example "90s" or "1h30m"`,
				`f.json:1:91: onGracefulTimeout: "Force" is not allowed here; allowed: "fail" or "force"`,
			},
		},
		"elements": {
			`{"allowedUids": [1, 4294967295, 1], "powerConfigDir": "relative"}`,
			[]string{
				`f.json:1:21: allowedUids[1]: 4294967295 is not allowed here; allowed: a whole number from 0 to 4294967294`,
				`f.json:1:33: allowedUids[2]: 1 is there twice; allowed: a list of at most 64 different elements`,
				`f.json:1:55: powerConfigDir: "relative" is not allowed here; allowed: an absolute path`,
			},
		},
		"signals": {
			`{"simulate": {"inputs": ["PowerOut"], "faults": {"lineBusy": ["OUT"]}}}`,
			[]string{
				`f.json:1:26: simulate.inputs[0]: "PowerOut" is not allowed here; allowed: the name of an input of x86-power-control`,
				`f.json:1:63: simulate.faults.lineBusy[0]: "OUT" is not allowed here; allowed: the name of a signal of x86-power-control`,
			},
		},
		"policy": {
			`{"policy": "LIFO"}`,
			[]string{`f.json:1:12: policy: "LIFO" is not allowed here; allowed: "CHECK", "DEDUP", "FIFO" or "FIFO_DEDUP"`},
		},
		"policy of no domain": {
			`{"policy": {"1": "FIFO"}}`,
			[]string{`f.json:1:12: policy.1: "FIFO" names no domain of hosts; allowed: the lowest chassis of a domain`},
		},
		"hosts": {
			`{"hosts": [{"host": 0}, {"host": 16, "chassis": 0}]}`,
			[]string{
				`f.json:1:12: hosts[0]: {"host":0} is not complete; allowed: both "host" and "chassis"`,
				`f.json:1:34: hosts[1].host: 16 is not allowed here; allowed: a whole number from 0 to 15`,
			},
		},
		"no hosts": {
			`{"hosts": []}`,
			[]string{`f.json:1:11: hosts: [] is not allowed here; allowed: a whole number from 1 to 16, or a list of objects such as {"host": 0, "chassis": 0}`},
		},
		"nameless": {`{"simulate": {"": 6}}`, []string{
			`f.json:1:15: simulate."": 6 has an unknown key; allowed: count, timings, inputs, slotPower, powerLevel, hpmStbyEn, startOn, faults`,
		}},
		"executor of no domain": {
			`{"executor": {"1": "gpio"}}`,
			[]string{`f.json:1:14: executor.1: "gpio" names no domain of hosts; allowed: the lowest chassis of a domain`},
		},
		"twice": {`{"share": 1, "share": 2}`, []string{`f.json:1:14: share: 2 is there twice; allowed: each key once`}},
		"two fields together": {
			`{"historyTTL": "1m", "repeatWindow": "2m"}`,
			[]string{`f.json:1:38: repeatWindow: "2m" is longer than historyTTL; allowed: a duration up to historyTTL, "1m"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse("f.json", []byte(tc.text))
			require.Error(t, err)
			assertComplete(t, err)
			assert.Equal(t, tc.want, strings.Split(err.Error(), "\n"))
			assert.False(t, got.Driven, "nothing is driven by a wrong configuration")
		})
	}
}

// assertComplete checks that each error of a file that is JSON says all that
// DESIGN.md §7 asks for.
func assertComplete(t testing.TB, err error) {
	t.Helper()
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var e *config.FieldError
		require.ErrorAs(t, err, &e)
		if strings.HasPrefix(e.Problem, "not valid JSON") {
			continue
		}
		whole := e.Field == "" && strings.HasSuffix(e.Allowed, "an object") // the file is no object
		if e.File == "" || e.Field == "" && !whole || e.Value == "" || e.Problem == "" || e.Allowed == "" {
			t.Errorf("incomplete: %+v", e)
		}
	}
}

func TestPolicyOfASimulatedDomain(t *testing.T) {
	c, err := config.Parse("f.json", []byte(`{"policy": {"2": "FIFO"}, "simulate": {"count": 3}}`))
	require.NoError(t, err)
	assert.Equal(t, state.FIFO, c.PolicyOf(2))
}

func TestErrorKeepsWhatWasRight(t *testing.T) {
	got, err := config.Parse("f.json", []byte(`{"historyMax": 9000, "hosts": 2, "share": "x"}`))
	require.Error(t, err)
	want := config.Default()
	want.HistoryMax = 9000
	want.Hosts = []config.Mapping{{Host: 0, Chassis: 0}, {Host: 1, Chassis: 1}}
	assert.Equal(t, want, got)

	var field *config.FieldError
	require.ErrorAs(t, err, &field)
	assert.Equal(t, "share", field.Field)
	assert.Equal(t, `"x"`, field.Value)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}

	got, err := config.Load(write("full.json", full))
	require.NoError(t, err)
	assert.True(t, got.Driven)

	pipe := filepath.Join(dir, "pipe.json")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	tests := map[string]struct{ path, message string }{
		"missing":    {filepath.Join(dir, "none.json"), "none.json: no such file"},
		"pipe":       {pipe, "is not a regular file"},
		"directory":  {dir, "is not a regular file"},
		"too large":  {write("large.json", strings.Repeat(" ", 1<<20+1)), "is larger than 1048576 bytes"},
		"wrong JSON": {write("wrong.json", "{"), "wrong.json:1:2: not valid JSON"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(tc.path)
			require.ErrorContains(t, err, tc.message)
			assert.Equal(t, config.Default(), got)
		})
	}
}

func TestDomains(t *testing.T) {
	m := func(pairs ...int) (all []config.Mapping) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, config.Mapping{Host: pairs[i], Chassis: pairs[i+1]})
		}
		return all
	}
	assert.Equal(t, []config.Domain{
		{Number: 0, Hosts: []int{0}, Chassis: []int{0}},
		{Number: 1, Hosts: []int{1, 2}, Chassis: []int{1, 2, 4}},
		{Number: 3, Hosts: []int{3}, Chassis: []int{3}},
	}, config.Domains(m(3, 3, 1, 4, 2, 2, 1, 1, 0, 0, 2, 1)))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"policy": {"0": 1}, "hosts": [{"host": 1}], "simulate": {"faults": {"lineBusy": [""]}}, "x": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f.json", data)
		if err != nil {
			assertComplete(t, err)
		}
		if c.Driven == (err != nil) {
			t.Fatalf("Driven is %v with error %v", c.Driven, err)
		}
		if len(c.Hosts) == 0 || c.DepthLimit == 0 || !strings.Contains("CHECK DEDUP FIFO FIFO_DEDUP", c.Policy.String()) {
			t.Fatalf("unusable configuration %+v", c)
		}
		var field *config.FieldError
		if err != nil && (!errors.As(err, &field) || field.At.Line < 1 || field.At.Column < 1) {
			t.Fatalf("error without a place: %v", err)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "full.json")
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(full)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Load(path); err != nil {
			b.Fatal(err)
		}
	}
}
