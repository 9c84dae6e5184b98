//go:build bed1

package cases

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// cpuOfDaemon returns the processor time that the daemon has used.
func (b *bmc) cpuOfDaemon(t *testing.T) time.Duration {
	t.Helper()
	stat := read(t, "/proc/"+b.daemonPID(t)+"/stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	var ticks int
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

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

// TestLevelOutputKeepsItsLevel: a level-type output that is high stays so while
// the daemon is restarted, killed and, as far as systemd keeps the descriptor,
// stopped. The far end is watched closely: a drop of a millisecond counts.
func TestLevelOutputKeepsItsLevel(t *testing.T) {
	s := on()
	s.signals["SlotPower"] = gpioSignal("SLOT_POWER", "ActiveHigh")
	b, c := localBMC(t, s)
	require.NoError(t, c.Drive("SLOT_POWER", true)) // on at AC
	b.start(t, s)
	// Now nothing but the daemon's descriptor holds it up.
	require.NoError(t, c.Drive("SLOT_POWER", false))
	high, err := c.Read("SLOT_POWER")
	require.NoError(t, err)
	if !high {
		t.Skip("the daemon holds no level-type output as it is: the line follows its pull")
	}
	stop, low := make(chan struct{}), make(chan bool, 1)
	go func() {
		fell := false
		for {
			select {
			case <-stop:
				low <- fell
				return
			case <-time.After(200 * time.Microsecond):
				high, err := c.Read("SLOT_POWER")
				fell = fell || err != nil || !high
			}
		}
	}()
	b.sh(t, "systemctl restart bmcstated")
	b.await(t, hostState, "Running")
	b.sh(t, "kill -KILL "+b.daemonPID(t))
	b.await(t, hostState, "Running")
	close(stop)
	assert.False(t, <-low, "the level fell")
}
