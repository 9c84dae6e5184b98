//go:build bed4

package cases

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A service that the BMC cannot do without fails, as systemd means it: out of
// restarts. The BMC is quiesced, the event log's entry waits for the log, and a
// restart of the daemon changes neither.
func TestMonitorQuiesces(t *testing.T) {
	const quiesce = "obmc-bmc-service-quiesce@0.target"
	for name, text := range map[string]string{
		"/run/bed-services.json": `{"services": ["t-critical.service"]}`,
		"/run/bed-targets.json":  `{"targets": {"t-fails.target": {"errorsToMonitor": ["default"], "errorToLog": "xyz.bed.Error.Fails"}}}`,
		"/run/bed-monitor.json":  `{"monitorServices": ["/run/bed-services.json"], "monitorTargets": ["/run/bed-targets.json"]}`,
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	install(t, map[string]string{
		"bmcstated.service.d/bed.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/bmcstated --config /run/bed-monitor.json\n",
		quiesce + ".d/bed.conf":        "[Unit]\nRefuseManualStop=no\n",
		"t-critical.service":           "[Unit]\nStartLimitIntervalSec=30\nStartLimitBurst=2\n[Service]\nExecStart=/bin/sleep 1000\nRestart=always\nRestartSec=10ms\n",
		"t-fails.target":               "[Unit]\nRequires=t-fails.service\n",
		"t-fails.service":              "[Service]\nType=oneshot\nExecStart=/bin/false\n",
	})
	t.Cleanup(func() {
		for _, unit := range []string{quiesce, "bmcstated.service"} {
			shell(t, "systemctl", "stop", unit)
		}
		for _, dir := range []string{"/var/lib/bmcstate", "/run/bmcstate"} {
			require.NoError(t, os.RemoveAll(dir))
		}
	})
	shell(t, "systemctl", "start", "t-critical.service", "bmcstated.service")
	show := func(unit, property string) string { return shell(t, "systemctl", "show", "-P", property, unit) }
	bmc := func() string {
		words := strings.Split(strings.Trim(shell(t, "busctl", "get-property", "xyz.openbmc_project.State.BMC", "/xyz/openbmc_project/state/bmc0",
			"xyz.openbmc_project.State.BMC", "CurrentBMCState"), `"`), ".")
		return words[len(words)-1]
	}
	spool := func() string { text, _ := os.ReadFile("/run/bmcstate/events.json"); return string(text) }
	require.NotEqual(t, "Quiesced", bmc())

	shell(t, "systemctl", "--no-block", "start", "t-fails.target")
	eventually(t, "the target's entry", func() bool { return strings.Contains(spool(), "xyz.bed.Error.Fails") })
	assert.NotEqual(t, "Quiesced", bmc())

	for show("t-critical.service", "ActiveState") != "failed" {
		shell(t, "sh", "-c", "systemctl kill --kill-who=main -s KILL t-critical.service || true")
	}
	eventually(t, "quiesced", func() bool { return bmc() == "Quiesced" && show(quiesce, "ActiveState") == "active" })
	const entry = "xyz.openbmc_project.State.Error.CriticalServiceFailure"
	eventually(t, "the service's entry", func() bool { return strings.Contains(spool(), entry) })

	shell(t, "systemctl", "stop", quiesce)
	shell(t, "systemctl", "restart", "bmcstated.service")
	eventually(t, "quiesced still", func() bool { return bmc() == "Quiesced" })
	assert.Equal(t, 1, strings.Count(spool(), entry), spool())
}
