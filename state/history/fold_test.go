package history_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// journal numbers entries and gives them a boot and times.
func journal(boot string, entries ...history.Entry) []history.Entry {
	for i := range entries {
		entries[i].BootID = boot
		entries[i].Boot = time.Duration(i+1) * time.Second
		entries[i].Number(uint64(i) + 1)
	}
	return entries
}

func TestFold(t *testing.T) {
	on := accept(0, "c", "1", state.HostOn)
	noop := accept(0, "c", "1", state.HostOn)
	noop.Accepted.Status = state.Noop
	claim := func(uid uint32, gone bool) history.Entry {
		return history.Entry{Kind: history.KindClaim, Request: 1, Claim: history.Claim{UID: uid, Dropped: gone}}
	}
	for name, c := range map[string]struct {
		entries []history.Entry
		want    func(t *testing.T, r history.Record)
		ignored int
	}{
		"accepted": {[]history.Entry{on}, func(t *testing.T, r history.Record) {
			assert.Equal(t, state.Pending, r.Status)
			assert.Equal(t, time.Second, r.Accepted.Boot)
			assert.False(t, r.Launched)
			assert.Equal(t, "boot", r.Boot)
		}, 0},
		"final at once": {[]history.Entry{noop}, func(t *testing.T, r history.Record) {
			assert.Equal(t, state.Noop, r.Status)
			assert.Equal(t, time.Second, r.Ended.Boot)
			assert.Equal(t, "boot", r.EndedBoot)
		}, 0},
		"started": {[]history.Entry{on, started(1)}, func(t *testing.T, r history.Record) {
			assert.Equal(t, state.Running, r.Status)
			assert.True(t, r.Launched)
			assert.Equal(t, 2*time.Second, r.Started.Boot)
			assert.Equal(t, uint64(2), r.Last)
		}, 0},
		"started twice": {[]history.Entry{on, started(1), started(1)}, func(t *testing.T, r history.Record) {
			assert.Equal(t, 2*time.Second, r.Started.Boot)
		}, 1},
		"steps": {[]history.Entry{on, started(1), step(1, 0, "a"), step(1, 4, "b")}, func(t *testing.T, r history.Record) {
			assert.Equal(t, history.Step{Index: 4, Name: "b"}, r.Step)
			assert.Equal(t, 2, r.Steps)
			assert.Equal(t, 4*time.Second, r.StepAt.Boot)
		}, 0},
		"unknown, then success": {[]history.Entry{on, started(1), status(1, state.Unknown, "no confirmation"), status(1, state.Success, "late")},
			func(t *testing.T, r history.Record) {
				assert.Equal(t, state.Success, r.Status)
				assert.Equal(t, "late", r.Reason)
				assert.Equal(t, 4*time.Second, r.Ended.Boot)
			}, 0},
		"an ended request stays ended": {[]history.Entry{on, status(1, state.Cancelled, "by its owner"), started(1), step(1, 0, "a"),
			status(1, state.Running, ""), status(1, state.Success, ""), claim(9, false), accept(0, "c", "1", state.HostOff)},
			func(t *testing.T, r history.Record) {
				assert.Equal(t, state.Cancelled, r.Status)
				assert.Equal(t, "by its owner", r.Reason)
				assert.False(t, r.Launched)
				assert.Empty(t, r.Claims)
				assert.Zero(t, r.Steps)
			}, 6},
		"a repeated record is the newer one": {[]history.Entry{on, step(1, 3, "hold"), noop},
			func(t *testing.T, r history.Record) {
				assert.Equal(t, state.Noop, r.Status)
				assert.Equal(t, "hold", r.Step.Name)
				assert.Equal(t, uint64(3), r.Last)
			}, 0},
		"a repeated record takes nothing back": {[]history.Entry{on, started(1), on},
			func(t *testing.T, r history.Record) { assert.Equal(t, state.Running, r.Status) }, 1},
		"never back to pending": {[]history.Entry{on, started(1), status(1, state.Pending, ""), status(1, state.Status(0), ""), status(1, state.Status(99), "")},
			func(t *testing.T, r history.Record) { assert.Equal(t, state.Running, r.Status) }, 3},
		"claims": {[]history.Entry{on, claim(7, false), claim(8, false), claim(7, false), claim(7, true), claim(7, true), claim(1000, true)},
			func(t *testing.T, r history.Record) {
				assert.Equal(t, []uint32{8}, r.Claims)
				assert.True(t, r.OwnerLeft)
			}, 2},
		"the owner comes back": {[]history.Entry{on, claim(1000, false), claim(1000, true), claim(1000, false)},
			func(t *testing.T, r history.Record) {
				assert.False(t, r.OwnerLeft)
				assert.Empty(t, r.Claims)
			}, 1},
		"of nothing": {[]history.Entry{on, started(77), status(77, state.Success, ""), {Kind: 55}},
			func(t *testing.T, r history.Record) { assert.Equal(t, state.Pending, r.Status) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			entries := journal("boot", c.entries...)
			if last := &entries[len(entries)-1]; last.Kind == history.KindAccepted && len(entries) > 1 {
				last.Request = 1 // a repeated record of a request that is known
			}
			p := history.Fold(entries)
			c.want(t, find(t, p.Requests, 1))
			assert.Len(t, p.Ignored, c.ignored)
		})
	}
}

