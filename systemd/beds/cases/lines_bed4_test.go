//go:build bed4

package cases

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linesBoard is bmcstated itself with the executor "gpio with targets" on a
// virtual chassis, with a service before the lines and one behind them, each way.
// They write down what they see of the power.
type linesBoard struct {
	t     *testing.T
	trace string
}

const showPower = "busctl get-property xyz.openbmc_project.State.Chassis0 /xyz/openbmc_project/state/chassis0 " +
	"xyz.openbmc_project.State.Chassis CurrentPowerState"

func newLinesBoard(t *testing.T, config string, more map[string]string) *linesBoard {
	t.Helper()
	b := &linesBoard{t: t, trace: filepath.Join(t.TempDir(), "trace")}
	require.NoError(t, os.Chmod(filepath.Dir(b.trace), 0o755))
	const file, script = "/run/bed-lines.json", "/run/bed-lines.sh"
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, `echo "$1:$(%s | sed 's/.*[.]//; s/"//')" >>%s`, showPower, b.trace), 0o644))
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	marker := func(name, links, conflicts string) string {
		return fmt.Sprintf("[Unit]\n%sConflicts=%s\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
			"ExecStart=/bin/sh %s %s\n", links, conflicts, script, name)
	}
	requires := func(units ...string) string { return "[Unit]\nRequires=" + strings.Join(units, " ") + "\n" }
	const up, down = "obmc-chassis-poweroff@0.target", "obmc-chassis-poweron@0.target"
	units := map[string]string{
		"bmcstated.service.d/bed.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/bmcstated --simulate --config " + file + "\n",
		"t-on-before.service":          marker("on-before", "After=obmc-power-start-pre@0.target\nBefore=obmc-power-start@0.target\n", up),
		"t-on-behind.service":          marker("on-behind", "After=obmc-power-on@0.target\n", up),
		"t-off-before.service":         marker("off-before", "After=obmc-power-stop-pre@0.target\nBefore=obmc-power-stop@0.target\n", down),
		"t-off-behind.service":         marker("off-behind", "After=obmc-power-off@0.target\n", down),

		"obmc-chassis-poweron@0.target.d/lines.conf":  requires("t-on-before.service", "bmcstate-lines-on@0.service", "t-on-behind.service"),
		"obmc-chassis-poweroff@0.target.d/lines.conf": requires("t-off-before.service", "bmcstate-lines-off@0.service", "t-off-behind.service"),
	}
	for name, text := range more {
		units[name] = text
	}
	install(t, units)
	t.Cleanup(func() {
		shell(t, "systemctl", "stop", "obmc-*", "bmcstate-*", "t-*")
		shell(t, "systemctl", "stop", "bmcstated.service")
		shell(t, "systemctl", "reset-failed")
		for _, dir := range []string{"/var/lib/bmcstate", "/run/bmcstate"} {
			require.NoError(t, os.RemoveAll(dir))
		}
	})
	shell(t, "systemctl", "restart", "bmcstated.service")
	return b
}

