package props

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	godbus "github.com/godbus/dbus/v5"
)

const (
	driver        = "org.freedesktop.DBus"
	systemBusPath = "/run/dbus/system_bus_socket"

	// maxMessage is far above anything that a client has reason to send us. A
	// larger message is refused unread, as it would be decoded several times.
	maxMessage = 1 << 20
	// maxFrame is the protocol's limit.
	maxFrame = 1 << 27
)

// wire is the transport under godbus: a socket whose incoming messages were
// looked at. It keeps from godbus
//
//   - what godbus cannot decode, although the bus takes it (for example a body
//     of type a{gs}): godbus would close the connection;
//   - replies and signals that are not from the bus driver: we call nobody else,
//     and on a permissive bus a peer could forge the answer that names its uid;
//   - oversized messages, which godbus would hold whole in memory.
//
// Who waits for an answer is told.
//
// It also never negotiates the passing of file descriptors, which godbus would
// accept from anybody and never close.
type wire struct {
	net.Conn
	in     *bufio.Reader
	framed bool   // set with BEGIN, before the reader goroutine starts
	frame  []byte // rest of the message that is being handed on
	size   int    // of that message, for the interceptor: it runs in the reader goroutine, too
	refuse func(envelope, *godbus.Error)
}

// newWire returns a transport that hands refuse what it keeps from godbus, in
// the reader's goroutine.
func newWire(conn net.Conn, refuse func(envelope, *godbus.Error)) *wire {
	return &wire{Conn: conn, in: bufio.NewReaderSize(conn, 16<<10), refuse: refuse}
}

// Write passes p on. BEGIN ends the authentication, whose lines have no frames.
func (w *wire) Write(p []byte) (int, error) {
	if !w.framed && bytes.Equal(p, []byte("BEGIN\r\n")) {
		w.framed = true
	}
	return w.Conn.Write(p)
}

// Read hands on the next bytes of a message that godbus can take.
func (w *wire) Read(p []byte) (int, error) {
	if !w.framed {
		return w.in.Read(p)
	}
	for len(w.frame) == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.frame)
	w.frame = w.frame[n:]
	return n, nil
}

// next reads one message into frame, or leaves frame empty if it is refused.
func (w *wire) next() error {
	head, err := w.in.Peek(16)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return err
	}
	order := orderOf(head)
	size := 16 + (uint64(order.Uint32(head[12:]))+7)&^7 + uint64(order.Uint32(head[4:]))
	if size > maxFrame {
		return fmt.Errorf("message of %d bytes: the peer does not speak D-Bus", size)
	}
	if size > maxMessage {
		e, read := skim(w.in)
		if _, err := w.in.Discard(int(size - read)); err != nil {
			return err
		}
		w.refuse(e, Errorf(ErrLimitsExceeded, "The message has %d bytes, more than the %d that are taken. Nothing was done.", size, maxMessage))
		return nil
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(w.in, frame); err != nil {
		return err
	}
	if reason := unfit(frame); reason != "" {
		e, _ := skim(bufio.NewReader(bytes.NewReader(frame)))
		w.refuse(e, Errorf(ErrInvalidArgs, "The message is not taken: %s. Nothing was done.", reason))
		return nil
	}
	w.frame, w.size = frame, len(frame)
	return nil
}

// unfit says why godbus must not see the message, or "".
func unfit(frame []byte) (reason string) {
	defer func() {
		if p := recover(); p != nil {
			reason = "it cannot be decoded"
		}
	}()
	msg, err := godbus.DecodeMessage(bytes.NewReader(frame))
	if err != nil {
		return err.Error()
	}
	if sender, _ := msg.Headers[godbus.FieldSender].Value().(string); msg.Type != godbus.TypeMethodCall && sender != driver {
		return fmt.Sprintf("a %s from %q that nobody asked for", msg.Type, sender)
	}
	return ""
}

// dial connects to a bus address. Empty means $DBUS_SYSTEM_BUS_ADDRESS, then
// the system bus's usual socket. Only unix sockets are spoken: the kernel
// vouches for the uid at their ends.
func dial(ctx context.Context, address string) (net.Conn, error) {
	if address == "" {
		address = os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	}
	if address == "" {
		address = "unix:path=" + systemBusPath
	}
	var errs []error
	for one := range strings.SplitSeq(address, ";") {
		path, err := socketPath(one)
		if err == nil {
			// DialContext would link the resolver.
			var conn *net.UnixConn
			if conn, err = new(net.Dialer).DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
				return conn, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func socketPath(address string) (string, error) {
	list, ok := strings.CutPrefix(address, "unix:")
	for ok && list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		key, value, _ := strings.Cut(item, "=")
		value, err := godbus.UnescapeBusAddressValue(value)
		if err != nil {
			return "", fmt.Errorf("bus address %q: %w", address, err)
		}
		switch key {
		case "path":
			return value, nil
		case "abstract":
			return "@" + value, nil
		}
	}
	return "", fmt.Errorf("bus address %q is none of unix:path=… and unix:abstract=…", address)
}
