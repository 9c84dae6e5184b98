package history_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

// TestFailedCommitIsTakenBack: the file ends at the last durable byte before the
// error is answered, and that descriptor is not used again.
func TestFailedCommitIsTakenBack(t *testing.T) {
	for name, op := range map[string]historytest.Op{"write": historytest.OpWrite, "sync": historytest.OpSync} {
		t.Run(name, func(t *testing.T) {
			r := open(t, newFS(), "boot-a")
			r.put(t, accept(0, "c", "1", state.HostOn))
			file := dir + "/" + r.fs.Files(dir)[0]
			before := r.fs.Content(file)

			failures := 0
			r.fs.SetFault(func(got historytest.Op, path string) error {
				if got == op && path == file && failures == 0 {
					failures++
					return syscall.EIO
				}
				return nil
			})
			bad := r.Append(accept(0, "c", "2", state.HostOn))
			err := r.commitOf(bad).Err
			require.ErrorIs(t, err, syscall.EIO)
			require.ErrorContains(t, err, file)
			require.ErrorContains(t, err, "the storage fails")
			var failed *history.IOError
			require.ErrorAs(t, err, &failed)
			assert.False(t, failed.Uncertain)
			assert.Equal(t, before, r.fs.Content(file))
			assert.Equal(t, []history.ReportKind{history.ReportFailed}, kinds(r.said()))

			good := r.put(t, accept(0, "c", "3", state.HostOn))
			assert.Equal(t, before, r.fs.Content(file), "the next record goes to a new file")
			assert.Equal(t, []history.ReportKind{history.ReportFailed, history.ReportRepaired}, kinds(r.said()))

			for _, fs := range []*historytest.FS{r.fs.Kill(), r.fs.PowerLoss(historytest.Loss{})} {
				rep := open(t, fs, "boot-b").rep
				require.Len(t, rep.Requests, 2)
				assert.Equal(t, "3", find(t, rep.Requests, good).Key.Request)
				assert.Empty(t, rep.Reports, "spent numbers are no gap")
			}
		})
	}
}

// TestWhatCannotBeTakenBackIsVoid: where the cut fails too, the answer says so
// and the number is marked.
func TestWhatCannotBeTakenBackIsVoid(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	r.put(t, accept(0, "c", "1", state.HostOn))
	r.fs.SetFault(func(op historytest.Op, path string) error {
		if strings.HasPrefix(path, dir) && (op == historytest.OpSync || op == historytest.OpTruncate) {
			return syscall.EIO
		}
		return nil
	})
	bad := r.Append(accept(0, "c", "2", state.HostOn))
	err := r.commitOf(bad).Err
	var failed *history.IOError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Uncertain)
	require.ErrorContains(t, err, "the request may be on disk")

	got := find(t, open(t, r.fs.Kill(), "boot-a").rep.Requests, bad)
	assert.Equal(t, state.Interrupted, got.Status)
	got = find(t, open(t, r.fs.Kill(), "boot-b").rep.Requests, bad)
	assert.Equal(t, state.Expired, got.Status)

	// Once a later record is in, the disk itself says that it does not count.
	r.fs.SetFault(nil)
	r.put(t, accept(0, "c", "3", state.HostOn))
	rep := open(t, r.fs.PowerLoss(historytest.Loss{Bytes: historytest.Everything}), "boot-b").rep
	require.Len(t, rep.Requests, 2)
	assert.Equal(t, []history.ReportKind{history.ReportVoid}, kinds(rep.Reports))
}

func TestFullDisk(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	r.put(t, accept(0, "c", "1", state.HostOn))
	for range 3 {
		for room := range int64(80) {
			r.fs.SetCapacity(int64(len(allContent(r.fs))) + room)
			seq := r.Append(accept(0, "client", "", state.HostOn))
			if err := r.commitOf(seq).Err; err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				require.ErrorContains(t, err, "no space left on device; requests are refused until there is space")
			}
		}
		r.fs.SetCapacity(0)
		r.put(t, accept(0, "c", "", state.HostOn))
	}
	want := 0
	for _, c := range r.commits {
		if c.Err == nil {
			want++
		}
	}
	rep := r.reopen(t, "boot-a").rep
	assert.Len(t, rep.Requests, want)
	assert.Empty(t, rep.Reports)
}

func allContent(fs *historytest.FS) []byte {
	var all []byte
	for _, name := range fs.Files(dir) {
		all = append(all, fs.Content(dir+"/"+name)...)
	}
	return all
}

