package scenarios

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
)

const faultsOwner = "internal.faults"

// watched is a daemon whose virtual host is a resource that is restarted, not
// only logged. Its board shows S5, as those with an SIO do.
func watched(resource, more string) string {
	return `{"gracefulTimeout": "20s", "simulate": {"inputs": ["PowerOk", "PostComplete", "PowerButton", "ResetButton", "SIOS5"],
		"timings": {"guestShutdown": "1s"}},
		"monitor": {` + more + `"resources": [{"thoroughProbe": "200ms", "probeTimeout": "30s", "startGrace": "0s",
		"backoff": {"min": "0s", "max": "0s"}, "powerDebounce": "200ms", ` + resource + `}]}}`
}

const hostResource = `"name": "host0", "host": {}, "mode": "SOFT", "retryInterval": "1h"`

func faultPath(name string) string { return "/xyz/openbmc_project/state/fault_monitor/" + name }

func (d *daemon) fault(name, property string) any {
	d.t.Helper()
	return d.get(faultName, faultPath(name), faultName, property)
}

func (d *daemon) untilFault(name, status string) {
	d.t.Helper()
	d.until(faultName, faultPath(name), faultName, "Status", status)
}

func (d *daemon) stimulate(s gpio.Stimulus) {
	d.t.Helper()
	require.NoError(d.t, gpio.Stimulate(d.runDir, 0, s))
}

// byMonitor returns the transitions that the fault monitor asked for, with their
// statuses.
func (d *daemon) byMonitor() (all []string) {
	d.t.Helper()
	last := func(v any) string { s := v.(string); return s[strings.LastIndexByte(s, '.')+1:] }
	for _, r := range d.records() {
		if r["ClientId"].Value() == faultsOwner {
			all = append(all, last(r["Transition"].Value())+" "+last(r["Status"].Value()))
		}
	}
	return all
}

