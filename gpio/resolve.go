package gpio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"
)

// place is where a line was found.
type place struct {
	_ [0]func() // see state.Incomparable

	dev    string // character device
	chip   string // label
	offset int
	name   string
}

func (p place) String() string { return fmt.Sprintf("%s offset %d", p.dev, p.offset) }

// errDuplicate: the configuration does not say which line is meant.
var errDuplicate = errors.New("found more than once; name its chip, or give chip and offset")

// resolve finds the one line that l means. It looks at every chip, so that a
// name which occurs twice is refused rather than guessed at.
func resolve(k kernel, l Line) (place, error) {
	devs, err := k.chips()
	if err != nil {
		return place{}, err
	}
	var found []place
	var errs []error
	for _, dev := range devs {
		at, err := scan(k, dev, l)
		found = append(found, at...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dev, err))
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return place{}, errors.Join(append([]error{ErrMissing}, errs...)...)
	default:
		where := make([]string, len(found))
		for i, p := range found {
			where[i] = p.String()
		}
		return place{}, fmt.Errorf("%w: %s", errDuplicate, strings.Join(where, ", "))
	}
}

// scan finds l on one chip.
func scan(k kernel, dev string, l Line) ([]place, error) {
	c, err := k.open(dev)
	if err != nil {
		return nil, err
	}
	defer c.close()
	_, label, lines, err := c.info()
	if err != nil {
		return nil, err
	}
	if l.Chip != "" && l.Chip != label && l.Chip != filepath.Base(dev) {
		return nil, nil
	}
	if l.Name == "" {
		if l.Offset >= lines {
			return nil, fmt.Errorf("chip %s has no offset %d, only %d lines", label, l.Offset, lines)
		}
		name, _, _, err := c.line(l.Offset)
		return []place{{dev: dev, chip: label, offset: l.Offset, name: name}}, err
	}
	var found []place
	for offset := range lines {
		name, _, _, err := c.line(offset)
		if err != nil {
			return found, err
		}
		if name == l.Name {
			found = append(found, place{dev: dev, chip: label, offset: offset, name: name})
		}
	}
	return found, nil
}

// openAt opens the chip of a place, if the line still is what it was: devices
// are renumbered when chips come and go.
func openAt(k kernel, at place) (chip, error) {
	c, err := k.open(at.dev)
	if err != nil {
		return nil, err
	}
	_, label, _, err := c.info()
	if err == nil && label != at.chip {
		err = fmt.Errorf("%s is chip %q now: %w", at.dev, label, unix.ENODEV)
	}
	if err == nil {
		var name string
		name, _, _, err = c.line(at.offset)
		if err == nil && name != at.name {
			err = fmt.Errorf("%s is line %q now: %w", at, name, unix.ENODEV)
		}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// request takes the line at a place and returns its descriptor.
func request(k kernel, at place, cfg uapi.LineConfig, buffer int) (*os.File, error) {
	c, err := openAt(k, at)
	if err != nil {
		return nil, err
	}
	defer c.close()
	req := uapi.LineRequest{Lines: 1, Config: cfg, EventBufferSize: uint32(buffer)}
	req.Offsets[0] = uint32(at.offset)
	copy(req.Consumer[:len(req.Consumer)-1], consumer)
	if err := c.request(&req); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return nil, busy(c, at, err)
		}
		return nil, err
	}
	// Non-blocking, so that reading its events costs no thread and ends when
	// the file is closed.
	if err := unix.SetNonblock(int(req.Fd), true); err != nil {
		_ = unix.Close(int(req.Fd))
		return nil, err
	}
	return os.NewFile(uintptr(req.Fd), at.chip+"/"+at.name), nil
}

// busy says who has the line.
func busy(c chip, at place, err error) error {
	if _, who, _, lookErr := c.line(at.offset); lookErr == nil && who != "" {
		return fmt.Errorf("%w: %q has it", ErrBusy, who)
	}
	return err
}

// SameLine reports whether two configurations mean one line of this machine. Where
// that cannot be found out, as for a chip that is not there yet, they do if their
// words are the same.
func SameLine(a, b Line) bool { return sameLine(linux{}, a, b) }

func sameLine(k kernel, a, b Line) bool {
	if a.Chip == b.Chip && a.label() == b.label() {
		return true
	}
	at, err := resolve(k, a)
	if err != nil {
		return false
	}
	other, err := resolve(k, b)
	return err == nil && at.dev == other.dev && at.offset == other.offset
}
