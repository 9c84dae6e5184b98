package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

const (
	inputsIface   = "xyz.openbmc_project.State.Decorator.PowerSystemInputs"
	upsIface      = "org.freedesktop.UPower.Device"
	firmwareIface = "xyz.openbmc_project.Condition.HostFirmware"
)

// serveObject brings an object of another daemon to the bus, as a mapper finds
// it.
func (d *daemon) serveObject(name, path, iface string, values map[string]any) *prop.Properties {
	d.t.Helper()
	conn := d.bus.Connect(d.t)
	all := map[string]*prop.Prop{}
	for n, v := range values {
		all[n] = &prop.Prop{Value: v, Writable: true, Emit: prop.EmitTrue}
	}
	p, err := prop.Export(conn, godbus.ObjectPath(path), prop.Map{iface: all})
	require.NoError(d.t, err)
	at := ""
	for _, element := range splitPath(path) {
		node := fmt.Sprintf(`<node><node name=%q/></node>`, element)
		parent := godbus.ObjectPath(at)
		if at == "" {
			parent = "/"
		}
		require.NoError(d.t, conn.Export(introspect.Introspectable(node), parent, "org.freedesktop.DBus.Introspectable"))
		at += "/" + element
	}
	leaf := fmt.Sprintf(`<node><interface name=%q/></node>`, iface)
	require.NoError(d.t, conn.Export(introspect.Introspectable(leaf), godbus.ObjectPath(path), "org.freedesktop.DBus.Introspectable"))
	_, err = conn.RequestName(name, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return p
}

func splitPath(path string) (all []string) {
	for from, i := 1, 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			all = append(all, path[from:i])
			from = i + 1
		}
	}
	return all
}

func (d *daemon) untilPowerStatus(s string) {
	d.t.Helper()
	d.until(chassisName, chassisPath, chassisName, "CurrentPowerStatus", chassisName+".PowerStatus."+s)
}

// C18, bug-reports.md 21: what supplies and UPSs show is CurrentPowerStatus; it
// holds the restore policy back, and brings it back when it is good again.
func TestC18PowerStatus(t *testing.T) {
	statetest.Covers(t, "C18", "B21")
	d := boot(t, `{"settings": "serve", "restoreSettle": "300ms", "requireSupplies": true}`)
	d.untilSettings()
	m := d.bus.StartMapper(t)
	const psu, ups = "/xyz/openbmc_project/power/power_supplies/chassis0/psus/psu0", "/org/freedesktop/UPower/devices/ups0"
	supply := d.serveObject("xyz.openbmc_project.Test.PSU", psu, inputsIface, map[string]any{"Status": inputsIface + ".Status.Good"})
	battery := d.serveObject("xyz.openbmc_project.Test.UPS", ups, upsIface, map[string]any{
		"Type": uint32(3), "IsPresent": true, "State": uint32(2), "BatteryLevel": uint32(6)})
	m.WaitFor(t, "xyz.openbmc_project.Test.PSU", psu, inputsIface)
	m.WaitFor(t, "xyz.openbmc_project.Test.UPS", ups, upsIface)
	battery.SetMust(upsIface, "State", uint32(2)) // a change that it is told of
	d.untilPowerStatus("UninterruptiblePowerSupply")
	d.setPolicy("AlwaysOn", "None")
	d.kill()
	d.start()
	d.untilPowerStatus("UninterruptiblePowerSupply")
	d.acLoss()
	d.untilPowerStatus("UninterruptiblePowerSupply")
	d.untilSettings()
	require.Zero(t, d.launches(), "discharging")

	battery.SetMust(upsIface, "BatteryLevel", uint32(8))
	battery.SetMust(upsIface, "State", uint32(4))
	d.untilHost("Running")
	d.untilPowerStatus("Good")

	supply.SetMust(inputsIface, "Status", inputsIface+".Status.Fault")
	d.untilPowerStatus("BrownOut")
	require.Equal(t, shorts.Replace("HS.Running"), d.host(), "a running host is left alone")
	require.NoError(t, d.cset("Off"))
	d.untilHost("Off")
	d.idle()
	supply.SetMust(inputsIface, "Status", inputsIface+".Status.Good")
	d.untilPowerStatus("Good")
	d.untilHost("Running")
}

