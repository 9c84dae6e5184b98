package history_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

func TestEverythingComesBack(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	require.Empty(t, r.rep.Requests)
	require.Zero(t, r.rep.HighWater)
	require.Empty(t, r.rep.Reports)

	e := accept(0, "bmcweb", "id-1", state.HostReboot)
	e.Accepted.Cause, e.Accepted.Expires, e.Accepted.Object.Index = "redfish", 2*time.Hour, 3
	one := r.put(t, e)
	assert.Equal(t, uint64(1), one)
	r.put(t, history.Entry{Kind: history.KindClaim, Request: one, Claim: history.Claim{UID: 7}})
	r.put(t, history.Entry{Kind: history.KindClaim, Request: one, Claim: history.Claim{UID: 8}})
	r.put(t, history.Entry{Kind: history.KindClaim, Request: one, Claim: history.Claim{UID: 7, Dropped: true}})
	r.put(t, started(one))
	s := step(one, 2, "assert POWER_OUT")
	s.Step.Deadline = 90 * time.Minute
	r.put(t, s)
	two := r.put(t, accept(1, state.PropertyClient, "", state.ChassisOff))
	end := status(two, state.Failed, "org.freedesktop.systemd1.NoSuchUnit")
	end.Superseded = []uint64{1, 5}
	r.put(t, end)
	r.put(t, history.Entry{Kind: history.KindCounters, Domain: 1, Counters: history.Counters{Launches: 1, DuplicatesSuppressed: 2, Refused: 3}})
	r.put(t, history.Entry{Kind: history.KindNote, Domain: 1, Note: history.Note{Name: "power", Text: "on"}})
	last := r.put(t, history.Entry{Kind: history.KindNote, Domain: 1, Note: history.Note{Name: "power", Text: "off"}})

	check := func(rep *history.Replay) {
		require.Empty(t, rep.Reports)
		require.Len(t, rep.Requests, 2)
		got := rep.Requests[0]
		assert.Equal(t, state.Key{UID: 1000, Client: "bmcweb", Request: "id-1"}, got.Key)
		assert.Equal(t, state.Object{Kind: state.KindHost, Index: 3}, got.Object)
		assert.Equal(t, state.HostReboot, got.Op)
		assert.Equal(t, "redfish", got.Cause)
		assert.Equal(t, 2*time.Hour, got.Expires)
		assert.Equal(t, []uint32{8}, got.Claims)
		assert.Equal(t, state.Running, got.Status)
		assert.True(t, got.Launched)
		assert.Equal(t, state.VerdictPowerOn, got.Verdict)
		assert.Equal(t, history.Step{Index: 2, Name: "assert POWER_OUT", Deadline: 90 * time.Minute}, got.Step)
		assert.Equal(t, 1, got.Steps)
		assert.Equal(t, "boot-a", got.Boot)
		assert.Empty(t, got.EndedBoot)
		assert.Greater(t, got.Started.Boot, got.Accepted.Boot)
		assert.Greater(t, got.StepAt.Boot, got.Started.Boot)
		assert.Equal(t, time.UTC, got.Accepted.Wall.Location())
		assert.WithinDuration(t, time.Unix(1_800_000_000, 0).Add(got.Accepted.Boot), got.Accepted.Wall, time.Microsecond)

		off := rep.Requests[1]
		assert.Equal(t, 1, off.Domain)
		assert.Equal(t, "7", off.Key.Request, "the request id of a property write is its sequence")
		assert.Equal(t, state.Failed, off.Status)
		assert.Equal(t, "org.freedesktop.systemd1.NoSuchUnit", off.Reason)
		assert.Equal(t, []uint64{1, 5}, off.Superseded)
		assert.Equal(t, "boot-a", off.EndedBoot)
		assert.Equal(t, history.Counters{Launches: 1, DuplicatesSuppressed: 2, Refused: 3}, rep.Counters[1])
		text, ok := rep.Note(1, "power")
		assert.True(t, ok)
		assert.Equal(t, "off", text)
	}
	r = r.reopen(t, "boot-b")
	check(r.rep)
	assert.Equal(t, last+1, r.rep.HighWater, "the closing record has a number too")
	before := r.rep.Picture

	r.Compact(nil)
	r = r.reopen(t, "boot-c")
	check(r.rep)
	assert.Equal(t, before, r.rep.Picture, "compaction changes nothing")
}

