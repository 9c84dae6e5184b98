//go:build bed1 || bed5

package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// scenario is one case. The board has power before it when setup.on says so.
type scenario struct {
	name  string
	setup func() setup
	run   func(t *testing.T, b *bmc)
}

func off() setup { return stock() }

func on() setup {
	s := stock()
	s.on = true
	return s
}

// scenarios are the cases of both beds.
func scenarios() []scenario {
	return []scenario{
		{"On", off, powerOn},
		{"GracefulOff", on, gracefulOff},
		{"GracefulOffOfAHungGuest", on, gracefulOffHung},
		{"ForcedOff", on, forcedOff},
		{"Cycle", on, powerCycle},
		{"Reboot", on, reboot},
		{"WarmReset", on, warmReset},
		{"PowerLoss", on, powerLoss},
		{"RestartUnderARunningHost", on, restartRunning},
		{"KilledWhilePressing", killable, killedWhilePressing},
		{"PowerButton", off, powerButton},
		{"ResetButton", on, resetButton},
	}
}

// verdict has the end of a case said at once: the testing package keeps that to
// itself until the last of its siblings is through.
func verdict(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		word := "PASS"
		switch {
		case t.Failed():
			word = "FAIL"
		case t.Skipped():
			word = "SKIP"
		}
		fmt.Printf("BED-CASE %s %s\n", word, t.Name())
	})
}

// about says that a pulse can have been as wide as was asked for, as far as a board
// can tell that looks at its wires now and then. The exact figures are TestLatency's.
func about(t *testing.T, want time.Duration, got board.Pulse) {
	t.Helper()
	assert.Greater(t, got.Longest, want/2)
	assert.Less(t, got.Shortest, want*stretch)
}

func powerOn(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.await(t, hostState, "Running")
	b.await(t, chassisState, "On")
	b.await(t, osState, "Standby")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 1)
	assert.Len(t, widths, 1)
	about(t, 200*time.Millisecond, widths[0])
	assert.Empty(t, b.board.Pulses(mark, "RESET_OUT"))
	assert.Equal(t, []string{"TransitioningToRunning", "Running"}, b.valuesOf(t, hostState))
	assert.Equal(t, []string{"TransitioningToOn", "On"}, b.valuesOf(t, chassisState))

	// Asked once more, nothing happens.
	before := b.get(t, launches)
	b.set(t, hostRequest, "On")
	b.set(t, chassisRequest, "On")
	assert.Equal(t, before, b.get(t, launches))
	assert.Len(t, b.board.Pulses(mark, "POWER_OUT"), 1)
}

func gracefulOff(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.set(t, hostRequest, "Off")
	b.await(t, chassisState, "Off")
	b.await(t, hostState, "Off")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 1)
	assert.Len(t, widths, 1, "the guest went by itself")
	about(t, 200*time.Millisecond, widths[0])
	assert.Equal(t, []string{"TransitioningToOff", "Off"}, b.valuesOf(t, hostState))
}

func gracefulOffHung(t *testing.T, b *bmc) {
	b.board.Do(func(x *board.Board) { x.Guest = board.GuestHangs })
	mark := b.board.Mark()
	b.set(t, hostRequest, "Off")
	b.await(t, chassisState, "Off")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 2)
	assert.Len(t, widths, 2, "asked, waited, then forced")
	about(t, 200*time.Millisecond, widths[0])
	assert.Greater(t, widths[1].Width, b.timing.ForceHold)
}

func forcedOff(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
	b.await(t, hostState, "Off")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 1)
	assert.Len(t, widths, 1)
	assert.Greater(t, widths[0].Width, b.timing.ForceHold)
	assert.Less(t, widths[0].Width, 6*time.Second, "held on after power was gone")
}

// passage asserts that power went and came again.
func passage(t *testing.T, b *bmc, mark int) {
	t.Helper()
	edges := b.board.Since(mark, "PS_PWROK")
	if assert.Len(t, edges, 2) {
		assert.False(t, edges[0].Asserted)
		assert.True(t, edges[1].Asserted)
		assert.GreaterOrEqual(t, edges[1].At-edges[0].At, 500*time.Millisecond, "the dwell between off and on")
	}
}

func powerCycle(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.set(t, chassisRequest, "PowerCycle")
	b.awaitPulses(t, mark, "POWER_OUT", 2)
	b.await(t, hostState, "Running")
	b.await(t, chassisState, "On")
	passage(t, b, mark)
	widths := b.board.Pulses(mark, "POWER_OUT")
	assert.Len(t, widths, 2)
	assert.Greater(t, widths[0].Width, b.timing.ForceHold)
	assert.Contains(t, b.valuesOf(t, chassisState), "Off")
}

func reboot(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.set(t, hostRequest, "Reboot")
	b.awaitPulses(t, mark, "POWER_OUT", 2)
	b.await(t, hostState, "Running")
	passage(t, b, mark)
	for _, w := range b.board.Pulses(mark, "POWER_OUT") {
		about(t, 200*time.Millisecond, w)
	}
}