// request runs bmcstatectl and returns its exit code and what it said.
func (b *linesBoard) request(args ...string) (int, string) {
	b.t.Helper()
	out, err := exec.CommandContext(within(b.t), "bmcstatectl", args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(b.t, err, &exit, "%s", out)
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

func (b *linesBoard) must(args ...string) string {
	b.t.Helper()
	code, out := b.request(args...)
	require.Zero(b.t, code, "%v: %s", args, out)
	return out
}

func (b *linesBoard) power() string {
	b.t.Helper()
	words := strings.Split(strings.Trim(strings.TrimPrefix(shell(b.t, "sh", "-c", showPower), "s "), `"`), ".")
	return words[len(words)-1]
}

func (b *linesBoard) ran() string {
	b.t.Helper()
	text, err := os.ReadFile(b.trace)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(b.t, err)
	}
	require.NoError(b.t, os.WriteFile(b.trace, nil, 0o644))
	return strings.Join(strings.Fields(string(text)), " ")
}

const linesTargets = `{"executor": "gpio-targets", "offGuard": "2s"}`

func TestLineTargets(t *testing.T) {
	b := newLinesBoard(t, linesTargets, nil)
	assert.Equal(t, "Off", b.power())
	for range 2 {
		b.must("on", "--wait")
		assert.Equal(t, "on-before:TransitioningToOn on-behind:On", b.ran())
		b.must("off", "--wait")
		assert.Equal(t, "off-before:On off-behind:Off", b.ran())
	}
	b.must("chassis-on", "--wait")
	b.ran()
	b.must("chassis-off", "--wait")
	assert.Equal(t, "off-before:TransitioningToOff off-behind:Off", b.ran())
}

func TestLineTargetsReboots(t *testing.T) {
	require.NoError(t, os.WriteFile("/etc/default/bmcstate-targets", []byte("BMCSTATE_DWELL=1\n"), 0o644))
	b := newLinesBoard(t, linesTargets, nil)
	b.must("on", "--wait")
	b.ran()
	for _, op := range []string{"reboot", "warm-reboot", "power-cycle"} {
		b.must(op, "--wait")
		assert.Equal(t, "On", b.power())
		assert.Regexp(t, "^off-before:[A-Za-z]+ off-behind:Off on-before:[A-Za-z]+ on-behind:On$", b.ran(), op)
	}
	b.must("force-warm-reboot", "--wait")
	assert.Empty(t, b.ran(), "the reset line has no unit")
}

// A unit before the lines fails, then one behind them: the request says so, and
// what is shown is what is so.
func TestLineTargetsUnitsFail(t *testing.T) {
	const fails = "[Service]\nExecStart=\nExecStart=/bin/false\n"
	for _, tc := range []struct{ unit, ran string }{
		{"t-on-before", ""},
		{"t-on-behind", "on-before:TransitioningToOn"},
	} {
		t.Run(tc.unit, func(t *testing.T) {
			b := newLinesBoard(t, linesTargets, map[string]string{tc.unit + ".service.d/fail.conf": fails})
			code, out := b.request("chassis-on", "--wait")
			assert.Equal(t, 5, code, out)
			assert.Contains(t, out, "dependency")
			assert.Contains(t, out, tc.unit+".service failed")
			// OnFailure= of the target takes the power away again.
			eventually(t, "off", func() bool {
				return shell(t, "systemctl", "show", "-P", "ActiveState", "obmc-chassis-poweroff@0.target") == "active"
			})
			assert.Equal(t, "Off", b.power())
			assert.True(t, strings.HasPrefix(b.ran(), tc.ran), tc.ran)
		})
	}
	t.Run("the lines", func(t *testing.T) {
		b := newLinesBoard(t, `{"executor": "gpio-targets", "simulate": {"faults": {"neverPowerGood": true}}}`, nil)
		code, out := b.request("chassis-on", "--wait")
		assert.Equal(t, 5, code, out)
		assert.Contains(t, out, "no power good within PowerOKWatchdogMs")
		assert.NotContains(t, b.ran(), "on-behind")
	})
}

func TestLineTargetsForeignJob(t *testing.T) {
	b := newLinesBoard(t, linesTargets, nil)
	shell(t, "systemctl", "start", "obmc-host-start@0.target")
	assert.Equal(t, "On", b.power())
	assert.Equal(t, "on-before:Off on-behind:On", strings.Replace(b.ran(), "TransitioningToOn", "Off", 1))
	eventually(t, "its record", func() bool {
		_, out := b.request("history")
		return strings.Contains(out, "foreign") && strings.Contains(out, "Success")
	})
	shell(t, "systemctl", "start", "obmc-chassis-poweroff@0.target")
	assert.Equal(t, "Off", b.power())
	out, err := exec.Command("systemctl", "start", "bmcstate-lines-on@0.service").CombinedOutput()
	require.Error(t, err, "%s", out)
	assert.Equal(t, "Off", b.power(), "offGuard")
}

// Chassis Off comes while a unit before the lines still sleeps.
func TestLineTargetsChassisOffMeanwhile(t *testing.T) {
	b := newLinesBoard(t, linesTargets, map[string]string{
		"t-on-before.service.d/slow.conf": "[Service]\nExecStart=\nExecStart=/bin/sleep 1000\nTimeoutStartSec=infinity\n",
	})
	b.must("chassis-on")
	eventually(t, "the slow unit", func() bool {
		return shell(t, "systemctl", "show", "-P", "ActiveState", "t-on-before.service") == "activating"
	})
	b.must("chassis-off", "--wait")
	eventually(t, "the end of all that was begun", func() bool { return !strings.Contains(shell(t, "systemctl", "list-jobs", "--no-legend"), "@0.") })
	assert.NotContains(t, b.ran(), "on-")
	assert.Equal(t, "failed", shell(t, "systemctl", "show", "-P", "ActiveState", "t-on-before.service"), "it was stopped")
	assert.Equal(t, "Off", b.power())
	assert.NotEqual(t, "active", shell(t, "systemctl", "show", "-P", "ActiveState", "bmcstate-lines-on@0.service"))
}

// The daemon restarts while a unit waits for it: the unit asks again.
func TestLineTargetsOverARestart(t *testing.T) {
	b := newLinesBoard(t, `{"executor": "gpio-targets", "simulate": {"timings": {"powerGoodDelay": "4s", "powerOKWatchdog": "15s"}}}`, nil)
	b.must("chassis-on")
	eventually(t, "the lines", func() bool {
		return shell(t, "systemctl", "show", "-P", "ActiveState", "bmcstate-lines-on@0.service") == "activating"
	})
	shell(t, "systemctl", "kill", "-s", "KILL", "--kill-who=main", "bmcstated.service")
	eventually(t, "power on", func() bool {
		return shell(t, "systemctl", "show", "-P", "ActiveState", "obmc-chassis-poweron@0.target") == "active"
	})
	assert.Equal(t, "On", b.power())
	eventually(t, "its record", func() bool {
		_, out := b.request("history")
		return strings.Contains(out, "Success")
	})
	before := shell(t, "systemctl", "show", "-P", "InvocationID", "bmcstate-lines-on@0.service")
	shell(t, "systemctl", "restart", "bmcstated.service")
	assert.Equal(t, "On", b.power())
	assert.Equal(t, before, shell(t, "systemctl", "show", "-P", "InvocationID", "bmcstate-lines-on@0.service"))
}
