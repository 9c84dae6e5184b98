package scenarios

import (
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

const (
	updaterName = "xyz.openbmc_project.Software.BMC.Updater"
	activation  = godbus.ObjectPath("/xyz/openbmc_project/software/1234")
	blocks      = "xyz.openbmc_project.Software.ActivationBlocksTransition"
)

// updater is the daemon that updates firmware, or another with an object that may
// block transitions.
type updater struct {
	d    *daemon
	path godbus.ObjectPath
	mark string // the interface that does
	conn *godbus.Conn
	xml  atomic.Value // string: what the object has
}

// Introspect is exported once: godbus's export races with a call.
func (u *updater) Introspect() (string, *godbus.Error) { return u.xml.Load().(string), nil }

func (d *daemon) startUpdater() *updater { return d.startBlocker(updaterName, activation, blocks) }

func (d *daemon) startBlocker(name string, object godbus.ObjectPath, mark string) *updater {
	u := &updater{d: d, path: object, mark: mark, conn: d.bus.Connect(d.t)}
	u.show()
	require.NoError(d.t, u.conn.Export(u, object, "org.freedesktop.DBus.Introspectable"))
	_, err := u.conn.RequestName(name, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return u
}

// begin has the object block transitions, as phosphor-bmc-code-mgmt's does.
func (u *updater) begin() {
	u.show(u.mark)
	u.signal("InterfacesAdded", map[string]map[string]godbus.Variant{u.mark: {}})
}

func (u *updater) end() {
	u.show()
	u.signal("InterfacesRemoved", []string{u.mark})
}

func (u *updater) show(ifaces ...string) {
	node := introspect.Node{Name: string(u.path)}
	for _, i := range ifaces {
		node.Interfaces = append(node.Interfaces, introspect.Interface{Name: i})
	}
	u.xml.Store(string(introspect.NewIntrospectable(&node)))
}

func (u *updater) signal(member string, what any) {
	require.NoError(u.d.t, u.conn.Emit(godbus.ObjectPath(path.Dir(string(u.path))), "org.freedesktop.DBus.ObjectManager."+member, u.path, what))
}

const unavailableName = "xyz.openbmc_project.Common.Error.Unavailable"

// untilAnswer repeats a write until its error has the name; "" is success.
func (d *daemon) untilAnswer(name string, write func() error) {
	d.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := write()
		if err == nil && name == "" || err != nil && errorName(err) == name {
			return
		}
		require.True(d.t, time.Now().Before(end), "%v is not %q", err, name)
	}
}

// S43, C12: an update under way keeps power from being applied, and never from
// being taken away.
func TestS43FirmwareGate(t *testing.T) {
	statetest.Covers(t, "S43", "C12")
	d := prepareTargets(t, systemdConfig)
	mapper := d.bus.StartMapper(t)
	u := d.startUpdater()
	u.begin()
	mapper.WaitFor(t, updaterName, string(activation), blocks)
	d.start()
	d.untilBMC("Ready")
	bmc := func(v string) func() error { return func() error { return d.mset(v) } }
	host := func(v string) func() error { return func() error { return d.hset(v) } }
	chassis := func(v string) func() error { return func() error { return d.cset(v) } }

	// That it was under way before we came is known once the mapper was asked;
	// until then this makes no sense with the power off.
	d.untilAnswer(unavailableName, host("Reboot"))
	for _, write := range []func() error{bmc("Reboot"), host("On"), host("GracefulWarmReboot"), host("ForceWarmReboot"), chassis("On"), chassis("PowerCycle")} {
		assert.Equal(t, unavailableName, errorName(write()))
	}
	require.NoError(t, d.hset("Off"))
	require.NoError(t, d.cset("Off"))
	d.idle()
	for _, r := range d.records() {
		if strings.HasSuffix(r["Status"].Value().(string), ".Invalid") {
			continue // from before the mapper was asked
		}
		assert.True(t, strings.HasSuffix(r["Transition"].Value().(string), ".Off"), "%v", r)
	}
	assert.Empty(t, d.sd.Calls("StartUnit"))
	assert.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))

	u.end()
	d.untilAnswer("", host("On"))
	d.started(1)
	d.done(powerOn, hostStartMin, hostStart)
	d.untilHost("Running")

	u.begin()                                     // while the host runs
	d.untilAnswer(unavailableName, chassis("On")) // until then it is on already
	assert.Equal(t, unavailableName, errorName(host("Reboot")()))
	require.NoError(t, d.cset("Off"), "never blocked")
	d.started(2)
	require.NoError(t, d.mset("HardReboot"))
	d.sd.WaitCalls("Reboot", 1)
}

// C12: an error in the event log that blocks transitions keeps power from being
// applied. Off passes, the BMC's own reboot is no matter of power, and what was
// refused leaves nothing behind.
func TestC12ErrorGate(t *testing.T) {
	statetest.Covers(t, "C12")
	const (
		logging = "xyz.openbmc_project.Logging"
		block   = "/xyz/openbmc_project/logging/block1"
		marker  = "xyz.openbmc_project.Logging.ErrorBlocksTransition"
	)
	d := prepareTargets(t, systemdConfig)
	mapper := d.bus.StartMapper(t)
	log := d.startBlocker(logging, block, marker)
	log.begin()
	mapper.WaitFor(t, logging, block, marker)
	d.start()
	d.untilBMC("Ready")
	d.untilAnswer(unavailableName, func() error { return d.hset("Reboot") }) // makes no sense before, with the power off
	before := len(d.records())
	for _, v := range []string{"On", "Reboot", "GracefulWarmReboot", "ForceWarmReboot"} {
		assert.Equal(t, unavailableName, errorName(d.hset(v)), v)
	}
	for _, v := range []string{"On", "PowerCycle"} {
		assert.Equal(t, unavailableName, errorName(d.cset(v)), v)
	}
	assert.Len(t, d.records(), before)
	require.NoError(t, d.hset("Off"))
	require.NoError(t, d.cset("Off"))
	d.idle()
	assert.Empty(t, d.sd.Calls("StartUnit"))
	assert.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	assert.Equal(t, uint32(3), d.attempts())

	log.end() // the error was deleted
	d.untilAnswer("", func() error { return d.hset("On") })
	d.started(1)
	d.done(powerOn, hostStartMin, hostStart)
	d.untilHost("Running")

	log.begin()                                                          // while the host runs
	d.untilAnswer(unavailableName, func() error { return d.cset("On") }) // until then it is on already
	assert.Equal(t, unavailableName, errorName(d.hset("Reboot")))
	require.NoError(t, d.cset("Off"), "never blocked")
	d.started(2)
	require.NoError(t, d.mset("Reboot"))
}

// Without a mapper nothing is known to block.
func TestS43WithoutAMapper(t *testing.T) {
	statetest.Covers(t, "S43")
	d := bootTargets(t, systemdConfig)
	require.NoError(t, d.hset("On"))
	d.started(1)
}
