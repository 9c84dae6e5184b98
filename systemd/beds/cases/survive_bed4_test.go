//go:build bed4

package cases

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// replaced waits until systemd has replaced the daemon's process.
func (p *product) replaced(old string) {
	p.t.Helper()
	eventually(p.t, "a new process", func() bool {
		pid := p.show("MainPID")
		return pid != old && pid != "0" && p.show("ActiveState") == "active"
	})
}

func (p *product) kill() {
	p.t.Helper()
	pid := p.show("MainPID")
	n, err := strconv.Atoi(pid)
	require.NoError(p.t, err)
	require.NoError(p.t, syscall.Kill(n, syscall.SIGKILL))
	p.replaced(pid)
}

// P7: the daemon is restarted under a running host. No unit is started, and all
// values are back.
func TestProductRestartUnderARunningHost(t *testing.T) {
	p := newProduct(t, 0, nil)
	p.on(1)
	out, err := busctl("set-property", ours+"Host", statePath+"host0", ours+"Boot.Progress", "BootProgress", "s", ours+"Boot.Progress.ProgressStages.OSRunning")
	require.NoError(t, err, out)
	for _, how := range []string{"restart", "SIGKILL"} {
		values, invocations := p.values(), p.invocations()
		if how == "restart" {
			shell(t, "systemctl", "restart", unit)
		} else {
			p.kill()
		}
		p.untilHost("Running")
		p.untilIs("bmc0", "CurrentBMCState", "Ready")
		assert.Equal(t, values, p.values(), how)
		assert.Equal(t, invocations, p.invocations(), how)
		assert.Empty(t, p.ran(), how)
	}
	assert.Len(t, p.records(), 1)
	invocations := p.invocations()
	for range 7 { // more than systemd's own limit of starts allows
		p.kill()
	}
	p.untilHost("Running")
	assert.Equal(t, invocations, p.invocations())
}

// The engine's own loop feeds the watchdog: when it is stuck, systemd replaces
// the daemon, and nothing else changes.
func TestProductWatchdog(t *testing.T) {
	p := newProduct(t, 0, map[string]string{unit + ".d/watchdog.conf": "[Service]\nWatchdogSec=6s\nWatchdogSignal=SIGKILL\n" +
		"Environment=BMCSTATE_ENGINE_HANG=" + hangEngine + "\n"})
	p.on(1)
	invocations := p.invocations()
	pid := p.show("MainPID")
	p.u.Watch(unit)
	require.NoError(t, os.WriteFile(hangEngine, nil, 0o644))
	eventually(t, "the watchdog", func() bool { s, _ := p.u.State(unit); return s.Result == "watchdog" })
	require.NoError(t, os.Remove(hangEngine))
	p.replaced(pid)
	p.untilHost("Running")
	assert.Equal(t, invocations, p.invocations())
	p.request("host0", "Off")
	p.success(2)
}

// A journal that hangs does not keep power on: the Off goes ahead of it with a
// barrier in the run directory. The daemon dies with the barrier standing, and
// what is older than the Off does not come back.
func TestProductKilledWithABarrier(t *testing.T) {
	const dwell = 8 // s: long enough to look in between on a busy machine
	p := newProduct(t, dwell, nil)
	p.on(1)
	p.request("host0", "Reboot")
	p.untilPower("Off")
	helper := "bmcstate-reboot-host@0.service"
	eventually(t, helper, func() bool { return read(t, p.u, helper).Active == "active" })
	require.NoError(t, os.WriteFile(hangSync, nil, 0o644))
	p.request("chassis0", "Off")
	eventually(t, "the barrier", func() bool { return barriers(t) != "" })
	require.NoError(t, os.Remove(hangSync)) // the dead cannot sync any more
	p.kill()
	time.Sleep((dwell + 1) * time.Second) // longer than the dwell: what must not happen has no event
	assert.NotContains(t, p.ran(), "power-on")
	p.untilPower("Off")
	r := p.end(2)
	assert.Equal(t, "Reboot", r.transition)
	assert.Equal(t, "Superseded", r.status, r.reason)
	eventually(t, "a request that is accepted again", func() bool {
		_, err := p.set("host0", "RequestedHostTransition", "On")
		return err == nil
	})
	p.untilHost("Running")
}

