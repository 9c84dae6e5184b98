package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// fourHosts is four hosts on four chassis in one daemon. Host 2 is number 1 here.
// Their OS takes its time to power off, so that the power is read on while it is
// asked to: where it may have been off before that, powerOKWatchdog is waited for a
// start by the press.
const fourHosts = `{"gracefulTimeout": "10m", "depthLimit": 200, "share": 200, "connShare": 200,
	"simulate": {"count": 4, "timings": {"powerGoodDelay": "20ms", "postDelay": "10ms", "guestShutdown": "300ms", "powerOKWatchdog": "10s", "powerPulse": "10ms", "powerCycle": "10ms", "overrideHold": "2s"}}}`

// load is what one client asks of each host, and of its chassis, again and again.
var load = []string{"Host.On", "Host.Reboot", "Host.Off", "Chassis.On", "Chassis.PowerCycle", "Chassis.Off"}

const rounds = 4

// forced operations overtake what waits, so they are asked for when nothing does.
var forced = map[string]bool{"Chassis.PowerCycle": true, "Chassis.Off": true}

// TestStuckHostDelaysNobody has hosts 1, 3 and 4 worked hard while the OS of host
// 2 does not power off. All that they were asked for is done, in the order asked,
// while host 2 still runs what it was asked for before.
func TestStuckHostDelaysNobody(t *testing.T) {
	d := boot(t, fourHosts)
	const stuck = 1
	submit := func(conn *godbus.Conn, host int, id, op string) {
		t.Helper()
		var status string
		var path godbus.ObjectPath
		var repeated bool
		full := "xyz.openbmc_project.State." + strings.Replace(op, ".", ".Transition.", 1)
		queue := conn.Object(queueName, godbus.ObjectPath(fmt.Sprintf("/xyz/openbmc_project/state/queue%d", host)))
		var err error
		d.eventually("the disk", func() bool {
			err = queue.Call(queueName+".Submit", 0, fmt.Sprintf("load%d", host), id, full, map[string]godbus.Variant{}).Store(&status, &path, &repeated)
			return err == nil || !strings.Contains(err.Error(), "must be written first") // a slow disk owes a power off
		})
		require.NoError(t, err)
	}
	submit(d.conn, stuck, "on", "Host.On")
	d.untilQueue(stuck, 1)
	require.NoError(t, gpio.Stimulate(d.runDir, stuck, gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{GuestHangsOnShutdown: true}}))
	submit(d.conn, stuck, "off", "Host.Off")
	for i := range 20 {
		submit(d.conn, stuck, fmt.Sprintf("behind-%d", i), "Host.Reboot")
	}

	others := []int{0, 2, 3}
	conns := map[int]*godbus.Conn{}
	for _, h := range others {
		conns[h] = d.bus.Connect(t)
	}
	for n := range rounds * len(load) {
		op := load[n%len(load)]
		for _, h := range others {
			if forced[op] {
				d.untilQueue(h, n)
			}
			submit(conns[h], h, fmt.Sprintf("%d-%d", n/len(load), n%len(load)), op)
		}
	}
	for _, h := range others {
		d.untilQueue(h, rounds*len(load))
		records := d.recordsOf(h)
		require.Len(t, records, rounds*len(load))
		for n, rec := range records {
			assert.Equal(t, fmt.Sprintf("%d-%d", n/len(load), n%len(load)), rec["RequestId"].Value(), "host %d, in the order asked", h)
			assert.Equal(t, "Success", last(rec["Status"].Value()), "host %d, request %d: %v", h, n, rec["Reason"].Value())
		}
		assert.Equal(t, uint64(rounds*len(load)), d.get(queueName, fmt.Sprintf("/xyz/openbmc_project/state/queue%d", h), queueName, "Launches"))
		assert.Equal(t, shorts.Replace("HS.Off"), d.get(hostName+fmt.Sprint(h), fmt.Sprintf("/xyz/openbmc_project/state/host%d", h), hostName, "CurrentHostState"))
		assert.Equal(t, shorts.Replace("PS.Off"), d.get(chassisName+fmt.Sprint(h), fmt.Sprintf("/xyz/openbmc_project/state/chassis%d", h), chassisName, "CurrentPowerState"))
	}
	records := d.recordsOf(stuck)
	require.Len(t, records, 22)
	assert.Equal(t, "Running", last(records[1]["Status"].Value()), "host 2 has not moved on meanwhile")
	for _, rec := range records[2:] {
		assert.Equal(t, "Pending", last(rec["Status"].Value()))
	}
	assert.Equal(t, uint64(2), d.get(queueName, fmt.Sprintf("/xyz/openbmc_project/state/queue%d", stuck), queueName, "Launches"))

	// And a power off of host 2 needs none of that to end.
	submit(d.conn, stuck, "cut", "Chassis.Off")
	d.untilQueue(stuck, 23)
	assert.Equal(t, "Success", last(d.recordsOf(stuck)[22]["Status"].Value()))
}

