package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

const (
	linesOn  = "bmcstate-lines-on@0.service"
	linesOff = "bmcstate-lines-off@0.service"
)

const linesConfig = `{"executor": "gpio-targets", "knownTimeout": "60s", "offGuard": "10m"}`

// bootLines is a daemon whose targets have it drive a virtual chassis. The test
// is the unit that asks for it.
func bootLines(t *testing.T, config string) *targetsDaemon {
	if os.Getuid() != 0 {
		t.Skip("only root may have lines driven")
	}
	d := prepare(t, config)
	sd := linesSystemd(t, d)
	d.start()
	d.untilChassis("Off")
	return &targetsDaemon{d, sd}
}

// linesSystemd is a systemd that has just booted.
func linesSystemd(t *testing.T, d *daemon) *systemdtest.Systemd {
	sd := systemdtest.Start(t, d.bus.Address)
	for unit, script := range transactions {
		script.Unfinished = true
		switch unit {
		case powerOn, hostStart, hostStartMin:
			script.Pulls = append([]string{linesOn}, script.Pulls...)
		case powerOff, hardOff, hostShutdown, hostReboot:
			script.Pulls = append([]string{linesOff}, script.Pulls...)
		}
		sd.Script(unit, script)
	}
	for _, unit := range []string{linesOn, linesOff} {
		sd.Script(unit, systemdtest.Script{Unfinished: true})
	}
	return sd
}

// drive is what bmcstatectl lines does.
func (d *targetsDaemon) drive(direction string) *godbus.Call {
	return d.conn.Object(queueName, queuePath).Call(queueName+".DriveLines", 0, direction)
}

// on brings power up as the units of a target do, and ends its jobs.
func (d *targetsDaemon) on() {
	d.t.Helper()
	require.NoError(d.t, d.drive("on").Err)
	d.done(linesOn, powerOn)
}

func TestLineTargetsOnAndOff(t *testing.T) {
	d := bootLines(t, linesConfig)
	require.NoError(t, d.cset("On"))
	assert.Equal(t, []string{start(powerOn)}, d.started(1))
	assert.Equal(t, shorts.Replace("PS.TransitioningToOn"), d.chassis())
	d.on()
	d.untilChassis("On")
	status, _ := d.untilRecord()
	assert.Equal(t, "Success", status)

	require.NoError(t, d.cset("Off"))
	d.started(2)
	require.NoError(t, d.drive("off").Err)
	assert.Equal(t, "xyz.openbmc_project.Common.Error.NotAllowed", errorName(d.drive("on").Err))
	d.done(linesOff, hostStop, powerOff, hardOff)
	d.untilChassis("Off")
	status, _ = d.untilRecord()
	assert.Equal(t, "Success", status)
	assert.Equal(t, "xyz.openbmc_project.Common.Error.NotAllowed", errorName(d.drive("on").Err), "offGuard")
	assert.Equal(t, "xyz.openbmc_project.Common.Error.InvalidArgument", errorName(d.drive("up").Err))
}

// The failure of a unit in between ends the request with that reason.
func TestLineTargetsUnitFails(t *testing.T) {
	d := bootLines(t, linesConfig)
	require.NoError(t, d.cset("On"))
	d.started(1)
	d.sd.Finish(d.sd.Job(linesOn), "dependency")
	d.job(powerOn, "dependency")
	status, reason := d.untilRecord()
	assert.Equal(t, "Failed", status)
	assert.Contains(t, reason, "dependency")
	d.untilChassis("Off")

	d.sd.SetActive(powerOn, "inactive")
	require.NoError(t, d.cset("On"))
	d.started(2)
	require.NoError(t, d.drive("on").Err)
	d.done(linesOn)
	d.job(powerOn, "failed") // one behind the lines
	status, reason = d.untilRecord()
	assert.Equal(t, "Failed", status)
	assert.Contains(t, reason, "failed")
	d.untilChassis("On")
}

