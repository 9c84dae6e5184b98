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

// patientConfig is systemdConfig with all the time that a mapper may need.
const patientConfig = `{"executor": "systemd", "confirmTimeout": "2s", "reconcileTimeout": "1s", "knownTimeout": "10m"}`

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
	d := prepareTargets(t, patientConfig)
	mapper := d.bus.StartMapper(t)
	u := d.startUpdater()
	u.begin()
	mapper.WaitFor(t, updaterName, string(activation), blocks)
	d.start()
	d.untilBMC("Ready")
	bmc := func(v string) func() error { return func() error { return d.mset(v) } }
	host := func(v string) func() error { return func() error { return d.hset(v) } }
	chassis := func(v string) func() error { return func() error { return d.cset(v) } }

	// That it was under way before we came is known once the mapper was asked; what
	// comes before that waits for it.
	d.untilAnswer(unavailableName, chassis("On"))
	for _, write := range []func() error{bmc("Reboot"), host("On"), host("GracefulWarmReboot"), host("ForceWarmReboot"), chassis("On"), chassis("PowerCycle")} {
		assert.Equal(t, unavailableName, errorName(write()))
	}
	require.NoError(t, d.hset("Off"))
	require.NoError(t, d.cset("Off"))
	d.idle()
	for _, r := range d.records() {
		if strings.HasSuffix(r["Status"].Value().(string), ".Failed") {
			continue // from before the mapper had answered
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
	d := prepareTargets(t, patientConfig)
	mapper := d.bus.StartMapper(t)
	log := d.startBlocker(logging, block, marker)
	log.begin()
	mapper.WaitFor(t, logging, block, marker)
	d.start()
	d.untilBMC("Ready")
	d.untilAnswer(unavailableName, func() error { return d.cset("On") })
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

const objectMapper = "xyz.openbmc_project.ObjectMapper"

// slowMapper is a mapper that answers when it is told to, with the objects that
// bear each mark.
type slowMapper struct {
	answer chan struct{}
	marked map[string][]string
}

func (m *slowMapper) GetSubTreePaths(_ string, _ int32, ifaces []string) ([]string, *godbus.Error) {
	<-m.answer
	return m.marked[ifaces[0]], nil
}

func (d *daemon) startSlowMapper(marked map[string][]string) *slowMapper {
	m := &slowMapper{answer: make(chan struct{}), marked: marked}
	conn := d.bus.Connect(d.t)
	require.NoError(d.t, conn.Export(m, "/xyz/openbmc_project/object_mapper", objectMapper))
	_, err := conn.RequestName(objectMapper, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return m
}

// endOf waits until a request that was accepted has ended, and returns its status
// and reason.
func (d *daemon) endOf(transition string) (status, reason string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		for _, r := range d.records() {
			if strings.HasSuffix(r["Transition"].Value().(string), transition) && r["Ended"].Value().(uint64) != 0 {
				status, reason = r["Status"].Value().(string), r["Reason"].Value().(string)
			}
		}
		return status != ""
	}, patience, 10*time.Millisecond)
	return status, reason
}

// S43: a request that comes before the mapper has answered waits for that; what is
// then found closed refuses it.
func TestS43RequestBeforeTheMapperAnswers(t *testing.T) {
	statetest.Covers(t, "S43")
	for name, marked := range map[string]map[string][]string{"open": nil, "closed": {blocks: {string(activation)}}} {
		t.Run(name, func(t *testing.T) {
			d := prepareTargets(t, patientConfig)
			m := d.startSlowMapper(marked)
			d.start()
			d.untilChassis("Off")
			require.NoError(t, d.hset("On"), "who asks is not kept waiting for long")
			require.Empty(t, d.sd.Calls("StartUnit"))
			close(m.answer)
			if name == "open" {
				require.Equal(t, []string{start(hostStart)}, d.started(1))
				return
			}
			status, reason := d.endOf("Host.Transition.On")
			require.Contains(t, status, "Failed")
			require.Contains(t, reason, "firmware update")
			require.Empty(t, d.sd.Calls("StartUnit"))
			require.Equal(t, uint32(3), d.attempts())
			require.Equal(t, unavailableName, errorName(d.hset("On")))
		})
	}
}

// A mapper that never answers keeps no machine off: after knownTimeout requests go
// on.
func TestS43MapperThatNeverAnswers(t *testing.T) {
	statetest.Covers(t, "S43")
	d := prepareTargets(t, systemdConfig)
	m := d.startSlowMapper(nil)
	defer close(m.answer)
	d.start()
	require.NoError(t, d.hset("On"))
	d.started(1)
}
