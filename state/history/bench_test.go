package history_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

// counted counts what reaches a real disk.
type counted struct {
	history.FS
	syncs, bytes atomic.Int64
}

type countedFile struct {
	history.File
	fs *counted
}

func (c *counted) Create(name string) (history.File, error) {
	f, err := c.FS.Create(name)
	return countedFile{f, c}, err
}

func (f countedFile) Write(b []byte) (int, error) {
	f.fs.bytes.Add(int64(len(b)))
	return f.File.Write(b)
}

func (f countedFile) Sync() error {
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

// waiters hands commits to whoever waits for a sequence.
type waiters struct {
	mu      sync.Mutex
	durable uint64
	waiting map[uint64]chan struct{}
}

func (w *waiters) commit(c history.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.durable = c.Last
	for seq, ch := range w.waiting {
		if seq <= c.Last {
			close(ch)
			delete(w.waiting, seq)
		}
	}
}

func (w *waiters) wait(seq uint64) {
	ch := make(chan struct{})
	w.mu.Lock()
	if seq <= w.durable {
		w.mu.Unlock()
		return
	}
	w.waiting[seq] = ch
	w.mu.Unlock()
	<-ch
}

// BenchmarkAccept makes requests durable on a real disk. requests/fsync is how
// many share one; bytes/request is what flash has to take for an acceptance.
func BenchmarkAccept(b *testing.B) {
	for _, submitters := range []int{1, 64} {
		b.Run(fmt.Sprintf("submitters=%d", submitters), func(b *testing.B) {
			disk, w := &counted{FS: history.OS()}, &waiters{waiting: map[uint64]chan struct{}{}}
			tmp := b.TempDir()
			l, _, err := history.Open(history.Options{Dir: tmp + "/state", RunDir: tmp + "/run", FS: disk, BootID: "boot", Now: clock(), Commit: w.commit})
			require.NoError(b, err)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var all sync.WaitGroup
			for range submitters {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						w.wait(l.Append(accept(0, "bmcweb-0a1b2c3d", "", state.HostOn)))
					}
				})
			}
			all.Wait()
			b.StopTimer()
			require.NoError(b, l.Close())
			b.ReportMetric(float64(b.N)/float64(disk.syncs.Load()), "requests/fsync")
			b.ReportMetric(float64(disk.bytes.Load())/float64(b.N), "bytes/request")
		})
	}
}

// life appends all records of one power-on: what a launch costs.
func life(l *history.Log, client string) uint64 {
	req := l.Append(accept(0, client, "", state.HostOn))
	l.Append(started(req))
	l.Append(step(req, 0, "assert POWER_OUT"))
	l.Append(step(req, 1, "wait for power good"))
	l.Append(step(req, 2, "wait for host running"))
	return l.Append(status(req, state.Success, ""))
}

// BenchmarkLife prints what one launched request writes from acceptance to
// success, in records and with compaction, and what an idle journal writes.
func BenchmarkLife(b *testing.B) {
	fs := newFS()
	r := open(b, fs, "boot")
	for range b.N {
		last := life(r.Log, "bmcweb-0a1b2c3d")
		if c := r.commitOf(last); c.Due {
			r.Compact(func(request uint64) bool { return request+6*4096 < last })
		}
		r.mu.Lock()
		r.commits = r.commits[:0]
		r.mu.Unlock()
	}
	require.NoError(b, r.Close())
	b.ReportMetric(float64(fs.Bytes())/float64(b.N), "bytes/launch")
	idle := fs.Bytes()
	require.NoError(b, open(b, fs, "boot").Close())
	b.ReportMetric(float64(fs.Bytes()-idle), "bytes/idle-hour")
}

// BenchmarkReplay opens a journal of 100,000 finished requests, as a snapshot
// and as the raw records.
func BenchmarkReplay(b *testing.B) {
	const requests = 100_000
	for _, compacted := range []bool{true, false} {
		b.Run(fmt.Sprintf("compacted=%v", compacted), func(b *testing.B) {
			fs := filled(b, requests, compacted)
			size := 0
			for _, name := range fs.Files(dir) {
				size += len(fs.Content(dir + "/" + name))
			}
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				l, rep, err := history.Open(history.Options{Dir: dir, RunDir: run, FS: fs, BootID: "boot-b", Now: clock()})
				require.NoError(b, err)
				runtime.GC()
				runtime.ReadMemStats(&after)
				require.Len(b, rep.Requests, requests)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/requests, "kept-B/request")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/requests, "allocated-B/request")
				require.NoError(b, l.Close())
				runtime.KeepAlive(rep)
			}
			b.ReportMetric(float64(size)/requests, "file-B/request")
		})
	}
}

func filled(b *testing.B, requests int, compacted bool) *historytest.FS {
	fs := newFS()
	l, _, err := history.Open(history.Options{Dir: dir, RunDir: run, FS: fs, BootID: "boot-a", Now: clock()})
	require.NoError(b, err)
	for range requests {
		life(l, "bmcweb-0a1b2c3d")
	}
	if compacted {
		l.Compact(nil)
	}
	require.NoError(b, l.Close())
	return fs
}
