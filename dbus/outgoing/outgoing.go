// Package outgoing connects to the bus for calls to other daemons. The daemon's
// own services have connections that guard what comes in: see package props.
package outgoing

import (
	"context"
	"os"
	"strconv"

	godbus "github.com/godbus/dbus/v5"
)

// Address returns the bus at address; empty means $DBUS_SYSTEM_BUS_ADDRESS, then
// the system bus's usual socket.
func Address(address string) string {
	if address == "" {
		address = os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	}
	if address == "" {
		address = "unix:path=/run/dbus/system_bus_socket"
	}
	return address
}

// Dial connects to the bus at address, which may be empty as for [Address]. The
// connection lives until it is closed, or ctx ends.
func Dial(ctx context.Context, address string) (*godbus.Conn, error) {
	conn, err := godbus.Dial(Address(address), godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = conn.Hello()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
