package systemd

import (
	"context"
	"fmt"
	"net/netip"

	godbus "github.com/godbus/dbus/v5"
)

// ResolveHost returns the addresses that systemd-resolved finds for a host's
// name (org.freedesktop.resolve1(5)), over a connection of its own to the bus
// at address, "" for the system bus. An error wraps [*Error] once there is a
// connection.
func ResolveHost(ctx context.Context, address, name string) ([]netip.Addr, error) {
	conn, err := dial(ctx, address, godbus.NewSequentialSignalHandler())
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", name, err)
	}
	defer func() { _ = conn.Close() }()
	const anyLink, anyFamily, noFlags = int32(0), int32(0), uint64(0)
	call := conn.Object("org.freedesktop.resolve1", "/org/freedesktop/resolve1").CallWithContext(ctx,
		"org.freedesktop.resolve1.Manager.ResolveHostname", 0, anyLink, name, anyFamily, noFlags)
	var found []struct {
		Link, Family int32
		Address      []byte
	}
	var canonical string
	var flags uint64
	if err := call.Store(&found, &canonical, &flags); err != nil {
		return nil, wrap("ResolveHostname", name, err)
	}
	all := make([]netip.Addr, 0, len(found))
	for _, f := range found {
		if a, ok := netip.AddrFromSlice(f.Address); ok {
			all = append(all, a)
		}
	}
	return all, nil
}
