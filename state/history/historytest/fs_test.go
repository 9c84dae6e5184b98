package historytest_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

func create(t *testing.T, f *historytest.FS, name string) history.File {
	t.Helper()
	require.NoError(t, f.MkdirAll("/d"))
	file, err := f.Create(name)
	require.NoError(t, err)
	return file
}

func write(t *testing.T, file history.File, text string) {
	t.Helper()
	_, err := file.Write([]byte(text))
	require.NoError(t, err)
}

func TestPowerLossKeepsWhatWasSynced(t *testing.T) {
	f := historytest.New("/run")
	file := create(t, f, "/d/a")
	write(t, file, "one")
	assert.Empty(t, f.PowerLoss(historytest.Loss{Bytes: 99}).Files("/d"), "the name was not synced")
	require.NoError(t, f.SyncDir("/d"))
	assert.Empty(t, f.PowerLoss(historytest.Loss{}).Content("/d/a"), "the content was not synced")
	require.NoError(t, file.Sync())
	write(t, file, "two")
	names, bytes := f.Unsynced()
	assert.Equal(t, []int{0, 3}, []int{names, bytes})

	for loss, want := range map[historytest.Loss]string{
		{}:                              "one",
		{Bytes: 2}:                      "onetw",
		{Bytes: 2, Zero: true}:          "onetw\x00",
		{Bytes: historytest.Everything}: "onetwo",
	} {
		assert.Equal(t, want, string(f.PowerLoss(loss).Content("/d/a")), "%+v", loss)
	}
	assert.Equal(t, "onetwo", string(f.Kill().Content("/d/a")))

	require.NoError(t, file.Truncate(1))
	assert.Equal(t, "onetwo", string(f.PowerLoss(historytest.Loss{Bytes: 3}).Content("/d/a")))
	assert.Equal(t, "o", string(f.PowerLoss(historytest.Loss{Bytes: 4}).Content("/d/a")))
}

func TestPowerLossKeepsNamesInOrder(t *testing.T) {
	f := historytest.New()
	require.NoError(t, create(t, f, "/d/a").Sync())
	require.NoError(t, f.SyncDir("/d"))
	require.NoError(t, f.Rename("/d/a", "/d/b"))
	require.NoError(t, create(t, f, "/d/c").Sync())
	require.NoError(t, f.Remove("/d/b"))
	for n, want := range [][]string{{"a"}, {"b"}, {"b", "c"}, {"c"}} {
		assert.Equal(t, want, f.PowerLoss(historytest.Loss{Names: n}).Files("/d"))
	}
	assert.Equal(t, []string{"a", "c"}, f.PowerLoss(historytest.Loss{Names: 2, Young: true}).Files("/d"))
}

func TestFailedSyncIsNeverMadeGood(t *testing.T) {
	f := historytest.New()
	file := create(t, f, "/d/a")
	require.NoError(t, f.SyncDir("/d"))
	write(t, file, "lost")
	f.SetFault(func(op historytest.Op, _ string) error {
		if op == historytest.OpSync {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, file.Sync(), syscall.EIO)
	f.SetFault(nil)
	require.NoError(t, file.Sync(), "as Linux does")
	assert.Empty(t, f.PowerLoss(historytest.Loss{}).Content("/d/a"))
	write(t, file, "kept")
	require.NoError(t, file.Sync())
	assert.Equal(t, "\x00\x00\x00\x00kept", string(f.PowerLoss(historytest.Loss{}).Content("/d/a")))
}

func TestFullReadOnlyAndDead(t *testing.T) {
	f := historytest.New("/run")
	file := create(t, f, "/d/a")
	f.SetCapacity(4)
	n, err := file.Write([]byte("abcdef"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 4, n)
	f.SetCapacity(0)

	f.SetReadOnly(true)
	_, err = file.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EROFS)
	_, err = f.OpenAppend("/d/a")
	require.ErrorIs(t, err, syscall.EROFS)
	require.NoError(t, f.MkdirAll("/d"), "it is there")
	require.ErrorIs(t, f.MkdirAll("/e"), syscall.EROFS)
	require.NoError(t, f.MkdirAll("/run"))
	f.SetReadOnly(false)

	f.DieAfter(1)
	require.NoError(t, f.Remove("/d/a"))
	assert.True(t, f.Dead())
	_, err = f.ReadDir("/d")
	require.ErrorIs(t, err, historytest.ErrDead)
}

func TestLocksAndMissingFiles(t *testing.T) {
	f := historytest.New()
	require.NoError(t, f.MkdirAll("/d"))
	lock, err := f.Lock("/d")
	require.NoError(t, err)
	_, err = f.Lock("/d")
	require.ErrorIs(t, err, history.ErrLocked)
	again, err := f.Kill().Lock("/d")
	require.NoError(t, err, "a dead process has no locks")
	require.NoError(t, again.Close())
	require.NoError(t, lock.Close())

	_, err = f.ReadFile("/d/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, f.Rename("/d/none", "/d/x"), fs.ErrNotExist)
	require.ErrorIs(t, f.Remove("/d/none"), fs.ErrNotExist)
	_, err = f.ReadDir("/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	create(t, f, "/d/a")
	_, err = f.Create("/d/a")
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = f.Create("/none/a")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
