//go:build bed1

package cases

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// numbered is a property of host 0 or of its chassis at those of host n.
func numbered(p property, n string) property {
	p.service += n
	p.path = strings.TrimSuffix(p.path, "0") + n
	return p
}

// onChip gives every signal the chip of its line.
func onChip(s setup, chip string) setup {
	for _, one := range s.signals {
		one["chip"] = chip
	}
	return s
}

// TestAllChassis: two boards on two chips, of chassis 1 and 2. chassis_system0,
// and chassis0, which no chassis is, act on both.
func TestAllChassis(t *testing.T) {
	first, second := onChip(off(), "bmc"), onChip(off(), "bmc2")
	first.host, second.host = 1, 2
	first.daemon["hosts"] = []map[string]int{{"host": 1, "chassis": 1}, {"host": 2, "chassis": 2}}
	first.daemon["chassisSystem"] = "aggregate"
	second.daemon = first.daemon
	a, _ := localBMC(t, first)
	b := boardOn(t, newChip(t, "bmc2", boardLines...), false)
	t.Cleanup(func() { a.stop(t) })
	keep := "cp /usr/share/x86-power-control/power-config-host1.json /run/\n"
	a.sh(t, forget+installed(t, first)+"\n"+keep+installed(t, second)+"\nmv /run/power-config-host1.json /usr/share/x86-power-control/\nsystemctl start bmcstated")

	system, request := chassisState, chassisRequest
	system.path, request.path = root+"/chassis_system0", root+"/chassis_system0"
	both := []*bmc{a, b}
	await := func(value string) {
		t.Helper()
		for _, n := range []string{"1", "2"} {
			a.await(t, numbered(chassisState, n), value)
		}
		a.await(t, chassisState, value)
		a.await(t, system, value)
	}
	await("Off")
	for _, c := range []struct {
		what    property
		value   string
		after   string
		presses int
	}{
		{request, "On", "On", 1}, {chassisRequest, "PowerCycle", "On", 2}, {request, "PowerCycle", "On", 2},
		{chassisRequest, "Off", "Off", 1}, {chassisRequest, "On", "On", 1}, {request, "Off", "Off", 1},
	} {
		marks := []int{a.board.Mark(), b.board.Mark()}
		a.set(t, c.what, c.value)
		for i, one := range both {
			one.awaitPulses(t, marks[i], "POWER_OUT", c.presses)
		}
		await(c.after)
		for i, one := range both {
			pulses := one.board.Pulses(marks[i], "POWER_OUT")
			assert.Len(t, pulses, c.presses, "board %d: %s %s", i+1, c.what.path, c.value)
		}
	}
}