func last(v any) string {
	s := v.(string)
	return s[strings.LastIndexByte(s, '.')+1:]
}

func (d *daemon) recordsOf(domain int) []map[string]godbus.Variant {
	d.t.Helper()
	var all []map[string]godbus.Variant
	require.NoError(d.t, d.conn.Object(queueName, godbus.ObjectPath(fmt.Sprintf("/xyz/openbmc_project/state/queue%d", domain))).
		Call(queueName+".History", 0, uint64(0), uint32(1000)).Store(&all))
	return all
}

// untilQueue waits until a domain's queue has ended n requests and has no other.
func (d *daemon) untilQueue(domain, n int) {
	d.t.Helper()
	path := godbus.ObjectPath(fmt.Sprintf("/xyz/openbmc_project/state/queue%d", domain))
	d.eventually("the queue's rest", func() bool { return d.rests(path) && len(d.recordsOf(domain)) == n })
}

// restoreStagger: whatever lets the restore policies go, the first host comes
// first. Here the last is let go first.
func TestRestoreStaggerOfFourHosts(t *testing.T) {
	statetest.Covers(t, "C17")
	d := boot(t, `{"settings": "serve", "restoreSettle": "300ms", "restoreStagger": "2s", "simulate": {"count": 4,
		"timings": {"powerOKWatchdog": "30s", "overrideHold": "30s", "powerGoodDelay": "20ms", "postDelay": "10ms", "powerPulse": "10ms"}}}`)
	d.untilSettings()
	policy := func(h int) godbus.BusObject {
		return d.conn.Object(settingsName, godbus.ObjectPath(fmt.Sprintf("/xyz/openbmc_project/control/host%d/power_restore_policy", h)))
	}
	for h := range 4 {
		name := fmt.Sprint(hostName, h)
		require.NoError(t, d.set(name, fmt.Sprintf("/xyz/openbmc_project/state/host%d", h), hostName, "RequestedHostTransition", shorts.Replace("HT.On")))
		require.Equal(t, "Success", last(d.untilEnded(h, 1)["Status"].Value()))
	}
	for h := range 4 { // these are in the journal when they are answered, and so is that the hosts are on
		require.NoError(t, policy(h).SetProperty(restoreIface+".PowerRestoreDelay", godbus.MakeVariant(uint64(time.Hour.Microseconds()))))
		require.NoError(t, policy(h).SetProperty(restoreIface+".PowerRestorePolicy", godbus.MakeVariant(policyName("AlwaysOn"))))
	}
	lost := d.serveLogging()
	d.acLoss()
	for range 4 {
		require.Contains(t, d.entry(lost), "Blackout") // from here on the policy waits
	}
	for h := range 4 {
		assert.Len(t, d.recordsOf(h), 1, "the delay holds host %d back", h)
	}

	var set [4]*godbus.Call
	for h := 3; h >= 0; h-- {
		set[h] = policy(h).Go(propsIface+".Set", 0, make(chan *godbus.Call, 1), restoreIface, "PowerRestoreDelay", godbus.MakeVariant(uint64(0)))
	}
	var seq []uint64
	for h := range 4 {
		require.NoError(t, (<-set[h].Done).Err)
		rec := d.untilEnded(h, 2)
		assert.Equal(t, "internal.restore", rec["ClientId"].Value(), "host %d", h)
		assert.Equal(t, "Success", last(rec["Status"].Value()), "host %d", h)
		seq = append(seq, rec["Sequence"].Value().(uint64))
	}
	assert.IsIncreasing(t, seq, "in the order of the hosts")
}

// untilEnded waits until the n-th request of a domain, whoever made it, has a final
// status, and returns its record.
func (d *daemon) untilEnded(domain, n int) (rec map[string]godbus.Variant) {
	d.t.Helper()
	d.untilChanged(fmt.Sprintf("the end of request %d of domain %d", n, domain), func() bool {
		all := d.recordsOf(domain)
		if len(all) < n {
			return false
		}
		rec = all[n-1]
		return rec["Ended"].Value() != uint64(0)
	})
	return rec
}
