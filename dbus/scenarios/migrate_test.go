package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// C27: what phosphor-state-manager has stored is taken over once, by the names
// that it had in both of its ages; ours rules from then on.
func TestC27Migration(t *testing.T) {
	statetest.Covers(t, "C27")
	const persist = `{"value0": {"cereal_class_version": %d, %s"value1": "xyz.openbmc_project.State.Host.Transition.On",
		"value2": "xyz.openbmc_project.State.Boot.Progress.ProgressStages.OSRunning",
		"value3": "xyz.openbmc_project.State.OperatingSystem.Status.OSStatus.BootComplete"}}`
	for name, files := range map[string]map[string]string{
		"new": {
			"host0-PersistData":        fmt.Sprintf(persist, 2, `"value0": 6, `),
			"chassis0-StateChangeTime": `{"value0": 1700000000000, "value1": 2}`,
			"chassis0-POHCounter":      `{"value0": 4711}`,
			"scheduledHostTransition":  `{"value0": 4000000000, "value1": 0}`,
		},
		"old": {
			"requestedHostTransition": fmt.Sprintf(persist, 1, ""),
			"chassisStateChangeTime":  `{"value0": 1700000000000, "value1": 1}`,
			"POHCounter":              `{"value0": 4711}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			psm := t.TempDir()
			for file, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(psm, file), []byte(text), 0o600))
			}
			d := prepare(t, fmt.Sprintf(`{"phosphorDir": %q, "settings": "serve", "restoreSettle": "300ms"}`, psm))
			d.hostIsUp()
			d.start()
			d.untilHost("Running")
			check := func() {
				t.Helper()
				require.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
				require.Equal(t, shorts.Replace("PG.OSRunning"), d.get(hostName, hostPath, progressIface, "BootProgress"))
				require.Equal(t, shorts.Replace("OSS.BootComplete"), d.get(hostName, hostPath, osIface, "OperatingSystemState"))
				require.Equal(t, uint64(1700000000000), d.get(chassisName, chassisPath, chassisName, "LastStateChangeTime"))
				require.Equal(t, uint32(4711), d.get(chassisName, chassisPath, "xyz.openbmc_project.State.PowerOnHours", "POHCounter"))
				require.Zero(t, d.launches())
			}
			check()
			if name == "new" {
				require.Equal(t, uint32(6), d.get(hostName, hostPath, attemptsIface, "RetryAttempts"))
				require.Equal(t, uint64(4000000000), d.get(schedName, schedPath, schedName, "ScheduledTime"))
				require.Equal(t, shorts.Replace("HT.Off"), d.get(schedName, schedPath, schedName, "ScheduledTransition"))
			}
			require.NoError(t, d.set(hostName, hostPath, attemptsIface, "RetryAttempts", uint32(2)))
			d.kill()
			d.start()
			check()
			require.Equal(t, uint32(2), d.get(hostName, hostPath, attemptsIface, "RetryAttempts"), "read once")
		})
	}
}

// hostIsUp brings the virtual host up, to the end of its POST, before there is a
// daemon that sees it happen.
func (d *daemon) hostIsUp() {
	cfg := gpio.DefaultVirtual()
	cfg.StartOn = true
	board, err := gpio.OpenVirtual(gpio.VirtualOptions{RunDir: d.runDir, Config: cfg})
	require.NoError(d.t, err)
	d.eventually("POST", func() bool { return wires(d.t, d)[gpio.PostComplete] })
	require.NoError(d.t, board.Close())
}

// A host that x86-power-control has last seen on, or phosphor-state-manager was
// last asked to switch on, comes back after the mains were away.
func TestMigratedHostIsRestored(t *testing.T) {
	old := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(old, "state.json"), []byte(`{
  "PowerState": "xyz.openbmc_project.State.Chassis.PowerState.On"
}`), 0o600))
	d := prepare(t, fmt.Sprintf(`{"powerControlDir": %q, "settings": "client", "restoreSettle": "300ms"}`, old))
	serveSettings(t, d.bus.Connect(t))
	d.setPolicy("Restore", "None")
	logged := d.serveLogging()
	d.start()
	require.Contains(t, d.entry(logged), "Blackout")
	d.untilHost("Running")
	require.Equal(t, shorts.Replace("RC.PowerPolicyPreviousState"), d.get(hostName, hostPath, hostName, "RestartCause"))
}

// Files that are damaged, or nobody's, are set aside; the daemon starts.
func TestDamagedForeignFilesAreSetAside(t *testing.T) {
	psm := t.TempDir()
	for file, text := range map[string]string{
		"host0-PersistData": `{"value0": {"cereal_class_version": 9}}`, "chassis0-StateChangeTime": "", "chassis0-POHCounter": `{"value0": "many"}`,
		"scheduledHostTransition": `{"value0": 1, "value1": 77}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(psm, file), []byte(text), 0o600))
	}
	d := boot(t, fmt.Sprintf(`{"phosphorDir": %q}`, psm))
	d.untilHost("Off")
	all, err := filepath.Glob(filepath.Join(psm, "*.unreadable"))
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
}
