package gpio

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
)

// line is one signal's line and, while it is requested, its descriptor.
type line struct {
	_ [0]func() // see state.Incomparable

	cfg   Line
	kind  signalKind
	tried chan struct{} // closed after the first attempt to take the line
	lost  chan struct{} // cap 1: the descriptor is of no use any more
	holds call

	// io orders requests and level changes. It is held across calls that may
	// hang, so only goroutines that nobody waits for without limit take it.
	io sync.Mutex

	mu       sync.Mutex // guards what follows; never held across a call
	f        *os.File   // nil = not requested
	at       place
	resolved bool
	err      error // why the line does not work, nil = it does
	driven   bool  // a level-type output that was made an output
	held     bool  // by Hold
	shutDown bool
	first    sync.Once
}

func newLine(cfg Line) *line {
	return &line{cfg: cfg, kind: cfg.kind(), tried: make(chan struct{}), lost: make(chan struct{}, 1)}
}

func (l *line) where() (place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, l.resolved
}

func (l *line) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *line) file() *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f
}

// take makes f the line's descriptor, unless the board has closed meanwhile.
func (l *line) take(f *os.File) error {
	l.mu.Lock()
	closed := l.shutDown
	if !closed {
		l.f, l.err, l.driven = f, nil, false
	}
	l.mu.Unlock()
	if closed {
		f.Close()
		return ErrClosed
	}
	return nil
}

// fail notes why the line does not work.
func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// shut takes the descriptor away for good.
func (l *line) shut() *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.f
	l.f, l.shutDown = nil, true
	if l.err == nil {
		l.err = ErrClosed
	}
	return f
}

// forget drops a descriptor whose chip is gone and wakes the line's keeper.
func (c *Chardev) forget(l *line, f *os.File, err error) {
	l.mu.Lock()
	current := l.f == f
	if current {
		l.f, l.err = nil, lineCause(err)
	}
	l.mu.Unlock()
	if !current {
		return
	}
	// Closing waits for a call that hangs on the same descriptor.
	c.crew.run(func() { f.Close() })
	select {
	case l.lost <- struct{}{}:
	default:
	}
}

// request takes the line from the kernel, where it was last or where it is now.
func (c *Chardev) request(l *line, cfg uapi.LineConfig) (*os.File, error) {
	buffer := 0
	if cfg.Flags&uapi.LineFlagV2EdgeMask != 0 {
		buffer = l.cfg.Buffer
		if buffer == 0 {
			buffer = defaultBuffer
		}
	}
	if at, ok := l.where(); ok {
		f, err := request(c.k, at, cfg, buffer)
		if err == nil || errors.Is(lineCause(err), ErrBusy) {
			return f, err
		}
	}
	at, err := resolve(c.k, l.cfg)
	l.mu.Lock()
	l.at, l.resolved = at, err == nil
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return request(c.k, at, cfg, buffer)
}

// read is one call for one line.
func (c *Chardev) read(signal string) (asserted bool, err error) {
	l := c.lines[signal]
	f := l.file()
	if f == nil {
		return false, l.unusable()
	}
	err = ioctl(f, func(fd uintptr) (err error) {
		asserted, err = c.k.get(fd)
		return err
	})
	if err != nil {
		if gone(err) {
			c.forget(l, f, err)
		}
		return false, lineCause(err)
	}
	return asserted, nil
}

// unusable says why there is no descriptor.
func (l *line) unusable() error {
	if err := l.problem(); err != nil {
		return err
	}
	return fmt.Errorf("%w: not requested yet", ErrMissing)
}

// drive implements driver.
func (c *Chardev) drive(signal string, asserted bool) error {
	l := c.lines[signal]
	l.io.Lock()
	defer l.io.Unlock()
	var err error
	switch {
	case l.kind == kindLevel:
		err = c.driveLevel(l, asserted)
	case asserted:
		err = c.assert(l)
	default:
		err = c.deassert(l)
	}
	if err != nil {
		return lineCause(err)
	}
	return nil
}

func (c *Chardev) set(f *os.File, asserted bool) error {
	return ioctl(f, func(fd uintptr) error { return c.k.set(fd, asserted) })
}

// assert presses a pulse output. A free line is requested with the level, in
// one step.
func (c *Chardev) assert(l *line) error {
	if f := l.file(); f != nil {
		err := c.set(f, true)
		if err == nil || !gone(err) {
			return err
		}
		c.forget(l, f, err)
	}
	f, err := c.request(l, l.cfg.asOutput(true))
	if err != nil {
		return err
	}
	if err := l.take(f); err != nil {
		return err
	}
	return nil
}

// deassert drives a pulse output inactive, and frees it unless it is to be
// held. A chip that was removed meanwhile may have kept the level: the line is
// requested again until that works.
func (c *Chardev) deassert(l *line) error {
	f := l.file()
	if f != nil {
		if err := c.set(f, false); err != nil {
			if gone(err) {
				c.forget(l, f, err)
			}
			return err
		}
	} else {
		var err error
		if f, err = c.request(l, l.cfg.asOutput(false)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	keep := (l.cfg.Hold || l.held) && !l.shutDown
	l.f, l.err = nil, nil
	if keep {
		l.f = f
	}
	l.mu.Unlock()
	if !keep {
		f.Close()
	}
	return nil
}

// driveLevel drives a level-type output, which the first time makes it one.
func (c *Chardev) driveLevel(l *line, on bool) error {
	f := l.file()
	if f == nil {
		return l.unusable()
	}
	l.mu.Lock()
	driven := l.driven
	l.mu.Unlock()
	var err error
	if driven {
		err = c.set(f, on)
	} else {
		err = ioctl(f, func(fd uintptr) error { return c.k.configure(fd, l.cfg.asOutput(on)) })
	}
	if err != nil {
		if gone(err) {
			c.forget(l, f, err)
		}
		return err
	}
	l.mu.Lock()
	l.driven = l.driven || l.f == f
	l.mu.Unlock()
	return nil
}

// holdIdle implements Hold. During a pulse it only changes what happens after.
func (c *Chardev) holdIdle(l *line, hold bool) error {
	l.io.Lock()
	defer l.io.Unlock()
	l.mu.Lock()
	l.held = hold
	l.mu.Unlock()
	if c.out.pulsing(l.cfg.Signal) || l.cfg.Hold {
		return nil
	}
	if hold == (l.file() != nil) {
		return nil
	}
	if err := c.deassert(l); err != nil {
		l.mu.Lock()
		l.held = false
		l.mu.Unlock()
		return lineCause(err)
	}
	return nil
}

// takeIdle requests a held pulse output without moving it: a line that is
// asserted already is left alone, for its owner to release.
func (c *Chardev) takeIdle(l *line) error {
	f, err := c.request(l, l.cfg.asIs())
	if err != nil {
		return err
	}
	err = ioctl(f, func(fd uintptr) error {
		asserted, err := c.k.get(fd)
		if err != nil {
			return err
		}
		if asserted {
			return ErrAsserted
		}
		return c.k.configure(fd, l.cfg.asOutput(false))
	})
	if err != nil {
		f.Close()
		return err
	}
	return l.take(f)
}

// retryWait is the back-off of a line that does not work.
func retryWait(attempt int) time.Duration {
	return min(50*time.Millisecond<<min(attempt, 6), 2*time.Second)
}
