//go:build bed4

package cases

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
)

// obmcutil does what the script of that name does (clients.md §3): it finds a
// service by the mapper, cuts busctl's output at the double quote, and polls.
type obmcutil struct{ t *testing.T }

// service is `mapper get-service PATH`: the first entry of GetObject.
func (o obmcutil) service(path string) string {
	o.t.Helper()
	out, err := busctl("call", "xyz.openbmc_project.ObjectMapper", "/xyz/openbmc_project/object_mapper",
		"xyz.openbmc_project.ObjectMapper", "GetObject", "sas", path, "0")
	require.NoError(o.t, err, out)
	return quoted(out)
}

// quoted is the first text in double quotes, as `cut -d '"' -f2` takes it.
func quoted(out string) string {
	fields := strings.Split(out, `"`)
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}

func (o obmcutil) get(path, iface, prop string) string {
	o.t.Helper()
	out, err := busctl("get-property", o.service(path), path, iface, prop)
	require.NoError(o.t, err, out)
	require.NotContains(o.t, out, "\n", "one line is cut up")
	return out
}

func (o obmcutil) put(path, iface, prop, signature, value string) {
	o.t.Helper()
	out, err := busctl("set-property", o.service(path), path, iface, prop, signature, value)
	require.NoError(o.t, err, out)
	require.Empty(o.t, out)
}

const (
	host    = ours + "Host"
	chassis = ours + "Chassis"
	bmc     = ours + "BMC"
)

// verbs are the commands that start a transition, and what --wait waits for.
var verbs = map[string]struct{ object, iface, prop, value, wait, state string }{
	"poweron":    {"host0", host, "RequestedHostTransition", "On", "CurrentHostState", ".HostState.Running"},
	"poweroff":   {"host0", host, "RequestedHostTransition", "Off", "CurrentHostState", ".HostState.Off"},
	"chassison":  {"chassis0", chassis, "RequestedPowerTransition", "On", "CurrentPowerState", ".PowerState.On"},
	"chassisoff": {"chassis0", chassis, "RequestedPowerTransition", "Off", "CurrentPowerState", ".PowerState.Off"},
}

var errTransitioning = errors.New("transition in progress")

// run is one of the four verbs with --wait. Without force it is refused on the
// client's side while something is on its way.
func (o obmcutil) run(verb string, force bool) error {
	o.t.Helper()
	v := verbs[verb]
	if !force && (strings.Contains(o.get(statePath+"chassis0", chassis, "CurrentPowerState"), "Transitioning") ||
		strings.Contains(o.get(statePath+"host0", host, "CurrentHostState"), "Transitioning")) {
		return errTransitioning
	}
	o.put(statePath+v.object, v.iface, v.prop, "s", v.iface+".Transition."+v.value)
	for range 30 {
		if strings.Contains(o.get(statePath+v.object, v.iface, v.wait), v.state) {
			return nil
		}
		time.Sleep(time.Second) // as the script does
	}
	return fmt.Errorf("%s: timed out", verb)
}

// state is the command of that name.
func (o obmcutil) state() (lines []string) {
	o.t.Helper()
	for _, p := range []struct{ object, iface, prop string }{
		{"bmc0", bmc, "CurrentBMCState"}, {"chassis0", chassis, "CurrentPowerState"}, {"host0", host, "CurrentHostState"},
		{"host0", ours + "Boot.Progress", "BootProgress"}, {"host0", ours + "OperatingSystem.Status", "OperatingSystemState"},
	} {
		lines = append(lines, fmt.Sprintf("%-20s: %s", p.prop, quoted(o.get(statePath+p.object, p.iface, p.prop))))
	}
	return lines
}

const rebootPolicy = "xyz.openbmc_project.Control.Boot.RebootPolicy"

