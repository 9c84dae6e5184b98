package scenarios

import (
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

// updater is the daemon that updates firmware.
type updater struct {
	d    *daemon
	conn *godbus.Conn
	xml  atomic.Value // string: what the object has
}

// Introspect is exported once: godbus's export races with a call.
func (u *updater) Introspect() (string, *godbus.Error) { return u.xml.Load().(string), nil }

func (d *daemon) startUpdater() *updater {
	u := &updater{d: d, conn: d.bus.Connect(d.t)}
	u.show()
	require.NoError(d.t, u.conn.Export(u, activation, "org.freedesktop.DBus.Introspectable"))
	_, err := u.conn.RequestName(updaterName, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return u
}

// begin has the object block transitions, as phosphor-bmc-code-mgmt's does.
func (u *updater) begin() {
	u.show(blocks)
	u.signal("InterfacesAdded", map[string]map[string]godbus.Variant{blocks: {}})
}

func (u *updater) end() {
	u.show()
	u.signal("InterfacesRemoved", []string{blocks})
}

func (u *updater) show(ifaces ...string) {
	node := introspect.Node{Name: string(activation)}
	for _, i := range ifaces {
		node.Interfaces = append(node.Interfaces, introspect.Interface{Name: i})
	}
	u.xml.Store(string(introspect.NewIntrospectable(&node)))
}

func (u *updater) signal(member string, what any) {
	require.NoError(u.d.t, u.conn.Emit("/xyz/openbmc_project/software", "org.freedesktop.DBus.ObjectManager."+member, activation, what))
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

	u.begin() // while the host runs
	d.untilAnswer(unavailableName, host("Reboot"))
	require.NoError(t, d.cset("Off"), "never blocked")
	d.started(2)
	require.NoError(t, d.mset("HardReboot"))
	d.sd.WaitCalls("Reboot", 1)
}

// Without a mapper nothing is known to block.
func TestS43WithoutAMapper(t *testing.T) {
	statetest.Covers(t, "S43")
	d := bootTargets(t, systemdConfig)
	require.NoError(t, d.hset("On"))
	d.started(1)
}
