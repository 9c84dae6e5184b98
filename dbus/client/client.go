// Package client is the far end of package dbus: what a command line asks of
// the daemon over the bus. It knows the daemon only by its D-Bus contract
// (DESIGN.md §6) and works as well against the reference's objects, as far as
// those go.
package client

import (
	"context"
	"errors"
	"fmt"
	"os"

	godbus "github.com/godbus/dbus/v5"
)

// Client is one connection to the bus. It is safe for concurrent use.
type Client struct{ conn *godbus.Conn }

// Error is a refusal by the daemon or the bus, by its D-Bus name.
type Error struct{ Name, Text string }

// Error returns the text with the name.
func (e *Error) Error() string {
	if e.Text == "" {
		return e.Name
	}
	return fmt.Sprintf("%s (%s)", e.Text, e.Name)
}

var _ error = (*Error)(nil)

// Absent reports whether the daemon was not on the bus, or left it before it
// answered.
func (e *Error) Absent() bool {
	switch e.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
		"org.freedesktop.DBus.Error.NoReply":
		return true
	}
	return false
}

// Dial connects to the bus at address; empty means $DBUS_SYSTEM_BUS_ADDRESS,
// then the system bus. The connection closes when ctx ends.
func Dial(ctx context.Context, address string) (*Client, error) {
	options := []godbus.ConnOption{
		godbus.WithContext(ctx),
		// Signals in the order of the bus; the stock handler shuffles them.
		godbus.WithSignalHandler(godbus.NewSequentialSignalHandler()),
	}
	if address == "" {
		address = os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	}
	connect := func() (*godbus.Conn, error) { return godbus.Connect(address, options...) }
	if address == "" {
		address, connect = "the system bus", func() (*godbus.Conn, error) { return godbus.ConnectSystemBus(options...) }
	}
	conn, err := connect()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w; is dbus-daemon running?", address, err)
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// call calls a method and stores its results in out.
func (c *Client) call(ctx context.Context, service string, path godbus.ObjectPath, method string, out []any, args ...any) error {
	call := c.conn.Object(service, path).CallWithContext(ctx, method, godbus.FlagNoAutoStart, args...)
	err := call.Err
	if err == nil && len(out) > 0 {
		err = call.Store(out...)
	}
	return wrap(method, err)
}

func wrap(method string, err error) error {
	var refused godbus.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		e := &Error{Name: refused.Name}
		if len(refused.Body) > 0 {
			e.Text, _ = refused.Body[0].(string)
		}
		return e
	default:
		return fmt.Errorf("%s: %w", method, err)
	}
}
