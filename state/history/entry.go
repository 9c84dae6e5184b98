package history

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmcstate/bmcstate/state"
)

// EntryKind says which of an [Entry]'s fields count.
type EntryKind uint8

// The kinds of entries. Their numbers are part of the file format.
const (
	KindAccepted EntryKind = iota + 1 // Accepted: a request came to be
	KindClaim                         // Claim: a uid joined a request or left it
	KindStarted                       // Verdict: the executor launches the request
	KindStep                          // Step: the executor is about to act
	KindStatus                        // Status, Reason, Superseded: the request's new status
	KindCounters                      // Counters of a domain
	KindNote                          // Note: a value that must survive, by name

	kindClosed EntryKind = 0xff // the last record of a process that ended in order
)

var kindNames = [...]string{
	KindAccepted: "accepted", KindClaim: "claim", KindStarted: "started", KindStep: "step",
	KindStatus: "status", KindCounters: "counters", KindNote: "note",
}

// String returns the kind's name, for example "accepted".
func (k EntryKind) String() string {
	switch {
	case k == kindClosed:
		return "closed"
	case int(k) < len(kindNames) && kindNames[k] != "":
		return kindNames[k]
	}
	return "EntryKind(" + strconv.Itoa(int(k)) + ")"
}

// Entry is one record of the journal. Times are kept in microseconds.
type Entry struct {
	Seq     uint64 // assigned by [Log.Append]
	Kind    EntryKind
	Domain  int
	Request uint64 // sequence of the acceptance; 0 in KindAccepted stands for Seq

	BootID string        // assigned by Append: the boot in which the entry was made
	Boot   time.Duration // CLOCK_BOOTTIME; Append fills it in with Wall where it is 0
	Wall   time.Time     // for display only

	Accepted   state.Request // KindAccepted
	Claim      Claim         // KindClaim
	Verdict    state.Verdict // KindStarted
	Step       Step          // KindStep
	Status     state.Status  // KindStatus
	Reason     string        // KindStatus
	Superseded []uint64      // KindStatus: sequences that this request superseded
	Counters   Counters      // KindCounters
	Note       Note          // KindNote
}

// At returns the entry's moment.
func (e *Entry) At() state.Instant { return state.Instant{Boot: e.Boot, Wall: e.Wall} }

// Claim is a uid that joins a request or drops its part in it.
type Claim struct {
	UID     uint32
	Dropped bool
}

// Step is a step of an executor, written before it acts.
type Step struct {
	Index    uint32
	Name     string
	Deadline time.Duration // boot clock; 0 = none
}

// Counters are a domain's counters as they stand, not increments.
type Counters struct {
	Launches             uint64
	DuplicatesSuppressed uint64
	Refused              uint64
}

// Note is a named value of a domain; the newest of a name counts.
type Note struct {
	Name string
	Text string
}

// Limits of what one record takes. Longer texts are cut (at a character),
// longer lists lose their end; both are far above what the queue admits.
const (
	maxText = 1024
	maxList = 1024
)

func clipText(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

func clipSeqs(list []uint64) []uint64 {
	return append([]uint64(nil), list[:min(len(list), maxList)]...)
}

// storable reports whether e makes sense as entry number seq. What does not
// would be read back as damage.
func (e *Entry) storable(seq uint64) bool {
	switch {
	case e.Kind < KindAccepted || e.Kind > KindNote, e.Request > seq:
		return false
	default:
		return e.Kind != KindAccepted || e.Accepted.Op.Valid()
	}
}

// clampBoot keeps a moment of the boot clock within what a record can hold. A
// caller may ask for an expiry in thousands of years.
func clampBoot(d time.Duration) time.Duration {
	return min(max(d, 0), maxBoot*time.Microsecond)
}

// own makes e independent of its caller and fit for one record.
func (e *Entry) own() {
	r := &e.Accepted
	for _, d := range []*time.Duration{&e.Boot, &e.Step.Deadline, &r.Expires, &r.Accepted.Boot, &r.Started.Boot, &r.Ended.Boot} {
		*d = clampBoot(*d)
	}
	r.Key.Client, r.Key.Request = clipText(r.Key.Client), clipText(r.Key.Request)
	r.Cause, r.Reason, e.Reason = clipText(r.Cause), clipText(r.Reason), clipText(e.Reason)
	r.Claims = append([]uint32(nil), r.Claims[:min(len(r.Claims), maxList)]...)
	r.Superseded, e.Superseded = clipSeqs(r.Superseded), clipSeqs(e.Superseded)
	e.Step.Name = clipText(e.Step.Name)
	e.Note.Name, e.Note.Text = clipText(e.Note.Name), clipText(e.Note.Text)
}

// number completes a fresh entry once its sequence is known.
func (e *Entry) number(seq uint64) {
	e.Seq = seq
	if e.Kind != KindAccepted {
		return
	}
	if e.Request == 0 {
		e.Request = seq
	}
	e.Accepted.Seq = e.Request
	if e.Accepted.Key.Request == "" {
		e.Accepted.Key.Request = strconv.FormatUint(e.Request, 10)
	}
	if e.Accepted.Accepted == (state.Instant{}) {
		e.Accepted.Accepted = e.At()
	}
	if !e.Accepted.Status.Valid() {
		e.Accepted.Status = state.Pending
	}
	if e.Accepted.Status.Final() && e.Accepted.Ended == (state.Instant{}) {
		e.Accepted.Ended = e.At()
	}
}

// microBoot and microWall are the precision of the files.
func microBoot(d time.Duration) time.Duration { return d.Truncate(time.Microsecond) }

func microWall(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func micro(i state.Instant) state.Instant {
	return state.Instant{Boot: microBoot(i.Boot), Wall: microWall(i.Wall)}
}

// sameText lets equal strings of many records share their bytes.
type sameText map[string]string

func (m sameText) of(s string) string {
	if have, ok := m[s]; ok {
		return have
	}
	s = strings.Clone(s)
	m[s] = s
	return s
}