// TestFoldInventsNothing: whatever the entries, every status comes from one of
// them, ended requests stay ended, and a longer journal only goes forward.
func TestFoldInventsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journal("boot", rapid.SliceOfN(rapid.Custom(anyEntry), 1, 40).Draw(t, "entries")...)
		ended := map[uint64]history.Record{}
		for n := range len(entries) + 1 {
			said := map[uint64]map[state.Status]bool{}
			say := func(request uint64, s state.Status) {
				if said[request] == nil {
					said[request] = map[state.Status]bool{}
				}
				said[request][s] = true
			}
			for _, e := range entries[:n] {
				switch e.Kind {
				case history.KindAccepted:
					say(e.Request, e.Accepted.Status)
				case history.KindStarted:
					say(e.Request, state.Running)
				case history.KindStatus:
					say(e.Request, e.Status)
				}
			}
			for _, r := range history.Fold(entries[:n]).Requests {
				require.True(t, said[r.Seq][r.Status], "request %d is %s", r.Seq, r.Status)
				if before, was := ended[r.Seq]; was {
					require.Equal(t, before, r)
				}
				if r.Status.Final() {
					ended[r.Seq] = r
				}
			}
		}
	})
}

func anyEntry(t *rapid.T) history.Entry {
	request := rapid.Uint64Range(1, 5).Draw(t, "request")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		e := accept(0, "c", "", state.HostOn)
		e.Request = request
		e.Accepted.Status = rapid.SampledFrom([]state.Status{0, state.Pending, state.Noop, state.Invalid}).Draw(t, "status")
		return e
	case 1:
		return started(request)
	case 2:
		return step(request, 1, "step")
	case 3:
		return history.Entry{Kind: history.KindClaim, Request: request, Claim: history.Claim{UID: rapid.Uint32Range(1, 3).Draw(t, "uid"), Dropped: rapid.Bool().Draw(t, "gone")}}
	default:
		return status(request, state.Status(rapid.IntRange(0, 12).Draw(t, "status")), rapid.StringN(0, 4, -1).Draw(t, "reason"))
	}
}

func TestFoldKeepsDomainsApart(t *testing.T) {
	note := func(domain int, name, text string) history.Entry {
		return history.Entry{Kind: history.KindNote, Domain: domain, Note: history.Note{Name: name, Text: text}}
	}
	p := history.Fold(journal("boot", note(1, "a", "x"), note(0, "b", "y"), note(0, "a", "z"), note(0, "a", "w"),
		history.Entry{Kind: history.KindCounters, Domain: 4, Counters: history.Counters{Refused: 1}},
		history.Entry{Kind: history.KindCounters, Domain: 4, Counters: history.Counters{Refused: 2}}))
	assert.Equal(t, []history.DomainNote{
		{Domain: 0, Note: history.Note{Name: "a", Text: "w"}}, {Domain: 0, Note: history.Note{Name: "b", Text: "y"}},
		{Domain: 1, Note: history.Note{Name: "a", Text: "x"}}}, p.Notes)
	assert.Equal(t, map[int]history.Counters{4: {Refused: 2}}, p.Counters)
	_, ok := p.Note(1, "b")
	assert.False(t, ok)
}

func TestAgeIsUptime(t *testing.T) {
	p := history.Picture{Boots: []history.Boot{{ID: "a", Last: 5 * time.Hour}, {ID: "b", Last: 2 * time.Hour}, {ID: "c", Last: time.Minute}}}
	rec := func(boot string, ended time.Duration) *history.Record {
		r := &history.Record{EndedBoot: boot}
		r.Status, r.Ended.Boot = state.Success, ended
		return r
	}
	now := 3 * time.Minute
	assert.Equal(t, 2*time.Minute, p.Age(rec("c", time.Minute), "c", now))
	assert.Equal(t, time.Hour+now, p.Age(rec("b", time.Hour), "c", now))
	assert.Equal(t, 4*time.Hour+2*time.Hour+now, p.Age(rec("a", time.Hour), "c", now))
	assert.Equal(t, time.Minute+now, p.Age(rec("c", 0), "d", now), "a boot without a record yet")
	assert.Zero(t, p.Age(&history.Record{Request: state.Request{Status: state.Running}}, "c", now))
}

