package scenarios

import (
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

const (
	hostCrash      = "obmc-host-crash@0.target"
	hostDiagnostic = "obmc-host-diagnostic-mode@0.target"
)

const quiesceConfig = `{"executor": "systemd", "confirmTimeout": "60s", "reconcileTimeout": "60s", "knownTimeout": "60s", "commitTimeout": "60s", "settings": "serve"}`

// policied is a running host whose settings are kept by the daemon, and the event
// log's entries.
func policied(t *testing.T) (*targetsDaemon, chan string) {
	d := runningTargets(t, quiesceConfig)
	d.untilSettings()
	d.sd.SetActive(hostQuiesce, "inactive")
	return d, d.serveLogging()
}

func (d *targetsDaemon) attempts() uint32 {
	return d.get(hostName, hostPath, attemptsIface, "AttemptsLeft").(uint32)
}

// quiesce has the quiesce target reached, as systemd does when the host's start
// has failed.
func (d *targetsDaemon) quiesce() {
	d.sd.SetActive(hostStartMin, "inactive")
	d.sd.SetActive(hostQuiesce, "active")
}

// S48: auto reboot.
func TestTargetsS48AutoReboot(t *testing.T) {
	statetest.Covers(t, "S48", "C10")
	d, _ := policied(t)
	require.NoError(t, d.set(hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(2)))
	signals := d.subscribe(propsIface, "PropertiesChanged")
	d.quiesce()
	assert.Equal(t, []string{start(hostReboot)}, d.started(1))
	d.until(hostName, hostPath, hostName, "RequestedHostTransition", "HT.Reboot")
	assert.Equal(t, uint32(1), d.attempts())
	assert.NotContains(t, values(d.drain(signals), "CurrentHostState"), "Quiesced")
}

// S49: attempts used up, and S51: one Off is enough to leave Quiesced.
func TestTargetsS49ExhaustedS51Leave(t *testing.T) {
	statetest.Covers(t, "S49", "S51")
	d, logged := policied(t)
	dumped := d.serveDump()
	require.NoError(t, d.set(hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(0)))
	d.quiesce()
	d.untilHost("Quiesced")
	assert.Equal(t, "xyz.openbmc_project.State.Error.HostQuiesce", d.entry(logged))
	next(t, dumped, "a dump")
	assert.Equal(t, uint32(3), d.attempts())
	assert.Empty(t, d.sd.Calls("StartUnit"))

	require.NoError(t, d.hset("Off"))
	assert.Equal(t, []string{start(hostShutdown)}, d.started(1))
	d.sd.SetActive(hostQuiesce, "inactive")
	d.done(hostStop, powerOff)
	d.untilHost("Off")
	d.untilChassis("Off")
	assert.Empty(t, logged, "told once")
}

// S50: disabled, persistently or for one time, and with nobody who keeps the
// settings.
func TestTargetsS50Disabled(t *testing.T) {
	statetest.Covers(t, "S50")
	for _, path := range []string{rebootPath, rebootPath + "/one_time"} {
		d, logged := policied(t)
		require.NoError(t, d.set(settingsName, path, rebootIface, "AutoReboot", false))
		require.NoError(t, d.set(hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(2)))
		d.quiesce()
		d.untilHost("Quiesced")
		d.idle()
		assert.Equal(t, uint32(2), d.attempts(), "neither taken nor filled up")
		assert.Empty(t, d.sd.Calls("StartUnit"))
		assert.Empty(t, logged)
	}
	d := runningTargets(t, `{"executor": "systemd", "settings": "client"}`)
	d.quiesce()
	d.untilHost("Quiesced")
	assert.Empty(t, d.sd.Calls("StartUnit"))
}

// S52: crash and diagnostic mode.
func TestTargetsS52Crash(t *testing.T) {
	statetest.Covers(t, "S52", "C11")
	d, _ := policied(t)
	d.sd.Foreign(hostCrash, "start")
	d.untilNumber(attemptsIface, "AttemptsLeft", 2)
	d.sd.SetActive(hostDiagnostic, "active")
	d.untilHost("DiagnosticMode")

	// The stock target needs nothing: its job is over before anybody can ask for
	// its type. The end of a stop looks the same.
	quick, _ := policied(t)
	quick.sd.ForeignStart(hostCrash)
	quick.untilNumber(attemptsIface, "AttemptsLeft", 2)
	quick.sd.Finish(quick.sd.Foreign(hostCrash, "stop"), "done")
	quick.sd.SetActive(hostDiagnostic, "active")
	quick.untilHost("DiagnosticMode")
	assert.Equal(t, uint32(2), quick.attempts())

	off := bootTargets(t, quiesceConfig)
	off.sd.Foreign(hostCrash, "start")
	off.sd.SetActive(hostDiagnostic, "active") // told behind it
	require.NoError(t, off.hset("On"))         // and this behind both
	off.started(1)
	off.sd.SetActive(hostDiagnostic, "inactive")
	off.done(powerOn, hostStartMin)
	off.untilHost("Running")
	assert.Equal(t, uint32(2), off.attempts(), "the On's own")
}

// untilNumber waits until a property of the host reads a number.
func (d *daemon) untilNumber(iface, property string, want uint32) {
	d.t.Helper()
	d.untilChanged(property, func() bool { return d.get(hostName, hostPath, iface, property) == want })
}

// dumper is the dump manager's double.
type dumper struct{ asked chan struct{} }

// CreateDump is xyz.openbmc_project.Dump.Create.CreateDump.
func (d dumper) CreateDump(map[string]godbus.Variant) (godbus.ObjectPath, *godbus.Error) {
	d.asked <- struct{}{}
	return "/xyz/openbmc_project/dump/bmc/entry/1", nil
}

func (d *daemon) serveDump() chan struct{} {
	double := dumper{make(chan struct{}, 10)}
	conn := d.bus.Connect(d.t)
	require.NoError(d.t, conn.Export(double, "/xyz/openbmc_project/dump/bmc", "xyz.openbmc_project.Dump.Create"))
	_, err := conn.RequestName("xyz.openbmc_project.Dump.Manager", godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return double.asked
}
