package gpio

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds on calls into the kernel. A call that takes longer counts as hung.
const (
	ioTimeout    = 2 * time.Second
	assertGrace  = 20 * time.Millisecond // for an assert that is under way when the context ends
	assertSlack  = 10 * time.Millisecond // of an assert that does not count as width
	releaseAllIn = time.Second
)

// pulse is one press of one line. Fields below mu are guarded by outputs.mu.
type pulse struct {
	_ [0]func() // see state.Incomparable

	signal   string
	asserted chan struct{} // closed once the assert has returned
	done     chan struct{} // closed once released, or never asserted
	err      error         // valid once done is closed
	changed  chan struct{} // cap 1: until has moved

	began     time.Time // when the pulse was asked for
	issued    bool      // the assert may be under way
	issuedAt  time.Time
	releasing bool      // too late for a takeover
	ended     bool      // Release, or the caller gave up: assert no more, hold no longer
	urgent    bool      // a power off: it goes ahead without its mark
	until     time.Time // zero before the assert
	width     time.Duration
	claim     chan struct{} // closed when another caller takes the pulse over
}

// pulse implements Board.Pulse.
func (o *outputs) pulse(ctx context.Context, signal string, width time.Duration, urgent bool) error {
	if err := ctx.Err(); err != nil {
		return o.drv.where("pulse", signal, unmoved(err))
	}
	if o.kinds[signal] != kindPulse {
		return o.drv.where("pulse", signal, fmt.Errorf("not configured as a pulse output: %w", ErrMissing))
	}
	if width <= 0 {
		return o.drv.where("pulse", signal, unmoved(fmt.Errorf("width %v must be positive", width)))
	}
	for {
		p, claim, err := o.begin(signal, width, urgent && signal == PowerOut)
		if err != nil {
			return o.drv.where("pulse", signal, err)
		}
		if claim != nil {
			return o.await(ctx, p, claim)
		}
		// A takeover that came during the release: start anew after it.
		select {
		case <-p.done:
		case <-ctx.Done():
			return o.drv.where("pulse", signal, unmoved(ErrStuck))
		}
	}
}

// begin starts a pulse, or takes the running one over. A nil claim means that
// the running pulse is being released right now.
func (o *outputs) begin(signal string, width time.Duration, urgent bool) (*pulse, chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, nil, ErrClosed
	}
	claim := make(chan struct{})
	p := o.lines[signal]
	switch {
	case p == nil:
		p = &pulse{
			signal: signal, width: width, claim: claim, began: time.Now(), urgent: urgent,
			asserted: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}, 1),
		}
		if !o.crew.run(func() { o.run(p) }) {
			return nil, nil, ErrClosed
		}
		o.lines[signal] = p
		return p, claim, nil
	case p.hung():
		return nil, nil, unmoved(ErrStuck)
	case !urgent:
		return nil, nil, ErrAsserted
	case p.releasing || p.ended:
		return p, nil, nil
	}
	close(p.claim)
	p.claim, p.urgent = claim, true
	p.width = max(p.width, width)
	if until := time.Now().Add(width); p.issued && until.After(p.until) {
		p.until = until
		p.poke()
	}
	return p, claim, nil
}

// hung reports whether the pulse is in a call that does not return.
func (p *pulse) hung() bool {
	select {
	case <-p.asserted:
		return time.Since(p.until) > ioTimeout
	default:
		return time.Since(p.began) > ioTimeout
	}
}

// poke tells the holder that until or ended has moved.
func (p *pulse) poke() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// await waits for the end of a pulse on behalf of the caller who owns claim.
func (o *outputs) await(ctx context.Context, p *pulse, claim chan struct{}) error {
	slow := time.NewTimer(ioTimeout)
	defer slow.Stop()
	select {
	case <-p.asserted:
	case <-p.done:
		return p.err
	case <-claim:
		return o.drv.where("pulse", p.signal, ErrTakenOver)
	case <-slow.C:
		if err := o.giveUp(p, claim, ErrStuck); err != nil {
			return err
		}
		slow.Reset(ioTimeout)
	case <-ctx.Done():
		if err := o.giveUp(p, claim, ctx.Err()); err != nil {
			return err
		}
	}
	// The line is asserted: from here on only its width counts, and how long
	// its release is overdue.
	o.told(Event{Signal: p.signal, Asserted: true})
	for {
		select {
		case <-p.done:
			return p.err
		case <-claim:
			return o.drv.where("pulse", p.signal, ErrTakenOver)
		case <-slow.C:
		}
		late := time.Since(o.deadline(p)) - ioTimeout
		if late >= 0 {
			return o.drv.where("release", p.signal, ErrStuck)
		}
		slow.Reset(-late)
	}
}

