package systemd_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

func TestTargetFor(t *testing.T) {
	warm := systemd.Selection{}
	cold := systemd.Selection{NoWarmReboot: true}
	for _, tc := range []struct {
		op       string
		instance int
		sel      systemd.Selection
		want     systemd.Target
	}{
		{"Host On", 0, warm, systemd.Target{Unit: "obmc-host-start@0.target", Mode: "replace"}},
		{"Host Off", 0, warm, systemd.Target{Unit: "obmc-host-shutdown@0.target", Mode: "replace"}},
		{"Host Reboot", 3, warm, systemd.Target{Unit: "obmc-host-reboot@3.target", Mode: "replace"}},
		{"Host GracefulWarmReboot", 0, warm, systemd.Target{Unit: "obmc-host-warm-reboot@0.target", Mode: "replace"}},
		{"Host GracefulWarmReboot", 0, cold, systemd.Target{Unit: "obmc-host-reboot@0.target", Mode: "replace"}},
		{"Host ForceWarmReboot", 0, warm, systemd.Target{Unit: "obmc-host-force-warm-reboot@0.target", Mode: "replace"}},
		{"Host ForceWarmReboot", 0, cold, systemd.Target{Unit: "obmc-host-reboot@0.target", Mode: "replace"}},
		{"Chassis On", 12, warm, systemd.Target{Unit: "obmc-chassis-poweron@12.target", Mode: "replace"}},
		{"Chassis Off", 0, warm, systemd.Target{Unit: "obmc-chassis-hard-poweroff@0.target", Mode: "replace"}},
		{"Chassis PowerCycle", 0, warm, systemd.Target{Unit: "obmc-chassis-powercycle@0.target", Mode: "replace"}},
		{"BMC Reboot", 0, warm, systemd.Target{Unit: "reboot.target", Mode: "replace-irreversibly"}},
		{"BMC HardReboot", 0, warm, systemd.Target{}},
		{"Host On", 0, systemd.Selection{Verdict: "reboot"}, systemd.Target{Unit: "obmc-host-reboot@0.target", Mode: "replace"}},
		{"Host On", 0, systemd.Selection{Verdict: "power on"}, systemd.Target{Unit: "obmc-host-start@0.target", Mode: "replace"}},
		{"Host Reboot", 0, systemd.Selection{Verdict: "power on"}, systemd.Target{Unit: "obmc-host-start@0.target", Mode: "replace"}},
		{"Host GracefulWarmReboot", 0, systemd.Selection{Verdict: "reset", NoWarmReboot: true}, systemd.Target{Unit: "obmc-host-reboot@0.target", Mode: "replace"}},
		{"Chassis PowerCycle", 0, systemd.Selection{Verdict: "power on"}, systemd.Target{Unit: "obmc-chassis-poweron@0.target", Mode: "replace"}},
	} {
		got, ok := systemd.TargetFor(tc.op, tc.instance, tc.sel)
		assert.True(t, ok, tc.op)
		assert.Equal(t, tc.want, got, "%s %+v", tc.op, tc.sel)
	}
	for _, op := range []string{"BMC None", "", "Host Standby"} {
		_, ok := systemd.TargetFor(op, 0, warm)
		assert.False(t, ok, op)
	}
}

func TestFactOf(t *testing.T) {
	for _, tc := range []struct {
		unit     string
		fact     systemd.Fact
		instance int
	}{
		{"obmc-host-startmin@2.target", systemd.Fact{Op: "Host On", Role: systemd.RoleHostRunning}, 2},
		{"obmc-host-stop@0.target", systemd.Fact{Op: "Host Off", Role: systemd.RoleHostOff}, 0},
		{"obmc-chassis-hard-poweroff@1.target", systemd.Fact{Op: "Chassis Off"}, 1},
		{"multi-user.target", systemd.Fact{Role: systemd.RoleBMCReady}, 0},
		{"bmcstate-lines-on@1.service", systemd.Fact{Op: "Chassis On"}, 1},
		{"bmcstate-lines-off@0.service", systemd.Fact{Op: "Chassis Off"}, 0},
	} {
		f, n, ok := systemd.FactOf(tc.unit)
		assert.True(t, ok)
		assert.Equal(t, tc.fact, f)
		assert.Equal(t, tc.instance, n)
	}
	for _, unit := range []string{"", "x", "getty@tty1.service", "obmc-host-stop@x.target", "obmc-host-stop.target",
		"bmcstate-lines-on@0.target", "obmc-host-stop@0.service"} {
		_, _, ok := systemd.FactOf(unit)
		assert.False(t, ok, unit)
	}
}