func TestReadOnlyDisk(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	one := r.put(t, accept(0, "c", "1", state.HostOn))
	require.NoError(t, r.Close())

	t.Run("at start", func(t *testing.T) {
		fs := r.fs.Kill()
		fs.SetReadOnly(true)
		r := open(t, fs, "boot-a")
		assert.ErrorIs(t, r.rep.Unwritable, syscall.EROFS)
		find(t, r.rep.Requests, one)
		err := r.commitOf(r.Append(accept(0, "c", "2", state.HostOn))).Err
		require.ErrorIs(t, err, syscall.EROFS)
		require.ErrorContains(t, err, "mounted writable")
		fs.SetReadOnly(false)
		r.put(t, accept(0, "c", "2", state.HostOn))
	})
	t.Run("no directory", func(t *testing.T) {
		fs := newFS()
		fs.SetReadOnly(true)
		r := open(t, fs, "boot-a")
		assert.ErrorIs(t, r.rep.Unwritable, syscall.EROFS)
		require.Error(t, r.commitOf(r.Append(accept(0, "c", "1", state.HostOn))).Err)
		fs.SetReadOnly(false)
		two := r.put(t, accept(0, "c", "2", state.HostOn))
		find(t, r.reopen(t, "boot-a").rep.Requests, two)
	})
	t.Run("a journal appears", func(t *testing.T) {
		fs := newFS()
		fs.SetReadOnly(true)
		late := open(t, fs, "boot-a")
		fs.SetReadOnly(false)
		name := r.fs.Files(dir)[0]
		fs.Put(dir+"/"+name, r.fs.Content(dir+"/"+name))
		err := late.commitOf(late.Append(accept(0, "c", "1", state.HostOn))).Err
		require.ErrorContains(t, err, "restart bmcstated")
	})
}

func TestOpenThatCannotListFails(t *testing.T) {
	fs := newFS()
	fs.SetFault(func(op historytest.Op, path string) error {
		if op == historytest.OpList && path == dir {
			return syscall.EIO
		}
		return nil
	})
	_, _, err := history.Open(history.Options{Dir: dir, RunDir: run, FS: fs, BootID: "b", Now: clock()})
	require.ErrorIs(t, err, syscall.EIO)
	fs.SetFault(nil)
	open(t, fs, "b") // the lock was given back
}

func TestUnreadableFileIsDamage(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	r.put(t, accept(0, "c", "1", state.HostOn))
	require.NoError(t, r.Close())
	r.fs.SetFault(failOn(historytest.OpRead, syscall.EIO))
	rep := open(t, r.fs, "boot-b").rep
	assert.True(t, rep.Damaged)
	assert.Empty(t, rep.Requests)
	assert.Equal(t, []history.ReportKind{history.ReportDamaged, history.ReportSetAside}, kinds(rep.Reports))
}

// TestHungFsync: nothing but the commit waits for the disk.
func TestHungFsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFS()
		r := open(t, fs, "boot-a")
		old := r.put(t, accept(0, "c", "old", state.HostReboot))
		done := r.put(t, accept(0, "c", "done", state.HostOn))
		r.put(t, status(done, state.Noop, ""))

		answer := make(chan struct{})
		fs.SetFault(func(op historytest.Op, path string) error {
			if op == historytest.OpSync {
				<-answer
			}
			return nil
		})
		began := time.Now()
		on := r.Append(accept(0, "c", "on", state.HostOn))
		synctest.Wait()
		off := r.Append(accept(0, "c", "off", state.ChassisOff))
		for range 1000 {
			require.NotZero(t, r.Append(step(old, 1, "wait")))
		}
		assert.Zero(t, time.Since(began), "Append does not wait")
		assert.Equal(t, uint64(3), r.Committed())

		time.Sleep(50 * time.Millisecond)
		_, err := r.NotDurable(0, on)
		require.ErrorIs(t, err, history.ErrNoBarrier, "for Chassis Off alone")
		_, err = r.NotDurable(1, off)
		require.ErrorIs(t, err, history.ErrNoBarrier, "in its own domain")
		permit, err := r.NotDurable(0, off)
		require.NoError(t, err)
		require.NoError(t, permit.Covers(r.Log, off))
		require.ErrorIs(t, permit.Covers(r.Log, on), history.ErrNoToken)

		time.Sleep(5 * time.Second)
		require.NoError(t, r.Void(on))
		require.NoError(t, r.Void(on+2), "a step cannot be given up")
		assert.Equal(t, fmt.Sprintf("%d boot-a\n", on), string(fs.Content(run+"/void")))

		// A kill now, in the same and in another boot: the write got through.
		for boot, want := range map[string]state.Status{"boot-a": state.Interrupted, "boot-b": state.Expired} {
			next := open(t, fs.Kill(), boot)
			assert.Equal(t, want, find(t, next.rep.Requests, on).Status)
			assert.Equal(t, state.Superseded, find(t, next.rep.Requests, old).Status, "older than the barrier")
			assert.Equal(t, state.Noop, find(t, next.rep.Requests, done).Status)
			assert.Equal(t, []history.Barrier{{Domain: 0, BootID: "boot-a", Request: off}}, next.rep.Barriers)
			require.NoError(t, next.Close())
			// What replay has ended stays so when the marks are gone.
			again := open(t, next.fs.PowerLoss(historytest.Loss{}), "boot-c")
			assert.Equal(t, want, find(t, again.rep.Requests, on).Status)
			assert.Equal(t, state.Superseded, find(t, again.rep.Requests, old).Status)
			require.NoError(t, again.Close())
		}

		time.Sleep(55 * time.Second)
		close(answer)
		c := r.commitOf(on)
		require.NoError(t, c.Err)
		assert.Equal(t, []uint64{on}, c.Voided)
		require.ErrorIs(t, c.Durable(on).Covers(r.Log, on), history.ErrNoToken, "a voided request never runs")
		require.NoError(t, r.commitOf(off).Durable(off).Covers(r.Log, off))
		fs.SetFault(nil)
		require.NoError(t, r.Close())
		got := find(t, open(t, fs.PowerLoss(historytest.Loss{}), "boot-b").rep.Requests, on)
		assert.Equal(t, state.Interrupted, got.Status)
		assert.Equal(t, history.ReasonVoid, got.Reason)
	})
}