// TestRecordsCoverEveryField: a field that is added to a shared type must be
// added to the file format.
func TestRecordsCoverEveryField(t *testing.T) {
	var e history.Entry
	n := 0
	fill(reflect.ValueOf(&e).Elem(), &n)
	e.Seq, e.Request, e.BootID = 1000, 990, "boot"
	e.Accepted.Seq = e.Request
	e.Accepted.Op, e.Accepted.Status = state.ChassisOff, state.Interrupted
	at := state.Instant{Boot: time.Second, Wall: time.UnixMicro(5_000_000).UTC()}
	for kind := history.KindAccepted; kind <= history.KindNote; kind++ {
		e.Kind = kind
		got, _, err := history.RoundTrip(e, 900, "boot", at)
		require.NoError(t, err)
		switch kind {
		case history.KindAccepted:
			assert.Equal(t, e.Accepted, got.Accepted)
		case history.KindClaim:
			assert.Equal(t, e.Claim, got.Claim)
		case history.KindStarted:
			assert.Equal(t, e.Verdict, got.Verdict)
		case history.KindStep:
			assert.Equal(t, e.Step, got.Step)
		case history.KindStatus:
			assert.Equal(t, e.Status, got.Status)
			assert.Equal(t, e.Reason, got.Reason)
			assert.Equal(t, e.Superseded, got.Superseded)
		case history.KindCounters:
			assert.Equal(t, e.Counters, got.Counters)
		case history.KindNote:
			assert.Equal(t, e.Note, got.Note)
		}
		assert.Equal(t, []any{e.Seq, e.Kind, e.Domain, e.Request, e.BootID, e.Boot, e.Wall},
			[]any{got.Seq, got.Kind, got.Domain, got.Request, got.BootID, got.Boot, got.Wall})
		assert.NotContains(t, kind.String(), "EntryKind")
	}
	assert.Equal(t, "EntryKind(99)", history.EntryKind(99).String())

	// The same through a snapshot.
	var rec history.Record
	fill(reflect.ValueOf(&rec).Elem(), &n)
	rec.Seq, rec.Boot, rec.EndedBoot = 1, "boot", "boot-2"
	rec.Op, rec.Status = state.ChassisOff, state.Interrupted
	p := history.Picture{
		Requests: []history.Record{rec}, Boots: []history.Boot{{ID: "boot", Last: time.Hour}, {ID: "boot-2", Last: time.Minute}},
		Counters: map[int]history.Counters{3: {Launches: 1, DuplicatesSuppressed: 2, Refused: 3}},
		Notes:    []history.DomainNote{{Domain: 2, Note: history.Note{Name: "a", Text: "b"}}},
	}
	got, err := history.SnapshotRoundTrip(&p)
	require.NoError(t, err)
	assert.Equal(t, p, got)
}

// fill gives every field a value of its own that is not zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMicro(int64(*n) * 1_000_000).UTC()))
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(time.Duration(*n) * time.Millisecond))
	default:
		fillKind(v, n)
	}
}

func fillKind(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(strings.Repeat("x", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(int64(*n))
	default:
		v.SetUint(uint64(*n))
	}
}

func TestLongTextsAndListsAreCut(t *testing.T) {
	e := accept(0, "c", "1", state.HostOn)
	e.Accepted.Cause = strings.Repeat("ü", 4000)
	e.Accepted.Expires = 1<<63 - 1
	e.Accepted.Claims = make([]uint32, 5000)
	r := open(t, newFS(), "boot-a")
	one := r.put(t, e)
	end := status(one, state.Failed, strings.Repeat("x", 70_000))
	end.Superseded = make([]uint64, 70_000)
	r.put(t, end)
	r.Compact(nil)
	got := find(t, r.reopen(t, "boot-a").rep.Requests, one)
	assert.Equal(t, strings.Repeat("ü", 512), got.Cause)
	assert.Len(t, got.Claims, 1024)
	assert.Len(t, got.Reason, 1024)
	assert.Len(t, got.Superseded, 1024)
	assert.Greater(t, got.Expires, 100*365*24*time.Hour)
}
