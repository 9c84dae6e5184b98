package history_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

// sample is a journal of several files and the entries it was made from.
type sample struct {
	files   []string
	data    map[string][]byte
	entries []history.Entry // as replay must see them, without closing records
	records map[string]int  // file → number of its records
	first   map[string]int  // file → how many entries come before it
	last    uint64
}

// makeSample runs a small workload. Each file is a segment.
func makeSample(t testing.TB) *sample {
	t.Helper()
	r := open(t, newFS(), "boot-a", segments(160))
	s := &sample{data: map[string][]byte{}, records: map[string]int{}, first: map[string]int{}}
	put := func(e history.Entry) uint64 {
		seq := r.put(t, e)
		e.Own()
		e.BootID = "boot-a"
		s.entries = append(s.entries, e)
		return seq
	}
	one := put(accept(0, "bmcweb", "id-1", state.HostOn))
	put(started(one))
	put(step(one, 1, "assert POWER_OUT"))
	two := put(accept(0, state.PropertyClient, "", state.HostReboot))
	put(history.Entry{Kind: history.KindClaim, Request: two, Claim: history.Claim{UID: 5}})
	put(status(one, state.Success, "power good and host running, observed"))
	put(started(two))
	put(step(two, 1, "wait for power off"))
	three := put(accept(1, "ipmid", "17", state.ChassisOff))
	put(history.Entry{Kind: history.KindCounters, Counters: history.Counters{Launches: 2}})
	end := status(three, state.Noop, "")
	end.Superseded = []uint64{one, two}
	put(end)
	s.last = put(accept(1, "ipmid", "18", state.HostOn))
	s.files = r.fs.Files(dir)
	require.GreaterOrEqual(t, len(s.files), 3)
	n := 0
	for _, name := range s.files {
		s.data[name] = r.fs.Content(dir + "/" + name)
		s.first[name] = n
		s.records[name] = len(history.Bounds(s.data[name])) - 1
		n += s.records[name]
	}
	require.Equal(t, len(s.entries), n)
	return s
}

// put writes the sample, with one file changed, to a fresh file system.
func (s *sample) put(changed string, data []byte) *historytest.FS {
	fs := newFS()
	for _, name := range s.files {
		if name == changed {
			fs.Put(dir+"/"+name, data)
		} else {
			fs.Put(dir+"/"+name, s.data[name])
		}
	}
	return fs
}

// check opens a changed journal and compares it with the history of its first n
// entries. It opens it a second time to see that nothing comes back.
func (s *sample) check(t *testing.T, fs *historytest.FS, n int, damaged bool, why string) *history.Replay {
	t.Helper()
	r := open(t, fs, "boot-b")
	require.Equal(t, damaged, r.rep.Damaged, why)
	want := history.Fold(s.numbered(n))
	require.Len(t, r.rep.Requests, len(want.Requests), why)
	for i, w := range want.Requests {
		got := r.rep.Requests[i]
		require.Equal(t, w.Key, got.Key, why)
		if damaged && !w.Status.Final() {
			require.Equal(t, state.Interrupted, got.Status, why)
			require.Equal(t, history.ReasonDamaged, got.Reason, why)
			continue
		}
		require.Equal(t, w.Status, got.Status, why)
		require.Equal(t, w.Reason, got.Reason, why)
		require.Equal(t, w.Step.Name, got.Step.Name, why)
		require.Equal(t, w.Claims, got.Claims, why)
		require.Equal(t, w.Superseded, got.Superseded, why)
	}
	require.GreaterOrEqual(t, r.rep.HighWater, s.last, why)
	require.NoError(t, r.rep.Unwritable, why)
	fresh := r.put(t, accept(0, "c", "fresh", state.HostOff))
	require.Greater(t, fresh, s.last)

	again := r.reopen(t, "boot-c")
	require.Empty(t, again.rep.Reports, "%s: the repair holds", why)
	require.Len(t, again.rep.Requests, len(r.rep.Requests)+1, why)
	for i := range r.rep.Requests {
		require.Equal(t, r.rep.Requests[i], again.rep.Requests[i], why)
	}
	require.Equal(t, fresh, again.rep.Requests[len(r.rep.Requests)].Seq, why)
	require.NoError(t, again.Close())
	return r.rep
}

func (s *sample) numbered(n int) []history.Entry {
	list := slices.Clone(s.entries[:n])
	for i := range list {
		list[i].Number(uint64(i) + 1)
	}
	return list
}

// whole returns how many records of a file end at or before an offset.
func (s *sample) whole(name string, offset int) int {
	n := 0
	for _, end := range history.Bounds(s.data[name])[1:] {
		if end <= offset {
			n++
		}
	}
	return n
}

func TestEveryFlippedByte(t *testing.T) {
	s := makeSample(t)
	tried := 0
	for _, name := range s.files {
		for at := range s.data[name] {
			for _, mask := range []byte{0x01, 0xff} {
				data := slices.Clone(s.data[name])
				data[at] ^= mask
				why := fmt.Sprintf("%s byte %d ^ %#x", name, at, mask)
				fs := s.put(name, data)
				rep := s.check(t, fs, s.first[name]+s.whole(name, at), true, why)
				require.Contains(t, fs.Files(dir), name+".damaged", why)
				require.Equal(t, data, fs.Content(dir+"/"+name+".damaged"), why)
				require.Equal(t, name, rep.Reports[0].File, why)
				tried++
			}
		}
	}
	t.Logf("%d flips tried", tried)
}

