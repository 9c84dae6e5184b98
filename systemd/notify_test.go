package systemd_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

// listen is a NOTIFY_SOCKET; the function reads the next datagram and the files
// that came with it.
func listen(t *testing.T) func() (string, []*os.File) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() (string, []*os.File) {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		text, oob := make([]byte, 4096), make([]byte, 256)
		n, oobn, _, _, err := conn.ReadMsgUnix(text, oob)
		require.NoError(t, err)
		var files []*os.File
		messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
		require.NoError(t, err)
		for _, m := range messages {
			fds, err := syscall.ParseUnixRights(&m)
			require.NoError(t, err)
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "passed"))
			}
		}
		return string(text[:n]), files
	}
}

// systemd says so from version 254 on.
func TestKeepsFiles(t *testing.T) {
	listen(t)
	assert.False(t, systemd.NewNotifier().KeepsFiles())
	t.Setenv("FDSTORE", "64")
	assert.True(t, systemd.NewNotifier().KeepsFiles())
	t.Setenv("NOTIFY_SOCKET", "")
	assert.False(t, systemd.NewNotifier().KeepsFiles())
}

func TestNotifyMessages(t *testing.T) {
	next := listen(t)
	t.Setenv("WATCHDOG_USEC", "20000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	n := systemd.NewNotifier()
	assert.Equal(t, 20*time.Second, n.WatchdogInterval())
	for _, tc := range []struct {
		send func() error
		want string
	}{
		{func() error { return n.Ready("2 domains") }, "READY=1\nSTATUS=2 domains"},
		{func() error { return n.Status("a\nb") }, "STATUS=a b"},
		{n.Watchdog, "WATCHDOG=1"},
		{func() error { return n.Stopping("bye") }, "STOPPING=1\nSTATUS=bye"},
		{func() error { return n.RemoveFiles("line.A") }, "FDSTOREREMOVE=1\nFDNAME=line.A"},
	} {
		require.NoError(t, tc.send())
		text, _ := next()
		assert.Equal(t, tc.want, text)
	}
}

func TestStoreFilePassesADuplicate(t *testing.T) {
	next := listen(t)
	n := systemd.NewNotifier()
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	_, err = f.WriteString("level")
	require.NoError(t, err)
	require.NoError(t, n.StoreFile("host0.POWER_OK", f))
	require.NoError(t, f.Close())
	text, files := next()
	assert.Equal(t, "FDSTORE=1\nFDNAME=host0.POWER_OK\nFDPOLL=0", text)
	require.Len(t, files, 1)
	defer files[0].Close()
	content := make([]byte, 5)
	_, err = files[0].ReadAt(content, 0)
	require.NoError(t, err)
	assert.Equal(t, "level", string(content))
	for _, bad := range []string{"", "a:b", "a b", "ä", strings.Repeat("x", 256)} {
		require.Error(t, n.StoreFile(bad, files[0]), "%q", bad)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n := systemd.NewNotifier()
	require.NoError(t, n.Ready(""))
	assert.Zero(t, n.WatchdogInterval())
	assert.Empty(t, n.Files())
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	require.Error(t, systemd.NewNotifier().Watchdog())
}

func TestWatchdogDoesNotWaitForADeafSystemd(t *testing.T) {
	listen(t) // and nobody reads
	n := systemd.NewNotifier()
	var err error
	for range 10_000 {
		if err = n.Watchdog(); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// The kept descriptors are inherited, so this needs a process of its own.
func TestFilesFromTheStore(t *testing.T) {
	if os.Getenv("BMCSTATE_TEST_FILES") != "" {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		files := systemd.NewNotifier().Files()
		require.Len(t, files["host0.A"], 1)
		require.Len(t, files["host0.B"], 1)
		assert.Equal(t, "host0.A", files["host0.A"][0].Name())
		assert.Empty(t, os.Getenv("LISTEN_FDS"))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFilesFromTheStore$")
	cmd.Env = append(os.Environ(), "BMCSTATE_TEST_FILES=1", "LISTEN_FDS=2", "LISTEN_FDNAMES=host0.A:host0.B")
	for range 2 {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