// barriers lists what a power off ahead of the journal left in the run
// directory.
func barriers(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir("/run/bmcstate")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if strings.Contains(e.Name(), "barrier") {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

// A pulse stands when the daemon dies: its mark has ExecStopPost release the
// line before the next start, also where the first attempt comes to nothing.
func TestProductKilledInAPulse(t *testing.T) {
	const simulate = "[Service]\nExecStart=\nExecStart=/usr/bin/bmcstated --simulate\nRestartSec=3s\n"
	// A pulse that is long enough to be killed in on a busy machine.
	const long = `"simulate": {"timings": {"forceOffPulse": "15s", "overrideHold": "5s"}}`
	for name, attempts := range map[string]string{
		"as installed":           "",
		"a first attempt failed": "ExecStopPost=\nExecStopPost=-/bin/false\nExecStopPost=/usr/bin/bmcstated --release-lines\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := newProduct(t, 0, map[string]string{unit + ".d/simulate.conf": simulate + attempts}, long)
			p.killInAPulse()
			r := p.end(2)
			assert.Equal(t, "Success", r.status, r.reason)
			p.untilPower("Off")
		})
	}
}

// killInAPulse kills the daemon while it holds the button, and checks who released
// it: systemd runs ExecStopPost to its end before it starts the daemon again, so
// the order is right if that is not the new daemon.
func (p *product) killInAPulse() {
	p.t.Helper()
	const released = "c71e35a8d2064f9fa4b8096de3f15a76"
	p.request("host0", "On")
	p.success(1)
	before, missed := len(journal(p.t, released)), groupsMissed(p.t)
	pid, err := strconv.Atoi(p.show("MainPID"))
	require.NoError(p.t, err)
	p.request("chassis0", "Off")
	eventually(p.t, "the mark of the held button", func() bool { return len(pulses(p.t)) > 0 })
	require.NoError(p.t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(p.t, "no mark", func() bool { return len(pulses(p.t)) == 0 })
	p.replaced(strconv.Itoa(pid))
	eventually(p.t, "a record of the release", func() bool { return len(journal(p.t, released)) > before })
	records := journal(p.t, released)[before:]
	require.Len(p.t, records, 1, "released once")
	if groupsMissed(p.t)-missed < 2 {
		assert.NotEqual(p.t, p.show("MainPID"), records[0]["_PID"], "released before the next start")
	} else { // no attempt could be started: the new daemon does it before anything else
		assert.Equal(p.t, p.show("MainPID"), records[0]["_PID"])
	}
}

// groupsMissed counts the processes that systemd could not put into their control
// group, as has been seen in this container while the group of a killed daemon
// empties.
func groupsMissed(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("journalctl", "-b", "--no-pager", "-u", unit).Output()
	require.NoError(t, err)
	return strings.Count(string(out), "status=219/CGROUP")
}

func pulses(t *testing.T) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir("/run/bmcstate/pulses")
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return entries
}

// A disk that hangs refuses requests, says so in the status, and Gets go on.
func TestProductStorageHangs(t *testing.T) {
	p := newProduct(t, 0, nil, `"commitTimeout": "1s"`)
	require.NoError(t, os.WriteFile(hangSync, nil, 0o644))
	out, err := p.set("host0", "RequestedHostTransition", "On")
	require.Error(t, err)
	assert.Contains(t, out, "storage did not answer")
	eventually(t, "the status", func() bool {
		return strings.Contains(p.show("StatusText"), "requests are refused: storage does not answer")
	})
	assert.Equal(t, "Off", p.get("host0", "CurrentHostState"))
	require.NoError(t, os.Remove(hangSync))
	eventually(t, "a request that is accepted again", func() bool {
		_, err := p.set("host0", "RequestedHostTransition", "On")
		return err == nil
	})
	p.untilHost("Running")
	eventually(t, "the status", func() bool { return p.show("StatusText") == "serving" })
}
