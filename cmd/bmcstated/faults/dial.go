package faults

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dialTCP connects to address until deadline or the end of ctx. The file is the
// connection; it has deadlines.
//
// Package net's TCP would be 40 KB of a BMC's flash.
func dialTCP(ctx context.Context, deadline time.Time, address netip.AddrPort) (*os.File, error) {
	f, err := beginConnect(address)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(past) })
		err = f.SetDeadline(deadline)
		if err == nil {
			err = awaitConnect(f)
		}
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return f, nil
}

// past is a deadline that ends what waits.
var past = time.Unix(1, 0)

func beginConnect(address netip.AddrPort) (*os.File, error) {
	family, to := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Port: int(address.Port())})
	if a := address.Addr().Unmap(); a.Is4() {
		to.(*syscall.SockaddrInet4).Addr = a.As4()
	} else {
		zone, err := zoneIndex(a.Zone())
		if err != nil {
			return nil, err
		}
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(address.Port()), Addr: a.As16(), ZoneId: zone}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// A connect that a signal interrupts goes on, as one that takes its time.
	switch err := syscall.Connect(fd, to); err {
	case nil, syscall.EINPROGRESS, syscall.EINTR:
		return os.NewFile(uintptr(fd), "tcp"), nil // a name without an address: errors have it already
	default:
		_ = syscall.Close(fd)
		return nil, err
	}
}

// zoneIndex is the number of a link that an IPv6 address names, 0 for none.
func zoneIndex(zone string) (uint32, error) {
	text := zone
	if _, err := strconv.ParseUint(zone, 10, 32); err != nil && zone != "" {
		index, err := os.ReadFile("/sys/class/net/" + strings.ReplaceAll(zone, "/", "") + "/ifindex")
		if err != nil {
			return 0, fmt.Errorf("no link %q: %w", zone, err)
		}
		text = strings.TrimSpace(string(index))
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// awaitConnect waits until the socket has a peer, its error or its deadline.
func awaitConnect(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		done, failed = connected(int(fd))
		return done
	})
	if err != nil {
		return err
	}
	return failed
}

// connected reports whether a connect has ended, and how.
func connected(fd int) (done bool, err error) {
	code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil {
		return true, err
	}
	if code != 0 {
		return true, syscall.Errno(code)
	}
	peer, _ := syscall.Getpeername(fd)
	if peer == nil {
		return false, nil // not yet
	}
	// Where nobody listens on a local port, a socket that was given just this port
	// for its own end connects to itself.
	if own, err := syscall.Getsockname(fd); err == nil && place(own) == place(peer) {
		return true, syscall.ECONNREFUSED
	}
	return true, nil
}

func place(a syscall.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	default:
		return netip.AddrPort{}
	}
}

// closeWrite ends what we send.
func closeWrite(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Shutdown(int(fd), syscall.SHUT_WR) }); err != nil {
		return err
	}
	return failed
}
