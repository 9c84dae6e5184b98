package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// S44: boot progress has a time of its own.
func TestS44Progress(t *testing.T) {
	statetest.Covers(t, "S44")
	d := boot(t, "")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning")))
	changes := d.drain(signals)
	at := d.get(hostName, hostPath, progressIface, "BootProgressLastUpdate").(uint64)
	assert.ElementsMatch(t, []change{
		{hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning"), 0},
		{hostPath, progressIface, "BootProgressLastUpdate", at, 0},
	}, changes, "one signal per property")
	assert.Equal(t, shorts.Replace("PG.OSRunning"), d.get(hostName, hostPath, progressIface, "BootProgress"))
	assert.InDelta(t, time.Now().UnixMicro(), at, 20e6, "ten times S44's bound")
	for _, at := range []uint64{1700000000000000, 1700000000123457, 1} {
		require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgressLastUpdate", at))
		assert.Equal(t, at, d.get(hostName, hostPath, progressIface, "BootProgressLastUpdate"))
	}
	assert.Equal(t, shorts.Replace("PG.OSRunning"), d.get(hostName, hostPath, progressIface, "BootProgress"), "its time alone has moved")
}

// S46: whatever becomes of the stored files, the daemon starts, shows what the
// hardware shows and drives nothing; what changes is stored again.
func TestS46CorruptStore(t *testing.T) {
	statetest.Covers(t, "S46", "C20")
	damage := map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"garbled": func(b []byte) []byte {
			for i := range b {
				b[i] ^= 0x5a
			}
			return b
		},
		"foreign": func([]byte) []byte { return []byte(`{"value0": {"cereal_class_version": 7}}`) },
	}
	d := boot(t, `{"restoreSettle": "1ms"}`)
	d.on()
	require.Zero(t, d.stop())
	wires, err := gpio.ReadWires(d.runDir, 0)
	require.NoError(t, err)
	stored, err := os.ReadDir(d.stateDir)
	require.NoError(t, err)
	require.NotEmpty(t, stored)
	whole := map[string][]byte{}
	for _, f := range stored {
		if f.Type().IsRegular() {
			b, err := os.ReadFile(filepath.Join(d.stateDir, f.Name()))
			require.NoError(t, err)
			whole[f.Name()] = b
		}
	}
	for how, damaged := range damage {
		t.Run(how, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(d.stateDir)) // what the round before has written is whole
			require.NoError(t, os.Mkdir(d.stateDir, 0o700))
			for name, b := range whole {
				require.NoError(t, os.WriteFile(filepath.Join(d.stateDir, name), damaged(append([]byte(nil), b...)), 0o600))
			}
			d.start()
			d.untilHost("Running")
			d.untilChassis("On")
			require.NoError(t, d.hset("On")) // judged by what is seen
			d.idle()
			for _, status := range d.statuses() { // half a file may hold the first
				require.True(t, strings.HasPrefix(status, "On "), "nothing else was asked for: %s", status)
			}
			d.untilHost("Running")
			now, err := gpio.ReadWires(d.runDir, 0)
			require.NoError(t, err)
			require.Equal(t, wires, now, "no line has moved")
			require.NoError(t, d.set(hostName, hostPath, attemptsIface, "RetryAttempts", uint32(7)))
			d.kill()
			d.start()
			require.Equal(t, uint32(7), d.get(hostName, hostPath, attemptsIface, "RetryAttempts"))
			require.Zero(t, d.stop())
		})
	}
}

