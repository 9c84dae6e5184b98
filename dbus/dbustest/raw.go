package dbustest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// Raw is a connection without a reader: what arrives stays in the socket until
// the test reads it, so a Raw client can hang, and it can send what no library
// would.
type Raw struct {
	t      testing.TB
	conn   net.Conn
	in     *bufio.Reader
	serial uint32
	Name   string // unique name on the bus
}

// Raw connects and says Hello.
func (b *Bus) Raw(t testing.TB) *Raw { return b.RawAs(t, os.Geteuid()) }

// RawAs is [Bus.Raw] as another uid. It needs root if that is not ours.
func (b *Bus) RawAs(t testing.TB, uid int) *Raw {
	t.Helper()
	dial := func() (net.Conn, error) { return net.Dial("unix", b.socket) }
	if uid != os.Geteuid() {
		NeedRoot(t)
		dial = func() (net.Conn, error) { return dialAs(b.socket, uid) }
	}
	conn, err := dial()
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r := &Raw{t: t, conn: conn, in: bufio.NewReader(conn)}
	r.Write([]byte("\x00AUTH EXTERNAL " + hex.EncodeToString([]byte(strconv.Itoa(uid))) + "\r\n"))
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	line, err := r.in.ReadString('\n')
	must(t, err)
	if !strings.HasPrefix(line, "OK ") {
		t.Fatalf("the bus refused uid %d: %s", uid, line)
	}
	r.Write([]byte("BEGIN\r\n"))
	hello := r.Call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")
	r.Name, _ = r.Reply(hello).Body[0].(string)
	return r
}

// Message builds a call without sending it, and returns its serial.
func (r *Raw) Message(dest string, path godbus.ObjectPath, iface, member string, args ...any) (*bytes.Buffer, uint32) {
	r.t.Helper()
	msg := &godbus.Message{Type: godbus.TypeMethodCall, Body: args, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldDestination: godbus.MakeVariant(dest),
		godbus.FieldPath:        godbus.MakeVariant(path),
		godbus.FieldInterface:   godbus.MakeVariant(iface),
		godbus.FieldMember:      godbus.MakeVariant(member),
	}}
	if len(args) > 0 {
		msg.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.SignatureOf(args...))
	}
	return r.encode(msg)
}

func (r *Raw) encode(msg *godbus.Message) (*bytes.Buffer, uint32) {
	r.t.Helper()
	var b bytes.Buffer
	must(r.t, msg.EncodeTo(&b, binary.LittleEndian))
	r.serial++
	binary.LittleEndian.PutUint32(b.Bytes()[8:], r.serial)
	return &b, r.serial
}

// Call sends a call and returns its serial.
func (r *Raw) Call(dest string, path godbus.ObjectPath, iface, member string, args ...any) uint32 {
	r.t.Helper()
	b, serial := r.Message(dest, path, iface, member, args...)
	r.Write(b.Bytes())
	return serial
}

// CallBytes sends a call whose body is given as it is on the wire.
func (r *Raw) CallBytes(dest string, path godbus.ObjectPath, iface, member, signature string, body []byte) uint32 {
	r.t.Helper()
	sig, err := godbus.ParseSignature(signature)
	must(r.t, err)
	b, serial := r.encode(&godbus.Message{Type: godbus.TypeMethodCall, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldDestination: godbus.MakeVariant(dest),
		godbus.FieldPath:        godbus.MakeVariant(path),
		godbus.FieldInterface:   godbus.MakeVariant(iface),
		godbus.FieldMember:      godbus.MakeVariant(member),
		godbus.FieldSignature:   godbus.MakeVariant(sig),
	}})
	binary.LittleEndian.PutUint32(b.Bytes()[4:], uint32(len(body)))
	r.Write(append(b.Bytes(), body...))
	return serial
}

// Send sends any message; its serial is set.
func (r *Raw) Send(msg *godbus.Message) {
	r.t.Helper()
	b, _ := r.encode(msg)
	r.Write(b.Bytes())
}

// Write sends bytes.
func (r *Raw) Write(p []byte) {
	r.t.Helper()
	_, err := r.conn.Write(p)
	must(r.t, err)
}

// Next reads the next message, whatever it is.
func (r *Raw) Next() *godbus.Message {
	r.t.Helper()
	must(r.t, r.conn.SetReadDeadline(time.Now().Add(patience)))
	msg, err := godbus.DecodeMessage(r.in)
	must(r.t, err)
	return msg
}

// Reply reads until the reply to a call, which may be an error message.
func (r *Raw) Reply(serial uint32) *godbus.Message {
	r.t.Helper()
	for {
		msg := r.Next()
		if to, ok := msg.Headers[godbus.FieldReplySerial].Value().(uint32); ok && to == serial {
			return msg
		}
	}
}

// Close ends the connection at once.
func (r *Raw) Close() { _ = r.conn.Close() }
