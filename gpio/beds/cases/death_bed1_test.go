//go:build bed1

package cases

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// TestStoppedDuringAnEdgeBurst: SIGTERM is answered while edges keep coming.
func TestStoppedDuringAnEdgeBurst(t *testing.T) {
	s := on()
	// The unit stays, for systemd to say how its process ended.
	s.unit = "[Service]\nRestart=no\nRemainAfterExit=yes"
	b, c := startedBMC(t, s)
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
	pid, err := strconv.Atoi(b.daemonPID(t))
	require.NoError(t, err)
	took := terminate(t, pid)
	close(stop)
	<-stopped
	t.Logf("exited %v after SIGTERM", took)
	assert.Less(t, took, 2*time.Second)
	b.await(t, property{name: "ExecMainCode", service: "org.freedesktop.systemd1", path: unitPath, iface: serviceIface}, "1") // CLD_EXITED
	assert.Equal(t, "0", b.sh(t, "systemctl show -P ExecMainStatus bmcstated"))
	high, err := c.Read("POWER_OUT")
	require.NoError(t, err)
	assert.True(t, high, "the power button is pressed")

	require.NoError(t, c.Drive("PS_PWROK", true))
	b.board.Unplug(false)
	b.sh(t, "systemctl restart bmcstated")
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
}

const (
	unitPath     = "/org/freedesktop/systemd1/unit/bmcstated_2eservice"
	serviceIface = "org.freedesktop.systemd1.Service"
)

// terminate sends SIGTERM to a process and returns how long that took to end.
func terminate(t *testing.T, pid int) time.Duration {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	began := time.Now()
	require.NoError(t, unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0))
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "the process does not end")
		return time.Since(began)
	}
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

	before := b.get(t, launches)
	fell := watchFor(t, c, "POWER_OUT", true) // asserted low
	for _, end := range []string{"systemctl restart bmcstated", "systemctl kill -s KILL bmcstated"} {
		pid := b.daemonPID(t)
		b.sh(t, end)
		b.awaitStarted(t, pid)
		b.await(t, hostState, "Running")
		b.await(t, chassisState, "On")
		assert.Equal(t, before, b.get(t, launches), end)
	}
	assert.False(t, fell(), "the enable fell")

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
