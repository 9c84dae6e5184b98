package props

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testSender = ":1.42"

// encoded returns a message as the bus hands it on.
func encoded(t testing.TB, order binary.ByteOrder, m *godbus.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, m.EncodeTo(&b, order))
	order.PutUint32(b.Bytes()[8:], 7)
	return b.Bytes()
}

func testCall(path string, flags godbus.Flags) *godbus.Message {
	return &godbus.Message{Type: godbus.TypeMethodCall, Flags: flags, Body: []any{"x"}, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldPath:      godbus.MakeVariant(godbus.ObjectPath(path)),
		godbus.FieldMember:    godbus.MakeVariant("M"),
		godbus.FieldSender:    godbus.MakeVariant(testSender),
		godbus.FieldSignature: godbus.MakeVariant(godbus.SignatureOf("")),
	}}
}

func TestSkim(t *testing.T) {
	reply := testCall("/", 0)
	reply.Type = godbus.TypeMethodReply
	reply.Headers[godbus.FieldReplySerial] = godbus.MakeVariant(uint32(1))
	tests := []struct {
		name string
		msg  *godbus.Message
		want envelope
	}{
		{"a call", testCall("/a", 0), envelope{testSender, 7, true}},
		{"a call with a path longer than any buffer", testCall("/"+strings.Repeat("x", 100_000), 0), envelope{testSender, 7, true}},
		{"a call that wants no answer", testCall("/a", godbus.FlagNoReplyExpected), envelope{testSender, 7, false}},
		{"a reply", reply, envelope{testSender, 7, false}},
	}
	for _, tt := range tests {
		for range 20 { // the order of the fields is that of a map
			for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
				b := encoded(t, order, tt.msg)
				got, read := skim(bufio.NewReader(bytes.NewReader(b)))
				require.Equal(t, tt.want, got, tt.name)
				require.LessOrEqual(t, read, 16+uint64(order.Uint32(b[12:])), tt.name)
			}
		}
	}
}

// A head that is cut or damaged answers nobody, and is never read beyond its end.
func TestSkimOfADamagedHead(t *testing.T) {
	b := encoded(t, binary.LittleEndian, testCall("/a", 0))
	for n := range b {
		_, read := skim(bufio.NewReader(bytes.NewReader(b[:n])))
		require.LessOrEqual(t, read, uint64(n))
	}
	for n := 12; n < len(b); n++ {
		for _, v := range []byte{0, 1, 0x7f, 0xff} {
			c := bytes.Clone(b)
			c[n] = v
			_, read := skim(bufio.NewReader(bytes.NewReader(c)))
			require.LessOrEqual(t, read, max(16, 16+uint64(binary.LittleEndian.Uint32(c[12:]))))
		}
	}
	b[13] = 0xff // more head than there is
	_, read := skim(bufio.NewReader(bytes.NewReader(b)))
	require.LessOrEqual(t, read, uint64(len(b)))
}

// stream is a connection from which there is only to read.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error) { return s.Reader.Read(p) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestOversizedMessageTakesNoMemory: neither a long body nor a long head is held.
func TestOversizedMessageTakesNoMemory(t *testing.T) {
	const big = 100 << 20
	head := encoded(t, binary.LittleEndian, testCall("/a", 0))
	head = head[:len(head)-6] // without its body
	binary.LittleEndian.PutUint32(head[4:], big)
	next := encoded(t, binary.LittleEndian, testCall("/b", 0))
	var told []envelope
	w := newWire(stream{Reader: io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, big), bytes.NewReader(next))},
		func(e envelope, err *godbus.Error) {
			told = append(told, e)
			assert.Equal(t, ErrLimitsExceeded, err.Name)
		})
	w.framed = true
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := make([]byte, len(next))
	_, err := io.ReadFull(w, got)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, next, got, "what comes after it is read")
	assert.Equal(t, []envelope{{testSender, 7, true}}, told)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(big/10))
}
