package props

import (
	"bufio"
	"encoding/binary"
	"io"

	godbus "github.com/godbus/dbus/v5"
)

// envelope is what is known of a message that is not taken: enough to answer it.
type envelope struct {
	sender  string // unique name, as the bus driver wrote it
	serial  uint32
	answers bool // a method call whose sender waits for an answer
}

// maxName is the protocol's limit of a bus name.
const maxName = 255

func orderOf(head []byte) binary.ByteOrder {
	if head[0] == 'B' {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// skim reads a message's head, whatever its length, in little memory. It returns
// how much it has read, which is never more than the head. The bus has checked
// the form; what is not understood ends the search for the sender, and nobody is
// answered.
func skim(in *bufio.Reader) (e envelope, read uint64) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(in, head); err != nil {
		return e, 0
	}
	order := orderOf(head)
	e.serial = order.Uint32(head[8:])
	f := fields{in: in, order: order, at: 16, end: 16 + uint64(order.Uint32(head[12:]))}
	for e.sender == "" && f.at < f.end {
		if !f.next(&e) {
			break
		}
	}
	e.answers = godbus.Type(head[1]) == godbus.TypeMethodCall && godbus.Flags(head[2])&godbus.FlagNoReplyExpected == 0 && e.sender != ""
	return e, f.at
}

// fields reads the array of header fields of a message from a stream.
type fields struct {
	in      *bufio.Reader
	order   binary.ByteOrder
	at, end uint64
}

// take reads n bytes; it never leaves the array. Nil means that it ends before.
func (f *fields) take(n uint64) []byte {
	if n > f.end-f.at {
		return nil
	}
	b := make([]byte, n)
	got, err := io.ReadFull(f.in, b)
	f.at += uint64(got)
	if err != nil {
		return nil
	}
	return b
}

func (f *fields) skip(n uint64) bool {
	if n > f.end-f.at {
		return false
	}
	got, err := f.in.Discard(int(n))
	f.at += uint64(got)
	return err == nil
}

func (f *fields) align(to uint64) bool { return f.skip(-f.at & (to - 1)) }

// length reads a length of so many bytes, 4 or 1.
func (f *fields) length(size uint64) (uint64, bool) {
	if !f.align(size) {
		return 0, false
	}
	b := f.take(size)
	switch len(b) {
	case 4:
		return uint64(f.order.Uint32(b)), true
	case 1:
		return uint64(b[0]), true
	default:
		return 0, false
	}
}

// next reads one field: its code, the signature of its value (one basic type in
// each field that the protocol knows), and the value.
func (f *fields) next(e *envelope) bool {
	if !f.align(8) {
		return false
	}
	head := f.take(4) // code, length of the signature, the signature, its NUL
	if head == nil || head[1] != 1 {
		return false
	}
	switch kind := head[2]; kind {
	case 'u':
		return f.align(4) && f.skip(4)
	case 's', 'o', 'g':
		size := uint64(4)
		if kind == 'g' {
			size = 1
		}
		n, ok := f.length(size)
		if !ok {
			return false
		}
		if godbus.HeaderField(head[0]) != godbus.FieldSender || n > maxName {
			return f.skip(n + 1) // with its NUL
		}
		name := f.take(n)
		e.sender = string(name)
		return name != nil && f.skip(1)
	default:
		return false
	}
}
