package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// S37: the BMC's own state.
func TestTargetsS37BMCReady(t *testing.T) {
	statetest.Covers(t, "S37", "B26")
	d := prepareTargets(t, systemdConfig)
	d.sd.SetActive(multiUser, "inactive")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	d.start()
	d.sd.ForeignStart(hostStart)
	d.untilHost("TransitioningToRunning") // systemd's news have come
	assert.Equal(t, shorts.Replace("BS.NotReady"), d.get(bmcName, bmcPath, bmcName, "CurrentBMCState"))
	boot := d.sd.Foreign(multiUser, "start")
	d.sd.SetActive(multiUser, "activating")
	d.done(powerOn, hostStartMin, hostStart)
	d.untilHost("Running")
	assert.Empty(t, values(d.drain(signals), "CurrentBMCState"), "not before the job is done")
	d.sd.Finish(boot, "done")
	d.untilBMC("Ready")
	require.NoError(t, d.set(bmcName, bmcPath, bmcName, "CurrentBMCState", shorts.Replace("BS.UpdateInProgress")))
	d.untilBMC("UpdateInProgress")
	d.sd.SetActive(bmcQuiesce, "active")
	d.untilBMC("Quiesced")
	d.sd.SetActive(bmcQuiesce, "inactive")
	d.sd.Finish(d.sd.Foreign(multiUser, "start"), "done")
	require.NoError(t, d.set(hostName, hostPath, hostName, "RestartCause", shorts.Replace("RC.HostCrash"))) // a round trip
	assert.Equal(t, shorts.Replace("BS.Quiesced"), d.get(bmcName, bmcPath, bmcName, "CurrentBMCState"))
}

// S37: nothing is known of a BMC whose systemd does not answer, so it is not Ready;
// one that was up before the daemon came is Ready without any job.
func TestTargetsS37ReadyBeforeUs(t *testing.T) {
	statetest.Covers(t, "S37")
	d := prepareTargets(t, systemdConfig)
	d.sd.Leave()
	d.start()
	assert.Equal(t, shorts.Replace("BS.NotReady"), d.get(bmcName, bmcPath, bmcName, "CurrentBMCState"))
	d.sd.Arrive()
	d.untilBMC("Ready")
	assert.Zero(t, d.sd.Job(multiUser))
	assert.Empty(t, d.sd.Calls("StartUnit"))
}

// S39, C7: the reboot of the BMC.
func TestTargetsS39BMCReboot(t *testing.T) {
	statetest.Covers(t, "S39", "C7", "B33")
	d := bootTargets(t, systemdConfig)
	d.sd.Script("reboot.target", systemdtest.Script{Unfinished: true})
	signals := d.subscribe(propsIface, "PropertiesChanged")
	monitor := d.bus.Monitor(t)
	require.NoError(t, d.mset("Reboot"))
	assert.Equal(t, []string{"StartUnit(reboot.target, replace-irreversibly)"}, d.started(1))
	before := monitor.Until("the start", func(m *godbus.Message) bool { return dbustest.IsCall(m, "StartUnit") })
	assert.True(t, slices.ContainsFunc(before, func(m *godbus.Message) bool {
		return dbustest.Shows(m, "CurrentBMCState", shorts.Replace("BS.NotReady"))
	}), "NotReady is told before the reboot begins")
	d.untilBMC("NotReady")
	d.sd.SetActive(multiUser, "inactive")
	d.sd.Finish(d.sd.Foreign(multiUser, "start"), "done")
	d.sd.SetActive(powerOn, "active") // told behind it
	d.untilChassis("On")
	assert.Equal(t, []string{"NotReady"}, values(d.drain(signals), "CurrentBMCState"))
	assert.Equal(t, shorts.Replace("BT.Reboot"), d.get(bmcName, bmcPath, bmcName, "RequestedBMCTransition"))
}

// Defect 3 of openbmc-state-manager.md §4.1: a refused reboot.
func TestRefusedRebootGoesBack(t *testing.T) {
	d := bootTargets(t, systemdConfig)
	d.sd.Script("reboot.target", systemdtest.Script{Refuse: "org.freedesktop.systemd1.OnlyByDependency"})
	require.NoError(t, d.mset("Reboot"))
	d.started(1)
	d.untilBMC("Ready")
	d.sd.Script("reboot.target", systemdtest.Script{Unfinished: true})
	require.NoError(t, d.mset("Reboot"))
	d.started(2)
}

// S40, C7: hard reboot, and none.
func TestTargetsS40HardReboot(t *testing.T) {
	statetest.Covers(t, "S40", "C7")
	d := bootTargets(t, systemdConfig)
	require.NoError(t, d.mset("None"))
	require.NoError(t, d.mset("HardReboot"))
	d.sd.WaitCalls("Reboot", 1)
	assert.Empty(t, d.sd.Calls("StartUnit"))
	d.untilBMC("NotReady")
	assert.Len(t, d.sd.Calls("Reboot"), 1)
}