// S47 on the bus: clamped, coupled, kept.
func TestS47Counters(t *testing.T) {
	statetest.Covers(t, "S47", "C11")
	d := boot(t, "")
	require.NoError(t, d.set(hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(7)))
	require.Equal(t, uint32(3), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	require.NoError(t, d.set(hostName, hostPath, attemptsIface, "RetryAttempts", uint32(5)))
	d.kill()
	d.start()
	require.Equal(t, uint32(5), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	require.Equal(t, uint32(5), d.get(hostName, hostPath, attemptsIface, "RetryAttempts"))

	require.NoError(t, d.set(hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(4)))
	d.kill()
	d.start()
	require.Equal(t, uint32(4), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	require.NoError(t, d.set(hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(6)))
	require.Equal(t, uint32(5), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
}

// S56: PowerRestoreDelay is a plain delay, in microseconds.
func TestS56RestoreDelay(t *testing.T) {
	statetest.Covers(t, "S56", "B30")
	d := boot(t, fmt.Sprintf(quickRestore, "serve"))
	d.untilSettings()
	d.setPolicy("AlwaysOn", "None")
	require.NoError(t, d.set(settingsName, restorePath, restoreIface, "PowerRestoreDelay", uint64(3_000_000)))
	before := time.Now()
	d.acLoss()
	d.untilHost("Running")
	assert.GreaterOrEqual(t, time.Since(before), 3*time.Second, "not before the delay is over")
}

// S58: an armed schedule outlives a refused one; 0 cancels.
func TestS58RefusedSchedule(t *testing.T) {
	statetest.Covers(t, "S58")
	d := boot(t, "")
	due := time.Now().Add(time.Hour)
	d.scheduled(due)
	err := d.set(schedName, schedPath, schedName, "ScheduledTime", uint64(time.Now().Unix()-10))
	require.Equal(t, "xyz.openbmc_project.ScheduledTime.Error.InvalidTime", errorName(err))
	require.Equal(t, uint64(due.Unix()), d.get(schedName, schedPath, schedName, "ScheduledTime"))
	d.scheduleSoon()
	d.untilHost("Running")
	d.scheduled(time.Now().Add(time.Hour))
	require.NoError(t, d.set(schedName, schedPath, schedName, "ScheduledTime", uint64(0)))
	require.Equal(t, uint64(0), d.get(schedName, schedPath, schedName, "ScheduledTime"))
}

// bug-reports.md 29: both targets up, the one that was reached last decides, in
// both orders.
func TestBothTargetsActive(t *testing.T) {
	statetest.Covers(t, "B29")
	d := runningTargets(t, systemdConfig)
	d.sd.SetActive(powerOff, "active")
	d.untilChassis("Off")
	d.sd.SetActive(powerOn, "inactive")
	d.sd.SetActive(powerOn, "active")
	d.untilChassis("On")
	d.sd.SetActive(hostStop, "active")
	d.untilHost("Off")
	d.sd.SetActive(hostStartMin, "inactive")
	d.sd.SetActive(hostStartMin, "active")
	d.untilHost("Running")
}

// bug-reports.md 6: a job that ends between the daemon's start and the answer to
// its subscription.
func TestJobBeforeTheSubscription(t *testing.T) {
	statetest.Covers(t, "B6")
	d := prepareTargets(t, systemdConfig)
	d.sd.Hang(true)
	d.start()
	d.sd.SetActive(powerOff, "inactive")
	d.sd.SetActive(powerOn, "active")
	d.sd.Hang(false)
	d.untilChassis("On")
}

// bug-reports.md 2: a host goes with its power, whatever its units say.
func TestHostGoesWithItsPower(t *testing.T) {
	statetest.Covers(t, "B2")
	d := runningTargets(t, systemdConfig)
	power := d.servePower(1)
	d.untilHost("Running")
	require.NoError(t, d.cset("Off"))
	d.started(1)
	power.SetMust(powerName, "pgood", int32(0))
	d.untilHost("Off")
	d.untilChassis("Off")
}

// bug-reports.md 28: every object is there and answers within a start's time,
// with no lines, no power service and no systemd.
func TestEverythingIsServedWithoutHardware(t *testing.T) {
	statetest.Covers(t, "B28")
	d := prepare(t, "")
	d.args = nil
	d.start()
	for path, dest := range map[string]string{hostPath: hostName, chassisPath: chassisName, bmcPath: bmcName, schedPath: schedName} {
		var all map[string]godbus.Variant
		require.NoError(t, d.conn.Object(dest, godbus.ObjectPath(path)).Call(propsIface+".GetAll", 0, dest).Store(&all))
		require.NotEmpty(t, all)
	}
}

// bug-reports.md 4 and 5: after a hard off nothing is in transition any more, for
// whoever looks.
func TestHardOffLeavesNothingInTransition(t *testing.T) {
	statetest.Covers(t, "B4", "B5")
	d := boot(t, "")
	d.on()
	require.NoError(t, d.cset("Off"))
	d.untilChassis("Off")
	d.untilHost("Off")
	d.idle()
	for i := range 3 {
		conn := d.bus.Connect(t)
		power, err := conn.Object(chassisName, chassisPath).GetProperty(chassisName + ".CurrentPowerState")
		require.NoError(t, err)
		require.Equal(t, shorts.Replace("PS.Off"), power.Value(), strconv.Itoa(i))
		host, err := conn.Object(hostName, hostPath).GetProperty(hostName + ".CurrentHostState")
		require.NoError(t, err)
		require.Equal(t, shorts.Replace("HS.Off"), host.Value())
	}
}

// C24: a restart under a running host signals no change of anything.
func TestC24NoBurstAtStart(t *testing.T) {
	statetest.Covers(t, "C24")
	d := boot(t, "")
	d.on()
	d.idle()
	require.Zero(t, d.stop())
	signals := d.subscribe(propsIface, "PropertiesChanged")
	d.start()
	d.untilHost("Running")
	for _, c := range d.drain(signals) {
		assert.Contains(t, []string{"DuplicatesSuppressed", "Refused"}, c.prop, "%v", c)
	}
}

// TestAStopAmidTheStartIsNoFailure: SIGTERM comes as soon as the first of the
// names is owned.
func TestAStopAmidTheStartIsNoFailure(t *testing.T) {
	d := prepare(t, "")
	for range 10 {
		d.launch()
		d.untilOwner("a name", func() bool { return slices.ContainsFunc(d.names, d.owned) })
		require.Zero(t, d.stop())
	}
}

// TestAHangUpIsAStop: SIGHUP lets go of the lines and ends as SIGTERM does.
func TestAHangUpIsAStop(t *testing.T) {
	d := prepare(t, "")
	d.start()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	require.Zero(t, d.waitExit())
}