// unitFiles returns the installable units by file name.
func unitFiles(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("targets/*")
	require.NoError(t, err)
	files := map[string]string{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		files[filepath.Base(p)] = string(text)
	}
	return files
}

func TestEveryTargetWeNameIsInstallable(t *testing.T) {
	files := unitFiles(t)
	var units []string
	units = append(units, systemd.HostTargets(0)...)
	units = append(units, systemd.ChassisTargets(0)...)
	units = append(units, "obmc-bmc-service-quiesce@0.target")
	units = append(units, systemd.LineUnits(0)...)
	for _, op := range []string{"Host On", "Host Off", "Host Reboot", "Host GracefulWarmReboot", "Host ForceWarmReboot", "Chassis On", "Chassis Off", "Chassis PowerCycle"} {
		target, _ := systemd.TargetFor(op, 0, systemd.Selection{})
		units = append(units, target.Unit)
	}
	for _, u := range systemd.HelperUnits(0) {
		if strings.HasPrefix(u, "bmcstate-") {
			units = append(units, u)
		}
	}
	for _, u := range units {
		assert.Contains(t, files, strings.Replace(u, "@0.", "@.", 1))
	}
}

// No link may lead out of the set: a plain system has nothing else.
func TestTargetsNeedNothingElse(t *testing.T) {
	files := unitFiles(t)
	for name, text := range files {
		for line := range strings.SplitSeq(text, "\n") {
			key, value, _ := strings.Cut(line, "=")
			if key != "Requires" && key != "Wants" && key != "OnFailure" && key != "RequiredBy" {
				continue
			}
			for _, u := range strings.Fields(value) {
				assert.Contains(t, files, strings.Replace(u, "@%i.", "@.", 1), "%s: %s", name, line)
			}
		}
	}
}

// relations returns what a unit file says under a key.
func relations(text, key string) []string {
	var units []string
	for line := range strings.SplitSeq(text, "\n") {
		if k, value, _ := strings.Cut(line, "="); k == key {
			units = append(units, strings.Fields(strings.ReplaceAll(value, "%i", ""))...)
		}
	}
	return units
}

// systemd breaks an ordering cycle by dropping a job, and finds one only when
// all of its units are in one transaction.
func TestTargetsHaveNoOrderingCycle(t *testing.T) {
	files := unitFiles(t)
	after := map[string][]string{}
	for name, text := range files {
		after[name] = append(after[name], relations(text, "After")...)
		for _, other := range relations(text, "Before") {
			after[other] = append(after[other], name)
		}
	}
	for name, text := range files {
		if !strings.HasSuffix(name, ".target") {
			continue
		}
		// A target comes after what it pulls in, unless told otherwise
		// (systemd.target(5), default dependencies).
		for _, other := range append(relations(text, "Wants"), relations(text, "Requires")...) {
			if !slices.Contains(after[other], name) { // told otherwise
				after[name] = append(after[name], other)
			}
		}
	}
	const open, done = 1, 2
	mark := map[string]int{}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		path = append(path, name)
		require.NotEqual(t, open, mark[name], "cycle: %v", path)
		if mark[name] == done {
			return
		}
		mark[name] = open
		for _, other := range after[name] {
			visit(other, path)
		}
		mark[name] = done
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		visit(name, nil)
	}
}

func TestSystemdAcceptsTheTargets(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze") //nolint:misspell // the program is called so
	if err != nil {
		t.Skipf("no systemd to ask: %v", err)
	}
	dir, err := filepath.Abs("targets")
	require.NoError(t, err)
	args := []string{"verify", "--man=no", "--recursive-errors=yes"}
	for _, name := range slices.Sorted(maps.Keys(unitFiles(t))) {
		if !strings.HasPrefix(name, "bmcstate-lines") { // these name programs that are not installed here
			args = append(args, strings.Replace(name, "@.", "@0.", 1))
		}
	}
	cmd := exec.Command(tool, args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Empty(t, string(out))
}
