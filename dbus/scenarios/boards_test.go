package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"
)

const gpiosName = "xyz.openbmc_project.Chassis.Gpios"

// realBoard returns a daemon without --simulate whose host has this file.
func realBoard(t *testing.T, power string) *daemon {
	dir := t.TempDir()
	if power != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "power-config-host0.json"), []byte(power), 0o600))
	}
	d := prepare(t, fmt.Sprintf(`{"powerConfigDir": %q, "knownTimeout": "60s"}`, dir))
	d.args = nil
	return d
}

// armBoard shows power good and its power button on D-Bus; its outputs are
// lines, which this machine does not have.
const armBoard = `{"gpio_configs": [
	{"Name": "PowerOut", "LineName": "no-such-line-power", "Type": "GPIO", "Polarity": "ActiveHigh"},
	{"Name": "ResetOut", "LineName": "no-such-line-reset", "Type": "GPIO", "Polarity": "ActiveHigh"},
	{"Name": "PowerOk", "DbusName": "xyz.openbmc_project.Chassis.Gpios", "Path": "/xyz/openbmc_project/chassis/gpios",
	 "Interface": "xyz.openbmc_project.Chassis.Gpios", "Property": "PGood", "Type": "DBUS"},
	{"Name": "PostComplete", "DbusName": "xyz.openbmc_project.Chassis.Gpios", "Path": "/xyz/openbmc_project/chassis/gpios",
	 "Interface": "xyz.openbmc_project.Chassis.Gpios", "Property": "Stage", "Type": "DBUS", "MatchRegex": "Done|Idle"}
], "timing_configs": {"PsPowerOKWatchdogMs": 60000, "DbusGetPropertyRetry": 50}}`

func TestBoardWithInputsOnDBus(t *testing.T) {
	d := realBoard(t, armBoard)
	d.start()
	status := func() any { return d.get(chassisName, chassisPath, chassisName, "CurrentPowerStatus") }
	require.Equal(t, chassisName+".PowerStatus.Undefined", status(), "an absent service says neither on nor off")

	conn := d.bus.Connect(t)
	all := map[string]*prop.Prop{
		"PGood": {Value: true, Emit: prop.EmitTrue},
		"Stage": {Value: "Done", Emit: prop.EmitTrue},
	}
	p, err := prop.Export(conn, "/xyz/openbmc_project/chassis/gpios", prop.Map{gpiosName: all})
	require.NoError(t, err)
	_, err = conn.RequestName(gpiosName, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	d.untilChassis("On")
	d.untilHost("Running")
	d.until(hostName, hostPath, osIface, "OperatingSystemState", "OSS.Standby")

	p.SetMust(gpiosName, "Stage", "Busy")
	d.until(hostName, hostPath, osIface, "OperatingSystemState", "OSS.Inactive")
	p.SetMust(gpiosName, "PGood", false)
	d.untilChassis("Off")
	d.untilHost("Off")
}

// A line that is missing fails the request that needs it, with its name, and
// nothing else (power-sequencing.md §6.4 f).
func TestMissingLineFailsTheRequest(t *testing.T) {
	d := realBoard(t, armBoard)
	conn := d.bus.Connect(t)
	all := map[string]*prop.Prop{"PGood": {Value: false}, "Stage": {Value: "Busy"}}
	_, err := prop.Export(conn, "/xyz/openbmc_project/chassis/gpios", prop.Map{gpiosName: all})
	require.NoError(t, err)
	_, err = conn.RequestName(gpiosName, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	d.start()
	d.until(chassisName, chassisPath, chassisName, "CurrentPowerStatus", chassisName+".PowerStatus.Good")
	require.NoError(t, d.hset("On"))
	d.idle()
	var records []map[string]godbus.Variant
	require.NoError(t, d.conn.Object(queueName, queuePath).Call(queueName+".History", 0, uint64(0), uint32(10)).Store(&records))
	require.Len(t, records, 1)
	require.Contains(t, records[0]["Status"].Value(), "Failed")
	require.Contains(t, records[0]["Reason"].Value(), "no-such-line-power")
}

func TestNoPowerConfigurationDrivesNothing(t *testing.T) {
	d := realBoard(t, "")
	d.start()
	err := d.hset("On")
	require.Error(t, err)
	d.untilLog("served and not driven")
	require.Equal(t, "xyz.openbmc_project.Common.Error.Unavailable", errorName(err))
}

func TestWrongPowerConfigurationDrivesNothing(t *testing.T) {
	d := realBoard(t, `{"gpio_configs": [{"Name": "PowerOut"`)
	d.start()
	require.Error(t, d.hset("On"))
	d.untilLog("the power configuration is wrong")
}
