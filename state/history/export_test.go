package history

import (
	"github.com/bmcstate/bmcstate/state"
)

// The format, for tests that take files apart or forge them.
const (
	FrameHead     = frameHead
	FrameTail     = frameTail
	SequenceSpan  = sequenceSpan
	ReasonDamaged = reasonDamaged
	ReasonVoid    = reasonVoid
)

// FileHeader returns the header of a segment that begins with record first.
func FileHeader(first, prev uint64, boot string, at state.Instant) ([]byte, uint32) {
	h := header{kind: kindLog, first: first, prev: prev, boot: boot, at: at}
	b, err := appendHeader(nil, &h)
	if err != nil {
		panic(err)
	}
	return b, h.seed
}

// Frame puts a record around a payload.
func Frame(b, payload []byte, seed uint32) []byte {
	b, err := appendFrame(b, payload, seed)
	if err != nil {
		panic(err)
	}
	return b
}

// Bounds returns where the header of a file and each of its records end.
func Bounds(data []byte) []int {
	hdr, at, err := readHeader(data)
	ends := []int{at}
	for err == nil && at < len(data) {
		var n int
		if _, n, err = nextFrame(data[at:], hdr.seed); err == nil {
			at += n
			ends = append(ends, at)
		}
	}
	return ends
}

// RoundTrip encodes and decodes an entry.
func RoundTrip(e Entry, first uint64, boot string, at state.Instant) (Entry, int, error) {
	h := header{first: first, boot: boot, at: micro(at)}
	var w writer
	putEntry(&w, &e, &h)
	got, err := getEntry(w.b, &h)
	return got, len(w.b), err
}

// Own and Number complete an entry as Append does.
func (e *Entry) Own()              { e.own() }
func (e *Entry) Number(seq uint64) { e.number(seq) }

// SnapshotRoundTrip writes a picture as a snapshot and reads it back.
func SnapshotRoundTrip(p *Picture) (Picture, error) {
	r := snapReader{fold: newFolder(), last: 1 << 40}
	err := writeSnapshot(p, r.take)
	return r.fold.picture(), err
}