func TestEveryCutPrefix(t *testing.T) {
	s := makeSample(t)
	for i, name := range s.files {
		last := i == len(s.files)-1
		for size := range len(s.data[name]) {
			whole := s.whole(name, size)
			why := fmt.Sprintf("%s cut to %d", name, size)
			fs := s.put(name, slices.Clone(s.data[name][:size]))
			// A file without its header before others is told from a failed
			// creation by what the next one says.
			rep := s.check(t, fs, s.first[name]+whole, !last, why)
			if !last {
				require.Equal(t, history.ReportDamaged, rep.Reports[0].Kind, why)
				continue
			}
			if slices.Contains(append(history.Bounds(s.data[name]), 0), size) {
				require.Empty(t, rep.Reports, why)
			} else {
				require.Equal(t, []history.ReportKind{history.ReportTorn}, kinds(rep.Reports), why)
			}
		}
	}
}

func TestEveryZeroFilledTail(t *testing.T) {
	s := makeSample(t)
	name := s.files[len(s.files)-1]
	full := s.data[name]
	for size := range len(full) {
		for _, length := range []int{len(full), len(full) + 1, len(full) + 4096} {
			data := append(slices.Clone(full[:size]), make([]byte, length-size)...)
			// A record that lost nothing but its end mark is whole.
			rep := s.check(t, s.put(name, data), s.first[name]+s.whole(name, size+1), false, fmt.Sprintf("%d of %d", size, length))
			if size+1 < len(full) || length > len(full) {
				require.Equal(t, []history.ReportKind{history.ReportTorn}, kinds(rep.Reports))
			}
		}
	}
}

func TestLostFileIsAGap(t *testing.T) {
	s := makeSample(t)
	for i, name := range s.files[:len(s.files)-1] {
		fs := s.put("", nil)
		require.NoError(t, fs.Remove(dir+"/"+name))
		rep := s.check(t, fs, s.first[name], true, name)
		assert.Contains(t, rep.Reports[0].Text, fmt.Sprintf("records %d to", s.first[name]+1))
		aside := len(s.files) - 1 - max(i-1, 0) // from the file before the gap on
		assert.Len(t, fs.Files(dir), 2+aside, "a snapshot, a segment, and what was set aside")
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	s := makeSample(t)
	fs := s.put("", nil)
	fs.Put(dir+"/journal-x.log", []byte("x"))
	fs.Put(dir+"/journal-00000000000000000001.bak", []byte("x"))
	fs.Put(dir+"/notes", []byte("x"))
	fs.Put(dir+"/journal-00000000000000000099.snap.tmp", []byte("half"))
	s.check(t, fs, len(s.entries), false, "foreign files")
	assert.Subset(t, fs.Files(dir), []string{"journal-x.log", "journal-00000000000000000001.bak", "notes"})
	assert.NotContains(t, fs.Files(dir), "journal-00000000000000000099.snap.tmp")
}

func TestRenamedFileIsDamage(t *testing.T) {
	s := makeSample(t)
	fs := s.put("", nil)
	last := s.files[len(s.files)-1]
	require.NoError(t, fs.Rename(dir+"/"+last, dir+"/journal-00000000000000000099.log"))
	rep := s.check(t, fs, s.first[last], true, "renamed")
	assert.Contains(t, rep.Reports[0].Text, "name and header disagree")
}

func TestDamagedSnapshot(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	var reqs []uint64
	for i := range 6 {
		reqs = append(reqs, r.put(t, accept(0, "c", "", state.HostOn)))
		if i != 3 {
			r.put(t, status(reqs[i], state.Success, "observed"))
		}
	}
	r.Compact(nil)
	r = r.reopen(t, "boot-b")
	full := r.rep.Requests
	require.NoError(t, r.Close())
	name := dir + "/" + r.fs.Files(dir)[1]
	require.Contains(t, name, ".snap")
	data := r.fs.Content(name)
	for at := range data {
		for _, change := range []string{"flip", "cut"} {
			fs := r.fs.Kill()
			if change == "flip" {
				fs.Flip(name, at, 0x10)
			} else {
				fs.Put(name, data[:at])
			}
			next := open(t, fs, "boot-c")
			require.True(t, next.rep.Damaged, "%s at %d", change, at)
			for i, got := range next.rep.Requests {
				require.Equal(t, full[i].Key, got.Key)
				if full[i].Status.Final() {
					require.Equal(t, full[i], got)
				} else {
					require.Equal(t, history.ReasonDamaged, got.Reason)
				}
			}
			require.Greater(t, next.put(t, accept(0, "c", "", state.HostOn)), r.rep.HighWater)
			next = next.reopen(t, "boot-c")
			require.False(t, next.rep.Damaged)
			require.NoError(t, next.Close())
		}
	}
}

// TestRepairThatCannotBeWritten: behind damage nothing is written, because it
// would be lost with it.
func TestRepairThatCannotBeWritten(t *testing.T) {
	s := makeSample(t)
	name := s.files[0]
	data := slices.Clone(s.data[name])
	data[len(data)-1] ^= 1
	fs := s.put(name, data)
	fs.SetCapacity(1)
	r := open(t, fs, "boot-b")
	require.True(t, r.rep.Damaged)
	require.Error(t, r.rep.Unwritable)
	require.Error(t, r.commitOf(r.Append(accept(0, "c", "1", state.HostOn))).Err)
	fs.SetCapacity(0)
	r.put(t, accept(0, "c", "2", state.HostOn))
	before := r.rep.Requests
	r = r.reopen(t, "boot-b")
	require.False(t, r.rep.Damaged)
	require.Equal(t, before, r.rep.Requests[:len(before)])
	require.Len(t, r.rep.Requests, len(before)+1)
}
