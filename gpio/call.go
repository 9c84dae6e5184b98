package gpio

import (
	"context"
	"sync"
	"time"
)

// crew counts the goroutines that make calls into the kernel.
type crew struct {
	_ [0]func() // see state.Incomparable

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// run starts fn, unless the crew is closed.
func (c *crew) run(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(fn)
	return true
}

// close refuses further work and waits for what runs, for limit at most.
func (c *crew) close(limit time.Duration) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(done)
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// call makes calls that may hang, one at a time, without hanging its callers.
type call struct {
	_ [0]func() // see state.Incomparable

	mu      sync.Mutex
	running chan struct{} // closed at the end of the running call, nil if none
	since   time.Time
}

// do runs fn on a goroutine of crew, and waits for it until ctx ends or
// limit has passed: then it answers ErrStuck and leaves the call behind.
// While an earlier call is known to hang, fn is not run.
func (c *call) do(ctx context.Context, crew *crew, limit time.Duration, fn func() error) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	done, err := c.take(ctx, limit, t.C)
	if err != nil {
		return err
	}
	var result error
	end := func() {
		c.mu.Lock()
		c.running = nil
		c.mu.Unlock()
		close(done)
	}
	started := crew.run(func() {
		defer end()
		result = fn()
	})
	if !started {
		end()
		return ErrClosed
	}
	select {
	case <-done:
		return result
	case <-ctx.Done():
	case <-t.C:
	}
	return ErrStuck
}

// take waits for its turn.
func (c *call) take(ctx context.Context, limit time.Duration, late <-chan time.Time) (chan struct{}, error) {
	for {
		c.mu.Lock()
		if c.running == nil {
			c.running = make(chan struct{})
			c.since = time.Now()
			done := c.running
			c.mu.Unlock()
			return done, nil
		}
		busy, hung := c.running, time.Since(c.since) > limit
		c.mu.Unlock()
		if hung {
			return nil, ErrStuck
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ErrStuck
		case <-late:
			return nil, ErrStuck
		}
	}
}
