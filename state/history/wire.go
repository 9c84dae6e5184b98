package history

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// writer appends the fields of a payload.
type writer struct{ b []byte }

func (w *writer) byte(v byte)     { w.b = append(w.b, v) }
func (w *writer) uint(v uint64)   { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)     { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) text(s string)   { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) reset() *writer  { w.b = w.b[:0]; return w }
func (w *writer) flag(v bool)     { w.byte(map[bool]byte{true: 1}[v]) }
func (w *writer) uids(l []uint32) { putList(w, l) }
func (w *writer) seqs(l []uint64) { putList(w, l) }

func putList[T uint32 | uint64](w *writer, list []T) {
	w.uint(uint64(len(list)))
	for _, v := range list {
		w.uint(uint64(v))
	}
}

// origin is what the instants of a payload are counted from.
type origin struct {
	boot int64 // µs since boot
	wall int64 // µs since the epoch
}

func originOf(i state.Instant) origin {
	o := origin{boot: i.Boot.Microseconds()}
	if !i.Wall.IsZero() {
		o.wall = i.Wall.UnixMicro()
	}
	return o
}

// instant writes a moment as a distance from o: the boot clock first, then how
// far the wall clock went beyond it, which is next to nothing.
func (w *writer) instant(i state.Instant, o origin) {
	at := originOf(i)
	w.int(at.boot - o.boot)
	w.int((at.wall - o.wall) - (at.boot - o.boot))
}

// reader takes the fields of a payload apart. After the first error every
// further value is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: bad %s", errDamaged, what)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("byte")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) flag() bool { return r.byte() != 0 }

func (r *reader) text() string {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail("text")
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) seqs() []uint64 {
	n := r.uint()
	if n > uint64(len(r.b)) { // every element takes a byte at least
		r.fail("list")
		return nil
	}
	var list []uint64
	for range n {
		list = append(list, r.uint())
	}
	return list
}

func (r *reader) uids() []uint32 {
	var list []uint32
	for _, uid := range r.seqs() {
		list = append(list, uint32(uid))
	}
	return list
}

func (r *reader) instant(o origin) state.Instant {
	boot := r.int()
	wall := o.wall + boot + r.int()
	i := state.Instant{Boot: r.boot(o.boot + boot)}
	if wall != 0 {
		i.Wall = time.UnixMicro(wall).UTC()
	}
	return i
}

// maxBoot is more than any machine runs (142 years, in µs) and keeps the
// arithmetic from overflowing.
const maxBoot = 1 << 52

// boot turns microseconds since boot into a duration.
func (r *reader) boot(micros int64) time.Duration {
	if micros < 0 || micros > maxBoot {
		r.fail("time")
		return 0
	}
	return time.Duration(micros) * time.Microsecond
}

// end reports what went wrong; bytes left over are wrong too.
func (r *reader) end() error {
	if r.err == nil && len(r.b) != 0 {
		r.fail("length")
	}
	return r.err
}