// Power good that is lost without a sign of an intended Off is a failure, and
// where restarting is asked for the host comes back, at the cost of an attempt.
func TestFaultMonitorRestartsAHostThatLostItsPower(t *testing.T) {
	d := boot(t, watched(hostResource, ""))
	d.on()
	d.untilFault("host0", "OK")
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.until(faultName, faultPath("host0"), faultName, "LastDecision", "RECOVERED")
	d.untilHost("Running")
	d.untilFault("host0", "OK")
	assert.Equal(t, []string{"Reboot Success"}, d.byMonitor())
	assert.Equal(t, uint32(1), d.fault("host0", "RestartsInInterval"))
	assert.Equal(t, uint32(1), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"), "one by the On, one by the monitor")
}

// Without more in the configuration a loss is logged.
func TestFaultMonitorLogsALossOfPowerByDefault(t *testing.T) {
	d := boot(t, watched(`"name": "host0", "host": {}`, ""))
	d.on()
	d.untilFault("host0", "OK")
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.untilFault("host0", "FAULTED")
	assert.Equal(t, "WOULD_RESTART", d.fault("host0", "LastDecision"))
	assert.Empty(t, d.byMonitor())
	d.untilHost("Off")
}

// The monitor against people: what somebody meant is not repaired.
func TestFaultMonitorDoesNotFightPeople(t *testing.T) {
	for name, off := range map[string]func(*daemon){
		"Chassis Off": func(d *daemon) { require.NoError(d.t, d.cset("Off")) },
		"Host Off":    func(d *daemon) { require.NoError(d.t, d.hset("Off")) },
		"graceful Off cancelled while the OS shuts down anyway": func(d *daemon) {
			// Its OS takes as long as the cancelling does.
			d.stimulate(gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{GuestHangsOnShutdown: true}})
			q := d.conn.Object(queueName, queuePath)
			require.NoError(d.t, q.Call(queueName+".Submit", 0, "me", "1", shorts.Replace("HT.Off"), map[string]godbus.Variant{}).Err)
			d.untilHost("TransitioningToOff")
			d.eventually("the cancelling", func() bool { // a press that is asserted cannot be withdrawn
				var status string
				require.NoError(d.t, q.Call(queueName+".Cancel", 0, "me", "1").Store(&status))
				return strings.HasSuffix(status, ".Cancelled")
			})
			d.stimulate(gpio.Stimulus{Do: gpio.DoFaults})
			d.stimulate(gpio.Stimulus{Do: gpio.DoWire, Signal: gpio.SIOS5, Asserted: true})
			d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
		},
		"the guest's own poweroff": func(d *daemon) { d.stimulate(gpio.Stimulus{Do: gpio.DoPowerOff}) },
		"the front button":         func(d *daemon) { d.stimulate(gpio.Stimulus{Do: gpio.DoPress, Signal: gpio.PowerButton}) },
		"the front button, held": func(d *daemon) {
			d.stimulate(gpio.Stimulus{Do: gpio.DoPress, Signal: gpio.PowerButton, Hold: gpio.Duration(3 * time.Second)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := boot(t, watched(hostResource, ""))
			d.on()
			d.untilFault("host0", "OK")
			off(d)
			d.untilChassis("Off")
			d.untilFault("host0", "OFFLINE")
			require.False(t, poweredOf(t, d), "the decision is made, and nothing applied power")
			assert.Empty(t, d.byMonitor())
			assert.Equal(t, uint32(0), d.fault("host0", "FailureSum"))
			d.eventually("the button to be let go", func() bool { return !wires(t, d)[gpio.PowerButton] })
			d.on()
			d.untilFault("host0", "OK")
		})
	}
}

func wires(t *testing.T, d *daemon) map[string]bool {
	c, err := gpio.ReadChassis(d.runDir, 0)
	require.NoError(t, err)
	return c.Wires
}

func poweredOf(t *testing.T, d *daemon) bool {
	c, err := gpio.ReadChassis(d.runDir, 0)
	require.NoError(t, err)
	return c.Powered
}

// An external Off makes the host OFFLINE until an external On: neither power by
// other hands nor a restart of the daemon ends that.
func TestFaultMonitorKeepsAnOffOverARestart(t *testing.T) {
	d := boot(t, watched(hostResource, ""))
	d.on()
	d.untilFault("host0", "OK")
	require.NoError(t, d.cset("Off"))
	d.untilChassis("Off")
	d.untilFault("host0", "OFFLINE")
	d.settle()
	d.kill()
	d.start()
	d.untilFault("host0", "OFFLINE")
	d.stimulate(gpio.Stimulus{Do: gpio.DoWake})
	d.untilChassis("On")
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.untilChassis("Off")
	assert.Equal(t, "OFFLINE", d.fault("host0", "Status"))
	d.on()
	d.untilFault("host0", "OK")
	assert.Empty(t, d.byMonitor())
}

// Case 48 on the real daemon: history survives a kill within a boot, and not a
// boot. A change of a property keeps it, too (case 47).
func TestFaultMonitorHistorySurvives(t *testing.T) {
	d := boot(t, watched(hostResource, ""))
	d.on()
	d.untilFault("host0", "OK")
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.until(faultName, faultPath("host0"), faultName, "LastDecision", "RECOVERED")
	require.NoError(t, d.set(faultName, faultPath("host0"), faultName, "RetryCount", int32(7)))
	assert.Equal(t, uint32(1), d.fault("host0", "RestartsInInterval"))
	assert.Equal(t, int32(7), d.fault("host0", "RetryCount"))
	d.settle()

	d.kill()
	d.start()
	d.untilFault("host0", "OK")
	assert.Equal(t, uint32(1), d.fault("host0", "RestartsInInterval"))
	var rows []map[string]godbus.Variant
	require.NoError(t, d.conn.Object(faultName, godbus.ObjectPath(faultPath("host0"))).Call(faultName+".GetHistory", 0, uint32(0)).Store(&rows))
	assert.NotEmpty(t, rows)

	d.mustReboot()
	assert.Equal(t, uint32(0), d.fault("host0", "RestartsInInterval"))
}

// mustReboot boots the simulated BMC anew.
func (d *daemon) mustReboot() {
	d.t.Helper()
	require.NoError(d.t, d.set(bmcName, bmcPath, bmcName, "RequestedBMCTransition", shorts.Replace("BT.Reboot")))
	d.waitExit()
	d.start()
}

// A host that shows no progress while it boots is silent.
func TestFaultMonitorSilentHost(t *testing.T) {
	d := boot(t, watched(`"name": "host0", "host": {"bootTimeout": "1s"}`, ""))
	d.stimulate(gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{NeverPostComplete: true}})
	require.NoError(t, d.hset("On"))
	d.untilFault("host0", "FAULTED")
	assert.Contains(t, d.fault("host0", "StatusMessage"), "silent")
	require.NoError(t, d.set(hostName, hostPath, progressIface, "BootProgress", shorts.Replace("PG.OSRunning")))
	d.untilFault("host0", "OK")
}

// A host that fails again and again uses its attempts up; then it is quiesced.
func TestFaultMonitorStopsWhenAttemptsAreUsedUp(t *testing.T) {
	d := boot(t, watched(hostResource+`, "retryCount": -1`, ""))
	d.on()
	d.untilFault("host0", "OK")
	d.stimulate(gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{DropPowerGoodAfter: gpio.Duration(4 * time.Second)}})
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.untilFault("host0", "FAULTED")
	d.untilChanged("no attempts", func() bool {
		return strings.Contains(d.fault("host0", "StatusMessage").(string), "no reboot attempts are left")
	})
	assert.Len(t, d.byMonitor(), 2, "the On took the first of three")
	assert.Equal(t, uint32(0), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
}

