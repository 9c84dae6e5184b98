//go:build bed1

package cases

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// longScenarios are made of waits, which are free only where the clock jumps over
// them.
func longScenarios() []scenario {
	return []scenario{
		{"Idle", on, idle},
		{"ForcedOffThatFails", on, forcedOffStuck},
		{"PowerNeverGood", off, powerNeverGood},
	}
}

// idle says what the daemon costs when nothing happens.
func idle(t *testing.T, b *bmc) {
	b.await(t, osState, "Standby")
	before := b.cpuOfDaemon(t)
	const span = 10 * time.Second
	time.Sleep(span) // a span to measure, not a wait
	used := b.cpuOfDaemon(t) - before
	t.Logf("%v of the processor in %v", used, span)
	assert.Less(t, used, span/5)
}

func forcedOffStuck(t *testing.T, b *bmc) {
	b.board.Do(func(x *board.Board) { x.Faults.StuckOn = true })
	mark := b.board.Mark()
	b.set(t, chassisRequest, "Off")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 2)
	assert.GreaterOrEqual(t, len(widths), 2, "a hold that had no effect is repeated")
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
}

func powerNeverGood(t *testing.T, b *bmc) {
	b.board.Do(func(x *board.Board) { x.Faults.NoPowerGood = true })
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.awaitPulses(t, mark, "POWER_OUT", 1)
	b.await(t, chassisState, "Off")
	b.await(t, hostState, "Off")
	// The watchdog has ended it: the next request may press again.
	b.board.Do(func(x *board.Board) { x.Faults.NoPowerGood = false })
	mark = b.board.Mark()
	b.set(t, hostRequest, "On")
	b.await(t, hostState, "Running")
	assert.Len(t, b.awaitPulses(t, mark, "POWER_OUT", 1), 1)
}

// cpuOfDaemon returns the processor time that the daemon has used.
func (b *bmc) cpuOfDaemon(t *testing.T) time.Duration {
	t.Helper()
	stat := b.sh(t, "cat /proc/"+b.daemonPID(t)+"/stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	var ticks int
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
