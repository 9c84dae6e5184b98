package scenarios

import (
	"fmt"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// powerOut returns the levels that PowerOut was given, in order.
func (d *daemon) powerOut() []bool {
	d.t.Helper()
	wires, err := gpio.ReadWires(d.runDir, 0)
	require.NoError(d.t, err)
	var levels []bool
	for _, w := range wires {
		if w.Signal == gpio.PowerOut {
			levels = append(levels, w.Asserted)
		}
	}
	return levels
}

// A level that holds the power on stays over a crash, over a stop and over a
// restart, and only a request moves it.
func TestLevelTypePowerOut(t *testing.T) {
	d := boot(t, `{"simulate": {"powerLevel": true}}`)
	d.untilChassis("Off")
	d.on()
	require.Equal(t, []bool{true}, d.powerOut())

	require.NoError(t, d.cmd.Process.Kill())
	d.waitExit()
	d.start()
	d.untilHost("Running")
	require.Zero(t, d.stop())
	d.start()
	d.untilHost("Running")
	require.Equal(t, []bool{true}, d.powerOut())

	require.NoError(t, d.cset("PowerCycle"))
	d.idle()
	d.untilHost("Running")
	require.Equal(t, []bool{true, false, true}, d.powerOut())
	require.NoError(t, d.hset("Off"))
	d.untilChassis("Off")
	d.idle()
	require.Equal(t, []bool{true, false, true, false}, d.powerOut())
}

// HpmStbyEn is asserted at the first start of a boot: without it no power comes
// up.
func TestHpmStandbyIsEnabledAtStart(t *testing.T) {
	d := boot(t, `{"simulate": {"hpmStbyEn": true}}`)
	d.untilChassis("Off")
	d.on()
	require.Zero(t, d.stop())
	d.start()
	wires, err := gpio.ReadWires(d.runDir, 0)
	require.NoError(t, err)
	n := 0
	for _, w := range wires {
		if w.Signal == gpio.HpmStbyEn {
			n++
		}
	}
	require.Equal(t, 1, n)
}

// The slot of a host is chassis_system<N>, on the service of that chassis.
func TestSlotPowerObject(t *testing.T) {
	d := boot(t, `{"simulate": {"count": 2, "slotPower": true}}`)
	const path, name = "/xyz/openbmc_project/state/chassis_system1", chassisName + "1"
	d.until(name, path, chassisName, "CurrentPowerState", "PS.On")
	require.Equal(t, shorts.Replace("CT.On"), d.get(name, path, chassisName, "RequestedPowerTransition"))
	set := func(v string) error {
		return d.set(name, path, chassisName, "RequestedPowerTransition", shorts.Replace("CT."+v))
	}
	require.NoError(t, set("Off"))
	d.until(name, path, chassisName, "CurrentPowerState", "PS.Off")
	require.Error(t, set("PowerCycle"))
	// The power off may be ahead of the journal for a moment.
	d.eventually("the record", func() bool { return set("On") == nil })
	d.until(name, path, chassisName, "CurrentPowerState", "PS.On")
	_, err := d.conn.Object(chassisName, "/xyz/openbmc_project/state/chassis_system0").GetProperty(chassisName + ".CurrentPowerState")
	require.Error(t, err, "that would be the whole machine")
}

// The whole machine is one object, whose requests have a part per chassis.
func TestChassisSystemIsAllChassis(t *testing.T) {
	statetest.Covers(t, "C25")
	d := boot(t, `{"chassisSystem": "aggregate", "simulate": {"count": 2}}`)
	const path = "/xyz/openbmc_project/state/chassis_system0"
	set := func(v string) error { return d.request(chassisName, path, "RequestedPowerTransition", "CT."+v) }
	both := func(state string) {
		d.untilChassis(state)
		d.until(chassisName+"1", "/xyz/openbmc_project/state/chassis1", chassisName, "CurrentPowerState", "PS."+state)
		d.until(chassisName, path, chassisName, "CurrentPowerState", "PS."+state)
	}
	both("Off")
	require.NoError(t, set("On"))
	both("On")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, set("PowerCycle"))
	off := map[string]bool{} // for a moment: the signals tell it
	d.await(signals, "both to be off", func(s *godbus.Signal) bool {
		if s != nil {
			for _, c := range changeOf(s) {
				off[c.path] = off[c.path] || c.prop == "CurrentPowerState" && c.value == shorts.Replace("PS.Off")
			}
		}
		return off[chassisPath] && off["/xyz/openbmc_project/state/chassis1"]
	})
	both("On")
	require.NoError(t, set("Off"))
	both("Off")
	require.Equal(t, shorts.Replace("CT.Off"), d.get(chassisName, path, chassisName, "RequestedPowerTransition"))
	require.Error(t, d.set(chassisName, path, chassisName, "CurrentPowerState", shorts.Replace("PS.On")))
}

// C25: a chassis that the inventory says is not there takes no part in what is
// asked of all; when it has come it does.
func TestC25AbsentChassis(t *testing.T) {
	statetest.Covers(t, "C25")
	d := boot(t, `{"hosts": [{"host": 0, "chassis": 1}, {"host": 1, "chassis": 2}]}`)
	d.untilChassis("Off")
	const item, name, path = "xyz.openbmc_project.Inventory.Item", "xyz.openbmc_project.Test.Inventory", "/xyz/openbmc_project/inventory/system/chassis2"
	mapper := d.bus.StartMapper(t)
	inventory := d.serveObject(name, path, item, map[string]any{"Present": false})
	mapper.WaitFor(t, name, path, item)
	round := func() (asked bool) { // on and off again
		before := len(d.recordsOf(2))
		for _, v := range []string{"On", "Off"} {
			require.NoError(t, d.cset(v))
			d.untilEnded(1, len(d.recordsOf(1)))
			// Not of all: the other one is left on when it is found absent in between.
			d.until(chassisName+"1", "/xyz/openbmc_project/state/chassis1", chassisName, "CurrentPowerState", "PS."+v)
		}
		return len(d.recordsOf(2)) > before
	}
	until := func(asked bool) {
		t.Helper()
		d.eventually(fmt.Sprintf("chassis 2 is asked: %t", asked), func() bool { return round() == asked })
	}
	inventory.SetMust(item, "Present", false) // a change that it is told of
	until(false)
	inventory.SetMust(item, "Present", true)
	until(true)
}

// chassis0 stands for all chassis where none of them is it (DESIGN.md §3.2).
func TestChassis0IsAllChassis(t *testing.T) {
	d := boot(t, `{"hosts": [{"host": 0, "chassis": 1}, {"host": 1, "chassis": 2}]}`)
	single := func(n, state string) {
		d.until(chassisName+n, "/xyz/openbmc_project/state/chassis"+n, chassisName, "CurrentPowerState", "PS."+state)
	}
	d.untilChassis("Off")
	require.NoError(t, d.cset("On"))
	single("1", "On")
	single("2", "On")
	d.untilChassis("On")
	require.NoError(t, d.cset("Off"))
	single("1", "Off")
	single("2", "Off")
	d.untilChassis("Off")
	require.Equal(t, shorts.Replace("CT.Off"), d.get(chassisName, chassisPath, chassisName, "RequestedPowerTransition"))
}
