package scenarios

import (
	"testing"

	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
)

const (
	buttonsName = "xyz.openbmc_project.Chassis.Buttons"
	powerButton = "/xyz/openbmc_project/chassis/buttons/power"
	resetButton = "/xyz/openbmc_project/chassis/buttons/reset"
	idButton    = "/xyz/openbmc_project/chassis/buttons/id"
	nmiName     = "xyz.openbmc_project.Control.Host.NMI"
	nmiPath     = "/xyz/openbmc_project/control/host0/nmi"
	causeName   = "xyz.openbmc_project.Control.Host.RestartCause"
	causePath   = "/xyz/openbmc_project/control/host0/restart_cause"
	osName      = "xyz.openbmc_project.State.OperatingSystem"
)

// Every name of power-sequencing.md §1.2 is owned, with and without its digit,
// one connection per service.
func TestNamesOfXPCAreOwned(t *testing.T) {
	d := prepare(t, "")
	d.start()
	d.untilOwner("the last name", func() bool { return d.owned(osName + "0") })
	owners := map[string]string{}
	for _, name := range []string{hostName, chassisName, osName, buttonsName, nmiName, causeName} {
		var bare, numbered string
		require.NoError(t, d.conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, name).Store(&bare))
		require.NoError(t, d.conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, name+"0").Store(&numbered))
		assert.Equal(t, bare, numbered, name)
		assert.NotContains(t, owners, bare, "a connection of its own")
		owners[bare] = name
	}
}

// Who is told that a button is masked can be sure of it (defect 12 of §6.1).
func TestMaskedButtonRefusesRequests(t *testing.T) {
	d := boot(t, "")
	mask := func(path string, on bool) error { return d.set(buttonsName, path, buttonsName, "ButtonMasked", on) }
	d.untilChassis("Off")
	require.NoError(t, mask(powerButton, true))
	require.Equal(t, true, d.get(buttonsName, powerButton, buttonsName, "ButtonMasked"))
	for _, err := range []error{d.hset("On"), d.hset("Off"), d.hset("Reboot"), d.cset("On"), d.cset("Off"), d.cset("PowerCycle")} {
		require.Error(t, err)
		assert.Equal(t, "xyz.openbmc_project.Common.Error.NotAllowed", errorName(err))
	}
	require.NoError(t, mask(powerButton, false))
	require.NoError(t, d.hset("On"))
	d.untilHost("Running")

	require.NoError(t, mask(resetButton, true))
	require.Error(t, d.hset("ForceWarmReboot"))
	require.Error(t, d.hset("GracefulWarmReboot"))
	require.NoError(t, d.hset("Off"))
	require.Error(t, d.set(buttonsName, idButton, buttonsName, "ButtonMasked", true), "the ID button cannot be masked")
}

// A masked press is shown, and begins nothing.
func TestMaskedPressIsShownOnly(t *testing.T) {
	d := boot(t, "")
	d.untilChassis("Off")
	require.NoError(t, d.set(buttonsName, powerButton, buttonsName, "ButtonMasked", true))
	for _, down := range []bool{true, false} {
		require.NoError(t, gpio.Stimulate(d.runDir, 0, gpio.Stimulus{Do: gpio.DoWire, Signal: gpio.PowerButton, Asserted: down}))
		d.untilChanged("the button", func() bool {
			return d.get(buttonsName, powerButton, buttonsName, "ButtonPressed") == down
		})
	}
	assert.Equal(t, chassisName+".PowerState.Off", d.chassis())
	require.NoError(t, d.set(buttonsName, powerButton, buttonsName, "ButtonMasked", false))
	require.NoError(t, d.hset("On"), "nothing is waited for")
	d.untilHost("Running")
	assert.Equal(t, hostName+".RestartCause.RemoteCommand", d.get(hostName, hostPath, hostName, "RestartCause"))
}

