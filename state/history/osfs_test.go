package history_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// TestRealDisk runs the journal on the machine's own file system.
func TestRealDisk(t *testing.T) {
	tmp := t.TempDir()
	opts := history.Options{Dir: filepath.Join(tmp, "a", "state"), RunDir: filepath.Join(tmp, "run"), BootID: "boot-a", Now: clock(), SegmentSize: 200}
	l, rep, err := history.Open(opts)
	require.NoError(t, err)
	require.NoError(t, rep.Unwritable)
	_, _, err = history.Open(opts)
	require.ErrorIs(t, err, history.ErrLocked)

	off := l.Append(accept(0, "c", "off", state.ChassisOff))
	for range 20 {
		life(l, "c")
	}
	l.Compact(nil)
	_, err = l.NotDurable(0, off)
	require.NoError(t, err)
	require.NoError(t, l.Void(off))
	require.NoError(t, l.Close())

	for _, path := range []string{opts.Dir, opts.RunDir} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
	names, err := os.ReadDir(opts.RunDir)
	require.NoError(t, err)
	assert.Len(t, names, 2, "void and barrier, no temporary file")

	// A torn tail and a foreign directory do not disturb it.
	require.NoError(t, os.Mkdir(filepath.Join(opts.Dir, "lost+found"), 0o700))
	torn := filepath.Join(opts.Dir, "journal-00000000000000009999.log")
	require.NoError(t, os.WriteFile(torn, []byte("bmc"), 0o600))
	l, rep, err = history.Open(opts)
	require.NoError(t, err)
	assert.Len(t, rep.Requests, 21)
	assert.Equal(t, []history.ReportKind{history.ReportTorn}, kinds(rep.Reports))
	info, err := os.Stat(torn)
	require.NoError(t, err)
	assert.Zero(t, info.Size())
	assert.Greater(t, l.Append(accept(0, "c", "", state.HostOn)), uint64(9999))
	require.NoError(t, l.Close())
}

func TestVolatileDirectoriesOfThisMachine(t *testing.T) {
	name, err := history.Volatile(history.OS(), t.TempDir())
	require.NoError(t, err)
	if name != "" {
		t.Logf("the temporary directory is on %s", name)
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		name, err = history.Volatile(history.OS(), "/dev/shm")
		require.NoError(t, err)
		t.Logf("/dev/shm is on %q", name)
	}
	_, err = history.Volatile(history.OS(), "/nowhere/at/all")
	require.ErrorIs(t, err, os.ErrNotExist)
}
