package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

// Lookup finds the addresses of a host's name.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// hostsFile has the names that need no name server (hosts(5)).
const hostsFile = "/etc/hosts"

// resolve returns one address of each family that the host has. A family
// without an address is not applicable, which is no failure.
//
// The resolver of package net is not used: it would be 230 KB of a BMC's flash.
func (n Net) resolve(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(n.Host); err == nil {
		return []netip.Addr{a}, nil
	}
	hosts, err := readHosts(hostsFile)
	found := lookupHosts(hosts, n.Host)
	switch {
	case len(found) > 0:
	case strings.EqualFold(n.Host, "localhost"):
		found = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})} // RFC 6761
	case n.Lookup != nil:
		found, err = n.Lookup(ctx, n.Host)
	}
	if len(found) > 0 {
		return oneOfEach(found), nil
	}
	if err == nil {
		err = fmt.Errorf("%s is no address, not in %s, and not known to systemd-resolved", n.Host, hostsFile)
	}
	return nil, err
}

func oneOfEach(found []netip.Addr) []netip.Addr {
	var v4, v6, all []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	for _, family := range [][]netip.Addr{v4, v6} {
		if len(family) > 0 {
			all = append(all, family[0])
		}
	}
	return all
}

// readHosts returns the text of a hosts file. Minimal images have none, which is
// no failure.
func readHosts(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

// lookupHosts returns the addresses that the text of a hosts file has for name.
func lookupHosts(hosts, name string) []netip.Addr {
	name = strings.TrimSuffix(name, ".")
	var all []netip.Addr
	for line := range strings.SplitSeq(hosts, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		for i, field := range fields {
			if i == 0 || !strings.EqualFold(strings.TrimSuffix(field, "."), name) {
				continue
			}
			if a, err := netip.ParseAddr(fields[0]); err == nil {
				all = append(all, a)
			}
			break
		}
	}
	return all
}