// A suspended host is left alone until its owner, or time, ends that.
func TestFaultMonitorSuspended(t *testing.T) {
	d := boot(t, watched(hostResource, ""))
	d.on()
	d.untilFault("host0", "OK")
	call := func(method string, args ...any) {
		require.NoError(t, d.conn.Object(faultName, godbus.ObjectPath(faultPath("host0"))).Call(faultName+"."+method, 0, args...).Err)
	}
	call("Suspend", "me", uint64(0))
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.untilFault("host0", "FAULTED")
	assert.Contains(t, d.fault("host0", "StatusMessage"), "suspended by me")
	assert.Equal(t, "NONE", d.fault("host0", "NextAction"))
	assert.Empty(t, d.byMonitor())
	call("Resume", "me")
	assert.Equal(t, uint32(0), d.fault("host0", "FailureSum"), "what maintenance broke is nobody's failure")
	d.on()
	d.untilFault("host0", "OK")
}

// Case 56 on the bus: good probes cause no signal.
func TestFaultMonitorIsSilentWhileAllIsWell(t *testing.T) {
	d := boot(t, watched(hostResource, ""))
	d.on()
	d.untilFault("host0", "OK")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	for range 100 {
		// One that is refused found a probe in flight.
		_ = d.conn.Object(faultName, godbus.ObjectPath(faultPath("host0"))).Call(faultName+".ProbeNow", 0).Err
	}
	for _, c := range d.drain(signals) {
		assert.NotEqual(t, faultPath("host0"), c.path, "%+v", c)
	}
}

// An input of the board as a probe.
func TestFaultMonitorLineProbe(t *testing.T) {
	d := boot(t, watched(`"name": "post", "mode": "LOG_ONLY", "line": {"signal": "PostComplete", "weight": 60}`, ""))
	d.untilFault("post", "FAULTED") // 60 and 60 while the host is off
	d.on()
	d.untilFault("post", "OK")
}

// gauge is a service with a number that a probe looks at, and a redundant pair.
type gauge struct {
	*prop.Properties
	mu     sync.Mutex
	calls  int
	refuse *godbus.Error
}

const (
	gaugeName    = "org.example.Gauge"
	pairName     = "xyz.openbmc_project.State.BMC.Redundancy"
	pairPath     = "/xyz/openbmc_project/state/bmc0"
	controlIface = "xyz.openbmc_project.Control.Failover"
)

// StartFailover is Control.Failover's.
func (g *gauge) StartFailover(string, map[string]godbus.Variant) *godbus.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	return g.refuse
}

func (g *gauge) called() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

func serveGauge(d *daemon, temperature int32, allowed bool) *gauge {
	d.t.Helper()
	conn := d.bus.Connect(d.t)
	reason := pairName + ".FailoversNotAllowedReason.None"
	if !allowed {
		reason = pairName + ".FailoversNotAllowedReason.FullSyncNotComplete"
	}
	p, err := prop.Export(conn, pairPath, prop.Map{
		gaugeName: {"Temperature": {Value: temperature, Emit: prop.EmitTrue}, "Busy": {Value: false, Emit: prop.EmitTrue}},
		pairName: {"Role": {Value: pairName + ".Role.Active", Emit: prop.EmitTrue}, "RedundancyEnabled": {Value: true},
			"FailoversAllowed": {Value: allowed}, "FailoversNotAllowedReason": {Value: reason},
			"FailoverInProgress": {Value: false, Emit: prop.EmitTrue}, "FailoverImminent": {Value: false}},
	})
	require.NoError(d.t, err)
	g := &gauge{Properties: p}
	require.NoError(d.t, conn.Export(g, pairPath, controlIface))
	for _, name := range []string{gaugeName, pairName} {
		_, err = conn.RequestName(name, godbus.NameFlagDoNotQueue)
		require.NoError(d.t, err)
	}
	return g
}

const gaugeProbe = `"property": {"service": "org.example.Gauge", "path": "/xyz/openbmc_project/state/bmc0", "interface": "org.example.Gauge",
	"property": "Temperature", "max": 90}, "retryCount": 0`

// A property's change wakes the probe; an escalation asks for a transition.
func TestFaultMonitorPropertyProbeAsksForATransition(t *testing.T) {
	d := prepare(t, watched(gaugeProbe+`, "name": "hot", "escalation": "transition", "target": "Host Off"`, ""))
	g := serveGauge(d, 40, true)
	d.start()
	d.on()
	d.untilFault("hot", "OK")
	g.SetMust(gaugeName, "Temperature", int32(99))
	d.untilHost("Off")
	d.until(faultName, faultPath("hot"), faultName, "LastDecision", "GAVE_OVER")
	d.idle()
	assert.Equal(t, []string{"Off Success"}, d.byMonitor())
}