// C16: a host whose firmware says that it runs is running, although none of its
// units has been up since the BMC booted; another host's firmware says nothing.
func TestC16HostCheck(t *testing.T) {
	statetest.Covers(t, "C16")
	d := prepareTargets(t, systemdConfig)
	for _, u := range downs {
		d.sd.SetActive(u, "inactive")
	}
	d.servePower(1)
	m := d.bus.StartMapper(t)
	d.start()
	d.untilChassis("On")
	const name, path = "xyz.openbmc_project.State.HostCondition.Gpio%d", "/xyz/openbmc_project/Gpios/host%d"
	other := fmt.Sprintf(name, 1)
	d.serveObject(other, fmt.Sprintf(path, 1), firmwareIface, map[string]any{"CurrentFirmwareCondition": firmwareIface + ".FirmwareCondition.Running"})
	m.WaitFor(t, other, fmt.Sprintf(path, 1), firmwareIface)
	require.Equal(t, shorts.Replace("HS.Off"), d.host())
	mine := fmt.Sprintf(name, 0)
	d.serveObject(mine, fmt.Sprintf(path, 0), firmwareIface, map[string]any{"CurrentFirmwareCondition": firmwareIface + ".FirmwareCondition.Running"})
	d.untilHost("Running")
	require.Empty(t, d.sd.Calls("StartUnit"))
}

// C16 for those who leave a marker: a host is running where its own is found, and
// another host's says nothing (openbmc-state-manager.md §2.8).
func TestC16Marker(t *testing.T) {
	statetest.Covers(t, "C16")
	for marker, want := range map[string]string{"host@0-on": "Running", "host@1-on": "Off"} {
		t.Run(marker, func(t *testing.T) {
			d := prepareTargets(t, systemdConfig)
			for _, u := range downs {
				d.sd.SetActive(u, "inactive")
			}
			d.servePower(1)
			dir := filepath.Join(d.runDir, "openbmc")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, marker), nil, 0o600))
			d.start()
			d.untilChassis("On")
			d.untilHost(want)
			require.Empty(t, d.sd.Calls("StartUnit"))
		})
	}
}

// The markers of a BMC that boots under power are made, and go when they are not
// true any more: units that found one would do nothing (openbmc-state-manager.md
// §2.8, and 1f2d8f6c of §4.3).
func TestMarkersOfABootUnderPower(t *testing.T) {
	statetest.Covers(t, "C16")
	d := bootedTargets(t, systemdConfig)
	m := d.bus.StartMapper(t)
	power := d.servePower(1)
	const name, path = "xyz.openbmc_project.State.HostCondition.Gpio0", "/xyz/openbmc_project/Gpios/host0"
	firmware := d.serveObject(name, path, firmwareIface, map[string]any{"CurrentFirmwareCondition": firmwareIface + ".FirmwareCondition.Running"})
	m.WaitFor(t, name, path, firmwareIface)
	markers := func() (there []string) {
		for _, n := range []string{"chassis@0-on", "host@0-on"} {
			if _, err := os.Stat(filepath.Join(d.runDir, "openbmc", n)); err == nil {
				there = append(there, n)
			}
		}
		return there
	}
	until := func(want ...string) {
		t.Helper()
		d.eventually(fmt.Sprint("the markers ", want), func() bool { return slices.Equal(markers(), want) })
	}
	both := []string{"chassis@0-on", "host@0-on"}
	d.start()
	d.untilHost("Running")
	until(both...)
	d.kill()
	d.start()
	d.untilHost("Running")
	until(both...)

	require.NoError(t, d.hset("ForceWarmReboot"))
	d.started(1)
	d.done(hostStop)
	until("chassis@0-on") // power was not touched
	d.sd.ForeignStart(hostStartMin)
	d.done(hostForce, powerOn, hostStartMin)
	d.untilHost("Running")
	until()
	require.NoError(t, d.cset("Off"))
	d.started(2)
	power.SetMust(powerName, "pgood", int32(0))
	d.done(hostStop, powerOff)
	d.untilChassis("Off")

	// Anybody's go when it is certain that power is off.
	firmware.SetMust(firmwareIface, "CurrentFirmwareCondition", firmwareIface+".FirmwareCondition.Off")
	d.settle()
	d.kill()
	for _, n := range both {
		require.NoError(t, os.WriteFile(filepath.Join(d.runDir, "openbmc", n), nil, 0o600))
	}
	d.start()
	until()
}

