package systemd_test

import (
	"context"
	"net/netip"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// resolved is a double of systemd-resolved that knows one name.
type resolved struct{}

type resolvedAddress struct {
	Link, Family int32
	Address      []byte
}

// ResolveHostname is the method of org.freedesktop.resolve1.Manager.
func (resolved) ResolveHostname(_ int32, name string, _ int32, _ uint64) ([]resolvedAddress, string, uint64, *godbus.Error) {
	if name != "rack.example" {
		return nil, "", 0, godbus.NewError("org.freedesktop.resolve1.DnsError.NXDOMAIN", []any{"'" + name + "' not found"})
	}
	return []resolvedAddress{
		{2, 2, []byte{192, 0, 2, 7}},
		{2, 10, netip.MustParseAddr("2001:db8::7").AsSlice()},
		{2, 99, []byte("neither")},
	}, name, 1, nil
}

func TestResolveHost(t *testing.T) {
	address := systemdtest.StartBus(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	_, err := systemd.ResolveHost(ctx, address, "rack.example")
	assert.Equal(t, systemd.NameServiceUnknown, systemd.ErrorName(err), "without systemd-resolved: %v", err)

	conn, err := godbus.Connect(address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Export(resolved{}, "/org/freedesktop/resolve1", "org.freedesktop.resolve1.Manager"))
	_, err = conn.RequestName("org.freedesktop.resolve1", godbus.NameFlagDoNotQueue)
	require.NoError(t, err)

	got, err := systemd.ResolveHost(ctx, address, "rack.example")
	require.NoError(t, err)
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}, got)

	_, err = systemd.ResolveHost(ctx, address, "nowhere.example")
	assert.Equal(t, "org.freedesktop.resolve1.DnsError.NXDOMAIN", systemd.ErrorName(err))
	assert.ErrorContains(t, err, "nowhere.example")
}
