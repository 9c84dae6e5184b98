package systemd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

const (
	handshakeTimeout = 30 * time.Second
	// writeTimeout ends a connection whose bus no longer reads. Without it a
	// full socket would block every caller behind the library's write lock.
	writeTimeout     = 10 * time.Second
	defaultBusSocket = "unix:path=/run/dbus/system_bus_socket"
)

// stream is a bus socket whose writes cannot hang and whose reads are buffered.
type stream struct {
	_ [0]func() // see state.Incomparable

	net.Conn
	in *bufio.Reader
}

func (s *stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// Write closes the socket on failure: half a message has then perhaps gone out.
func (s *stream) Write(b []byte) (int, error) {
	if err := s.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Write(b)
	if err != nil {
		_ = s.Conn.Close()
	}
	return n, err
}

// dial opens, authenticates and greets. The signals go to h in the reader's
// goroutine.
func dial(ctx context.Context, address string, h godbus.SignalHandler) (*godbus.Conn, error) {
	if address == "" {
		address = os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	}
	if address == "" {
		address = defaultBusSocket
	}
	sock, err := dialAny(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := sock.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		_ = sock.Close()
		return nil, err
	}
	conn, err := godbus.NewConn(&stream{Conn: sock, in: bufio.NewReader(sock)},
		godbus.WithContext(ctx), godbus.WithSignalHandler(h))
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	if err = conn.Auth(nil); err == nil {
		err = conn.Hello()
	}
	if err == nil {
		err = sock.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("bus %s: %w", address, err)
	}
	return conn, nil
}

// dialAny tries the addresses of a list one after the other, as the D-Bus
// specification orders.
func dialAny(ctx context.Context, list string) (net.Conn, error) {
	var errs []error
	for address := range strings.SplitSeq(list, ";") {
		path, err := socketPath(address)
		if err == nil {
			// DialContext would link the resolver.
			var c *net.UnixConn
			d := net.Dialer{Timeout: handshakeTimeout}
			if c, err = d.DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
				return c, nil
			}
		}
		errs = append(errs, fmt.Errorf("bus %s: %w", address, err))
	}
	return nil, errors.Join(errs...)
}

// socketPath returns what net.Dial takes for a unix address: a path, or "@" and
// an abstract name.
func socketPath(address string) (string, error) {
	rest, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "", errors.New("only unix:path= and unix:abstract= addresses are supported")
	}
	for pair := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(pair, "=")
		value, err := godbus.UnescapeBusAddressValue(value)
		if err != nil {
			return "", err
		}
		switch key {
		case "path":
			return value, nil
		case "abstract":
			return "@" + value, nil
		}
	}
	return "", errors.New("the address names neither path nor abstract")
}
