package history_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

// script is a workload that may be cut short anywhere, and what its caller
// knows afterwards.
type script struct {
	*rig
	t       testing.TB
	sent    []history.Entry // in order, as numbered
	acked   int             // how many of sent are known to be durable
	failed  map[uint64]bool // answered with an error while the machine lived
	dropped map[uint64]bool // requests that compaction may have dropped
}

// send appends entries in one go and waits for their commits.
func (s *script) send(entries ...history.Entry) uint64 {
	var last uint64
	for _, e := range entries {
		last = s.Append(e)
		e.Own()
		e.BootID = "boot-a"
		e.Number(last)
		s.sent = append(s.sent, e)
	}
	alive := !s.fs.Dead()
	for i := len(s.sent) - len(entries); i < len(s.sent); i++ {
		switch c := s.commitOf(s.sent[i].Seq); {
		case c.Err == nil:
			s.acked = i + 1
		case alive && !s.fs.Dead():
			s.failed[s.sent[i].Seq] = true
		}
	}
	return last
}

// play runs the workload: several segments, a compaction, and a disk that fails
// once, on a machine that stops after so many steps (0 = never).
func play(t testing.TB, stop int) *script {
	t.Helper()
	fs := newFS()
	r := open(t, fs, "boot-a", segments(170))
	s := &script{rig: r, t: t, failed: map[uint64]bool{}, dropped: map[uint64]bool{}}
	if stop > 0 {
		fs.DieAfter(stop)
	}
	one := s.send(accept(0, "bmcweb", "1", state.HostOn))
	s.send(started(one), step(one, 1, "assert"), step(one, 2, "wait"))
	two := s.send(accept(0, "ipmid", "2", state.ChassisOff), accept(0, "pldm", "3", state.HostOn))
	s.send(status(one, state.Superseded, "by a chassis off"))
	s.send(started(two-1), status(two-1, state.Success, "observed"))

	// A failed fsync whose records must not come back.
	failing := true
	fs.SetFault(func(op historytest.Op, path string) error {
		if op == historytest.OpSync && failing {
			failing = false
			return errFsync
		}
		return nil
	})
	s.send(accept(0, "c", "refused", state.HostReboot))
	fs.SetFault(nil)

	s.dropped[one] = true
	r.Compact(func(request uint64) bool { return request == one })
	s.send(accept(0, "c", "5", state.HostOn))
	three := s.send(accept(1, "c", "6", state.HostOff))
	s.send(started(three), step(three, 1, "soft off"))
	r.Compact(nil)
	s.send(status(three, state.Failed, "the guest did not shut down"), accept(1, "c", "7", state.HostOn))
	_ = r.Close()
	return s
}

// errFsync is what the script's one failing fsync returns.
var errFsync = history.ErrNoToken // any error that is no system call's

// picture folds what was sent, without what failed, up to n entries.
func (s *script) picture(n int) []history.Record {
	var list []history.Entry
	for _, e := range s.sent[:n] {
		if !s.failed[e.Seq] {
			list = append(list, e)
		}
	}
	return history.Fold(list).Requests
}

// verify opens what survived: it must be what was sent up to some point at or
// after the last acknowledged entry, nothing doubled, nothing invented.
func (s *script) verify(fs *historytest.FS, what ...any) {
	s.t.Helper()
	r := open(s.t, fs, "boot-b", segments(170))
	require.False(s.t, r.rep.Damaged, "%v: %v", what, r.rep.Reports)
	require.NoError(s.t, r.rep.Unwritable)
	s.matches(r.rep.Requests, what...)
	fresh := r.put(s.t, accept(5, "fresh", "", state.HostOn))
	if s.acked > 0 { // a machine that has nothing on disk has nobody to confuse
		require.Greater(s.t, fresh, s.sent[len(s.sent)-1].Seq, "%v: a number is given out again", what)
	}
	again := r.reopen(s.t, "boot-c", segments(170))
	require.Len(s.t, again.rep.Requests, len(r.rep.Requests)+1, "%v", what)
	require.Empty(s.t, again.rep.Reports, "%v", what)
	require.NoError(s.t, again.Close())
}

func (s *script) matches(got []history.Record, what ...any) {
	s.t.Helper()
	for n := s.acked; n <= len(s.sent); n++ {
		want := s.picture(n)
		if same(want, got) || same(slices.DeleteFunc(want, func(r history.Record) bool { return s.dropped[r.Seq] && r.Status.Final() }), got) {
			return
		}
	}
	require.Failf(s.t, "not what was sent", "%v: %d acknowledged, got %+v", what, s.acked, got)
}

func same(want, got []history.Record) bool {
	return slices.EqualFunc(want, got, func(a, b history.Record) bool {
		return a.Seq == b.Seq && a.Key == b.Key && a.Status == b.Status && a.Reason == b.Reason &&
			a.Launched == b.Launched && a.Steps == b.Steps && a.Step == b.Step && a.Last == b.Last && a.Boot == b.Boot
	})
}

// losses are the ways in which unsynced data can be lost at one moment.
func losses(fs *historytest.FS) []historytest.Loss {
	names, bytes := fs.Unsynced()
	var list []historytest.Loss
	for n := range names + 1 {
		for _, b := range []int{0, 1, 3, bytes / 2, bytes - 1, bytes} {
			if b >= 0 && b <= bytes {
				list = append(list, historytest.Loss{Names: n, Bytes: b}, historytest.Loss{Names: n, Bytes: b, Zero: true})
			}
		}
		list = append(list, historytest.Loss{Names: n, Young: true, Bytes: bytes})
	}
	return slices.Compact(list)
}