func TestVoidThatComesTooLate(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	one := r.put(t, accept(0, "c", "1", state.HostOn))
	require.NoError(t, r.Void(one))
	require.NoError(t, r.Void(r.put(t, step(one, 1, "assert"))))
	rep := r.reopen(t, "boot-a").rep
	assert.Equal(t, state.Interrupted, find(t, rep.Requests, one).Status)
}

func TestSlowFsyncIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFS()
		r := open(t, fs, "boot-a")
		r.put(t, accept(0, "c", "", state.HostOn))
		fs.SetFault(func(op historytest.Op, path string) error {
			if op == historytest.OpSync {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
		before := fs.Count(historytest.OpSync)
		var last uint64
		for range 64 {
			last = r.Append(accept(0, "c", "", state.HostOn))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, r.commitOf(last).Err)
		assert.LessOrEqual(t, fs.Count(historytest.OpSync)-before, 5)
		require.NoError(t, r.Close())
	})
}

// TestRetriedOff: an Off that acted unrecorded is recorded later under the
// number it was known by.
func TestRetriedOff(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	old := r.put(t, accept(0, "c", "old", state.HostOn))
	r.fs.SetFault(failOn(historytest.OpSync, syscall.EIO))
	off := r.Append(accept(0, "c", "off", state.ChassisOff))
	require.Error(t, r.commitOf(off).Err)
	permit, err := r.NotDurable(0, off)
	require.NoError(t, err)
	require.NoError(t, permit.Covers(r.Log, off))

	assert.Equal(t, state.Superseded, find(t, open(t, r.fs.Kill(), "boot-a").rep.Requests, old).Status)

	r.fs.SetFault(nil)
	again := accept(0, "c", "off", state.ChassisOff)
	again.Request = off
	record := r.put(t, again)
	require.Greater(t, record, off)
	r.put(t, status(off, state.Success, ""))
	_, err = r.NotDurable(0, off)
	require.ErrorIs(t, err, history.ErrNoBarrier, "it has ended")
	rep := r.reopen(t, "boot-b").rep
	assert.Equal(t, state.Success, find(t, rep.Requests, off).Status)
	assert.Equal(t, state.Superseded, find(t, rep.Requests, old).Status)
}

func TestMarksThatCannotBeWritten(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	off := r.put(t, accept(0, "c", "off", state.ChassisOff))
	r.fs.SetFault(func(op historytest.Op, path string) error {
		if strings.HasPrefix(path, run) && op == historytest.OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	permit, err := r.NotDurable(0, off)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, permit.Covers(r.Log, off), history.ErrNoToken, "no barrier, no permit")
	require.ErrorIs(t, r.Void(off), syscall.ENOSPC)
}

func TestFailedCompactionIsHarmless(t *testing.T) {
	for _, op := range []historytest.Op{
		historytest.OpCreate, historytest.OpWrite, historytest.OpSync, historytest.OpRename,
		historytest.OpSyncDir, historytest.OpRemove, historytest.OpRead, historytest.OpList,
	} {
		t.Run(string(op), func(t *testing.T) {
			r := open(t, newFS(), "boot-a", segments(200))
			var last uint64
			for range 10 {
				last = r.put(t, accept(0, "c", "", state.HostOn))
			}
			r.fs.SetFault(failOn(op, syscall.EIO))
			r.Compact(nil)
			assert.Equal(t, history.ReportCompact, r.firstReport().Kind)
			r.fs.SetFault(nil)
			r.put(t, status(last, state.Success, ""))
			for _, fs := range []*historytest.FS{r.fs.Kill(), r.fs.PowerLoss(historytest.Loss{}), r.fs.PowerLoss(historytest.Loss{Names: historytest.Everything})} {
				rep := open(t, fs, "boot-b").rep
				assert.Len(t, rep.Requests, 10)
				assert.Equal(t, state.Success, find(t, rep.Requests, last).Status)
				assert.False(t, rep.Damaged)
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EDQUOT:    "history: write f: disk quota exceeded; requests are refused until there is space",
		syscall.EACCES:    "history: write f: permission denied; the directory must be writable for the daemon's user",
		errors.New("odd"): "history: write f: odd",
	} {
		assert.Equal(t, want, (&history.IOError{Op: "write", Path: "f", Err: err}).Error())
	}
	assert.Equal(t, "history: f: text", history.Report{File: "f", Text: "text"}.String())
	assert.Equal(t, "history: text", history.Report{Text: "text"}.String())
}
