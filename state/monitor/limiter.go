package monitor

import (
	"fmt"
	"slices"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// perMinute is the window of Limits.RestartsPerMinute.
const perMinute = time.Minute

// Limits are what all resources of a [Monitor] share.
type Limits struct {
	RestartsPerMinute int // launches in any minute; 0 = unlimited
	Parallel          int // restarts in flight at once; 0 = unlimited
}

// Validate returns what is out of range.
func (l Limits) Validate() error {
	if l.RestartsPerMinute < 0 || l.Parallel < 0 {
		return fmt.Errorf("limits %+v: want 0 (unlimited) or more", l)
	}
	return nil
}

// gate is what a resource asks before it restarts.
type gate interface {
	// admit takes a place for name, or says when to ask again and why not now.
	admit(now time.Duration, name string) (ok bool, at time.Duration, why string)
	// release gives the place back. With ran false no restart took place.
	release(name string, ran bool)
	// leave withdraws a question that was answered with no.
	leave(name string)
}

// openGate limits nothing.
type openGate struct{}

func (openGate) admit(time.Duration, string) (bool, time.Duration, string) { return true, 0, "" }
func (openGate) release(string, bool)                                      {}
func (openGate) leave(string)                                              {}

// limiter is the gate of a Monitor: first come, first served.
type limiter struct {
	limits  Limits
	starts  []time.Duration // launches of the last minute, oldest first
	running map[string]time.Duration
	queue   []string
	changed bool // a place has become free since the queue was last asked
}

func newLimiter(l Limits) *limiter {
	return &limiter{limits: l, running: map[string]time.Duration{}}
}

func (l *limiter) prune(now time.Duration) {
	l.starts = dropOld(l.starts, func(t time.Duration) bool { return outside(now-t, perMinute) })
}

func (l *limiter) admit(now time.Duration, name string) (bool, time.Duration, string) {
	l.prune(now)
	place := slices.Index(l.queue, name)
	if place < 0 {
		place = len(l.queue)
		l.queue = append(l.queue, name)
	}
	if p := l.limits.Parallel; p > 0 && len(l.running)+place >= p {
		return false, never, fmt.Sprintf("a free slot (%d restarts at once)", p)
	}
	if m := l.limits.RestartsPerMinute; m > 0 && len(l.starts)+place >= m {
		return false, l.rateFree(place), fmt.Sprintf("the global limit of %d restarts per minute", m)
	}
	l.queue = slices.Delete(l.queue, place, place+1)
	l.starts = append(l.starts, now)
	l.running[name] = now
	return true, 0, ""
}

// rateFree returns when the question at place of the queue can be answered
// with yes as far as the rate goes; never while too few launches are known.
func (l *limiter) rateFree(place int) time.Duration {
	i := len(l.starts) + place - l.limits.RestartsPerMinute
	if i >= len(l.starts) {
		return never
	}
	return l.starts[i] + perMinute + 1 // an age of exactly a minute is inside
}

func (l *limiter) release(name string, ran bool) {
	at, ok := l.running[name]
	if !ok {
		return
	}
	delete(l.running, name)
	l.changed = true
	if i := slices.Index(l.starts, at); !ran && i >= 0 {
		l.starts = slices.Delete(l.starts, i, i+1)
	}
}

func (l *limiter) leave(name string) {
	if i := slices.Index(l.queue, name); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		l.changed = true
	}
}

// remember counts restarts of a former run of the daemon.
func (l *limiter) remember(now time.Duration, marks []time.Duration) {
	l.starts = append(l.starts, marks...)
	state.Sort(l.starts)
	l.prune(now)
}
