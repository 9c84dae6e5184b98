package gpio

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
)

// healthTime is how often a silent input is read. Before Linux 6.6 nothing else
// tells that its chip was removed.
const healthTime = time.Second

// keep is the life of a line's descriptor: take it, use it, and when it is lost
// take it again. It returns when the board closes, or when there is nothing to
// keep.
func (c *Chardev) keep(l *line) {
	for attempt := 0; ; attempt++ {
		err := c.acquire(l)
		if c.stopped() {
			return
		}
		if err != nil {
			c.unable(l, err, attempt)
		}
		l.first.Do(func() { close(l.tried) })
		if err == nil {
			began := time.Now()
			if !c.use(l, attempt) {
				return
			}
			if time.Since(began) > steadyTime {
				attempt = 0
			}
		}
		if !c.pause(retryWait(attempt)) {
			return
		}
	}
}

// steadyTime is how long a line must have worked for its next loss to be news.
const steadyTime = 5 * time.Second

func (c *Chardev) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// unable notes and, the first time, logs why a line does not work.
func (c *Chardev) unable(l *line, err error, attempt int) {
	err = lineCause(err)
	l.fail(err)
	if attempt == 0 {
		c.opt.Log.Error("line does not work; it is tried again", "err", c.lineError("request", l.cfg.Signal, err))
	}
}

func (c *Chardev) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stop:
		return false
	}
}

// acquire takes the line in the way of its kind.
func (c *Chardev) acquire(l *line) error {
	l.io.Lock()
	defer l.io.Unlock()
	if l.file() != nil {
		return nil // inherited, or taken by a pulse meanwhile
	}
	switch {
	case l.kind == kindLevel:
		f, err := c.request(l, l.cfg.asIs())
		if err != nil {
			return err
		}
		if err := l.take(f); err != nil {
			return err
		}
		if c.opt.Store != nil {
			c.opt.Store(FDName(c.opt.Host, l.cfg), f)
		}
		return nil
	case l.kind == kindPulse && l.cfg.Hold:
		return c.takeIdle(l)
	case l.kind == kindPulse:
		return c.find(l)
	default:
		f, err := c.request(l, l.cfg.asInput())
		if err != nil {
			return err
		}
		return l.take(f)
	}
}

// find looks at a pulse output that is free between its pulses.
func (c *Chardev) find(l *line) error {
	at, err := resolve(c.k, l.cfg)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.at, l.resolved = at, true
	l.mu.Unlock()
	ch, err := c.k.open(at.dev)
	if err != nil {
		return err
	}
	defer ch.close()
	_, who, used, err := ch.line(at.offset)
	if err == nil && used {
		err = fmt.Errorf("%w: %q has it", ErrBusy, who)
	}
	if err == nil {
		l.fail(nil)
	}
	return err
}

// use returns true when the line was lost, false when the keeper has no more to
// do.
func (c *Chardev) use(l *line, attempt int) bool {
	switch {
	case l.kind == kindPulse && !l.cfg.Hold:
		return false
	case l.kind == kindPulse || l.kind == kindLevel:
		select {
		case <-l.lost:
		case <-c.stop:
		}
	default:
		if f := l.file(); f != nil {
			c.forget(l, f, c.watch(l, f))
		}
		select {
		case <-l.lost: // told twice if a read saw it first
		default:
		}
	}
	if c.stopped() {
		return false
	}
	if attempt == 0 {
		c.opt.Log.Error("line was lost; it is taken again", "err", c.lineError("watch", l.cfg.Signal, l.problem()))
	}
	if l.kind != kindPulse {
		c.queue.push(Event{Signal: l.cfg.Signal, Gap: true})
	}
	return true
}

// watch turns the edges of an input into events until its descriptor fails.
func (c *Chardev) watch(l *line, f *os.File) error {
	level, err := c.level(f)
	if err != nil {
		return err
	}
	c.queue.push(Event{Signal: l.cfg.Signal, Asserted: level, Gap: true})
	var seq uint32 // of the newest edge
	var edges []uapi.LineEvent
	for {
		edges, err = readEvents(c.k, f, healthTime, edges[:0])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_, err = c.level(f)
		}
		if err != nil {
			return err
		}
		for _, e := range edges {
			c.queue.push(Event{
				Signal:   l.cfg.Signal,
				Asserted: e.ID == uapi.LineEventRisingEdge, // logical, as is all of the uAPI
				Gap:      e.LineSeqno != seq+1,
			})
			seq = e.LineSeqno
		}
	}
}

func (c *Chardev) level(f *os.File) (asserted bool, err error) {
	err = ioctl(f, func(fd uintptr) (err error) {
		asserted, err = c.k.get(fd)
		return err
	})
	return asserted, err
}
