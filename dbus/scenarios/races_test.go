package scenarios

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

// C26: the six questions of openbmc-state-manager.md §4.2, asked of this daemon.

// statuses are "Transition Status" of the whole history.
func (d *daemon) statuses() (all []string) {
	d.t.Helper()
	word := func(v godbus.Variant) string { s := v.Value().(string); return s[strings.LastIndexByte(s, '.')+1:] }
	for _, r := range d.records() {
		all = append(all, word(r["Transition"])+" "+word(r["Status"]))
	}
	return all
}

// (a) Two clients write at once. Both are told that their request was accepted,
// one runs after the other, and the history says in which order.
func TestC26TwoWritersAtOnce(t *testing.T) {
	statetest.Covers(t, "C26")
	d := bootTargets(t, systemdConfig)
	other := d.bus.Connect(t)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = d.hset("On") })
	wg.Go(func() {
		errs[1] = other.Object(chassisName, chassisPath).Call(propsIface+".Set", 0, chassisName, "RequestedPowerTransition",
			godbus.MakeVariant(shorts.Replace("CT.On"))).Err
	})
	wg.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	first := d.started(1)
	assert.Len(t, first, 1, "one at a time")
	d.done(powerOn)
	if first[0] == start(powerOn) {
		d.started(2)
	}
	d.done(hostStartMin, hostStart)
	d.idle()
	if first[0] == start(powerOn) {
		assert.Equal(t, []string{"On Success", "On Success"}, d.statuses())
	} else {
		assert.Equal(t, []string{"On Success", "On Noop"}, d.statuses())
	}
	d.untilHost("Running")
}

