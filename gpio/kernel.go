package gpio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"
)

// kernel is what a [Chardev] needs of Linux's GPIO uAPI v2 (Linux 5.10). Every
// call may hang. Tests put a fake in its place whose descriptors are sockets.
type kernel interface {
	// chips lists the character devices.
	chips() ([]string, error)
	open(dev string) (chip, error)
	// configure, get and set act on a requested line; levels are logical.
	configure(fd uintptr, cfg uapi.LineConfig) error
	get(fd uintptr) (bool, error)
	set(fd uintptr, asserted bool) error
	// read reads events without waiting for them.
	read(fd uintptr, buf []byte) (int, error)
}

// chip is an open GPIO character device.
type chip interface {
	info() (name, label string, lines int, err error)
	line(offset int) (name, consumer string, used bool, err error)
	// request fills in req.Fd.
	request(req *uapi.LineRequest) error
	close()
}

// linux is the real kernel.
type linux struct{}

func (linux) chips() ([]string, error) {
	devices, err := names("/dev")
	var chips []string
	for _, n := range devices {
		if strings.HasPrefix(n, "gpiochip") {
			chips = append(chips, "/dev/"+n)
		}
	}
	return chips, err
}

func (linux) open(dev string) (chip, error) {
	f, err := os.OpenFile(dev, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return linuxChip{f}, nil
}

func (linux) configure(fd uintptr, cfg uapi.LineConfig) error { return uapi.SetLineConfigV2(fd, &cfg) }

func (linux) get(fd uintptr) (bool, error) {
	v := uapi.LineValues{Mask: 1}
	err := uapi.GetLineValuesV2(fd, &v)
	return v.Get(0) == 1, err
}

func (linux) set(fd uintptr, asserted bool) error {
	return uapi.SetLineValuesV2(fd, uapi.LineValues{Mask: 1, Bits: bit(asserted)})
}

func (linux) read(fd uintptr, buf []byte) (int, error) { return unix.Read(int(fd), buf) }

func bit(asserted bool) uapi.LineBitmap {
	if asserted {
		return 1
	}
	return 0
}

type linuxChip struct{ f *os.File }

func (c linuxChip) info() (name, label string, lines int, err error) {
	i, err := uapi.GetChipInfo(c.f.Fd())
	return uapi.BytesToString(i.Name[:]), uapi.BytesToString(i.Label[:]), int(i.Lines), err
}

func (c linuxChip) line(offset int) (name, consumer string, used bool, err error) {
	i, err := uapi.GetLineInfoV2(c.f.Fd(), offset)
	return uapi.BytesToString(i.Name[:]), uapi.BytesToString(i.Consumer[:]), i.Flags.IsUsed(), err
}

func (c linuxChip) request(req *uapi.LineRequest) error { return uapi.GetLine(c.f.Fd(), req) }

func (c linuxChip) close() { c.f.Close() }

// ioctl runs fn with the descriptor of f, which stays open meanwhile.
func ioctl(f *os.File, fn func(fd uintptr) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = fn(fd) }); err != nil {
		return err
	}
	return result
}

// gone reports whether err says that the chip behind a descriptor was removed,
// or that the descriptor was closed because of that.
func gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, os.ErrClosed)
}

// lineCause turns an error of the kernel into one of this package.
func lineCause(err error) error {
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, ErrMissing):
		return err
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, fs.ErrNotExist), gone(err):
		return fmt.Errorf("%w: %w", ErrMissing, err)
	default:
		return err
	}
}

// eventSize is the size of an event on the wire; the uAPI fixes it.
const eventSize = 48

// errShortEvent: the descriptor is at its end, which a live line never is.
var errShortEvent = errors.New("the line's events have ended")

// readEvents waits until f has events, for limit at most, and returns them.
// Without any it returns os.ErrDeadlineExceeded. A removed chip gives ENODEV.
func readEvents(k kernel, f *os.File, limit time.Duration, into []uapi.LineEvent) ([]uapi.LineEvent, error) {
	if err := f.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return into, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return into, err
	}
	var buf [16 * eventSize]byte
	var n int
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, readErr = k.read(fd, buf[:])
		return !errors.Is(readErr, unix.EAGAIN) && !errors.Is(readErr, unix.EINTR)
	})
	if err != nil {
		return into, err
	}
	if readErr != nil {
		return into, readErr
	}
	if n < eventSize {
		return into, errShortEvent
	}
	for at := 0; at+eventSize <= n; at += eventSize {
		var e uapi.LineEvent
		if _, err := binary.Decode(buf[at:at+eventSize], binary.NativeEndian, &e); err != nil {
			return into, err
		}
		into = append(into, e)
	}
	return into, nil
}