// TestPowerLossAnywhere stops the machine after every single change of the
// file system and loses what was not synced in every way.
func TestPowerLossAnywhere(t *testing.T) {
	whole := play(t, 0)
	total := whole.fs.Steps()
	require.Equal(t, len(whole.sent), whole.acked)
	require.Len(t, whole.failed, 1)
	tried := 0
	for stop := 1; stop <= total; stop++ {
		s := play(t, stop)
		for _, loss := range losses(s.fs) {
			s.verify(s.fs.PowerLoss(loss), "stop", stop, loss)
			tried++
		}
		s.verify(s.fs.Kill(), "kill", stop)
		tried++
	}
	t.Logf("%d crash points, %d outcomes", total, tried)
}

// TestKillThenPowerLoss: what replay has shown is durable before Open returns,
// even if the process that wrote it was killed before its fsync.
func TestKillThenPowerLoss(t *testing.T) {
	total := play(t, 0).fs.Steps()
	for stop := 1; stop <= total; stop++ {
		fs := play(t, stop).fs.Kill()
		shown := open(t, fs, "boot-a", segments(170)).rep
		for _, loss := range losses(fs) {
			rep := open(t, fs.PowerLoss(loss), "boot-b", segments(170)).rep
			require.False(t, rep.Damaged, "stop %d", stop)
			require.Equal(t, len(shown.Requests), len(rep.Requests), "stop %d", stop)
			for i, r := range shown.Requests {
				require.Equal(t, r, rep.Requests[i], "stop %d", stop)
			}
		}
	}
}

// TestPowerLossDuringRecovery loses power a second time, at every change that
// recovery itself makes.
func TestPowerLossDuringRecovery(t *testing.T) {
	total := play(t, 0).fs.Steps()
	tried := 0
	for stop := 1; stop <= total; stop += 2 {
		s := play(t, stop)
		_, bytes := s.fs.Unsynced()
		for _, loss := range []historytest.Loss{{}, {Names: historytest.Everything, Bytes: bytes / 2}, {Names: 1, Bytes: bytes - 1, Zero: true}} {
			for second := 1; ; second++ {
				fs := s.fs.PowerLoss(loss)
				fs.DieAfter(second)
				l, _, err := history.Open(history.Options{Dir: dir, RunDir: run, FS: fs, BootID: "boot-b", Now: clock()})
				done := !fs.Dead()
				if err == nil {
					require.NoError(t, l.Close())
				}
				if done {
					break
				}
				names, bytes := fs.Unsynced()
				s.verify(fs.PowerLoss(historytest.Loss{Names: names / 2, Bytes: bytes / 2}), "second", stop, second, loss)
				tried++
			}
		}
	}
	t.Logf("%d outcomes", tried)
}

// TestEveryTornByteOfACommit keeps every possible part of one unsynced commit.
func TestEveryTornByteOfACommit(t *testing.T) {
	s := &script{rig: open(t, newFS(), "boot-a"), t: t, failed: map[uint64]bool{}, dropped: map[uint64]bool{}}
	one := s.send(accept(0, "c", "1", state.HostOn))
	s.fs.DieAfter(1) // the write, but not its fsync
	s.send(started(one), step(one, 1, "assert"), accept(0, "c", "2", state.HostOff))
	_, bytes := s.fs.Unsynced()
	require.Positive(t, bytes)
	for n := range bytes + 1 {
		for _, zero := range []bool{false, true} {
			s.verify(s.fs.PowerLoss(historytest.Loss{Bytes: n, Zero: zero}), n, zero)
		}
	}
}

// TestKillAtEveryPoint copies the disk at every named point, which is what a
// SIGKILL there leaves.
func TestKillAtEveryPoint(t *testing.T) {
	seen := map[history.Point]int{}
	fs := newFS()
	var mu sync.Mutex // points are passed in two goroutines
	var acked, sent int
	check := func(p history.Point) {
		mu.Lock()
		defer mu.Unlock()
		seen[p]++
		rep := open(t, fs.Kill(), "boot-b", segments(150)).rep
		require.False(t, rep.Damaged, p)
		require.Empty(t, rep.Reports, p)
		require.GreaterOrEqual(t, len(rep.Requests), acked, p)
		require.LessOrEqual(t, len(rep.Requests), sent, p)
		for i, r := range rep.Requests {
			require.Equal(t, i+1, int(r.Key.UID), p)
		}
	}
	r := open(t, fs, "boot-a", segments(150), func(o *history.Options) { o.Point = check })
	for i := range 8 {
		e := accept(i, "c", "", state.ChassisOff)
		e.Accepted.Key.UID = uint32(i + 1)
		mu.Lock()
		sent++
		mu.Unlock()
		seq := r.put(t, e)
		mu.Lock()
		acked++
		mu.Unlock()
		if i == 4 {
			_, err := r.NotDurable(i, seq)
			require.NoError(t, err)
		}
	}
	r = open(t, fs.Kill(), "boot-a", segments(150), func(o *history.Options) {
		o.Point = func(p history.Point) {
			mu.Lock()
			defer mu.Unlock()
			seen[p]++
		}
	})
	r.Compact(nil)
	require.NoError(t, r.Void(12345))
	require.NoError(t, r.Close())
	mu.Lock() // the first log is still open
	defer mu.Unlock()
	for _, p := range history.Points() {
		require.Positive(t, seen[p], "point %s was never passed", p)
	}
}