func (o *outputs) deadline(p *pulse) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return p.until
}

// giveUp abandons a pulse whose assert has not returned. It answers nil when
// the assert returned after all.
func (o *outputs) giveUp(p *pulse, claim chan struct{}, cause error) error {
	o.mu.Lock()
	if !p.issued && p.claim == claim {
		p.ended = true // run sees it before it asserts
		o.mu.Unlock()
		return o.drv.where("pulse", p.signal, unmoved(cause))
	}
	o.mu.Unlock()

	grace := time.NewTimer(assertGrace)
	defer grace.Stop()
	select {
	case <-p.asserted:
		return nil
	case <-p.done:
		return p.err
	case <-grace.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.claim == claim {
		p.ended = true // released as soon as the call returns
	}
	return o.drv.where("pulse", p.signal, ErrStuck)
}

// run is the life of a pulse: mark, assert, hold, release, unmark.
func (o *outputs) run(p *pulse) {
	k := o.drv.mark(p.signal)
	p.err = o.press(p, k)
	o.mu.Lock()
	delete(o.lines, p.signal)
	o.mu.Unlock()
	close(p.done)
}

func (o *outputs) press(p *pulse, k mark) error {
	o.hook.at(BeforeMark, p.signal)
	drop := func() error { return o.marks.drop(k) }
	if err := o.marks.put(k); err != nil {
		if !o.goesUnmarked(p) {
			return o.drv.where("mark", p.signal, unmoved(err))
		}
		drop = func() error { return nil }
	}
	o.hook.at(BeforeAssert, p.signal)
	if !o.issue(p) {
		return errors.Join(o.drv.where("pulse", p.signal, ErrNotDriven), drop())
	}
	err := o.drv.drive(p.signal, true)
	if err != nil {
		o.finish(p)
		if errors.Is(err, ErrMissing) || errors.Is(err, ErrBusy) {
			return errors.Join(o.drv.where("pulse", p.signal, err), drop()) // never ours
		}
	} else {
		o.assertedNow(p)
	}
	o.hook.at(AfterAssert, p.signal)
	o.hold(p)
	o.hook.at(BeforeRelease, p.signal)
	if !o.release(p) {
		return o.drv.where("release", p.signal, errors.Join(ErrStuck, err))
	}
	o.hook.at(AfterRelease, p.signal)
	if err := drop(); err != nil {
		// The line is released, which is what counts: who reads the mark
		// later releases it once more.
		o.log.Warn("the mark of a pulse that has ended stays", "err", o.drv.where("mark", p.signal, err))
	}
	o.hook.at(AfterUnmark, p.signal)
	if err != nil {
		return o.drv.where("pulse", p.signal, err)
	}
	return nil
}

// goesUnmarked reports whether a pulse may go ahead although its mark could not
// be written. That leaves the line asserted if the process dies before the
// release, which is the lesser evil for who asks for power off.
func (o *outputs) goesUnmarked(p *pulse) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return p.urgent
}

// issue starts the clock of the pulse, or answers that it was ended already.
func (o *outputs) issue(p *pulse) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.ended || o.closed {
		return false
	}
	p.issued = true
	p.issuedAt = time.Now()
	p.until = p.issuedAt.Add(p.width)
	return true
}

// assertedNow lets the width count from the end of the call, but of a slow one
// from assertSlack after its beginning: nobody knows when in between the line
// moved, and it must not stay asserted for too long.
func (o *outputs) assertedNow(p *pulse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.until = p.until.Add(min(time.Since(p.issuedAt), assertSlack))
	close(p.asserted)
}

func (o *outputs) finish(p *pulse) {
	o.mu.Lock()
	p.ended = true
	o.mu.Unlock()
}

// hold waits until the pulse is due, which may move meanwhile.
func (o *outputs) hold(p *pulse) {
	for {
		o.mu.Lock()
		left := time.Until(p.until)
		if p.ended || left <= 0 {
			p.releasing = true
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-p.changed:
			t.Stop()
		}
	}
}

// release drives the line inactive until that has worked or the board closes.
// The mark stands meanwhile, for the process that comes after us.
func (o *outputs) release(p *pulse) bool {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if o.drv.drive(p.signal, false) == nil {
			return true
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-o.stop:
			t.Stop()
			return o.drv.drive(p.signal, false) == nil
		}
	}
}
