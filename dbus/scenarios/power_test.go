package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

// statesOf returns the values that a property showed, in order.
func statesOf(all []change, prop string) []string {
	var s []string
	for _, c := range all {
		if c.prop == prop {
			s = append(s, c.value.(string))
		}
	}
	return s
}

func expand(names ...string) []string {
	for i := range names {
		names[i] = shorts.Replace(names[i])
	}
	return names
}

func (d *daemon) on() {
	d.t.Helper()
	require.NoError(d.t, d.hset("On"))
	d.untilHost("Running")
	d.until(hostName, hostPath, osIface, "OperatingSystemState", "OSS.Standby")
	d.idle()
}

func TestS22On(t *testing.T) {
	statetest.Covers(t, "S22")
	d := boot(t, "")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	out := d.bus.Busctl(t, "set-property", hostName, hostPath, hostName, "RequestedHostTransition", "s", shorts.Replace("HT.On"))
	require.Empty(t, out)
	d.untilHost("Running")
	d.untilChassis("On")
	d.idle()
	all := d.drain(signals)
	require.Equal(t, expand("HS.TransitioningToRunning", "HS.Running"), statesOf(all, "CurrentHostState"))
	require.Equal(t, expand("PS.TransitioningToOn", "PS.On"), statesOf(all, "CurrentPowerState"))
	require.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	require.Equal(t, uint32(2), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	require.Equal(t, uint64(1), d.launches())
}

func TestS23SoftOff(t *testing.T) {
	statetest.Covers(t, "S23", "B13")
	d := boot(t, "")
	d.on()
	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning")))
	require.NoError(t, d.set(hostName, hostPath, osIface, "OperatingSystemState", shorts.Replace("OSS.BootComplete")))
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.hset("Off"))
	d.untilHost("Off")
	d.idle()
	all := d.drain(signals)
	require.Equal(t, expand("HS.TransitioningToOff", "HS.Off"), statesOf(all, "CurrentHostState"))
	require.Equal(t, shorts.Replace("PG.Unspecified"), d.get(hostName, hostPath, progressIface, "BootProgress"))
	require.Equal(t, shorts.Replace("OSS.Inactive"), d.get(hostName, hostPath, osIface, "OperatingSystemState"))
	require.Equal(t, uint32(2), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"), "Off takes no attempt")
	// A reader that reacts to Off finds the other two settled.
	order := map[string]int{}
	for i, c := range all {
		if c.path == hostPath { // the old service of the operating system follows
			order[c.prop] = i
		}
	}
	require.Greater(t, order["CurrentHostState"], order["BootProgress"])
	require.Greater(t, order["CurrentHostState"], order["OperatingSystemState"])
}

func TestS24HardOff(t *testing.T) {
	statetest.Covers(t, "S24")
	d := boot(t, "")
	d.on()
	require.NoError(t, d.cset("Off"))
	d.untilHost("Off")
	d.untilChassis("Off")
	require.Equal(t, shorts.Replace("CT.Off"), d.get(chassisName, chassisPath, chassisName, "RequestedPowerTransition"))
	require.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
}

func TestS25RebootKeepsRequest(t *testing.T) {
	statetest.Covers(t, "S25")
	d := boot(t, "")
	d.on()
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.hset("Reboot"))
	d.idle() // Off passes by itself: the signals tell it
	d.untilHost("Running")
	require.Equal(t, expand("HS.TransitioningToOff", "HS.Off", "HS.TransitioningToRunning", "HS.Running"),
		statesOf(d.drain(signals), "CurrentHostState"))
	require.Equal(t, shorts.Replace("HT.Reboot"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	require.Equal(t, uint64(2), d.launches())
}

func TestS27PowerCycle(t *testing.T) {
	statetest.Covers(t, "S27")
	d := boot(t, "")
	d.on()
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.cset("PowerCycle"))
	d.idle() // Off passes by itself: the signals tell it
	d.untilChassis("On")
	states := statesOf(d.drain(signals), "CurrentPowerState")
	require.Equal(t, expand("PS.TransitioningToOff", "PS.Off", "PS.TransitioningToOn", "PS.On"), states)
	require.Equal(t, shorts.Replace("CT.PowerCycle"), d.get(chassisName, chassisPath, chassisName, "RequestedPowerTransition"))

	require.NoError(t, d.cset("Off"))
	d.untilChassis("Off")
	d.idle()
	require.NoError(t, d.cset("On"))
	d.untilChassis("On")
	require.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
}

// bug-reports.md 41: a passage asked of a host that is off has the outcome that
// the configuration says, the same each time, and a refusal leaves nothing behind.
func TestRefusedByStateIsNotAllowed(t *testing.T) {
	statetest.Covers(t, "B41")
	d := boot(t, "")
	d.untilPowerGood()
	before := d.all()
	signals := d.subscribe(propsIface, "PropertiesChanged")
	for range 2 {
		for _, v := range []string{"ForceWarmReboot", "GracefulWarmReboot", "Reboot"} {
			require.Equal(t, "xyz.openbmc_project.Common.Error.NotAllowed", errorName(d.hset(v)), v)
		}
		require.Equal(t, "xyz.openbmc_project.Common.Error.NotAllowed", errorName(d.cset("PowerCycle")))
	}
	for _, c := range d.drain(signals) {
		require.Equal(t, queuePath, c.path, "%v", c) // which counts them
	}
	require.Equal(t, before, d.all())
	require.Zero(t, d.launches())

	d = boot(t, `{"rebootWhenOff": "on"}`)
	require.NoError(t, d.hset("ForceWarmReboot"))
	d.untilHost("Running")
	d.idle()
	require.Equal(t, uint64(1), d.launches())
}

// untilPowerGood waits until the power state is known and well: nothing of the
// start moves any more.
func (d *daemon) untilPowerGood() {
	d.t.Helper()
	d.until(chassisName, chassisPath, chassisName, "CurrentPowerStatus", chassisName+".PowerStatus.Good")
}

func TestLastStateChangeTimeMovesWithThePowerOnly(t *testing.T) {
	statetest.Covers(t, "S60", "B20")
	d := boot(t, fmt.Sprintf(quickRestore, "serve")) // the policy is AlwaysOff
	d.untilSettings()
	when := func() uint64 {
		return d.get(chassisName, chassisPath, chassisName, "LastStateChangeTime").(uint64)
	}
	moved := func(since uint64) (at uint64) {
		t.Helper()
		at = when()
		require.Greater(t, at, since)
		require.InDelta(t, time.Now().UnixMilli(), at, 20_000, "ten times S60's bound")
		return at
	}
	d.on()
	on := moved(0)
	require.NoError(t, d.cset("On"))
	d.idle()
	require.Equal(t, on, when(), "it is on already")
	require.NoError(t, d.hset("ForceWarmReboot"))
	d.idle()
	require.Equal(t, on, when(), "a warm reset is no change of the chassis")
	require.Zero(t, d.stop())
	d.start()
	require.Equal(t, on, when(), "a restart changes nothing")
	require.Equal(t, shorts.Replace("HS.Running"), d.host())
	require.NoError(t, d.cset("Off"))
	d.untilChassis("Off")
	off := moved(on)
	require.NoError(t, d.cset("Off"))
	d.idle()
	require.Equal(t, off, when(), "it is off already")

	d.acLoss()
	d.until(hostName, hostPath, hostName, "RequestedHostTransition", "HT.Off") // the policy has looked
	d.idle()
	require.Equal(t, off, when(), "it was off before the mains went")
	d.on()
	on = moved(off)
	d.acLoss()
	d.until(hostName, hostPath, hostName, "RequestedHostTransition", "HT.Off")
	require.Equal(t, shorts.Replace("PS.Off"), d.chassis())
	moved(on)
}

// scheduled arms the schedule for a time that does not come during a test.
func (d *daemon) scheduled(at time.Time) {
	d.t.Helper()
	due := uint64(at.Unix())
	require.NoError(d.t, d.set(schedName, schedPath, schedName, "ScheduledTime", due))
	require.Equal(d.t, due, d.get(schedName, schedPath, schedName, "ScheduledTime"))
}

// scheduleSoon arms it for as soon as this machine can say so before it is past.
func (d *daemon) scheduleSoon() {
	d.t.Helper()
	d.eventually("the schedule", func() bool {
		return d.set(schedName, schedPath, schedName, "ScheduledTime", uint64(time.Now().Add(time.Second).Unix())) == nil
	})
}

func TestScheduleFiresOnce(t *testing.T) {
	statetest.Covers(t, "S57")
	d := boot(t, "")
	d.scheduled(time.Now().Add(time.Hour))
	past := uint64(time.Now().Add(-10 * time.Second).Unix())
	require.Equal(t, "xyz.openbmc_project.ScheduledTime.Error.InvalidTime", errorName(d.set(schedName, schedPath, schedName, "ScheduledTime", past)))
	d.scheduleSoon()
	d.untilHost("Running")
	require.Equal(t, uint64(0), d.get(schedName, schedPath, schedName, "ScheduledTime"))
	require.Equal(t, shorts.Replace("RC.ScheduledPowerOn"), d.get(hostName, hostPath, hostName, "RestartCause"))
	require.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	require.Equal(t, uint64(1), d.launches())
}

func TestBMCRebootIsANewBoot(t *testing.T) {
	d := boot(t, "")
	d.on()
	require.NoError(t, d.set(bmcName, bmcPath, bmcName, "RequestedBMCTransition", shorts.Replace("BT.Reboot")))
	require.Zero(t, d.waitExit())
	d.start()
	require.Equal(t, shorts.Replace("HS.Running"), d.host(), "the host runs on")
	require.Equal(t, uint64(1), d.launches())
}