func TestOneInstance(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	_, _, err := history.Open(r.options("boot-a", nil))
	require.ErrorIs(t, err, history.ErrLocked)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "stop the other bmcstated")
	require.NoError(t, r.Close())
	open(t, r.fs, "boot-a")
}

func TestOptionsAreNeeded(t *testing.T) {
	for _, o := range []history.Options{
		{RunDir: run, BootID: "b", Now: clock()},
		{Dir: dir, BootID: "b", Now: clock()},
		{Dir: dir, RunDir: run, Now: clock()},
		{Dir: dir, RunDir: run, BootID: "b"},
	} {
		_, _, err := history.Open(o)
		require.Error(t, err)
	}
}

func TestTokens(t *testing.T) {
	a, b := open(t, newFS(), "boot-a"), open(t, newFS(), "boot-a")
	one, two := a.put(t, accept(0, "c", "1", state.HostOn)), a.put(t, accept(0, "c", "2", state.HostOff))
	b.put(t, accept(0, "c", "1", state.HostOn))

	good := a.commitOf(one)
	require.NoError(t, good.Durable(one).Covers(a.Log, one))

	mine := history.Commit{First: 1, Last: 9}
	changed := good
	changed.First, changed.Last = 1, 99
	for name, err := range map[string]error{
		"zero":              history.Durable{}.Covers(a.Log, one),
		"zero of no log":    history.Durable{}.Covers(nil, 0),
		"foreign":           b.commitOf(one).Durable(one).Covers(a.Log, one),
		"no log":            good.Durable(one).Covers(nil, one),
		"other entry":       good.Durable(one).Covers(a.Log, two),
		"not in commit":     good.Durable(two).Covers(a.Log, two),
		"made-up commit":    mine.Durable(one).Covers(a.Log, one),
		"stretched commit":  changed.Durable(50).Covers(a.Log, 50),
		"zero NotDurable":   history.NotDurable{}.Covers(a.Log, one),
		"zero permit, zero": history.NotDurable{}.Covers(nil, 0),
	} {
		assert.ErrorIs(t, err, history.ErrNoToken, name)
	}

	a.fs.SetFault(failOn(historytest.OpSync, syscall.EIO))
	three := a.Append(accept(0, "c", "3", state.HostOn))
	failed := a.commitOf(three)
	require.Error(t, failed.Err)
	require.ErrorIs(t, failed.Durable(three).Covers(a.Log, three), history.ErrNoToken)
}

func TestWhatCannotBeStoredIsRefused(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	assert.Zero(t, r.Append(history.Entry{}))
	assert.Zero(t, r.Append(history.Entry{Kind: 0xff}))
	assert.Zero(t, r.Append(accept(0, "c", "1", state.Operation(0))))
	assert.Zero(t, r.Append(status(99, state.Failed, "of the future")))
	r.put(t, accept(0, "c", "1", state.HostOn))
	require.NoError(t, r.Close())
	assert.Zero(t, r.Append(accept(0, "c", "2", state.HostOn)))
}

func TestIdleWritesNothing(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	r.put(t, accept(0, "c", "1", state.HostOn))
	r = r.reopen(t, "boot-a")
	before := r.fs.Bytes()
	r = r.reopen(t, "boot-b")
	r = r.reopen(t, "boot-b")
	assert.Equal(t, before, r.fs.Bytes())
	assert.Len(t, r.fs.Files(dir), 1)
}

