//go:build faults

package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
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

func TestMonitorBlockErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"monitor": {"resources": [{"unit": "a.service"}]}}`:                                                  "m.json:1:28: monitor.resources[0].name",
		`{"monitor": {"resources": [{"name": "a"}]}}`:                                                          "m.json:1:28: monitor.resources[0]: {\"name\":\"a\"} watches nothing",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "retryInterval": "0s"}]}}`:              "m.json:1:80: monitor.resources[0].retryInterval",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "backoff": {"min": "2m"}}]}}`:           "m.json:1:74: monitor.resources[0].backoff.max",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "dependsOn": ["b"]}]}}`:                 "names no resource",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service"}, {"name": "a", "unit": "b.service"}]}}`: "is there twice",
		`{"monitor": {"resources": [{"name": "a", "net": {"host": "x"}}]}}`:                                    "has no port",
		`{"monitor": {"resources": [{"name": "a", "unit": "a.service", "escalation": "failover"}]}}`:           `allowed: "none" or "unit"`,
	} {
		c, err := config.Parse("m.json", []byte(text))
		assert.ErrorContains(t, err, want)
		assert.False(t, c.Driven)
	}
}
