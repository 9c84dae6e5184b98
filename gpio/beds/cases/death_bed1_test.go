//go:build bed1

package cases

import (
	"strconv"
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
	b.sh(t, "systemctl stop bmcstated")
	close(stop)
	<-stopped
	assert.Equal(t, "success", b.sh(t, "systemctl show -P Result bmcstated"), "it was killed instead")
	took := b.systemdTime(t, "ExecMainExitTimestampMonotonic") - b.systemdTime(t, "ActiveExitTimestampMonotonic")
	t.Logf("exited %v after SIGTERM", took)
	assert.Less(t, took, 2*time.Second)
	high, err := c.Read("POWER_OUT")
	require.NoError(t, err)
	assert.True(t, high, "the power button is pressed")

	require.NoError(t, c.Drive("PS_PWROK", true))
	b.board.Unplug(false)
	b.sh(t, "systemctl start bmcstated")
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
}

// systemdTime returns one of systemd's moments in the life of the daemon.
func (b *bmc) systemdTime(t *testing.T, name string) time.Duration {
	t.Helper()
	us, err := strconv.Atoi(b.sh(t, "systemctl show -P "+name+" bmcstated"))
	require.NoError(t, err)
	return time.Duration(us) * time.Microsecond
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