// S41: when the BMC booted, and why.
func TestTargetsS41Times(t *testing.T) {
	statetest.Covers(t, "S41")
	d := bootTargets(t, systemdConfig)
	first := d.get(bmcName, bmcPath, bmcName, "LastRebootTime").(uint64)
	for range 3 { // also when it is published anew
		require.NoError(t, d.set(bmcName, bmcPath, bmcName, "CurrentBMCState", shorts.Replace("BS.UpdateInProgress")))
		d.untilBMC("UpdateInProgress")
		d.sd.Finish(d.sd.Foreign(multiUser, "stop"), "done")
		d.untilBMC("NotReady")
		d.sd.Finish(d.sd.Foreign(multiUser, "start"), "done")
		d.untilBMC("Ready")
	}
	assert.Equal(t, first, d.get(bmcName, bmcPath, bmcName, "LastRebootTime"))
	booted := time.Now().Add(-gpio.BootTime()).UnixMilli()
	assert.InDelta(t, float64(booted), float64(first), 20_000, "ten times S41's bound")
	cause := d.get(bmcName, bmcPath, bmcName, "LastRebootCause").(string)
	assert.True(t, slices.ContainsFunc([]string{"POR", "Watchdog", "Software", "PinholeReset", "Unknown"}, func(c string) bool {
		return cause == bmcName+".RebootCause."+c
	}), cause)
}

// DESIGN.md §4: a foreign job is the running operation.
func TestForeignJobIsAdopted(t *testing.T) {
	d := bootTargets(t, systemdConfig)
	d.sd.ForeignStart(hostStart)
	d.untilHost("TransitioningToRunning")
	require.NoError(t, d.cset("On"), "queued behind it")
	d.done(powerOn, hostStartMin, hostStart)
	d.untilHost("Running")
	d.idle()
	all := d.records()
	require.Len(t, all, 2)
	assert.Equal(t, "foreign", all[0]["ClientId"].Value())
	assert.Contains(t, all[0]["Status"].Value(), "Success")
	assert.Contains(t, all[1]["Status"].Value(), "Noop")
	assert.Empty(t, d.sd.Calls("StartUnit"))
}

// DESIGN.md §4, offGuard: nobody else applies power during a power off or
// shortly after it, and we still do.
func TestOffGuard(t *testing.T) {
	statetest.Covers(t, "C26")
	d := runningTargets(t, systemdConfig)
	require.NoError(t, d.cset("Off"))
	d.started(1)
	d.sd.ForeignStart(hostStart)
	d.sd.WaitCalls("CancelJob", 1)
	d.sd.Finish(d.sd.Job(hardOff), "done")
	d.sd.ForeignStart(powerOff)
	d.sd.SetActive(hostStartMin, "inactive")
	d.sd.SetActive(hostStart, "inactive")
	d.done(powerOff)
	d.untilChassis("Off")
	d.idle()
	d.eventually("the other's jobs to be cancelled", func() bool {
		return d.sd.Job(hostStart) == 0 && d.sd.Job(hostStartMin) == 0 && d.sd.Job(powerOn) == 0
	})
	require.NoError(t, d.hset("On"))
	d.started(2)
	d.done(powerOn, hostStartMin)
	d.untilHost("Running")
}

// The helper of a reboot sleeps before it starts the host; Chassis Off comes.
func TestChassisOffStopsTheHelper(t *testing.T) {
	statetest.Covers(t, "C26")
	const helper = "phosphor-reboot-host@0.service"
	d := runningTargets(t, systemdConfig)
	require.NoError(t, d.hset("Reboot"))
	d.started(1)
	d.sd.SetActive(helper, "activating")
	require.NoError(t, d.cset("Off"))
	d.started(2)
	assert.Equal(t, helper, d.sd.WaitCalls("StopUnit", 1)[0].Unit)
	d.done(hostStop, powerOff)
	d.untilChassis("Off")
	d.idle()
	assert.Equal(t, "inactive", d.sd.Unit(helper).Active)
}

// Power by the service that says so, where there is one (DESIGN.md §3.2).
func TestPowerService(t *testing.T) {
	d := prepareTargets(t, systemdConfig)
	power := d.servePower(0)
	d.start()
	d.followsPower(power, true, false)
	require.NoError(t, d.hset("On"))
	d.started(1)
	d.done(powerOn)
	d.done(hostStartMin)
	assert.Equal(t, shorts.Replace("PS.Off"), settled(d.chassis()), "the target says on, the service does not")
	power.SetMust(powerName, "pgood", int32(1))
	d.untilChassis("On")
	d.untilHost("Running")
	power.SetMust(powerName, "pgood", int32(0))
	d.untilChassis("Off")
	d.untilHost("Off")
}

// chassisSystem "target": a PowerCycle of chassis_system0 starts
// x86-power-control's target, and is known by its job.
func TestChassisSystemTarget(t *testing.T) {
	const reset, path = "chassis-system-reset.target", "/xyz/openbmc_project/state/chassis_system0"
	d := prepareTargets(t, `{"chassisSystem": "target", `+systemdConfig[1:])
	d.sd.Script(reset, systemdtest.Script{Unfinished: true})
	d.start()
	d.untilBMC("Ready")
	set := func(v string) error {
		return d.set(chassisName, path, chassisName, "RequestedPowerTransition", shorts.Replace("CT."+v))
	}
	assert.Equal(t, "xyz.openbmc_project.Common.Error.InvalidArgument", errorName(set("Off")))
	for i, result := range []string{"done", "failed"} {
		require.NoError(t, set("PowerCycle"))
		assert.Equal(t, start(reset), d.started(i + 1)[i])
		status := func() string { return d.records()[i]["Status"].Value().(string) }
		assert.Contains(t, status(), "Running")
		d.job(reset, result)
		want := map[string]string{"done": "Success", "failed": "Failed"}[result]
		d.untilChanged(want, func() bool { return strings.HasSuffix(status(), "."+want) })
	}
}
