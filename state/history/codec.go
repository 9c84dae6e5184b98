package history

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// version is the format that this package reads and writes. Bytes 0–5 of a file
// (magic, version, ^version) stay as they are in every future version, so that
// an old program can say what it has met.
const version = 1

const magic = "bmcj"

// fileKind is what a file holds.
type fileKind byte

const (
	kindLog  fileKind = 'L'
	kindSnap fileKind = 'S'
)

// header starts every file.
type header struct {
	_ state.Incomparable

	kind  fileKind
	first uint64 // log: sequence of the first record; snapshot: of what comes next
	prev  uint64 // last durable sequence before this file
	boot  string // boot id of the writing process
	at    state.Instant

	seed uint32 // start of the records' checksums
}

// appendHeader appends h and sets h.seed.
func appendHeader(b []byte, h *header) ([]byte, error) {
	b = append(b, magic...)
	b = append(b, version, ^byte(version))
	var w writer
	w.byte(byte(h.kind))
	w.uint(h.first)
	w.uint(h.prev)
	w.text(h.boot)
	w.instant(h.at, origin{})
	h.at = micro(h.at)
	h.seed = crc32.Checksum(w.b, castagnoli)
	return appendFrame(b, w.b, 0)
}

// versionError says that a newer program wrote the journal.
type versionError struct{ version byte }

func (e *versionError) Error() string {
	return fmt.Sprintf("written in version %d of the format, this program knows version %d", e.version, version)
}

// readHeader reads the header at the start of b and returns its length. Its
// error wraps errTorn or errDamaged, or is a *versionError.
func readHeader(b []byte) (header, int, error) {
	const lead = len(magic) + 2
	content := len(b) - trailingZeros(b)
	if content < lead {
		return header{}, 0, fmt.Errorf("%w: %d bytes of a header", errTorn, content)
	}
	if string(b[:len(magic)]) != magic || b[4] != ^b[5] {
		return header{}, 0, fmt.Errorf("%w: not a journal's header", errDamaged)
	}
	if b[4] != version {
		return header{}, 0, &versionError{version: b[4]}
	}
	payload, n, err := nextFrame(b[lead:], 0)
	if err != nil {
		return header{}, 0, err
	}
	r := reader{b: payload}
	h := header{kind: fileKind(r.byte()), first: r.uint(), prev: r.uint(), boot: r.text(), at: r.instant(origin{})}
	h.seed = crc32.Checksum(payload, castagnoli)
	return h, lead + n, r.end()
}

// putEntry writes a log record.
func putEntry(w *writer, e *Entry, h *header) {
	w.byte(byte(e.Kind))
	w.uint(e.Seq - h.first)
	w.instant(e.At(), originOf(h.at))
	w.int(int64(e.Domain))
	w.int(int64(e.Seq - e.Request))
	switch e.Kind {
	case KindAccepted:
		putRequest(w, &e.Accepted, originOf(e.At()))
	case KindClaim:
		w.uint(uint64(e.Claim.UID))
		w.flag(e.Claim.Dropped)
	case KindStarted:
		w.byte(byte(e.Verdict))
	case KindStep:
		putStep(w, e.Step, originOf(e.At()))
	case KindStatus:
		w.byte(byte(e.Status))
		w.text(e.Reason)
		w.seqs(e.Superseded)
	case KindCounters:
		w.uint(e.Counters.Launches)
		w.uint(e.Counters.DuplicatesSuppressed)
		w.uint(e.Counters.Refused)
	case KindNote:
		w.text(e.Note.Name)
		w.text(e.Note.Text)
	}
}