// A foreign job is the running operation, in the history, before lines move.
func TestLineTargetsForeignJob(t *testing.T) {
	d := bootLines(t, linesConfig)
	d.sd.ForeignStart(powerOn)
	d.on()
	d.untilChassis("On")
	status, _ := d.untilRecord()
	assert.Equal(t, "Success", status)
	all := d.records()
	require.Len(t, all, 1)
	assert.Equal(t, "foreign", all[0]["ClientId"].Value())
	assert.Empty(t, d.sd.Calls("StartUnit"))

	require.NoError(t, d.cset("Off"))
	d.started(1)
	require.NoError(t, d.drive("off").Err)
	d.done(linesOff, hostStop, powerOff, hardOff)
	d.untilChassis("Off")
	d.idle()
	d.sd.ForeignStart(powerOn)
	d.sd.WaitCalls("CancelJob", 1)
	assert.Error(t, d.drive("on").Err, "offGuard")
	d.untilChassis("Off")
}

// The daemon is killed while the lines are driven; the unit asks again.
func TestLineTargetsKilled(t *testing.T) {
	d := bootLines(t, linesConfig)
	d.stimulate(gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{NeverPowerGood: true}})
	require.NoError(t, d.cset("On"))
	d.started(1)
	lost := d.conn.Object(queueName, queuePath).Go(queueName+".DriveLines", 0, nil, "on")
	d.eventually("the press and its end", func() bool {
		marks, err := os.ReadDir(filepath.Join(d.runDir, "pulses"))
		return err == nil && len(marks) == 0 && slices.Equal(d.powerOut(), []bool{true, false})
	})
	require.NoError(t, d.cmd.Process.Kill())
	d.waitExit()
	require.Error(t, (<-lost.Done).Err)
	d.start()
	again := d.conn.Object(queueName, queuePath).Go(queueName+".DriveLines", 0, nil, "on")
	d.stimulate(gpio.Stimulus{Do: gpio.DoFaults})
	d.stimulate(gpio.Stimulus{Do: gpio.DoWake}) // what the press leads to
	require.NoError(t, (<-again.Done).Err)
	d.done(linesOn, powerOn)
	d.untilChassis("On")
	status, reason := d.untilRecord()
	assert.Equal(t, "Success", status, reason)
	assert.NotContains(t, d.log.String(), "foreign", "its own job is not taken for another's")
}

// On a BMC that boots under power the markers tell the platform's units, where we
// drive the lines, too.
func TestLineTargetsMarkers(t *testing.T) {
	statetest.Covers(t, "C16")
	d := bootLines(t, linesConfig)
	markers := func() (n int) {
		for _, name := range []string{"chassis@0-on", "host@0-on"} {
			if _, err := os.Stat(filepath.Join(d.runDir, "openbmc", name)); err == nil {
				n++
			}
		}
		return n
	}
	require.NoError(t, d.cset("On"))
	d.started(1)
	d.on()
	d.untilChassis("On")
	d.settle()
	d.kill()
	require.NoError(t, os.RemoveAll(filepath.Join(d.runDir, "openbmc"))) // whatever the first boot left
	d.sd.Leave()
	require.NoError(t, os.Remove(filepath.Join(d.runDir, "boot")))
	d.sd = linesSystemd(t, d.daemon)
	d.start()
	d.untilChassis("On")
	d.eventually("both markers", func() bool { return markers() == 2 })

	require.NoError(t, d.cset("Off"))
	d.started(1)
	require.NoError(t, d.drive("off").Err)
	d.eventually("no marker, as power is off", func() bool { return markers() == 0 })
	d.done(linesOff, hostStop, powerOff, hardOff)
	d.untilChassis("Off")
}

func TestLinesWithoutTargets(t *testing.T) {
	d := boot(t, "")
	err := d.conn.Object(queueName, queuePath).Call(queueName+".DriveLines", 0, "on").Err
	require.Error(t, err)
	if os.Getuid() == 0 {
		assert.Contains(t, err.Error(), "gpio-targets")
	}
}
