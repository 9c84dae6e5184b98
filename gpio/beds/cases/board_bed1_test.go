//go:build bed1

package cases

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// rails is a host that is off, on a board that wants a rail up before the press.
func rails() setup {
	s := off()
	en, good := gpioSignal("RAIL_EN", "ActiveHigh"), gpioSignal("RAIL_GOOD", "ActiveHigh")
	en["direction"], good["direction"] = "output", "input"
	s.own = map[string]signal{"RailEn": en, "RailGood": good}
	s.powerOn = []signal{
		{"set": "RailEn", "to": true},
		{"await": "RailGood", "to": true, "ms": 3000},
		{"delay": 100},
		{"pulse": "PowerOut"},
	}
	return s
}

// railsBMC starts a daemon on such a board. The rail does not come by itself.
func railsBMC(t *testing.T) (*bmc, *chip) {
	t.Helper()
	b, c := localBMC(t, rails())
	require.NoError(t, c.Drive("RAIL_GOOD", false))
	b.start(t, rails())
	return b, c
}

// TestPowerOnInSteps: the rail, its power good, a pause, the press; the rail keeps
// its level over a restart, and goes after power has gone.
func TestPowerOnInSteps(t *testing.T) {
	b, c := railsBMC(t)
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.awaitLine(t, "RAIL_EN", true)
	b.await(t, hostState, "TransitioningToRunning")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"), "pressed before the rail is good")
	good := time.Now()
	require.NoError(t, c.Drive("RAIL_GOOD", true))
	b.awaitLine(t, "POWER_OUT", true)
	assert.GreaterOrEqual(t, time.Since(good), 100*time.Millisecond, "the pause")
	b.await(t, hostState, "Running")
	b.await(t, chassisState, "On")
	assert.Len(t, b.awaitPulses(t, mark, "POWER_OUT", 1), 1)

	fell := watchFor(t, c, "RAIL_EN", false)
	old := b.daemonPID(t)
	b.sh(t, "systemctl restart bmcstated")
	b.awaitStarted(t, old)
	b.await(t, hostState, "Running")
	assert.False(t, fell(), "the rail fell")

	mark = b.board.Mark()
	b.set(t, hostRequest, "Off")
	b.await(t, hostState, "Off")
	b.await(t, chassisState, "Off")
	b.awaitLine(t, "RAIL_EN", false)
	off, down := b.board.Since(mark, "PS_PWROK"), b.board.Since(mark, "RAIL_EN")
	if assert.Len(t, off, 1) && assert.Len(t, down, 1) {
		assert.Less(t, off[0].At, down[0].At, "the rail goes after power has gone")
	}
}

// TestPowerOnThatFailsInAStep takes back what it set, and presses nothing.
func TestPowerOnThatFailsInAStep(t *testing.T) {
	b, _ := railsBMC(t)
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.awaitLine(t, "RAIL_EN", true)
	b.awaitLine(t, "RAIL_EN", false)
	b.await(t, hostState, "Off")
	b.await(t, chassisState, "Off")
	b.awaitLog(t, "RailGood")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
}

// TestChassisOffDuringAStep: the rest of the sequence does not run.
func TestChassisOffDuringAStep(t *testing.T) {
	b, c := railsBMC(t)
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.awaitLine(t, "RAIL_EN", true)
	b.set(t, chassisRequest, "Off")
	b.awaitLine(t, "RAIL_EN", false)
	b.await(t, hostState, "Off")
	b.await(t, chassisState, "Off")
	require.NoError(t, c.Drive("RAIL_GOOD", true))
	time.Sleep(500 * time.Millisecond) // longer than the steps that were left
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
	assert.False(t, b.board.Asserted("RAIL_EN"))
}

// standby is a board with an output that gets its level once per boot.
func standby(s setup) setup {
	s.signals["HpmStbyEn"] = gpioSignal("HPM_STBY_EN", "ActiveHigh")
	return s
}

// TestResetState: with the host off, the output gets its level at the first start
// of a boot and keeps it over a restart.
func TestResetState(t *testing.T) {
	s := standby(off())
	b, c := localBMC(t, s)
	require.False(t, b.board.Asserted("HPM_STBY_EN"))
	b.start(t, s)
	b.awaitLine(t, "HPM_STBY_EN", true)
	assert.Equal(t, "0", b.get(t, launches), "that is no transition")

	fell := watchFor(t, c, "HPM_STBY_EN", false)
	old := b.daemonPID(t)
	b.sh(t, "systemctl restart bmcstated")
	b.awaitStarted(t, old)
	b.await(t, hostState, "Off")
	assert.False(t, fell(), "the output fell")
}

// TestResetStateBesideARunningHost: nothing moves (P7).
func TestResetStateBesideARunningHost(t *testing.T) {
	b, _ := startedBMC(t, standby(on()))
	b.await(t, hostState, "Running")
	b.set(t, hostRequest, "Off")
	b.await(t, hostState, "Off")
	assert.Empty(t, b.board.Pulses(0, "HPM_STBY_EN"))
}

// ofHost1 is a property of host 0 or of its chassis at those of host 1.
func ofHost1(p property) property {
	p.service += "1"
	p.path = strings.TrimSuffix(p.path, "0") + "1"
	return p
}

// TestSlotPower: the supply of a host's slot. Without it the host is off, whatever
// it did; with it again it stays off until it is asked.
func TestSlotPower(t *testing.T) {
	s := off()
	s.host, s.daemon["hosts"] = 1, 2
	s.signals["SlotPower"] = gpioSignal("SLOT_POWER", "ActiveHigh")
	b, _ := localBMC(t, s)
	host, request := ofHost1(hostState), ofHost1(hostRequest)
	slot, slotRequest := ofHost1(chassisState), ofHost1(chassisRequest)
	slot.path = root + "/chassis_system1"
	slotRequest.path = slot.path
	t.Cleanup(func() { b.stop(t) })
	b.sh(t, forget+installed(t, s)+"\nsystemctl start bmcstated")
	b.awaitLine(t, "SLOT_POWER", true) // its level at the start of a boot
	b.await(t, slot, "On")
	b.set(t, request, "On")
	b.await(t, host, "Running")

	mark := b.board.Mark()
	b.set(t, slotRequest, "Off")
	b.awaitLine(t, "SLOT_POWER", false)
	b.board.Do((*board.Board).LosePower)
	b.await(t, slot, "Off")
	b.await(t, host, "Off")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"), "no button is needed")

	b.set(t, slotRequest, "On")
	b.awaitLine(t, "SLOT_POWER", true)
	b.await(t, slot, "On")
	b.await(t, host, "Off")

	mark = b.board.Mark()
	b.set(t, slotRequest, "PowerCycle")
	b.awaitLine(t, "SLOT_POWER", false)
	b.awaitLine(t, "SLOT_POWER", true)
	b.await(t, slot, "On")
	edges := b.board.Since(mark, "SLOT_POWER")
	if assert.Len(t, edges, 2) {
		assert.Greater(t, edges[1].At-edges[0].Before, 200*time.Millisecond, "SlotPowerCycleMs")
	}
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
}