func TestNumbersAreNeverReused(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	one := r.put(t, accept(0, "c", "1", state.HostOn))

	r.fs.SetFault(failOn(historytest.OpWrite, syscall.EIO))
	lost := r.Append(accept(0, "c", "2", state.HostOn))
	require.Error(t, r.commitOf(lost).Err)

	for name, fs := range map[string]*historytest.FS{
		"killed":     r.fs.Kill(),
		"power loss": r.fs.PowerLoss(historytest.Loss{}),
	} {
		next := open(t, fs, "boot-b")
		assert.Greater(t, next.rep.HighWater, lost, name)
		require.Len(t, next.rep.Requests, 1, name)
		assert.Equal(t, one, next.rep.Requests[0].Seq)
		two := next.put(t, accept(0, "c", "2", state.HostOn))
		assert.Greater(t, two, lost, name)
		next = next.reopen(t, "boot-b")
		assert.Equal(t, two+1, next.rep.HighWater, "no jump after an end in order")
	}

	// Damage, an empty state directory and marks do not lower it either.
	fs := newFS()
	fs.Put(run+"/void", []byte("77 boot-a\n"))
	fs.Put(run+"/barrier-3", []byte("88 boot-a\n"))
	fs.Put(run+"/sequence", []byte("66 boot-a\nnonsense\n"))
	next := open(t, fs, "boot-a")
	assert.Equal(t, uint64(88), next.rep.HighWater)
	assert.Equal(t, []history.Barrier{{Domain: 3, BootID: "boot-a", Request: 88}}, next.rep.Barriers)
	assert.Equal(t, []history.ReportKind{history.ReportIgnored}, kinds(next.rep.Reports))
}

func TestSegmentsAndCompaction(t *testing.T) {
	r := open(t, newFS(), "boot-a", segments(400))
	var reqs []uint64
	for i := range 40 {
		req := r.put(t, accept(i%2, "client", "", state.HostOn))
		r.put(t, started(req))
		if i%4 != 0 {
			r.put(t, status(req, state.Success, ""))
		}
		reqs = append(reqs, req)
	}
	files := len(r.fs.Files(dir))
	require.Greater(t, files, 5)
	require.True(t, r.commitOf(r.put(t, accept(0, "client", "", state.HostOn))).Due)

	r = r.reopen(t, "boot-a", segments(400))
	before := r.rep.Picture
	dropped := reqs[:20]
	r.Compact(func(request uint64) bool { return request <= dropped[len(dropped)-1] })
	r.put(t, accept(1, "client", "", state.HostOff))
	r = r.reopen(t, "boot-a", segments(400))
	assert.Len(t, r.fs.Files(dir), 2, "a snapshot and the segment after it")
	require.Empty(t, r.rep.Reports)
	for _, rec := range before.Requests {
		gone := rec.Status.Final() && rec.Seq <= dropped[len(dropped)-1]
		found := false
		for _, now := range r.rep.Requests {
			if now.Seq == rec.Seq {
				assert.Equal(t, rec, now)
				found = true
			}
		}
		assert.Equal(t, !gone, found, "request %d", rec.Seq)
	}
}

func TestFutureVersionIsRefused(t *testing.T) {
	r := open(t, newFS(), "boot-a")
	r.put(t, accept(0, "c", "1", state.HostOn))
	require.NoError(t, r.Close())
	name := dir + "/" + r.fs.Files(dir)[0]
	data := r.fs.Content(name)
	data[4], data[5] = 2, ^byte(2)
	r.fs.Put(name, data)
	_, _, err := history.Open(r.options("boot-b", nil))
	require.ErrorIs(t, err, history.ErrVersion)
	require.ErrorContains(t, err, "written in version 2")
	require.ErrorContains(t, err, name)
	assert.Equal(t, data, r.fs.Content(name), "nothing was touched")
	data[4], data[5] = 1, ^byte(1)
	r.fs.Put(name, data)
	open(t, r.fs, "boot-b")
}

func TestVolatileDirectoryIsNamed(t *testing.T) {
	assert.Empty(t, open(t, newFS(), "boot-a").rep.Volatile)
	assert.Equal(t, "tmpfs", open(t, historytest.New(run, dir), "boot-a").rep.Volatile)
}

func failOn(op historytest.Op, err error) func(historytest.Op, string) error {
	return func(got historytest.Op, path string) error {
		if got == op && strings.HasPrefix(path, dir) {
			return err
		}
		return nil
	}
}