func TestNMIPulsesItsLine(t *testing.T) {
	d := boot(t, "")
	d.untilChassis("Off")
	nmi := d.conn.Object(nmiName, nmiPath)
	for range 2 { // one after the other; a slow reading leaves the power unknown for a moment
		d.untilAnswer("", func() error { return nmi.Call(nmiName+".NMI", 0).Err })
	}
	assert.Zero(t, d.launches(), "it is no transition")
}

// The private interface says IpmiCommand where the standard one says
// RemoteCommand (§4.2).
func TestRestartCauseOnBothInterfaces(t *testing.T) {
	statetest.Covers(t, "B39")
	d := boot(t, "")
	d.untilChassis("Off")
	require.NoError(t, d.hset("On"))
	d.untilHost("Running")
	assert.Equal(t, hostName+".RestartCause.RemoteCommand", d.get(hostName, hostPath, hostName, "RestartCause"))
	assert.Equal(t, hostName+".RestartCause.IpmiCommand", d.get(causeName, causePath, causeName, "RestartCause"))

	request := func(v string) error {
		return d.set(causeName, causePath, causeName, "RequestedRestartCause", hostName+".RestartCause."+v)
	}
	require.Error(t, request("SoftReset"))
	require.NoError(t, request("WatchdogTimer"))
	require.NoError(t, d.hset("ForceWarmReboot"))
	d.idle()
	assert.Equal(t, hostName+".RestartCause.WatchdogTimer", d.get(hostName, hostPath, hostName, "RestartCause"))
	assert.Equal(t, hostName+".RestartCause.WatchdogTimer", d.get(causeName, causePath, causeName, "RestartCause"))
	assert.Contains(t, d.get(osName, "/xyz/openbmc_project/state/os", osIface, "OperatingSystemState"), "OSStatus.")
}

const (
	nmiSourcePath  = "/xyz/openbmc_project/Chassis/Control/NMISource"
	nmiSourceIface = "xyz.openbmc_project.Chassis.Control.NMISource"
)

// The settings daemon's record of NMIs: Enabled asks for one, and is false after
// it; what was left there by somebody before asks for nothing (§4.4).
func TestNMISourceOfTheSettings(t *testing.T) {
	d := prepare(t, "")
	settings := d.bus.Connect(t)
	serveSettings(t, settings)
	p := func(v any) *prop.Prop { return &prop.Prop{Value: v, Writable: true, Emit: prop.EmitTrue} }
	_, err := prop.Export(settings, nmiSourcePath, prop.Map{nmiSourceIface: {
		"Enabled": p(true), "BMCSource": p(nmiSourceIface + ".BMCSourceSignal.None"),
	}})
	require.NoError(t, err)
	d.start()
	d.untilChassis("Off")
	d.until(settingsName, nmiSourcePath, nmiSourceIface, "BMCSource", nmiSourceIface+".BMCSourceSignal.None")
	enabled := func(want bool) {
		t.Helper()
		d.untilChanged("Enabled", func() bool {
			return d.get(settingsName, nmiSourcePath, nmiSourceIface, "Enabled") == want
		})
	}
	enabled(false)
	pulses := func() (n int) {
		wires, err := gpio.ReadWires(d.runDir, 0)
		require.NoError(t, err)
		for _, w := range wires {
			if w.Signal == gpio.NMIOut && w.Asserted {
				n++
			}
		}
		return n
	}
	require.Zero(t, pulses(), "an old wish is nobody's")

	require.NoError(t, d.set(settingsName, nmiSourcePath, nmiSourceIface, "Enabled", true))
	enabled(false)
	require.Equal(t, 1, pulses())

	require.NoError(t, gpio.Stimulate(d.runDir, 0, gpio.Stimulus{Do: gpio.DoWire, Signal: gpio.NMIButton, Asserted: true}))
	d.until(settingsName, nmiSourcePath, nmiSourceIface, "BMCSource", nmiSourceIface+".BMCSourceSignal.FrontPanelButton")
}
