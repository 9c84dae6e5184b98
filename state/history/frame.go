package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Layout of a record around its payload.
const (
	frameHead = 4    // length, ^length
	frameTail = 5    // CRC32C, end mark
	endMark   = 0xA5 // not zero, so that zero-filling is recognised
	maxFrame  = 0xffff
)

var (
	// errTorn: the rest of the file is short or zero-filled, as after power loss.
	errTorn = errors.New("torn")
	// errDamaged: bytes are there, and they are not what was written.
	errDamaged = errors.New("damaged")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a record whose checksum starts from seed.
func appendFrame(b, payload []byte, seed uint32) ([]byte, error) {
	if len(payload) > maxFrame {
		return b, fmt.Errorf("record of %d bytes, at most %d are possible", len(payload), maxFrame)
	}
	n := uint16(len(payload))
	b = binary.LittleEndian.AppendUint16(b, n)
	b = binary.LittleEndian.AppendUint16(b, ^n)
	b = append(b, payload...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(seed, castagnoli, payload))
	return append(b, endMark), nil
}

// nextFrame reads the record at the start of b, which is the rest of a file. It
// returns the payload and the record's whole length. Its error is errTorn or
// errDamaged with the reason.
func nextFrame(b []byte, seed uint32) (payload []byte, size int, err error) {
	content := len(b) - trailingZeros(b)
	switch {
	case content == 0:
		return nil, 0, fmt.Errorf("%w: %d zero bytes", errTorn, len(b))
	case len(b) < frameHead:
		return nil, 0, fmt.Errorf("%w: %d bytes of a record's head", errTorn, len(b))
	}
	n := binary.LittleEndian.Uint16(b)
	if binary.LittleEndian.Uint16(b[2:]) != ^n {
		if content < frameHead {
			return nil, 0, fmt.Errorf("%w: zero-filled within a record's head", errTorn)
		}
		return nil, 0, fmt.Errorf("%w: bad length", errDamaged)
	}
	size = frameHead + int(n) + frameTail
	if len(b) < size {
		return nil, 0, fmt.Errorf("%w: %d of %d bytes of a record", errTorn, len(b), size)
	}
	payload = b[frameHead : frameHead+int(n)]
	good := crc32.Update(seed, castagnoli, payload) == binary.LittleEndian.Uint32(b[frameHead+int(n):])
	switch {
	case good && (b[size-1] == endMark || b[size-1] == 0):
		// A zero in place of the mark is a tail that lost its last byte only.
		return payload, size, nil
	case !good && content < size:
		return nil, 0, fmt.Errorf("%w: zero-filled within a record", errTorn)
	default:
		return nil, 0, fmt.Errorf("%w: bad checksum", errDamaged)
	}
}

func trailingZeros(b []byte) int {
	n := 0
	for n < len(b) && b[len(b)-1-n] == 0 {
		n++
	}
	return n
}
