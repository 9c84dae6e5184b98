package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
)

func TestMonitorBlock(t *testing.T) {
	c, err := config.Parse("m.json", []byte(`{"monitor": {"restartsPerMinute": 3, "parallel": 2, "resources": [
		{"name": "net", "unit": "network.service"},
		{"name": "web", "dependsOn": ["net"], "unit": "web.service", "mode": "RESTART_ONLY", "retryCount": 5, "retryInterval": "never",
		 "thoroughProbe": "20s", "probeTimeout": "5s", "escalation": "unit", "target": "rescue.target",
		 "backoff": {"min": "1s", "max": "10s", "factorPercent": 150, "jitterPercent": 10}, "flap": {"count": 4, "clear": 2, "window": "1m"},
		 "net": {"host": "127.0.0.1", "port": 80, "httpPath": "/health"}}]}}`))
	require.NoError(t, err)
	assert.Equal(t, monitor.Limits{RestartsPerMinute: 3, Parallel: 2}, c.Monitor.Limits)
	require.Len(t, c.Monitor.Resources, 2)
	w := c.Monitor.Resources[1]
	assert.Equal(t, &config.NetProbe{Host: "127.0.0.1", Port: 80, HTTPPath: "/health", FamilyWeight: 100}, w.Net)
	assert.Equal(t, monitor.NeverAges, w.Config.RetryInterval)
	assert.Equal(t, monitor.Backoff{Min: time.Second, Max: 10 * time.Second, Factor: 1.5, Jitter: 0.1}, w.Config.Backoff)
	assert.Equal(t, []string{"net"}, w.Config.DependsOn)
	assert.True(t, w.Config.PartialWeights)
}

func TestMonitorHostIsLoggedUnlessTheFileSaysMore(t *testing.T) {
	c, err := config.Parse("m.json", []byte(`{"hosts": 2, "monitor": {"resources": [
		{"name": "host", "host": {"restart": "Chassis PowerCycle", "bootTimeout": "10m"}},
		{"name": "eager", "mode": "SOFT", "host": {"index": 1}, "escalation": "transition", "target": "Host Off"}]}}`))
	require.NoError(t, err)
	all := c.Monitor.Resources
	assert.Equal(t, &config.HostProbe{Restart: state.ChassisPowerCycle, BootTimeout: 10 * time.Minute}, all[0].Host)
	assert.Equal(t, monitor.ModeLogOnly, all[0].Config.Mode)
	assert.Equal(t, time.Second, all[0].Config.PowerDebounce)
	assert.Equal(t, monitor.ModeSoft, all[1].Config.Mode)
	assert.Equal(t, "Host Off", all[1].Config.Target)
}

func TestMonitorProbes(t *testing.T) {
	c, err := config.Parse("m.json", []byte(`{"hosts": 2, "monitor": {
		"inhibit": [{"reason": "code update", "service": "a.b", "path": "/a", "interface": "a.c", "property": "Busy", "equals": "true"}],
		"resources": [
		{"name": "cmd", "unit": "a.service", "command": ["/bin/check", "-v"]},
		{"name": "line", "retryCount": 0, "domain": 1, "line": {"signal": "PostComplete", "asserted": false, "weight": 40}},
		{"name": "psu", "mode": "LOG_ONLY", "line": {"chip": "aspeed", "offset": 0, "activeLow": true}},
		{"name": "fan", "mode": "LOG_ONLY", "line": {"name": "FAN_OK"}},
		{"name": "prop", "mode": "LOG_ONLY", "property": {"service": "a.b", "path": "/a", "interface": "a.c", "property": "T", "min": -5, "max": 90}}]}}`))
	require.NoError(t, err)
	all := c.Monitor.Resources
	assert.Equal(t, []string{"/bin/check", "-v"}, all[0].Command)
	assert.Equal(t, &config.LineProbe{Signal: "PostComplete", Offset: -1, Weight: 40}, all[1].Line)
	assert.Equal(t, &config.LineProbe{Chip: "aspeed", ActiveLow: true, Asserted: true, Weight: 100}, all[2].Line)
	assert.Equal(t, &config.LineProbe{Name: "FAN_OK", Offset: -1, Asserted: true, Weight: 100}, all[3].Line)
	assert.True(t, all[1].Config.PartialWeights)
	assert.Equal(t, 1, all[1].Domain)
	p := all[4].Property
	for v, want := range map[any]bool{uint8(3): true, -5: true, 90.5: false, int64(-6): false} {
		ok, err := p.Holds(v)
		assert.NoError(t, err)
		assert.Equal(t, want, ok, "%v", v)
	}
	_, err = p.Holds("warm")
	assert.ErrorContains(t, err, "no number")
	ok, err := c.Monitor.Inhibits[0].Property.Holds(true)
	assert.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "code update", c.Monitor.Inhibits[0].Reason)
}