// A marker stays while nobody says how power is: whoever does may come later.
func TestMarkersWaitForPower(t *testing.T) {
	statetest.Covers(t, "C16")
	d := bootedTargets(t, systemdConfig)
	dir := filepath.Join(d.runDir, "openbmc")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "host@0-on"), nil, 0o600))
	d.start()
	d.untilChassis("Off")
	d.servePower(1)
	d.untilHost("Running")
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	d.eventually("the chassis' marker", func() bool { return there("chassis@0-on") })
	d.sd.SetActive(hostStop, "active")
	d.untilHost("Off")
	d.eventually("the host's marker to go", func() bool { return !there("host@0-on") })
}

// C12: nothing is started while the BMC is not Ready, or on the passive one of
// two; Off is never refused, and a refusal leaves nothing behind.
func TestC12Gates(t *testing.T) {
	statetest.Covers(t, "C12")
	d := prepareTargets(t, `{"executor": "systemd", "requireBMCReady": true, "requireActiveBMC": true}`)
	d.sd.SetActive(multiUser, "inactive")
	d.start()
	d.untilChassis("Off")
	for _, v := range []string{"On", "Reboot", "GracefulWarmReboot", "ForceWarmReboot"} {
		require.Equal(t, "xyz.openbmc_project.State.Host.Error.BMCNotReady", errorName(d.hset(v)), v)
	}
	for _, v := range []string{"On", "PowerCycle"} {
		require.Equal(t, "xyz.openbmc_project.State.Chassis.Error.BMCNotReady", errorName(d.cset(v)), v)
	}
	require.NoError(t, d.hset("Off"))
	require.NoError(t, d.cset("Off"))
	require.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	require.Equal(t, uint32(3), d.attempts())
	require.Empty(t, d.sd.Calls("StartUnit"))

	d.sd.SetActive(multiUser, "active")
	d.untilBMC("Ready")
	const role = "xyz.openbmc_project.State.BMC.Redundancy"
	redundancy := d.serveObject(role, bmcPath, role, map[string]any{"Role": role + ".Role.Passive"})
	redundancy.SetMust(role, "Role", role+".Role.Passive") // tells that there is one
	require.Eventually(t, func() bool {
		return errorName(d.cset("PowerCycle")) == "xyz.openbmc_project.Common.Error.Unavailable"
	}, patience, 20*time.Millisecond)
	require.Equal(t, "xyz.openbmc_project.Common.Error.Unavailable", errorName(d.hset("On")))
	require.Empty(t, d.sd.Calls("StartUnit"))
	redundancy.SetMust(role, "Role", role+".Role.Active")
	require.Eventually(t, func() bool { return d.hset("On") == nil }, patience, 20*time.Millisecond)
	d.started(1)
}

// C15 and bug-reports.md 16 where units do the work: power that was on, as far as
// anybody has stored, and is off, is logged and marked, and the platform's target
// started.
func TestC15PowerLost(t *testing.T) {
	statetest.Covers(t, "C15", "B16")
	for stored, lost := range map[string]bool{`{"value0": 1, "value1": 2}`: true, `{"value0": 1, "value1": 0}`: false} {
		psm := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(psm, "chassis0-StateChangeTime"), []byte(stored), 0o600))
		d := prepareTargets(t, fmt.Sprintf(`{"executor": "systemd", "settings": "client", "restoreSettle": "300ms", "phosphorDir": %q}`, psm))
		d.servePower(0)
		logged := d.serveLogging()
		before := time.Now()
		d.start()
		d.untilChassis("Off")
		if !lost {
			require.NoError(t, d.hset("On")) // ends the look
			require.Equal(t, []string{start(hostStart)}, d.started(1))
			require.Empty(t, logged)
			continue
		}
		require.Equal(t, "xyz.openbmc_project.State.Shutdown.Power.Error.Blackout", d.entry(logged))
		require.Equal(t, []string{start("obmc-chassis-blackout@0.target")}, d.started(1))
		require.FileExists(t, filepath.Join(d.runDir, "openbmc", "chassis@0-lost-power"))
		require.GreaterOrEqual(t, d.get(chassisName, chassisPath, chassisName, "LastStateChangeTime"), uint64(before.UnixMilli()))
	}
}