func warmReset(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.set(t, hostRequest, "ForceWarmReboot")
	widths := b.awaitPulses(t, mark, "RESET_OUT", 1)
	about(t, 200*time.Millisecond, widths[0])
	b.awaitLine(t, "POST_COMPLETE", true)
	b.await(t, osState, "Standby")
	b.await(t, hostState, "Running")
	assert.Empty(t, b.board.Since(mark, "PS_PWROK"), "a reset leaves power alone")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
	assert.Contains(t, b.valuesOf(t, osState), "Inactive")
}

// powerLoss takes power away from a host whose last start had a cause, which is
// not that of the loss.
func powerLoss(t *testing.T, b *bmc) {
	b.set(t, hostRequest, "ForceWarmReboot")
	b.await(t, restartCause, "RemoteCommand")
	assert.Equal(t, "IpmiCommand", b.get(t, privateCause))
	b.awaitPulses(t, 0, "RESET_OUT", 1)
	b.awaitLine(t, "POST_COMPLETE", true)
	b.await(t, osState, "Standby")
	b.await(t, hostState, "Running")
	b.sh(t, "sleep 1.1; "+logFromNow)
	mark := b.board.Mark()
	b.board.Do((*board.Board).LosePower)
	b.await(t, chassisState, "Off")
	b.await(t, hostState, "Off")
	b.await(t, osState, "Inactive")
	b.await(t, restartCause, "Unknown")
	assert.Equal(t, "Unknown", b.get(t, privateCause))
	b.awaitLog(t, "power good was lost")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"), "nobody asked for power")
	b.board.Do((*board.Board).GainPower)
	b.await(t, hostState, "Running")
	assert.Equal(t, "Unknown", b.get(t, restartCause))
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
	assert.Empty(t, b.board.Pulses(mark, "RESET_OUT"))
}

func restartRunning(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	old := b.daemonPID(t)
	b.sh(t, "systemctl restart bmcstated")
	b.awaitStarted(t, old)
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
	b.await(t, osState, "Standby")
	b.await(t, powerStatus, "Good")
	assert.Empty(t, b.board.Since(mark, "POWER_OUT"))
	assert.Empty(t, b.board.Since(mark, "RESET_OUT"))
	assert.Equal(t, "0", b.get(t, launches))
}

// killable is started again only restartDelay after it died: a line must not stay
// pressed that long.
func killable() setup {
	s := on()
	s.timings["ForceOffPulseMs"] = 60000
	s.unit = "[Service]\nRestartSec=" + restartDelay.String()
	return s
}

// killedWhilePressing is the case for a controller that keeps the level of a line
// whose owner died. The hold has no effect, so it is still there to be seen.
func killedWhilePressing(t *testing.T, b *bmc) {
	b.board.Do(func(x *board.Board) { x.Faults.StuckOn = true })
	b.set(t, chassisRequest, "Off")
	b.awaitLine(t, "POWER_OUT", true)
	pid := b.daemonPID(t)
	died := time.Now()
	b.sh(t, "kill -KILL "+pid)
	b.awaitLine(t, "POWER_OUT", false)
	took := time.Since(died)
	t.Logf("released within %v of the kill, the order's way included", took.Round(time.Millisecond))
	assert.Less(t, took, restartDelay, "released only by the next start")
	b.board.Do(func(x *board.Board) { x.Faults.StuckOn = false })
	b.await(t, chassisState, "Off") // P3: a hold is repeated while power reads on
}

// powerButton is pressed by a finger: the board reacts by itself, and the BMC
// watches.
func powerButton(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.board.Press("POWER_BUTTON", true)
	b.awaitLine(t, "PS_PWROK", true)
	b.board.Press("POWER_BUTTON", false)
	b.await(t, hostState, "Running")
	b.await(t, osState, "Standby")

	b.press(t, "POWER_BUTTON", 200*time.Millisecond)
	b.await(t, chassisState, "Off")
	b.await(t, hostState, "Off")
	b.await(t, restartCause, "PowerButton")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"), "the button is enough")
}

func resetButton(t *testing.T, b *bmc) {
	mark := b.board.Mark()
	b.press(t, "RESET_BUTTON", 200*time.Millisecond)
	b.awaitLine(t, "POST_COMPLETE", true)
	b.await(t, osState, "Standby")
	b.await(t, hostState, "Running")
	assert.Empty(t, b.board.Pulses(mark, "RESET_OUT"), "the button is enough")
	assert.Empty(t, b.board.Since(mark, "PS_PWROK"))
}

// press holds a button for a while, at least until the board has seen it.
func (b *bmc) press(t *testing.T, button string, width time.Duration) {
	t.Helper()
	b.board.Press(button, true)
	b.awaitLine(t, button, true)
	time.Sleep(width) // the width of the press itself
	b.board.Press(button, false)
	b.awaitLine(t, button, false)
}
