package monitor

import (
	"fmt"
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
	l.starts = youngOf(l.starts, now, perMinute)
}

func (l *limiter) admit(now time.Duration, name string) (bool, time.Duration, string) {
	l.prune(now)
	place := state.Index(l.queue, name)
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
	l.queue = state.Remove(l.queue, name)
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
	for i, t := range l.starts {
		if !ran && t == at {
			l.starts = append(l.starts[:i], l.starts[i+1:]...)
			return
		}
	}
}

// waiting returns who waits, in order of arrival.
func (l *limiter) waiting() []string { return append([]string(nil), l.queue...) }

func (l *limiter) leave(name string) {
	if state.Contains(l.queue, name) {
		l.queue = state.Remove(l.queue, name)
		l.changed = true
	}
}

// remember counts restarts of a former run of the daemon.
func (l *limiter) remember(now time.Duration, marks []time.Duration) {
	l.starts = append(l.starts, marks...)
	state.Sort(l.starts)
	l.prune(now)
}
