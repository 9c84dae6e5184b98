package history

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

// Kinds of a snapshot's records. Its records are numbered from 0; the last one
// says how many there were.
const (
	snapBoot byte = iota + 1
	snapRequest
	snapCounters
	snapNote
	snapEnd
)

// snapWriter turns a picture into records, one at a time.
type snapWriter struct {
	emit  func(payload []byte) error
	n     uint64
	boots map[string]uint64 // boot id → 1 + place in the file
	w     writer
	err   error
}

func (s *snapWriter) begin(kind byte) *writer {
	w := s.w.reset()
	w.byte(kind)
	w.uint(s.n)
	return w
}

func (s *snapWriter) end() {
	s.n++
	if s.err == nil {
		s.err = s.emit(s.w.b)
	}
}

// writeSnapshot gives a picture's records to emit.
func writeSnapshot(p *Picture, emit func(payload []byte) error) error {
	s := snapWriter{emit: emit, boots: map[string]uint64{}}
	for i, b := range neededBoots(p) {
		s.boots[b.ID] = uint64(i) + 1
		w := s.begin(snapBoot)
		w.text(b.ID)
		w.int(b.Last.Microseconds())
		s.end()
	}
	for i := range p.Requests {
		s.request(&p.Requests[i])
	}
	for _, domain := range state.SortedKeys(p.Counters) {
		c := p.Counters[domain]
		w := s.begin(snapCounters)
		w.int(int64(domain))
		w.uint(c.Launches)
		w.uint(c.DuplicatesSuppressed)
		w.uint(c.Refused)
		s.end()
	}
	for _, n := range p.Notes {
		w := s.begin(snapNote)
		w.int(int64(n.Domain))
		w.text(n.Name)
		w.text(n.Text)
		s.end()
	}
	s.begin(snapEnd)
	s.end()
	return s.err
}

// neededBoots drops the boots from before the oldest that a record names; the
// newest always stays.
func neededBoots(p *Picture) []Boot {
	named := map[string]bool{}
	for i := range p.Requests {
		named[p.Requests[i].Boot], named[p.Requests[i].EndedBoot] = true, true
	}
	for i, b := range p.Boots {
		if named[b.ID] || i == len(p.Boots)-1 {
			return p.Boots[i:]
		}
	}
	return nil
}

func (s *snapWriter) request(r *Record) {
	w := s.begin(snapRequest)
	w.uint(r.Seq)
	w.uint(r.Last)
	w.int(int64(r.Domain))
	w.byte(byte(r.Verdict))
	w.uint(s.boots[r.Boot])
	w.uint(s.boots[r.EndedBoot])
	putRequest(w, &r.Request, origin{})
	w.uint(uint64(r.Steps))
	if r.Steps > 0 {
		o := originOf(r.Accepted)
		w.instant(r.StepAt, o)
		putStep(w, r.Step, o)
	}
	s.end()
}

// snapReader puts a snapshot's records into a fold.
type snapReader struct {
	fold  *folder
	last  uint64 // sequence up to which the snapshot goes
	n     uint64
	ended bool
}

func (s *snapReader) take(payload []byte) error {
	r := reader{b: payload}
	kind, n := r.byte(), r.uint()
	if r.err == nil && n != s.n || s.ended {
		return fmt.Errorf("%w: record %d where %d was due", errDamaged, n, s.n)
	}
	s.n++
	switch kind {
	case snapBoot:
		id, last := s.fold.text.of(r.text()), r.boot(r.int())
		s.fold.boots = seenBoot(s.fold.boots, id, last)
	case snapRequest:
		rec := s.request(&r)
		if r.err == nil {
			s.fold.put(rec)
		}
	case snapCounters:
		domain := int(r.int())
		s.fold.counters[domain] = Counters{Launches: r.uint(), DuplicatesSuppressed: r.uint(), Refused: r.uint()}
	case snapNote:
		key := noteKey{domain: int(r.int()), name: r.text()}
		s.fold.notes[key] = r.text()
	case snapEnd:
		s.ended = true
	default:
		r.fail("kind of record")
	}
	return r.end()
}

func (s *snapReader) boot(i uint64) string {
	if i == 0 || i > uint64(len(s.fold.boots)) {
		return ""
	}
	return s.fold.boots[i-1].ID
}

func (s *snapReader) request(r *reader) Record {
	seq := r.uint()
	if _, twice := s.fold.index[seq]; twice || seq > s.last {
		r.fail("sequence")
	}
	rec := Record{Last: r.uint(), Domain: int(r.int()), Verdict: state.Verdict(r.byte())}
	rec.Boot, rec.EndedBoot = s.boot(r.uint()), s.boot(r.uint())
	rec.Request = getRequest(r, seq, origin{})
	rec.Steps = int(r.uint())
	if rec.Steps > 0 {
		o := originOf(rec.Accepted)
		rec.StepAt = r.instant(o)
		rec.Step = getStep(r, o)
	}
	return rec
}