// (b) The same write again and again while it is carried out: one start, one
// attempt.
func TestC26RepeatedWrites(t *testing.T) {
	statetest.Covers(t, "C26")
	d := bootTargets(t, systemdConfig)
	for range 50 {
		require.NoError(t, d.hset("On"))
	}
	assert.Equal(t, []string{start(hostStart)}, d.started(1))
	assert.Equal(t, uint32(2), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	d.done(powerOn, hostStartMin, hostStart)
	d.idle()
	assert.Equal(t, []string{"On Success"}, d.statuses())

	for range 3 { // bug openbmc/openbmc#3207: an Off of what is off starts nothing that would hit the next On
		require.NoError(t, d.hset("On"))
	}
	d.idle()
	assert.Len(t, d.started(1), 1)
}

// (c) The opposite while one is carried out: it waits, and power is applied only
// after it was seen gone.
func TestC26OppositeRequests(t *testing.T) {
	statetest.Covers(t, "C26")
	d := runningTargets(t, systemdConfig)
	require.NoError(t, d.hset("Off"))
	d.started(1)
	require.NoError(t, d.hset("On"))
	assert.Equal(t, []string{start(hostShutdown)}, d.started(1), "On waits")
	d.done(hostStop, powerOff)
	assert.Equal(t, []string{start(hostShutdown), start(hostStart)}, d.started(2))
	require.NoError(t, d.hset("Off"))
	assert.Len(t, d.started(2), 2, "Off waits: nobody's power on is cut short but by Chassis Off")
	d.done(powerOn, hostStartMin, hostStart)
	d.started(3)
	d.done(hostStop, powerOff)
	d.untilHost("Off")
	d.idle()
	assert.Equal(t, []string{"Off Success", "On Success", "Off Success"}, d.statuses())
}

// (d) The daemon dies in the middle. What was under way goes on in systemd, and
// the next daemon says how it ended; nothing is started again.
func TestC26CrashInTheMiddle(t *testing.T) {
	statetest.Covers(t, "C26")
	for _, ended := range []bool{true, false} {
		t.Run(map[bool]string{true: "the jobs end meanwhile", false: "the jobs go on"}[ended], func(t *testing.T) {
			d := bootTargets(t, systemdConfig)
			require.NoError(t, d.hset("On"))
			d.started(1)
			d.done(powerOn)
			d.untilChassis("On")
			require.NoError(t, d.cmd.Process.Kill())
			<-d.exited
			if ended {
				d.done(hostStartMin, hostStart)
			}
			d.start()
			if !ended {
				d.untilHost("TransitioningToRunning")
				d.done(hostStartMin, hostStart)
			}
			d.untilHost("Running")
			d.idle()
			assert.Equal(t, []string{"On Success"}, d.statuses())
			assert.Len(t, d.started(1), 1)
			assert.Equal(t, uint32(2), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"), "neither refilled nor taken twice")
		})
	}
}

// (e) A power off fails, and so does what should mend it: nothing stays in
// transition, and the next request is carried out (openbmc/openbmc#2657).
func TestC26FailureOfAFailure(t *testing.T) {
	statetest.Covers(t, "C26")
	d := prepareTargets(t, systemdConfig)
	power := d.servePower(1) // by the targets alone power would be off: poweron@ has gone
	d.startRunning()
	d.followsPower(power, false, true)
	d.untilHost("Running")
	require.NoError(t, d.hset("Off"))
	d.started(1)
	d.job(powerOff, "failed")
	d.job(hostShutdown, "dependency")
	status, reason := d.untilRecord()
	assert.Equal(t, "Failed", status, reason)
	d.sd.SetActive(powerOn, "active") // it was not switched off after all
	d.sd.SetActive(hostStartMin, "active")
	d.untilHost("Running")
	d.untilChassis("On")
	require.NoError(t, d.cset("Off"))
	d.started(2)
	d.done(hostStop, powerOff)
	power.SetMust(powerName, "pgood", int32(0))
	d.untilChassis("Off")
	status, reason = d.untilRecord()
	assert.Equal(t, "Success", status, reason)
}

// S41, to the second: when the BMC booted, by its own clocks.
func TestS41LastRebootTime(t *testing.T) {
	statetest.Covers(t, "S41")
	d := bootTargets(t, systemdConfig)
	before := float64(time.Now().UnixMilli())
	text, err := os.ReadFile("/proc/uptime")
	require.NoError(t, err)
	after := float64(time.Now().UnixMilli())
	uptime, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	require.NoError(t, err)
	first := d.get(bmcName, bmcPath, bmcName, "LastRebootTime").(uint64)
	assert.Greater(t, float64(first), before-1000*uptime-2000)
	assert.Less(t, float64(first), after-1000*uptime+2000)
	assert.Equal(t, first, d.get(bmcName, bmcPath, bmcName, "LastRebootTime"))
}

// C13: there is no hypervisor where none is configured, and asking for it harms nothing.
func TestC13Hypervisor(t *testing.T) {
	statetest.Covers(t, "C13")
	d := boot(t, "")
	err := d.set(hostName, "/xyz/openbmc_project/state/hypervisor0", hostName, "RequestedHostTransition", shorts.Replace("HT.Off"))
	assert.Equal(t, "org.freedesktop.DBus.Error.UnknownObject", errorName(err))
	err = d.set("xyz.openbmc_project.State.Hypervisor", "/xyz/openbmc_project/state/hypervisor0", hostName, "RequestedHostTransition", shorts.Replace("HT.Off"))
	assert.Equal(t, "org.freedesktop.DBus.Error.ServiceUnknown", errorName(err))
	assert.Equal(t, shorts.Replace("HS.Off"), d.host())
}

// C13 with a hypervisor: it takes On alone and survives all else, follows the
// host's boot, and forgets the request with the host. bmcweb wants one entry of
// it in the mapper (clients.md §1).
func TestC13ConfiguredHypervisor(t *testing.T) {
	statetest.Covers(t, "C13")
	const name, path = "xyz.openbmc_project.State.Hypervisor", "/xyz/openbmc_project/state/hypervisor0"
	d := prepareTargets(t, `{"executor": "systemd", "hypervisor": true}`)
	mapper := d.bus.StartMapper(t)
	d.start()
	mapper.WaitFor(t, name, path, hostName)
	var entries map[string][]string
	require.NoError(t, d.bus.Connect(t).Object("xyz.openbmc_project.ObjectMapper", "/xyz/openbmc_project/object_mapper").
		Call("xyz.openbmc_project.ObjectMapper.GetObject", 0, path, []string{hostName}).Store(&entries))
	assert.Len(t, entries, 1)
	show := func(property string) any { return d.get(name, path, hostName, property) }
	request := func(v string) error {
		return d.set(name, path, hostName, "RequestedHostTransition", shorts.Replace("HT."+v))
	}
	assert.Equal(t, []string{shorts.Replace("HT.On")}, show("AllowedHostTransitions"))

	require.NoError(t, d.hset("On"))
	d.started(1)
	d.done(powerOn, hostStartMin, hostStart)
	d.untilHost("Running")
	for _, step := range []struct{ progress, current string }{{"PG.SystemInitComplete", "HS.Standby"}, {"PG.OSStart", "HS.Off"}, {"PG.OSRunning", "HS.Running"}} {
		require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace(step.progress)))
		require.Eventually(t, func() bool { return show("CurrentHostState") == shorts.Replace(step.current) }, patience, 5*time.Millisecond, step)
	}
	for _, v := range []string{"Off", "Reboot", "GracefulWarmReboot", "ForceWarmReboot", "Sideways"} {
		assert.Equal(t, "xyz.openbmc_project.Common.Error.InvalidArgument", errorName(request(v)), v)
	}
	assert.Equal(t, shorts.Replace("HT.Off"), show("RequestedHostTransition"), "a refused request leaves nothing")
	assert.Equal(t, "org.freedesktop.DBus.Error.PropertyReadOnly", errorName(d.set(name, path, hostName, "CurrentHostState", shorts.Replace("HS.Off"))))
	require.NoError(t, request("On"))
	assert.Equal(t, shorts.Replace("HT.On"), show("RequestedHostTransition"))
	d.kill()
	d.start()
	d.untilHost("Running")
	assert.Equal(t, shorts.Replace("HT.On"), show("RequestedHostTransition"), "kept over a restart")
	assert.Equal(t, shorts.Replace("HS.Running"), show("CurrentHostState"))

	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.Unspecified")))
	require.Eventually(t, func() bool { return show("RequestedHostTransition") == shorts.Replace("HT.Off") }, patience, 5*time.Millisecond)
	assert.Equal(t, shorts.Replace("HS.Off"), show("CurrentHostState"))
	assert.Equal(t, shorts.Replace("HS.Running"), d.host(), "the host is another object")
}
