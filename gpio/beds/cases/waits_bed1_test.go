//go:build bed1

package cases

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// otherWait is something that waits when Chassis Off comes.
type otherWait struct {
	name  string
	setup func() setup
	wires func(*testing.T, *chip) // before the daemon starts; may be nil
	fault func(*board.Board)      // may be nil
	begin func(*testing.T, *bmc)
	until func(*testing.T, *bmc)
}

// otherWaits are all that a sequence of this board can wait for.
func otherWaits() []otherWait {
	host := func(value string) func(*testing.T, *bmc) {
		return func(t *testing.T, b *bmc) { b.set(t, hostRequest, value) }
	}
	pressed := func(line string) func(*testing.T, *bmc) {
		return func(t *testing.T, b *bmc) { b.awaitPulses(t, 0, line, 1) }
	}
	hangs := func(x *board.Board) { x.Guest = board.GuestHangs }
	return []otherWait{
		{
			name: "power good", setup: off,
			fault: func(x *board.Board) { x.Timing.PowerGood = 2 * time.Second },
			begin: host("On"), until: pressed("POWER_OUT"),
		},
		{
			name: "SIO power good", setup: withSIO, wires: func(t *testing.T, c *chip) {
				require.NoError(t, c.Drive("SIO_POWER_GOOD", false))
			},
			begin: host("On"), until: func(t *testing.T, b *bmc) { b.await(t, chassisState, "On") },
		},
		{name: "graceful off", setup: on, fault: hangs, begin: host("Off"), until: pressed("POWER_OUT")},
		{name: "graceful half of a reboot", setup: on, fault: hangs, begin: host("Reboot"), until: pressed("POWER_OUT")},
		{
			name: "dwell of a cycle", setup: func() setup {
				s := on()
				s.timings["PowerCycleMs"] = 5000
				return s
			},
			begin: func(t *testing.T, b *bmc) { b.set(t, chassisRequest, "PowerCycle") },
			until: func(t *testing.T, b *bmc) { b.await(t, chassisState, "Off") },
		},
		{
			name: "POST complete", setup: func() setup {
				s := off()
				s.daemon["hostRunning"] = "postComplete"
				return s
			},
			fault: func(x *board.Board) { x.Timing.Post = time.Minute },
			begin: host("On"), until: func(t *testing.T, b *bmc) { b.await(t, chassisState, "On") },
		},
		{
			name: "confirmation of a reset", setup: on,
			fault: func(x *board.Board) { x.Faults.ResetDead = true },
			begin: host("ForceWarmReboot"), until: pressed("RESET_OUT"),
		},
		{
			name: "reconciliation", setup: func() setup {
				s := on()
				s.daemon["confirmTimeout"], s.daemon["reconcileTimeout"] = "1s", "60s"
				return s
			},
			fault: func(x *board.Board) { x.Faults.ResetDead = true },
			begin: host("ForceWarmReboot"), until: func(t *testing.T, b *bmc) { b.awaitRunning(t, "Unknown") },
		},
	}
}

// withSIO is a host that is off, with a SIO that takes its time.
func withSIO() setup {
	s := off()
	s.signals["SioPowerGood"] = gpioSignal("SIO_POWER_GOOD", "ActiveHigh")
	s.signals["SioOnControl"] = gpioSignal("SIO_ONCONTROL", "ActiveLow")
	s.signals["SIOS5"] = gpioSignal("SIO_S5", "ActiveLow")
	s.timings["SioPowerGoodWatchdogMs"] = 60000
	return s
}

// awaitRunning waits until the running request has a status.
func (b *bmc) awaitRunning(t *testing.T, status string) {
	t.Helper()
	require.Eventually(t, func() bool {
		running, err := b.peek(t, property{queueName, queuePath, queueName, "Running", ""})
		if err != nil || running == "/" {
			return false
		}
		value, err := b.peek(t, property{queueName, running, requestName, "Status", requestName + ".Status."})
		return err == nil && value == status
	}, patience, 200*time.Millisecond, "the running request does not become %s", status)
}

// TestChassisOffDuringEveryOtherWait cuts power while something else waits. Off
// must get through, and nothing of the older operation may raise power again.
func TestChassisOffDuringEveryOtherWait(t *testing.T) {
	for _, tt := range otherWaits() {
		t.Run(tt.name, func(t *testing.T) {
			verdict(t)
			s := tt.setup()
			b, c := localBMC(t, s)
			if tt.wires != nil {
				tt.wires(t, c)
			}
			if tt.fault != nil {
				b.board.Do(tt.fault)
			}
			b.start(t, s)
			tt.begin(t, b)
			tt.until(t, b)
			b.set(t, chassisRequest, "Off")
			b.await(t, chassisState, "Off")
			b.await(t, hostState, "Off")
			b.awaitLine(t, "PS_PWROK", false)
			b.awaitLine(t, "POWER_OUT", false)
			mark := b.board.Mark()
			time.Sleep(1500 * time.Millisecond) // longer than the dwell of the stock set-up
			assert.Empty(t, b.board.Since(mark, "POWER_OUT"), "something raised power after the Off")
			assert.False(t, b.board.Asserted("PS_PWROK"))
		})
	}
}

// TestChassisOffTakesAHeldButtonOver: a press that is under way becomes the hold
// that cuts power, and the button is not let go in between.
func TestChassisOffTakesAHeldButtonOver(t *testing.T) {
	s := on()
	s.timings["PowerPulseMs"] = 800
	b, _ := startedBMC(t, s)
	mark := b.board.Mark()
	b.set(t, hostRequest, "Off")
	b.awaitLine(t, "POWER_OUT", true)
	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 1)
	assert.Len(t, widths, 1)
	assert.Greater(t, widths[0].Width, b.timing.ForceHold)
}