func TestObmcutil(t *testing.T) {
	p := newProduct(t, 0, nil, `"settings": "serve"`)
	m := (&dbustest.Bus{Address: "unix:path=/run/dbus/system_bus_socket"}).StartMapper(t)
	for _, s := range []struct{ iface, object string }{{bmc, "bmc0"}, {chassis, "chassis0"}, {host, "host0"}} {
		m.WaitFor(t, s.iface, statePath+s.object, s.iface)
	}
	o := obmcutil{t}

	t.Run("state", func(t *testing.T) {
		assert.Equal(t, []string{
			"CurrentBMCState     : " + bmc + ".BMCState.Ready",
			"CurrentPowerState   : " + chassis + ".PowerState.Off",
			"CurrentHostState    : " + host + ".HostState.Off",
			"BootProgress        : " + ours + "Boot.Progress.ProgressStages.Unspecified",
			"OperatingSystemState: " + ours + "OperatingSystem.Status.OSStatus.Inactive",
		}, o.state())
	})
	t.Run("the four verbs with --wait", func(t *testing.T) {
		for _, step := range []struct{ verb, ran string }{
			{"chassison", "power-on"}, {"poweron", "host-up"}, {"poweroff", "ask-os power-off"}, {"poweron", "power-on host-up"}, {"chassisoff", "power-off"},
		} {
			require.NoError(t, o.run(step.verb, false), step.verb)
			eventually(t, step.verb, func() bool { return p.get("host0", "CurrentHostState") != "TransitioningToOff" })
			assert.Equal(t, step.ran, p.ran(), step.verb)
		}
	})
	t.Run("refused on the client's side, unless forced", func(t *testing.T) {
		out, err := busctl("set-property", host, statePath+"host0", host, "CurrentHostState", "s", host+".HostState.TransitioningToRunning")
		require.NoError(t, err, out)
		require.ErrorIs(t, o.run("poweron", false), errTransitioning)
		require.NoError(t, o.run("poweron", true))
		require.NoError(t, o.run("chassisoff", true))
	})
	t.Run("state -v: no other chassis", func(t *testing.T) {
		for n := 1; n <= 12; n++ {
			out, err := busctl("introspect", fmt.Sprintf("%s%d", chassis, n), fmt.Sprintf("%schassis%d", statePath, n))
			assert.Error(t, err, out)
		}
	})
	t.Run("hostrebootoff, hostrebootoffonetime, hostrebooton", func(t *testing.T) {
		for _, path := range []string{"/xyz/openbmc_project/control/host0/auto_reboot", "/xyz/openbmc_project/control/host0/auto_reboot/one_time"} {
			m.WaitFor(t, "xyz.openbmc_project.Settings", path, rebootPolicy)
			o.put(path, rebootPolicy, "AutoReboot", "b", "false")
			assert.Equal(t, "b false", o.get(path, rebootPolicy, "AutoReboot"))
			o.put(path, rebootPolicy, "AutoReboot", "b", "true")
			assert.Equal(t, "b true", o.get(path, rebootPolicy, "AutoReboot"))
		}
	})
	t.Run("recoveryoff, recoverystatus, recoveryon", func(t *testing.T) {
		units := []string{"obmc-host-timeout@0.target", "obmc-host-crash@0.target"}
		for _, u := range units {
			shell(t, "systemctl", "mask", u)
			t.Cleanup(func() { shell(t, "systemctl", "unmask", u) })
			assert.Equal(t, "masked", read(t, p.u, u).Load)
		}
		require.NoError(t, o.run("poweron", false), "the rest works on")
		require.NoError(t, o.run("chassisoff", false))
		for _, u := range units {
			shell(t, "systemctl", "unmask", u)
			assert.Equal(t, "loaded", read(t, p.u, u).Load)
		}
	})
	t.Run("bmcrebootoff: a refused reboot goes back", func(t *testing.T) {
		install(t, map[string]string{"reboot.target.d/noreboot.conf": "[Unit]\nRefuseManualStart=yes\n"})
		o.put(statePath+"bmc0", bmc, "RequestedBMCTransition", "s", bmc+".Transition.Reboot")
		p.untilIs("bmc0", "CurrentBMCState", "Ready")
		assert.Equal(t, "Reboot", p.get("bmc0", "RequestedBMCTransition"))
		out, err := exec.Command("systemctl", "is-active", "reboot.target").CombinedOutput()
		assert.Error(t, err, "%s", out)
	})
	t.Run("stopofftargets", func(t *testing.T) {
		shell(t, "systemctl", "stop", "obmc-power-stop-pre@0.target", "obmc-power-stop@0.target", "obmc-power-off@0.target",
			"obmc-host-stop-pre@0.target", "obmc-host-stopping@0.target", "obmc-host-stopped@0.target")
		p.untilHost("Off")
		p.untilPower("Off")
	})
}
