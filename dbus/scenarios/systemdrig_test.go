package scenarios

import (
	"fmt"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// targetsDaemon is a daemon whose host 0 is run by the targets of a double of
// systemd. The targets pull each other in as OpenBMC's do; every start job stays
// until the test ends it.
type targetsDaemon struct {
	*daemon
	sd *systemdtest.Systemd
}

const (
	hostStart    = "obmc-host-start@0.target"
	hostStartMin = "obmc-host-startmin@0.target"
	hostShutdown = "obmc-host-shutdown@0.target"
	hostStop     = "obmc-host-stop@0.target"
	hostReboot   = "obmc-host-reboot@0.target"
	hostWarm     = "obmc-host-warm-reboot@0.target"
	hostForce    = "obmc-host-force-warm-reboot@0.target"
	hostQuiesce  = "obmc-host-quiesce@0.target"
	powerOn      = "obmc-chassis-poweron@0.target"
	powerOff     = "obmc-chassis-poweroff@0.target"
	hardOff      = "obmc-chassis-hard-poweroff@0.target"
	powerCycle   = "obmc-chassis-powercycle@0.target"
	multiUser    = "multi-user.target"
	bmcQuiesce   = "obmc-bmc-service-quiesce@0.target"
)

var (
	ups   = []string{hostStart, hostStartMin, powerOn, hostReboot, hostQuiesce}
	downs = []string{hostShutdown, hostStop, powerOff, hardOff}
)

// transactions are the jobs that a target's start brings with it.
var transactions = map[string]systemdtest.Script{
	hostStart:    {Pulls: []string{hostStartMin, powerOn}, Stops: downs},
	hostStartMin: {Pulls: []string{powerOn}, Stops: downs},
	hostShutdown: {Pulls: []string{hostStop, powerOff}, Stops: ups},
	hostStop:     {Stops: []string{hostStartMin, hostStart}},
	hostReboot:   {Pulls: []string{hostShutdown, hostStop, powerOff}, Stops: []string{hostStart, hostStartMin, powerOn}},
	hostWarm:     {Pulls: []string{hostForce, hostStop}, Stops: []string{hostStart, hostStartMin}},
	hostForce:    {Pulls: []string{hostStop}, Stops: []string{hostStart, hostStartMin}},
	powerOn:      {Stops: []string{powerOff, hardOff}},
	powerOff:     {Stops: []string{powerOn}},
	hardOff:      {Pulls: []string{powerOff, hostStop}, Stops: append([]string{hostShutdown}, ups...)},
	powerCycle:   {},
}

const systemdConfig = `{"executor": "systemd", "confirmTimeout": "60s", "reconcileTimeout": "60s", "knownTimeout": "60s", "commitTimeout": "60s"}`

// prepareTargets returns a daemon that is not started. The host is off.
func prepareTargets(t *testing.T, config string) *targetsDaemon {
	d := bootedTargets(t, config)
	d.sd.SetActive(powerOff, "active")
	d.sd.SetActive(hostStop, "active")
	return d
}

// bootedTargets returns a daemon that is not started, on a BMC that has just
// booted: no target of a host or chassis has been up.
func bootedTargets(t *testing.T, config string) *targetsDaemon {
	d := prepare(t, config)
	d.args = nil
	sd := systemdtest.Start(t, d.bus.Address)
	for unit, script := range transactions {
		script.Unfinished = true
		sd.Script(unit, script)
	}
	sd.SetActive(multiUser, "active")
	return &targetsDaemon{d, sd}
}

func bootTargets(t *testing.T, config string) *targetsDaemon {
	d := prepareTargets(t, config)
	d.start()
	d.untilBMC("Ready")
	return d
}

// runningTargets is a daemon whose host runs, by jobs that ended before.
func runningTargets(t *testing.T, config string) *targetsDaemon {
	d := prepareTargets(t, config)
	d.startRunning()
	return d
}

// startRunning starts the daemon with a host that runs.
func (d *targetsDaemon) startRunning() {
	d.t.Helper()
	for _, u := range downs {
		d.sd.SetActive(u, "inactive")
	}
	for _, u := range []string{powerOn, hostStartMin, hostStart} {
		d.sd.SetActive(u, "active")
	}
	d.start()
	d.untilHost("Running")
	d.untilBMC("Ready")
}

// job ends the unit's job, which must be there.
func (d *targetsDaemon) job(unit, result string) {
	d.t.Helper()
	id := d.sd.Job(unit)
	require.NotZero(d.t, id, "%s has no job; calls: %v", unit, d.sd.Calls())
	d.sd.Finish(id, result)
}

// done ends jobs with success.
func (d *targetsDaemon) done(units ...string) {
	d.t.Helper()
	for _, u := range units {
		d.job(u, "done")
	}
}

// started waits for n calls of StartUnit and returns them all.
func (d *targetsDaemon) started(n int) []string {
	d.t.Helper()
	var all []string
	for _, c := range d.sd.WaitCalls("StartUnit", n) {
		all = append(all, c.String())
	}
	return all
}

func start(unit string) string { return "StartUnit(" + unit + ", replace)" }

// roundTrip returns when the daemon has come through everything that it was told
// before: a stable state is taken, and what is seen stands.
func (d *daemon) roundTrip() {
	d.t.Helper()
	require.NoError(d.t, d.set(hostName, hostPath, hostName, "CurrentHostState", shorts.Replace("HS.Off")))
}

func (d *targetsDaemon) untilBMC(state string) {
	d.t.Helper()
	d.until(bmcName, bmcPath, bmcName, "CurrentBMCState", "BS."+state)
}

func (d *targetsDaemon) mset(v string) error {
	return d.set(bmcName, bmcPath, bmcName, "RequestedBMCTransition", shorts.Replace("BT."+v))
}

// records returns the history, oldest first.
func (d *daemon) records() []map[string]godbus.Variant {
	d.t.Helper()
	var all []map[string]godbus.Variant
	require.NoError(d.t, d.conn.Object(queueName, queuePath).Call(queueName+".History", 0, uint64(0), uint32(100)).Store(&all))
	return all
}

// untilRecord waits until the newest record has a final status and returns that
// without its prefix, and the reason.
func (d *daemon) untilRecord() (status, reason string) {
	d.t.Helper()
	d.idle()
	all := d.records()
	require.NotEmpty(d.t, all)
	last := all[len(all)-1]
	full := last["Status"].Value().(string)
	return full[strings.LastIndexByte(full, '.')+1:], last["Reason"].Value().(string)
}

// values returns what a property became, in order, from signals.
func values(changes []change, prop string) []string {
	var all []string
	for _, c := range changes {
		if c.prop == prop {
			s := fmt.Sprint(c.value)
			all = append(all, s[strings.LastIndexByte(s, '.')+1:])
		}
	}
	return all
}

const powerName = "org.openbmc.control.Power"

// servePower brings the power service of chassis 0 to the bus.
func (d *targetsDaemon) servePower(value int32) *prop.Properties {
	d.t.Helper()
	conn := d.bus.Connect(d.t)
	p, err := prop.Export(conn, "/org/openbmc/control/power0", prop.Map{powerName: {"pgood": {Value: value, Emit: prop.EmitTrue}}})
	require.NoError(d.t, err)
	_, err = conn.RequestName(powerName, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return p
}

// followsPower moves the power service's input, so that the daemon is seen to heed
// it.
func (d *targetsDaemon) followsPower(power *prop.Properties, levels ...bool) {
	d.t.Helper()
	for _, on := range levels {
		pgood, state := int32(0), "Off"
		if on {
			pgood, state = 1, "On"
		}
		power.SetMust(powerName, "pgood", pgood)
		d.untilChassis(state)
	}
}

// settled is what a state was, or is to be again, before a transition.
func settled(state string) string { return strings.Replace(state, "TransitioningToOn", "Off", 1) }
