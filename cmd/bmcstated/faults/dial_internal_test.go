package faults

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASocketConnectedToItselfIsRefused(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	own, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	require.NoError(t, syscall.Connect(fd, own))
	done, err := connected(fd)
	assert.True(t, done)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestDialTCP(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log("no such address here: ", err)
			continue
		}
		to := l.Addr().(*net.TCPAddr).AddrPort()
		soon := time.Now().Add(2 * time.Minute)
		c, err := dialTCP(t.Context(), soon, to)
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(soon), "the poller knows the socket")
		require.NoError(t, c.Close())

		require.NoError(t, l.Close())
		_, err = dialTCP(t.Context(), soon, to)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.ErrorContains(t, err, to.String())

		_, err = dialTCP(t.Context(), past, to)
		assert.Error(t, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dialTCP(ended, time.Now().Add(time.Hour), netip.MustParseAddrPort("192.0.2.1:9"))
	assert.Error(t, err, "nothing waits for the deadline")
}

func TestZoneIndex(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	for zone, want := range map[string]uint32{"": 0, "7": 7, "lo": uint32(lo.Index)} {
		n, err := zoneIndex(zone)
		require.NoError(t, err)
		assert.Equal(t, want, n, zone)
	}
	_, err = zoneIndex("nolink")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