// Cases 62 and 63: a failover is not asked for where it would be refused, and a
// passive BMC acts on nothing.
func TestFaultMonitorFailover(t *testing.T) {
	resource := gaugeProbe + `, "name": "hot", "escalation": "failover", "denialLimit": 2`
	t.Run("accepted", func(t *testing.T) {
		d := prepare(t, watched(resource, ""))
		g := serveGauge(d, 99, true)
		d.start()
		d.until(faultName, faultPath("hot"), faultName, "LastDecision", "GAVE_OVER")
		assert.Equal(t, 1, g.called())
		assert.Equal(t, "NONE", d.fault("hot", "NextAction"))
	})
	t.Run("case 62", func(t *testing.T) {
		d := prepare(t, watched(resource, ""))
		g := serveGauge(d, 99, false)
		d.start()
		d.untilChanged("quiesced", func() bool {
			return strings.Contains(fmt.Sprint(d.fault("hot", "StatusMessage")), "quiesced after 2 refused escalations: failovers are not allowed: FullSyncNotComplete")
		})
		assert.Zero(t, g.called())
	})
	t.Run("case 63", func(t *testing.T) {
		d := prepare(t, watched(resource, ""))
		g := serveGauge(d, 40, true)
		d.start()
		d.untilFault("hot", "OK")
		g.SetMust(pairName, "Role", pairName+".Role.Passive")
		g.SetMust(gaugeName, "Temperature", int32(99))
		d.untilChanged("held back", func() bool {
			return strings.Contains(fmt.Sprint(d.fault("hot", "StatusMessage")), "waiting for passive role")
		})
		assert.Zero(t, g.called())
		g.SetMust(pairName, "Role", pairName+".Role.Active")
		d.until(faultName, faultPath("hot"), faultName, "LastDecision", "GAVE_OVER")
	})
}

// A configured condition of the whole BMC holds everything back while it is
// there.
func TestFaultMonitorInhibit(t *testing.T) {
	inhibit := `"inhibit": [{"reason": "code update", "service": "org.example.Gauge", "path": "/xyz/openbmc_project/state/bmc0",
		"interface": "org.example.Gauge", "property": "Busy", "equals": "true"}], `
	// Busy is known long before the loss counts.
	d := prepare(t, strings.Replace(watched(hostResource, inhibit), `"powerDebounce": "200ms"`, `"powerDebounce": "2s"`, 1))
	g := serveGauge(d, 40, true)
	d.start()
	d.on()
	d.untilFault("host0", "OK")
	g.SetMust(gaugeName, "Busy", true)
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.untilChanged("held back", func() bool {
		return strings.Contains(fmt.Sprint(d.fault("host0", "StatusMessage")), "waiting for code update")
	})
	assert.Empty(t, d.byMonitor())
	g.SetMust(gaugeName, "Busy", false)
	d.untilHost("Running")
	d.untilFault("host0", "OK")
	assert.Equal(t, []string{"Reboot Success"}, d.byMonitor())
}

// An error that blocks power is no failure of the host and no denial, however long
// it stands: the restart waits for it.
func TestFaultMonitorWaitsForAnErrorGate(t *testing.T) {
	const (
		logging = "xyz.openbmc_project.Logging"
		block   = "/xyz/openbmc_project/logging/block1"
		marker  = "xyz.openbmc_project.Logging.ErrorBlocksTransition"
	)
	d := prepare(t, watched(hostResource+`, "denialLimit": 1`, ""))
	mapper := d.bus.StartMapper(t)
	log := d.startBlocker(logging, block, marker)
	d.start()
	d.on()
	d.untilFault("host0", "OK")
	log.begin()
	mapper.WaitFor(t, logging, block, marker)
	d.untilAnswer(unavailableName, func() error { return d.cset("On") }) // is on already, so nothing but the gate matters
	attempts := func() any { return d.get(hostName, hostPath, attemptsIface, "AttemptsLeft") }
	left := attempts()
	d.stimulate(gpio.Stimulus{Do: gpio.DoDropPower})
	d.untilChanged("held back", func() bool {
		return strings.Contains(fmt.Sprint(d.fault("host0", "StatusMessage")), "An error in the event log blocks power")
	})
	assert.Equal(t, "POSTPONED", d.fault("host0", "LastDecision"))
	assert.Empty(t, d.byMonitor())
	assert.Equal(t, left, attempts())
	log.end()
	d.untilHost("Running")
	d.untilFault("host0", "OK")
	assert.Equal(t, []string{"Reboot Success"}, d.byMonitor())
}
