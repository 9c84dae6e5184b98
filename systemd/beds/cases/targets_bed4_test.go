//go:build bed4

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

// board hooks marker services into the targets, as a platform hooks its own in,
// and writes down in which order they ran.
type board struct {
	t     *testing.T
	u     *systemd.Units
	trace string
}

// marker is a service between two points of order.
func (b *board) marker(name, after, before, conflicts string) string {
	return fmt.Sprintf("[Unit]\nAfter=%s\nBefore=%s\nConflicts=%s\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
		"ExecStart=/bin/sh -c 'echo %s >>%s'\n", after, before, conflicts, name, b.trace)
}

func newBoard(t *testing.T, dwell int, more map[string]string) *board {
	t.Helper()
	b := &board{t: t, trace: filepath.Join(t.TempDir(), "trace")}
	require.NoError(t, os.Chmod(filepath.Dir(b.trace), 0o755))
	require.NoError(t, os.WriteFile("/etc/default/bmcstate-targets", fmt.Appendf(nil, "BMCSTATE_DWELL=%d\n", dwell), 0o644))
	requires := func(target, service string) string {
		return "[Unit]\nRequires=" + service + "\nAfter=" + service + "\n"
	}
	units := map[string]string{
		"t-power-on.service":  b.marker("power-on", "obmc-power-start@0.target", "obmc-power-on@0.target", "obmc-chassis-poweroff@0.target"),
		"t-power-off.service": b.marker("power-off", "obmc-power-stop@0.target", "obmc-power-off@0.target", "obmc-chassis-poweron@0.target"),
		"t-host-up.service":   b.marker("host-up", "obmc-host-starting@0.target", "obmc-host-started@0.target", "obmc-host-stop@0.target"),
		"t-ask-os.service":    b.marker("ask-os", "", "obmc-host-stop-pre@0.target", "obmc-host-startmin@0.target"),

		"obmc-chassis-poweron@0.target.d/board.conf":  requires("", "t-power-on.service"),
		"obmc-chassis-poweroff@0.target.d/board.conf": requires("", "t-power-off.service"),
		"obmc-host-startmin@0.target.d/board.conf":    requires("", "t-host-up.service"),
		"obmc-host-shutdown@0.target.d/board.conf":    requires("", "t-ask-os.service"),
		"obmc-host-warm-reboot@0.target.d/board.conf": requires("", "t-ask-os.service"),
	}
	for name, text := range more {
		units[name] = text
	}
	install(t, units)
	b.u = open(t)
	b.u.Watch(systemd.HostTargets(0)...)
	b.u.Watch(systemd.ChassisTargets(0)...)
	t.Cleanup(func() {
		shell(t, "systemctl", "stop", "obmc-*", "bmcstate-*", "t-*")
		shell(t, "systemctl", "reset-failed")
	})
	return b
}

// do starts an operation's target and returns the job's result.
func (b *board) do(op string) string {
	b.t.Helper()
	target, ok := systemd.TargetFor(op, 0, systemd.Selection{})
	require.True(b.t, ok)
	j, err := b.u.Start(within(b.t), target.Unit, target.Mode)
	require.NoError(b.t, err)
	return result(b.t, j)
}

// until waits for a target to be active, by reading: a state that was announced
// may be from before the last operation.
func (b *board) until(unit string) {
	b.t.Helper()
	eventually(b.t, unit, func() bool { return b.isActive(unit) })
}

func (b *board) isActive(unit string) bool { return read(b.t, b.u, unit).Active == "active" }

// ran returns what the markers wrote since the last call.
func (b *board) ran() string {
	b.t.Helper()
	text, err := os.ReadFile(b.trace)
	if !os.IsNotExist(err) {
		require.NoError(b.t, err)
	}
	require.NoError(b.t, os.WriteFile(b.trace, nil, 0o644))
	return strings.Join(strings.Fields(string(text)), " ")
}

const (
	running  = "obmc-host-startmin@0.target"
	off      = "obmc-host-stop@0.target"
	powerOn  = "obmc-chassis-poweron@0.target"
	powerOff = "obmc-chassis-poweroff@0.target"
	quiesced = "obmc-host-quiesce@0.target"
)

func TestTargetsOnOffOn(t *testing.T) {
	b := newBoard(t, 0, nil)
	for range 2 { // points of order that stay active would spoil the second round
		require.Equal(t, systemd.ResultDone, b.do("Host On"))
		b.until(running)
		assert.True(t, b.isActive(powerOn))
		assert.False(t, b.isActive(off))
		assert.Equal(t, "power-on host-up", b.ran())

		require.Equal(t, systemd.ResultDone, b.do("Host Off"))
		b.until(off)
		assert.True(t, b.isActive(powerOff))
		assert.False(t, b.isActive(running))
		assert.False(t, b.isActive(powerOn))
		assert.Equal(t, "ask-os power-off", b.ran())
	}
}

func TestTargetsChassis(t *testing.T) {
	b := newBoard(t, 0, nil)
	require.Equal(t, systemd.ResultDone, b.do("Chassis On"))
	b.until(powerOn)
	assert.Equal(t, "power-on", b.ran())
	require.Equal(t, systemd.ResultDone, b.do("Host On"))
	assert.Equal(t, "host-up", b.ran())
	require.Equal(t, systemd.ResultDone, b.do("Chassis Off"))
	b.until(powerOff)
	assert.True(t, b.isActive(off), "Host follows the power")
	assert.Equal(t, "power-off", b.ran(), "nobody asks the operating system")

	require.Equal(t, systemd.ResultDone, b.do("Chassis On"))
	b.ran()
	require.Equal(t, systemd.ResultDone, b.do("Chassis PowerCycle"))
	b.until(powerOn)
	assert.Equal(t, "power-off power-on", b.ran())
}

