package scenarios

import (
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// S35, C28: systemd refuses.
func TestTargetsS35Refused(t *testing.T) {
	statetest.Covers(t, "S35", "C28")
	d := bootTargets(t, systemdConfig)
	d.sd.Script(hostStart, systemdtest.Script{Refuse: "org.freedesktop.systemd1.UnitMasked"})
	require.NoError(t, d.hset("On"))
	status, reason := d.untilRecord()
	assert.Equal(t, "Failed", status)
	assert.Contains(t, reason, "org.freedesktop.systemd1.UnitMasked")
	assert.Equal(t, shorts.Replace("HS.Off"), d.host())
	assert.Equal(t, uint32(3), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"), "no job was queued")

	script := transactions[hostStart]
	script.Unfinished = true
	d.sd.Script(hostStart, script)
	require.NoError(t, d.hset("On"))
	assert.Len(t, d.started(2), 2)
	d.done(powerOn, hostStartMin)
	d.untilHost("Running")
}

// openbmc/openbmc#1894: a transaction that is destructive for a while.
func TestDestructiveTransactionIsTriedAgain(t *testing.T) {
	statetest.Covers(t, "B31")
	d := bootTargets(t, systemdConfig)
	d.sd.RefuseMethod("StartUnit", "org.freedesktop.systemd1.TransactionIsDestructive")
	require.NoError(t, d.hset("On"))
	d.started(2)
	d.sd.RefuseMethod("StartUnit", "")
	d.sd.ClearCalls()
	d.started(1)
	d.done(powerOn, hostStartMin)
	d.untilHost("Running")
	status, _ := d.untilRecord()
	assert.Equal(t, "Success", status)
}

// S36: systemd takes long to answer, and nobody who reads waits for it.
func TestTargetsS36SlowSystemd(t *testing.T) {
	statetest.Covers(t, "S36")
	d := bootTargets(t, systemdConfig)
	script := transactions[hostStart]
	script.Unfinished, script.ReplyDelay = true, time.Minute
	d.sd.Script(hostStart, script)
	began := time.Now()
	require.NoError(t, d.hset("On"))
	d.started(1)
	for _, o := range []struct{ name, path, prop string }{
		{hostName, hostPath, "CurrentHostState"}, {chassisName, chassisPath, "CurrentPowerState"}, {bmcName, bmcPath, "CurrentBMCState"},
	} {
		for range 100 {
			d.get(o.name, o.path, o.name, o.prop)
		}
	}
	assert.Less(t, time.Since(began), systemd.DefaultCallTimeout, "the gets waited for systemd's answer, or for us to give it up")
	assert.Equal(t, []string{"On Running"}, d.statuses(), "the answer is still awaited")
	d.done(powerOn, hostStartMin)
	d.untilHost("Running")
}

// DESIGN.md P7: a systemd that is not there, hangs or forgets us is ridden out.
func TestAbsentSystemd(t *testing.T) {
	statetest.Covers(t, "B34")
	d := prepareTargets(t, systemdConfig)
	d.sd.Leave()
	d.start()
	assert.Equal(t, shorts.Replace("BS.NotReady"), d.get(bmcName, bmcPath, bmcName, "CurrentBMCState"))
	assert.Equal(t, chassisName+".PowerStatus.Undefined", d.get(chassisName, chassisPath, chassisName, "CurrentPowerStatus"))
	d.sd.Arrive()
	d.untilBMC("Ready")
	d.until(chassisName, chassisPath, chassisName, "CurrentPowerStatus", chassisName+".PowerStatus.Good")

	require.NoError(t, d.hset("On"))
	d.started(1)
	d.done(powerOn)
	d.untilChassis("On")
	d.sd.Leave() // as systemctl daemon-reexec
	d.sd.Vanish(d.sd.Job(hostStartMin), "active")
	d.sd.Vanish(d.sd.Job(hostStart), "active")
	d.sd.Arrive()
	d.untilHost("Running")
	status, reason := d.untilRecord()
	assert.Equal(t, "Success", status, reason)
	assert.Equal(t, 0, d.stop())
}

// P7: a restart under a running host starts nothing and brings all values back.
func TestRestartUnderARunningHost(t *testing.T) {
	statetest.Covers(t, "B7", "B18")
	d := bootTargets(t, systemdConfig)
	require.NoError(t, d.hset("On"))
	d.started(1)
	d.done(powerOn, hostStartMin, hostStart)
	d.untilHost("Running")
	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning")))
	d.idle()
	before := d.all()
	require.Equal(t, 0, d.stop())
	d.sd.ClearCalls()
	d.start()
	d.untilHost("Running")
	d.untilBMC("Ready")
	after := d.all()
	// Reckoned from two clocks, it differs by the time between looking at them.
	const booted = "LastRebootTime"
	assert.InDelta(t, before[bmcPath][booted].Value(), after[bmcPath][booted].Value(), 1000)
	delete(before[bmcPath], booted)
	delete(after[bmcPath], booted)
	assert.Equal(t, before, after)
	assert.Empty(t, d.sd.Calls("StartUnit", "StopUnit", "RestartUnit", "CancelJob"))
}

// all returns every property of the standard objects.
func (d *daemon) all() map[string]map[string]godbus.Variant {
	all := map[string]map[string]godbus.Variant{}
	for _, o := range []struct{ name, path string }{{hostName, hostPath}, {chassisName, chassisPath}, {bmcName, bmcPath}} {
		var props map[string]godbus.Variant
		require.NoError(d.t, d.conn.Object(o.name, godbus.ObjectPath(o.path)).Call(propsIface+".GetAll", 0, "").Store(&props))
		all[o.path] = props
	}
	return all
}
