//go:build bed1

package cases

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGlitches toggles power good faster than anyone can follow. The board does
// not look meanwhile: its wires are the test's.
func TestGlitches(t *testing.T) {
	b, c := startedBMC(t, on())
	mark := b.board.Mark()
	b.board.Unplug(true)
	for i := range 200 {
		require.NoError(t, c.Drive("PS_PWROK", i%2 == 1))
		time.Sleep(50 * time.Microsecond)
	}
	high, err := c.Read("PS_PWROK")
	require.NoError(t, err)
	require.True(t, high)
	b.board.Unplug(false)
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
	b.await(t, osState, "Standby")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
	if states := b.valuesOf(t, chassisState); len(states) > 0 {
		assert.Equal(t, "On", states[len(states)-1])
	}

	// What was seen is not held against the next request.
	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
}

func TestShortDropIsDebounced(t *testing.T) {
	s := on()
	s.signals["PowerOk"]["debounce"] = "500ms"
	b, c := startedBMC(t, s)
	mark := b.board.Mark()
	b.board.Unplug(true)
	require.NoError(t, c.Drive("PS_PWROK", false))
	time.Sleep(5 * time.Millisecond) // the drop
	require.NoError(t, c.Drive("PS_PWROK", true))
	b.board.Unplug(false)
	// The button's edge comes after the drop, so the drop has been dealt with
	// once that is published.
	b.press(t, "ID_BUTTON", 600*time.Millisecond)
	b.await(t, chassisState, "On")
	assert.Empty(t, b.valuesOf(t, chassisState), "the drop came through")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))
}

// hold has another process take a line until the returned function is called.
func hold(t *testing.T, c *chip, line string) (free func()) {
	t.Helper()
	holder := exec.Command("gpiomon", "--silent", c.dev, strconv.Itoa(c.at[line]))
	require.NoError(t, holder.Start())
	var freed bool
	free = func() {
		if freed {
			return
		}
		freed = true
		assert.NoError(t, holder.Process.Kill())
		_ = holder.Wait() // it was killed
	}
	t.Cleanup(free)
	require.Eventually(t, func() bool {
		out, err := exec.Command("gpioinfo", c.dev).Output()
		return err == nil && strings.Contains(string(out), "gpiomon")
	}, within, 50*time.Millisecond)
	return free
}

// TestPowerGoodHeldByAnother: the daemon serves its objects, knows that it does
// not know, says which line it is, and goes on by itself when the line is free.
func TestPowerGoodHeldByAnother(t *testing.T) {
	b, c := localBMC(t, on())
	free := hold(t, c, "PS_PWROK")
	b.sh(t, installed(t, on()))
	t.Cleanup(func() { b.stop(t) })
	b.sh(t, "systemctl start bmcstated")
	b.await(t, powerStatus, "Undefined")
	b.awaitLog(t, "PS_PWROK")

	free()
	b.await(t, powerStatus, "Good")
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
	assert.Empty(t, b.board.Pulses(0, "POWER_OUT"))
	assert.Empty(t, b.board.Pulses(0, "RESET_OUT"))
}

// TestPowerOutHeldByAnother: a press that cannot be made fails and says so; the
// state does not pretend.
func TestPowerOutHeldByAnother(t *testing.T) {
	b, c := localBMC(t, off())
	free := hold(t, c, "POWER_OUT")
	b.start(t, off())
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.awaitLog(t, "POWER_OUT")
	b.await(t, hostState, "Off")
	b.await(t, chassisState, "Off")
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"))

	free()
	require.Eventually(t, func() bool {
		b.set(t, hostRequest, "On")
		value, err := b.peek(t, hostState)
		return err == nil && value != "Off"
	}, patience, 500*time.Millisecond)
	b.await(t, hostState, "Running")
}

func TestMissingLine(t *testing.T) {
	s := on()
	s.signals["ResetOut"]["LineName"] = "NO_SUCH_LINE"
	b, _ := startedBMC(t, s)
	b.awaitLog(t, "NO_SUCH_LINE")
	b.await(t, hostState, "Running")
	mark := b.board.Mark()
	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
	assert.Len(t, b.awaitPulses(t, mark, "POWER_OUT", 1), 1, "the other lines work")
}

func TestChipGoesAndReturns(t *testing.T) {
	b, c := startedBMC(t, on())
	b.board.Unplug(true)
	c.unplug(t)
	b.await(t, powerStatus, "Undefined")
	before := b.cpuOfDaemon(t)
	time.Sleep(2 * time.Second) // a span to measure, not a wait
	assert.Less(t, b.cpuOfDaemon(t)-before, time.Second, "processor time used in 2 s without a chip")

	c.plug(t)
	require.NoError(t, b.board.Redrive())
	b.board.Unplug(false)
	b.await(t, powerStatus, "Good")
	b.await(t, chassisState, "On")
	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
}