func TestTargetsReboots(t *testing.T) {
	b := newBoard(t, 0, nil)
	for _, tc := range []struct{ op, ran string }{
		{"Host Reboot", "ask-os power-off power-on host-up"},
		{"Host GracefulWarmReboot", "ask-os host-up"},
		{"Host ForceWarmReboot", "host-up"},
	} {
		require.Equal(t, systemd.ResultDone, b.do("Host On"))
		b.until(running)
		b.ran()
		before := read(t, b.u, running).InvocationID
		require.Equal(t, systemd.ResultDone, b.do(tc.op), tc.op)
		eventually(t, tc.op, func() bool {
			s, _ := b.u.State(running)
			return s.Active == "active" && s.InvocationID != before
		})
		assert.Equal(t, tc.ran, b.ran(), tc.op)
	}
}

func TestChassisOffWhileTheRebootHelperSleeps(t *testing.T) {
	b := newBoard(t, 3, nil)
	for _, tc := range []struct{ op, helper string }{
		{"Host Reboot", "bmcstate-reboot-host@0.service"},
		{"Chassis PowerCycle", "bmcstate-power-cycle@0.service"},
	} {
		require.Equal(t, systemd.ResultDone, b.do("Host On"))
		b.ran()
		require.Equal(t, systemd.ResultDone, b.do(tc.op))
		eventually(t, tc.helper, func() bool { return read(t, b.u, tc.helper).Up() })
		require.Equal(t, systemd.ResultDone, b.do("Chassis Off"))
		eventually(t, tc.helper+" stopped", func() bool { return read(t, b.u, tc.helper).Active == "inactive" })
		time.Sleep(4 * time.Second) // longer than the dwell: what must not happen has no event
		assert.False(t, b.isActive(powerOn))
		assert.NotContains(t, b.ran(), "power-on", tc.op)
	}
}

func TestTargetsFailures(t *testing.T) {
	t.Run("host start fails: quiesced, power stays", func(t *testing.T) {
		b := newBoard(t, 0, map[string]string{
			"t-host-up.service": "[Unit]\nAfter=obmc-host-starting@0.target\nBefore=obmc-host-started@0.target\n[Service]\nType=oneshot\nExecStart=/bin/false\n",
		})
		assert.Equal(t, systemd.ResultDependency, b.do("Host On"))
		b.until(quiesced)
		assert.True(t, b.isActive(powerOn))
		assert.False(t, b.isActive(running))
	})
	t.Run("power on fails: powered off", func(t *testing.T) {
		b := newBoard(t, 0, map[string]string{
			"t-power-on.service": "[Unit]\nAfter=obmc-power-start@0.target\nBefore=obmc-power-on@0.target\n[Service]\nType=oneshot\nExecStart=/bin/false\n",
		})
		assert.Equal(t, systemd.ResultDependency, b.do("Chassis On"))
		b.until(powerOff)
		assert.Equal(t, "power-off", b.ran())
	})
	t.Run("power off fails: no reboot goes on", func(t *testing.T) {
		b := newBoard(t, 0, map[string]string{
			"t-power-off.service": "[Unit]\nAfter=obmc-power-stop@0.target\nBefore=obmc-power-off@0.target\n[Service]\nType=oneshot\nExecStart=/bin/false\n",
		})
		require.Equal(t, systemd.ResultDone, b.do("Host On"))
		b.ran()
		assert.Equal(t, systemd.ResultDependency, b.do("Host Reboot"))
		assert.NotContains(t, b.ran(), "host-up")
		assert.False(t, b.isActive(powerOff))
	})
}

func TestTargetsConflictingRequests(t *testing.T) {
	b := newBoard(t, 0, map[string]string{
		"t-host-up.service": "[Unit]\nAfter=obmc-host-starting@0.target\nBefore=obmc-host-started@0.target\nConflicts=obmc-host-stop@0.target\n" +
			"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 1000\nTimeoutStartSec=infinity\n",
	})
	on, err := b.u.Start(within(t), "obmc-host-start@0.target", systemd.ModeReplace)
	require.NoError(t, err)
	b.until(powerOn)
	require.Equal(t, systemd.ResultDone, b.do("Chassis Off"))
	assert.Equal(t, systemd.ResultCanceled, result(t, on))
	b.until(powerOff)
	assert.False(t, b.isActive(powerOn))
}

func TestJobsOfOneTransactionAreTold(t *testing.T) {
	b := newBoard(t, 0, nil)
	known := map[string]bool{}
	all := len(systemd.HostTargets(0)) + len(systemd.ChassisTargets(0))
	await(t, b.u, "first states", func(c systemd.UnitChanged) bool {
		known[c.State.Name] = true
		return len(known) == all
	})
	on, err := b.u.Start(within(t), "obmc-host-start@0.target", systemd.ModeReplace)
	require.NoError(t, err)
	seen := map[string]systemd.JobInfo{}
	await(t, b.u, "running", func(e systemd.Event) bool {
		if q, ok := e.(systemd.JobQueued); ok {
			seen[q.Job.Unit] = q.Job
		}
		c, ok := e.(systemd.UnitChanged)
		return ok && c.State.Name == running && c.State.Active == "active"
	})
	assert.True(t, seen["obmc-host-start@0.target"].Own)
	for _, unit := range []string{running, powerOn} {
		assert.Equal(t, on.ID, seen[unit].Parent, "%s: %+v", unit, seen[unit])
	}
	shell(t, "systemctl", "start", off)
	q := await(t, b.u, "foreign off", func(q systemd.JobQueued) bool { return q.Job.Unit == off })
	assert.True(t, q.Job.Foreign())
}
