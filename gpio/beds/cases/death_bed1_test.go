//go:build bed1

package cases

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// TestStoppedDuringAnEdgeBurst: SIGTERM is answered while edges keep coming.
func TestStoppedDuringAnEdgeBurst(t *testing.T) {
	b, c := startedBMC(t, on())
	b.board.Unplug(true)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Microsecond):
				_ = c.Drive("PS_PWROK", i%2 == 0) // one that fails is one edge less
			}
		}
	}()
	began := time.Now()
	b.sh(t, "systemctl stop bmcstated")
	took := time.Since(began)
	close(stop)
	<-stopped
	t.Logf("stopped within %v", took.Round(time.Millisecond))
	assert.Equal(t, "success", b.sh(t, "systemctl show -P Result bmcstated"), "it was killed instead")
	// systemd's own part and the shells included, on an emulated processor.
	assert.Less(t, took, 10*time.Second)
	b.board.Unplug(false)
}

// TestLevelOutputKeepsItsLevel: a power output that is an enable stays high while
// the daemon is restarted and killed. The far end is watched closely: a drop that
// the board would not see counts, too.
func TestLevelOutputKeepsItsLevel(t *testing.T) {
	s := off()
	s.signals["PowerOut"]["level"] = true
	b, c := localBMC(t, s)
	b.board.Do(func(x *board.Board) { x.Enable = true })
	b.start(t, s)
	b.set(t, hostRequest, "On")
	b.await(t, hostState, "Running")
	require.True(t, b.board.Asserted("POWER_OUT"))

	fell := watchFor(t, c, "POWER_OUT", true) // asserted low
	b.sh(t, "systemctl restart bmcstated")
	b.await(t, hostState, "Running")
	pid := b.daemonPID(t)
	b.sh(t, "kill -KILL "+pid)
	require.Eventually(t, func() bool {
		now := b.daemonPID(t)
		return now != pid && now != "0"
	}, patience, 200*time.Millisecond)
	b.await(t, hostState, "Running")
	assert.False(t, fell(), "the enable fell")
	assert.Equal(t, "0", b.get(t, launches))

	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
	assert.False(t, b.board.Asserted("POWER_OUT"))
}

// watchFor looks at a line every half a millisecond, and returns what says
// whether it ever had the level.
func watchFor(t *testing.T, c *chip, line string, level bool) (seen func() bool) {
	t.Helper()
	stop, result := make(chan struct{}), make(chan bool, 1)
	go func() {
		had := false
		for {
			select {
			case <-stop:
				result <- had
				return
			case <-time.After(500 * time.Microsecond):
				high, err := c.Read(line)
				had = had || err != nil || high == level
			}
		}
	}()
	return func() bool {
		close(stop)
		return <-result
	}
}
