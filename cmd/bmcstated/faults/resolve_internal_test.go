package faults

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func addresses(all ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestLookupHosts(t *testing.T) {
	const hosts = "127.0.0.1\tlocalhost loopback # own\n::1 localhost ip6-localhost\n\n#192.0.2.1 gone\n" +
		"192.0.2.2 Rack.example. rack rack\r\nnonsense bad\n192.0.2.3"
	for name, want := range map[string][]netip.Addr{
		"localhost":     addresses("127.0.0.1", "::1"),
		"ip6-localhost": addresses("::1"),
		"rack.example":  addresses("192.0.2.2"),
		"RACK":          addresses("192.0.2.2"),
		"rack.":         addresses("192.0.2.2"),
		"gone":          nil,
		"bad":           nil,
		"192.0.2.3":     nil,
		"":              nil,
	} {
		assert.Equal(t, want, lookupHosts(hosts, name), "%q", name)
	}
}

func TestReadHosts(t *testing.T) {
	text, err := readHosts(filepath.Join(t.TempDir(), "hosts"))
	assert.NoError(t, err, "a missing file names nobody")
	assert.Empty(t, text)
	_, err = readHosts(t.TempDir())
	assert.Error(t, err, "no file")
}

func TestResolve(t *testing.T) {
	asked := ""
	n := Net{Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
		asked = name
		if name == "nowhere.example" {
			return nil, errors.New("no such name")
		}
		return addresses("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"), nil
	}}
	for _, literal := range []string{"192.0.2.9", "2001:db8::9", "fe80::9%lo"} {
		n.Host = literal
		got, err := n.resolve(t.Context())
		require.NoError(t, err)
		assert.Equal(t, addresses(literal), got)
	}
	n.Host = "localhost"
	got, err := n.resolve(t.Context())
	require.NoError(t, err)
	assert.Contains(t, got, netip.MustParseAddr("127.0.0.1"))
	assert.Empty(t, asked, "literals and local names ask nobody")

	n.Host = "rack.example"
	got, err = n.resolve(t.Context())
	require.NoError(t, err)
	assert.Equal(t, addresses("192.0.2.1", "2001:db8::1"), got, "one of each family")

	n.Host = "nowhere.example"
	_, err = n.resolve(t.Context())
	assert.ErrorContains(t, err, "no such name")

	n.Lookup = nil
	_, err = n.resolve(t.Context())
	assert.ErrorContains(t, err, "nowhere.example is no address, not in /etc/hosts")
}
