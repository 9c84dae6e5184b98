package scenarios

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// S22, C1: power on.
func TestTargetsS22On(t *testing.T) {
	statetest.Covers(t, "S22", "C1")
	d := bootTargets(t, systemdConfig)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.hset("On"))
	assert.Equal(t, []string{start(hostStart)}, d.started(1))
	d.untilHost("TransitioningToRunning")
	d.done(powerOn)
	d.untilChassis("On")
	d.roundTrip()
	assert.Equal(t, shorts.Replace("HS.TransitioningToRunning"), d.host(), "power alone is no running host")
	d.done(hostStartMin)
	d.untilHost("Running")
	d.done(hostStart)
	assert.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	assert.Equal(t, uint32(2), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	status, _ := d.untilRecord()
	assert.Equal(t, "Success", status)
	assert.Len(t, d.started(1), 1)
	changes := d.drain(signals)
	assert.Equal(t, expand("HT.On"), statesOf(changes, "RequestedHostTransition"))
	assert.Equal(t, expand("HS.TransitioningToRunning", "HS.Running"), statesOf(changes, "CurrentHostState"))
	d.settle()
	d.kill()
	d.start()
	assert.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
}

// S23, C2: soft off.
func TestTargetsS23SoftOff(t *testing.T) {
	statetest.Covers(t, "S23", "C2")
	d := runningTargets(t, systemdConfig)
	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning")))
	attempts := d.get(hostName, hostPath, attemptsIface, "AttemptsLeft")
	require.NoError(t, d.hset("Off"))
	assert.Equal(t, []string{start(hostShutdown)}, d.started(1))
	d.done(hostStop)
	d.done(powerOff)
	d.untilHost("Off")
	d.untilChassis("Off")
	d.until(hostName, hostPath, progressIface, "BootProgress", "PG.Unspecified")
	d.until(hostName, hostPath, osIface, "OperatingSystemState", "OSS.Inactive")
	assert.Equal(t, attempts, d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
}

// S24, C6: hard off.
func TestTargetsS24HardOff(t *testing.T) {
	statetest.Covers(t, "S24", "C6")
	d := runningTargets(t, systemdConfig)
	before := d.get(hostName, hostPath, hostName, "RequestedHostTransition")
	require.NoError(t, d.cset("Off"))
	assert.Equal(t, []string{start(hardOff)}, d.started(1))
	d.done(hostStop, powerOff)
	d.untilHost("Off")
	d.untilChassis("Off")
	assert.Equal(t, shorts.Replace("CT.Off"), d.get(chassisName, chassisPath, chassisName, "RequestedPowerTransition"))
	assert.Equal(t, before, d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
}

// S25, C3: a reboot whose second half a helper starts, as somebody else.
func TestTargetsS25Reboot(t *testing.T) {
	statetest.Covers(t, "S25", "C3")
	d := runningTargets(t, systemdConfig)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.hset("Reboot"))
	assert.Equal(t, []string{start(hostReboot)}, d.started(1))
	d.done(hostStop, powerOff, hostShutdown, hostReboot)
	d.untilHost("Off")
	ids := d.sd.ForeignStart(hostStartMin)
	assert.NotEmpty(t, ids)
	d.done(powerOn, hostStartMin)
	d.untilHost("Running")
	assert.Equal(t, shorts.Replace("HT.Reboot"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	status, reason := d.untilRecord()
	assert.Equal(t, "Success", status, reason)
	assert.Len(t, d.records(), 1, "the helper's job is ours")
	var stable []string
	for _, v := range values(d.drain(signals), "CurrentHostState") {
		if !strings.HasPrefix(v, "Transitioning") {
			stable = append(stable, v)
		}
	}
	assert.Equal(t, []string{"Off", "Running"}, stable)
}

// C4, C5: the warm reboots, and where the platform has none. As with every
// request: one start, one signal, one attempt, and it is kept.
func TestTargetsC4C5WarmReboots(t *testing.T) {
	statetest.Covers(t, "C4", "C5", "B36")
	tests := []struct{ value, config, unit string }{
		{"GracefulWarmReboot", systemdConfig, hostWarm},
		{"ForceWarmReboot", systemdConfig, hostForce},
		{"GracefulWarmReboot", strings.Replace(systemdConfig, "{", `{"warmReboot": "reboot", `, 1), hostReboot},
		{"ForceWarmReboot", strings.Replace(systemdConfig, "{", `{"warmReboot": "reboot", `, 1), hostReboot},
	}
	for _, tc := range tests {
		t.Run(tc.value+" by "+tc.unit, func(t *testing.T) {
			d := runningTargets(t, tc.config)
			signals := d.subscribe(propsIface, "PropertiesChanged")
			require.NoError(t, d.hset(tc.value))
			d.started(1)
			assert.Equal(t, uint32(2), d.attempts())
			if tc.unit == hostReboot {
				d.done(hostStop, powerOff, hostShutdown, hostReboot)
			} else {
				d.done(hostStop, tc.unit)
			}
			// With the power on the host is never shown as Off between.
			d.untilHost(map[bool]string{true: "Off", false: "TransitioningToRunning"}[tc.unit == hostReboot])
			d.sd.ForeignStart(hostStartMin)
			if tc.unit == hostReboot {
				d.done(powerOn)
			}
			d.done(hostStartMin)
			d.untilHost("Running")
			status, reason := d.untilRecord()
			assert.Equal(t, "Success", status, reason)
			assert.Equal(t, []string{start(tc.unit)}, d.started(1))
			assert.Equal(t, []string{tc.value}, values(d.drain(signals), "RequestedHostTransition"))
			d.settle()
			d.kill()
			d.start()
			assert.Equal(t, shorts.Replace("HT."+tc.value), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
		})
	}
}

// S27: power cycle, and power on alone.
func TestTargetsS27PowerCycleAndOn(t *testing.T) {
	statetest.Covers(t, "S27", "C6")
	d := runningTargets(t, systemdConfig)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.cset("PowerCycle"))
	assert.Equal(t, []string{start(powerCycle)}, d.started(1))
	d.sd.ForeignStart(powerOff) // what a platform hooks to it
	d.done(powerOff)
	d.untilChassis("Off")
	d.done(powerCycle)
	d.sd.ForeignStart(powerOn)
	d.done(powerOn)
	d.untilChassis("On")
	status, reason := d.untilRecord()
	assert.Equal(t, "Success", status, reason)
	assert.Equal(t, []string{"Off", "On"}, stable(values(d.drain(signals), "CurrentPowerState")))
	assert.Equal(t, shorts.Replace("CT.PowerCycle"), d.get(chassisName, chassisPath, chassisName, "RequestedPowerTransition"))
	assert.Equal(t, []string{start(powerCycle)}, d.started(1), "and nothing else")

	off := bootTargets(t, systemdConfig)
	host := off.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, off.cset("On"))
	assert.Equal(t, []string{start(powerOn)}, off.started(1))
	off.done(powerOn)
	off.untilChassis("On")
	status, reason = off.untilRecord()
	assert.Equal(t, "Success", status, reason)
	changes := off.drain(host)
	assert.Empty(t, values(changes, "CurrentHostState"), "the host is not touched")
	assert.Empty(t, values(changes, "RequestedHostTransition"))
	assert.Len(t, off.started(1), 1)
}

func stable(values []string) (all []string) {
	for _, v := range values {
		if !strings.HasPrefix(v, "Transitioning") {
			all = append(all, v)
		}
	}
	return all
}

// S28, C9: jobs that fail. The request ends with the job's result and the state
// goes back to what the units show.
func TestTargetsS28C9FailedJobs(t *testing.T) {
	statetest.Covers(t, "S28", "C9")
	for _, result := range []string{"failed", "canceled", "timeout", "dependency", "skipped"} {
		t.Run(result, func(t *testing.T) {
			d := bootTargets(t, systemdConfig)
			d.sd.SetActive(hostStartMin, "inactive")
			signals := d.subscribe(propsIface, "PropertiesChanged")
			require.NoError(t, d.hset("On"))
			d.started(1)
			d.job(hostStartMin, result)
			d.sd.SetActive(hostStartMin, "inactive")
			d.job(hostStart, result)
			status, reason := d.untilRecord()
			assert.Equal(t, "Failed", status)
			assert.Contains(t, reason, result)
			assert.Contains(t, reason, hostStart)
			assert.Equal(t, shorts.Replace("HS.Off"), d.host())
			assert.Equal(t, []string{"TransitioningToRunning", "Off"}, values(d.drain(signals), "CurrentHostState"))

			require.NoError(t, d.cset("On"))
			d.started(2)
			d.job(powerOn, result)
			status, reason = d.untilRecord()
			assert.Equal(t, "Failed", status)
			assert.Contains(t, reason, powerOn+" ended: "+result)
			d.untilChassis("Off")

			d = runningTargets(t, systemdConfig)
			d.sd.Script(hostShutdown, systemdtest.Script{Unfinished: true}) // and stops nothing
			signals = d.subscribe(propsIface, "PropertiesChanged")
			require.NoError(t, d.hset("Off"))
			d.started(1)
			d.job(hostShutdown, result)
			status, reason = d.untilRecord()
			assert.Equal(t, "Failed", status)
			assert.Contains(t, reason, hostShutdown+" ended: "+result)
			assert.Equal(t, []string{"TransitioningToOff", "Running"}, values(d.drain(signals), "CurrentHostState"))
		})
	}
}

// C8: a job that is done and whose unit is inactive changes nothing; one whose
// unit is active does, whoever queued it.
func TestTargetsC8DoneButInactive(t *testing.T) {
	statetest.Covers(t, "C8", "B29")
	d := bootTargets(t, systemdConfig)
	script := transactions[hostStart]
	script.Unfinished, script.Active = true, "inactive"
	d.sd.Script(hostStart, script)
	require.NoError(t, d.hset("On"))
	d.started(1)
	d.job(hostStart, "done")
	status, reason := d.untilRecord()
	assert.Equal(t, "Failed", status)
	assert.Contains(t, reason, "inactive although its job is done")
	assert.Equal(t, shorts.Replace("HS.Off"), d.host())

	d = bootTargets(t, systemdConfig)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	reach := func(unit, active string) {
		d.sd.Script(unit, systemdtest.Script{Active: active})
		d.sd.ForeignStart(unit)
	}
	shown := func() []string { return stable(values(d.drain(signals), "CurrentHostState")) }
	reach(hostStartMin, "inactive")
	d.sd.SetActive(powerOn, "active") // told behind it
	d.untilChassis("On")
	d.idle()
	assert.Empty(t, shown())
	reach(hostStartMin, "active")
	d.untilHost("Running")
	d.idle()
	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning")))
	require.NoError(t, d.set(hostName, hostPath, osIface, "OperatingSystemState", shorts.Replace("OSS.BootComplete")))
	reach(hostStop, "inactive")
	d.sd.SetActive(bmcQuiesce, "active") // told behind it
	d.untilBMC("Quiesced")
	assert.Equal(t, []string{"Running"}, shown())
	assert.Equal(t, shorts.Replace("PG.OSRunning"), d.get(hostName, hostPath, progressIface, "BootProgress"))
	reach(hostStop, "active")
	d.untilHost("Off")
	assert.Equal(t, shorts.Replace("PS.On"), d.chassis())
	assert.Equal(t, shorts.Replace("PG.Unspecified"), d.get(hostName, hostPath, progressIface, "BootProgress"))
	assert.Equal(t, shorts.Replace("OSS.Inactive"), d.get(hostName, hostPath, osIface, "OperatingSystemState"))
}

// S30: other instances.
func TestTargetsS30WrongInstance(t *testing.T) {
	statetest.Covers(t, "S30")
	d := runningTargets(t, systemdConfig)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	for _, u := range []string{"obmc-host-stop@1.target", "obmc-chassis-poweroff@10.target"} {
		d.sd.Finish(d.sd.Foreign(u, "start"), "done")
	}
	d.sd.SetActive(bmcQuiesce, "active") // what comes behind is seen
	d.untilBMC("Quiesced")
	changes := d.drain(signals)
	assert.Empty(t, values(changes, "CurrentHostState"))
	assert.Empty(t, values(changes, "CurrentPowerState"))
	assert.Empty(t, d.records())
}

// S31, C23: the writes of unit files.
func TestTargetsS31UnitFileWrites(t *testing.T) {
	statetest.Covers(t, "S31", "C23")
	d := runningTargets(t, systemdConfig)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.set(hostName, hostPath, hostName, "CurrentHostState", shorts.Replace("HS.TransitioningToOff")))
	assert.Equal(t, shorts.Replace("HS.TransitioningToOff"), d.host())
	require.NoError(t, d.set(chassisName, chassisPath, chassisName, "CurrentPowerState", shorts.Replace("PS.TransitioningToOff")))
	assert.Equal(t, shorts.Replace("PS.TransitioningToOff"), d.chassis())
	assert.Equal(t, []string{"TransitioningToOff"}, values(d.drain(signals), "CurrentHostState"))
	d.sd.ForeignStart(hardOff)
	d.done(hostStop, powerOff)
	d.untilHost("Off")
	d.untilChassis("Off")
}

// S33: hard off wins over a soft off that is under way.
func TestTargetsS33HardOffWins(t *testing.T) {
	statetest.Covers(t, "S33", "B40")
	d := runningTargets(t, systemdConfig)
	require.NoError(t, d.hset("Off"))
	d.started(1)
	require.NoError(t, d.cset("Off"))
	assert.Equal(t, []string{start(hostShutdown), start(hardOff)}, d.started(2))
	d.done(hostStop, powerOff)
	d.untilChassis("Off")
	d.idle()
	var statuses []string
	for _, r := range d.records() {
		s := r["Status"].Value().(string)
		statuses = append(statuses, s[strings.LastIndexByte(s, '.')+1:])
	}
	assert.Equal(t, []string{"Superseded", "Success"}, statuses)
}
