package history_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

// sampleDir holds a journal that version 1 of the format wrote: a snapshot, and
// the segments of two boots after it. It is never written anew.
const sampleDir = "testdata/v1"

// writeSample is what was done to write it.
func writeSample(t *testing.T) *historytest.FS {
	r := open(t, newFS(), "boot-a")
	one := r.put(t, accept(0, "bmcweb", "id-1", state.HostOn))
	r.put(t, started(one))
	r.put(t, step(one, 1, "assert POWER_OUT"))
	r.put(t, history.Entry{Kind: history.KindClaim, Request: one, Claim: history.Claim{UID: 5}})
	r.put(t, status(one, state.Success, "power good and host running, observed"))
	r.put(t, history.Entry{Kind: history.KindCounters, Counters: history.Counters{Launches: 1, DuplicatesSuppressed: 2, Refused: 3}})
	r.put(t, history.Entry{Kind: history.KindNote, Note: history.Note{Name: "values", Text: `{"v":1}`}})
	r.put(t, accept(1, "ipmid", "17", state.ChassisOff))
	r.Compact(nil)
	r = r.reopen(t, "boot-b")
	two := accept(0, state.PropertyClient, "", state.HostReboot)
	two.Accepted.Expires, two.Accepted.Cause = 2*time.Hour, "5"
	second := r.put(t, two)
	r.put(t, started(second))
	withDeadline := step(second, 2, "wait for power off")
	withDeadline.Step.Deadline = 3 * time.Hour
	r.put(t, withDeadline)
	end := status(r.put(t, accept(0, "c", "off", state.ChassisOff)), state.Noop, "off already")
	end.Superseded = []uint64{second}
	r.put(t, end)
	require.NoError(t, r.Close())
	return r.fs
}

// stored returns the sample as a state directory.
func stored(t *testing.T) (*historytest.FS, []string) {
	fs := newFS()
	files, err := os.ReadDir(sampleDir)
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(sampleDir, f.Name()))
		require.NoError(t, err)
		fs.Put(dir+"/"+f.Name(), data)
		names = append(names, f.Name())
	}
	require.GreaterOrEqual(t, len(names), 2)
	return fs, names
}

func contents(fs *historytest.FS) map[string]string {
	all := map[string]string{}
	for _, name := range fs.Files(dir) {
		all[name] = string(fs.Content(dir + "/" + name))
	}
	return all
}

// Upgrade: what an older program of version 1 wrote is all there.
func TestOlderJournalIsRead(t *testing.T) {
	fs, _ := stored(t)
	r := open(t, fs, "boot-c")
	require.Empty(t, r.rep.Reports)
	require.Len(t, r.rep.Requests, 4)
	one, off, two, last := r.rep.Requests[0], r.rep.Requests[1], r.rep.Requests[2], r.rep.Requests[3]

	assert.Equal(t, state.Key{UID: 1000, Client: "bmcweb", Request: "id-1"}, one.Key)
	assert.Equal(t, state.Success, one.Status)
	assert.Equal(t, "power good and host running, observed", one.Reason)
	assert.Equal(t, []uint32{5}, one.Claims)
	assert.Equal(t, "assert POWER_OUT", one.Step.Name)
	assert.Equal(t, "boot-a", one.EndedBoot)

	assert.Equal(t, 1, off.Domain)
	assert.Equal(t, state.ChassisOff, off.Op)
	assert.Equal(t, state.Pending, off.Status)

	assert.Equal(t, state.HostReboot, two.Op)
	assert.Equal(t, state.VerdictPowerOn, two.Verdict)
	assert.True(t, two.Launched)
	assert.Equal(t, 2*time.Hour, two.Expires)
	assert.Equal(t, "5", two.Cause)
	assert.Equal(t, history.Step{Index: 2, Name: "wait for power off", Deadline: 3 * time.Hour}, two.Step)

	assert.Equal(t, state.Noop, last.Status)
	assert.Equal(t, []uint64{two.Seq}, last.Superseded)
	assert.Equal(t, history.Counters{Launches: 1, DuplicatesSuppressed: 2, Refused: 3}, r.rep.Counters[0])
	text, ok := r.rep.Note(0, "values")
	assert.True(t, ok)
	assert.Equal(t, `{"v":1}`, text)

	require.Greater(t, r.put(t, accept(0, "c", "new", state.HostOn)), last.Seq)
	before := r.rep.Requests
	r = r.reopen(t, "boot-c")
	require.Empty(t, r.rep.Reports)
	require.Equal(t, before, r.rep.Requests[:4])
}

// Downgrade: a program of version 1 reads what is written now, as it is what it
// would have written itself. If this fails, raise the version, keep testdata as
// it is, and go on reading it.
func TestVersionOneIsStillWritten(t *testing.T) {
	old, _ := stored(t)
	assert.Equal(t, contents(old), contents(writeSample(t)))
}

// Whichever of its files a newer program wrote, the journal is refused as a
// whole, and none of them changes.
func TestNewerJournalIsLeftAlone(t *testing.T) {
	_, names := stored(t)
	for _, name := range names {
		for _, newer := range []byte{2, 255} {
			fs, _ := stored(t)
			path := dir + "/" + name
			data := slices.Clone(fs.Content(path))
			data[4], data[5] = newer, ^newer
			// What follows is of that version: it need not make sense here.
			data = append(data[:6], "another header"...)
			fs.Put(path, data)
			before := contents(fs)
			r := &rig{fs: fs, came: make(chan struct{}, 16)}
			_, _, err := history.Open(r.options("boot-c", nil))
			require.ErrorIs(t, err, history.ErrVersion, name)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, "install the newer bmcstated again, or move the file away")
			require.Equal(t, before, contents(fs), name)
		}
	}
}

// A record of a kind, or with a field, that version 1 does not have: the file is
// set aside as it is, with what came before it kept.
func TestUnknownRecordOfVersionOneIsSetAside(t *testing.T) {
	at := state.Instant{Boot: time.Hour, Wall: time.Unix(1_800_000_000, 0)}
	known := []byte{byte(history.KindCounters), 0, 0, 0, 0, 0, 4, 5, 6}
	for name, payload := range map[string][]byte{
		"unknown kind":  {200, 1, 0, 0, 0, 0},
		"another field": {byte(history.KindCounters), 1, 0, 0, 0, 0, 7, 8, 9, 10},
		"field missing": {byte(history.KindCounters), 1, 0, 0, 0, 0, 7, 8},
	} {
		data, seed := history.FileHeader(1, 0, "boot-a", at)
		data = history.Frame(history.Frame(data, known, seed), payload, seed)
		fs := newFS()
		const file = "journal-00000000000000000001.log"
		fs.Put(dir+"/"+file, data)
		r := open(t, fs, "boot-b")
		require.True(t, r.rep.Damaged, name)
		require.Equal(t, history.Counters{Launches: 4, DuplicatesSuppressed: 5, Refused: 6}, r.rep.Counters[0], name)
		require.Equal(t, data, fs.Content(dir+"/"+file+".damaged"), name)
		require.Equal(t, file, r.rep.Reports[0].File, name)
		require.NoError(t, r.Close())
	}
}