// getEntry reads a log record.
func getEntry(payload []byte, h *header) (Entry, error) {
	r := reader{b: payload}
	e := Entry{Kind: EntryKind(r.byte()), Seq: h.first + r.uint(), BootID: h.boot}
	at := r.instant(originOf(h.at))
	e.Boot, e.Wall = at.Boot, at.Wall
	e.Domain = int(r.int())
	if e.Request = e.Seq - uint64(r.int()); e.Request > e.Seq {
		r.fail("sequence")
	}
	switch e.Kind {
	case KindAccepted:
		e.Accepted = getRequest(&r, e.Request, originOf(at))
	case KindClaim:
		e.Claim = Claim{UID: uint32(r.uint()), Dropped: r.flag()}
	case KindStarted:
		e.Verdict = state.Verdict(r.byte())
	case KindStep:
		e.Step = getStep(&r, originOf(at))
	case KindStatus:
		e.Status, e.Reason, e.Superseded = state.Status(r.byte()), r.text(), r.seqs()
	case KindCounters:
		e.Counters = Counters{Launches: r.uint(), DuplicatesSuppressed: r.uint(), Refused: r.uint()}
	case KindNote:
		e.Note = Note{Name: r.text(), Text: r.text()}
	case kindClosed:
	default:
		r.fail("kind of record")
	}
	return e, r.end()
}

func putStep(w *writer, s Step, o origin) {
	w.uint(uint64(s.Index))
	w.text(s.Name)
	putTime(w, s.Deadline, o)
}

func getStep(r *reader, o origin) Step {
	return Step{Index: uint32(r.uint()), Name: r.text(), Deadline: getTime(r, o)}
}

// putTime writes a moment of the boot clock that may be 0 for none.
func putTime(w *writer, d time.Duration, o origin) {
	w.flag(d != 0)
	if d != 0 {
		w.int(d.Microseconds() - o.boot)
	}
}

func getTime(r *reader, o origin) time.Duration {
	if !r.flag() {
		return 0
	}
	return r.boot(o.boot + r.int())
}

// Bits of a request's flag byte.
const (
	flagOwnNumber = 1 << iota // the request id is the sequence number
	flagLaunched
	flagStarted
	flagEnded
	flagOwnerLeft
)

// putRequest writes a request but for its sequence.
func putRequest(w *writer, q *state.Request, o origin) {
	var flags byte
	set := func(on bool, bit byte) {
		if on {
			flags |= bit
		}
	}
	own := q.Key.Request == strconv.FormatUint(q.Seq, 10)
	started, ended := q.Started != state.Instant{}, q.Ended != state.Instant{}
	set(own, flagOwnNumber)
	set(q.Launched, flagLaunched)
	set(started, flagStarted)
	set(ended, flagEnded)
	set(q.OwnerLeft, flagOwnerLeft)
	w.byte(flags)
	w.uint(uint64(q.Key.UID))
	w.text(q.Key.Client)
	if !own {
		w.text(q.Key.Request)
	}
	w.byte(byte(q.Object.Kind))
	w.int(int64(q.Object.Index))
	w.byte(byte(q.Op))
	w.text(q.Cause)
	w.uids(q.Claims)
	w.byte(byte(q.Status))
	w.text(q.Reason)
	w.instant(q.Accepted, o)
	accepted := originOf(q.Accepted)
	if started {
		w.instant(q.Started, accepted)
	}
	if ended {
		w.instant(q.Ended, accepted)
	}
	putTime(w, q.Expires, accepted)
	w.seqs(q.Superseded)
}

func getRequest(r *reader, seq uint64, o origin) state.Request {
	flags := r.byte()
	q := state.Request{Seq: seq, Launched: flags&flagLaunched != 0, OwnerLeft: flags&flagOwnerLeft != 0}
	q.Key.UID, q.Key.Client = uint32(r.uint()), r.text()
	if flags&flagOwnNumber != 0 {
		q.Key.Request = strconv.FormatUint(seq, 10)
	} else {
		q.Key.Request = r.text()
	}
	q.Object = state.Object{Kind: state.Kind(r.byte()), Index: int(r.int())}
	q.Op = state.Operation(r.byte())
	q.Cause, q.Claims = r.text(), r.uids()
	q.Status, q.Reason = state.Status(r.byte()), r.text()
	q.Accepted = r.instant(o)
	accepted := originOf(q.Accepted)
	if flags&flagStarted != 0 {
		q.Started = r.instant(accepted)
	}
	if flags&flagEnded != 0 {
		q.Ended = r.instant(accepted)
	}
	q.Expires, q.Superseded = getTime(r, accepted), r.seqs()
	if !q.Status.Valid() || !q.Op.Valid() {
		r.fail("status or operation")
	}
	return q
}