// A key of any length is named, and shortened: it may go into a log and a status.
func TestLongUnknownKey(t *testing.T) {
	_, err := config.Parse("m.json", []byte(`{"`+strings.Repeat("h", 1_000_000)+`": 1}`))
	assert.ErrorContains(t, err, "m.json:1:2: hhhh")
	assert.Less(t, len(err.Error()), 2000)
}

func TestMonitorBlockErrors(t *testing.T) {
	property := func(fields string) string {
		return `{"monitor": {"resources": [{"name": "a", "mode": "LOG_ONLY", "property": {` + fields + `}}]}}`
	}
	for text, want := range map[string]string{
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "dependsOn": ["b"]}, {"name": "b", "unit": "b.service", "dependsOn": ["a"]}]}}`: "m.json:1:27: monitor.resources: dependencies form a circle",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "dependsOn": ["a"]}]}}`:                                                         "dependencies form a circle: a → a",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "thoroughProbe": "1ns"}]}}`:                                                     "allowed: 10ms to 1h",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "cheapProbe": "1ns"}]}}`:                                                        "allowed: 0 (none), or 10ms to 1h",
		`{"monitor": {"resources": [{"name": "a", "host": {"index": 7}}]}}`:                                                                            "monitor.resources[0].host.index: 7 names no host of hosts",
		`{"monitor": {"resources": [{"name": "a", "mode": "LOG_ONLY", "domain": 9, "line": {"signal": "PowerOk"}}]}}`:                                  "monitor.resources[0].domain: 9 names no domain of hosts",
		property(`"service": "x", "path": "/a", "interface": "a.b", "property": "P", "equals": "1"`):                                                   "service: \"x\" is not allowed here; allowed: a bus name",
		property(`"service": "a b.c", "path": "/a", "interface": "a.b", "property": "P", "equals": "1"`):                                               "allowed: a bus name",
		property(`"service": "a..b", "path": "/a", "interface": "a.b", "property": "P", "equals": "1"`):                                                "allowed: a bus name",
		property(`"service": "a.b", "path": "/a b", "interface": "a.b", "property": "P", "equals": "1"`):                                               "allowed: an object path",
		property(`"service": "a.b", "path": "/a", "interface": "it's.b", "property": "P", "equals": "1"`):                                              "allowed: an interface",
		property(`"service": "a.b", "path": "/a", "interface": "a.b", "property": "P", "min": 5, "max": 1`):                                            "has no value that is good",
		`{"monitor": {"resources": [{"unit": "a.service"}]}}`:                                                                                          "m.json:1:28: monitor.resources[0].name",
		`{"monitor": {"resources": [{"name": "a"}]}}`:                                                                                                  "m.json:1:28: monitor.resources[0]: {\"name\":\"a\"} watches nothing",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "retryInterval": "0s"}]}}`:                                                      "m.json:1:80: monitor.resources[0].retryInterval",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "backoff": {"min": "2m"}}]}}`:                                                   "m.json:1:74: monitor.resources[0].backoff.max",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "dependsOn": ["b"]}]}}`:                                                         "names no resource",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service"}, {"name": "a", "unit": "b.service"}]}}`:                                         "is there twice",
		`{"monitor": {"resources": [{"name": "a", "unit": "web"}]}}`:                                                                                   `m.json:1:50: monitor.resources[0].unit: "web" is not allowed here; allowed: the name of a unit`,
		`{"monitor": {"resources": [{"name": "a", "unit": "a@.service"}]}}`:                                                                            `monitor.resources[0].unit: "a@.service"`,
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "quiesceTarget": "a b.target"}]}}`:                                              `resources[0].quiesceTarget: "a b.target"`,
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "escalation": "unit", "target": "rescue"}]}}`:                                   `resources[0].target: "rescue" is no unit; allowed: the name of a unit`,
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service"}, {"name": "b", "unit": "a.service"}]}}`:                                         `m.json:1:86: monitor.resources[1].unit: "a.service" is watched by another resource already`,
		`{"monitor": {"resources": [{"name": "a", "net": {"host": "x"}}]}}`:                                                                            "has no port",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "escalation": "panic"}]}}`:                                                      `"transition" or "failover"`,
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "escalation": "transition", "target": "Chassis Off"}]}}`:                        `resources[0].target: "Chassis Off" is no transition`,
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "host": {}}]}}`:                                                                 "is a unit and a host",
		`{"monitor": {"resources": [{"name": "a", "host": {"restart": "Host Off"}}]}}`:                                                                 `allowed: one of "Host Reboot"`,
		`{"monitor": {"resources": [{"name": "a", "net": {"port": 1}, "command": ["/bin/true"]}]}}`:                                                    "has several probes",
		`{"monitor": {"resources": [{"name": "a", "command": ["true"], "retryCount": 0}]}}`:                                                            "monitor.resources[0].command[0]",
		`{"monitor": {"resources": [{"name": "a", "command": ["/bin/true"]}]}}`:                                                                        "has nothing to restart",
		`{"monitor": {"resources": [{"name": "a", "line": {"signal": "PowerOut"}, "retryCount": 0}]}}`:                                                 "resources[0].line.signal",
		`{"monitor": {"resources": [{"name": "a", "property": {"service": "a.b"}, "retryCount": 0}]}}`:                                                 "does not say which property",
		`{"monitor": {"inhibit": [{"reason": "x", "service": "a.b", "path": "/a", "interface": "a.b", "property": "P"}]}}`:                             "does not say which values are good",
		`{"monitor": {"inhibit": [{"service": "a.b", "path": "/a", "interface": "a.b", "property": "P", "max": 3}]}}`:                                  "has no reason",
		`{"monitor": {"resources": [{"name": "a", "line": {}, "retryCount": 0}]}}`:                                                                     "does not name one line",
		`{"monitor": {"resources": [{"name": "a", "line": {"offset": 3}, "retryCount": 0}]}}`:                                                          "does not name one line",
		`{"monitor": {"resources": [{"name": "a", "line": {"chip": "c"}, "retryCount": 0}]}}`:                                                          "does not name one line",
		`{"monitor": {"resources": [{"name": "a", "line": {"chip": "c", "name": "n", "offset": 3}, "retryCount": 0}]}}`:                                "does not name one line",
		`{"monitor": {"resources": [{"name": "a", "line": {"signal": "PowerOk", "name": "n"}, "retryCount": 0}]}}`:                                     "does not name one line",
		`{"monitor": {"resources": [{"name": "a", "line": {"signal": "PowerOk", "activeLow": true}, "retryCount": 0}]}}`:                               "does not name one line",
		`{"monitor": {"resources": [{"name": "a", "line": {"chip": "c", "offset": -1}, "retryCount": 0}]}}`:                                            "resources[0].line.offset",
	} {
		c, err := config.Parse("m.json", []byte(text))
		assert.ErrorContains(t, err, want)
		assert.False(t, c.Driven)
	}
}
