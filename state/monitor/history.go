package monitor

import (
	"slices"
	"time"
)

// maxHistory bounds F and R. It changes no decision: the newest maxHistory
// weights of at least 1 already exceed the threshold, older ones age out
// before them, and no limit on restarts is that high.
const maxHistory = 256

// Mark is one instant in a history.
type Mark struct {
	// At is the boot time, for display.
	At time.Duration `json:"at"`
	// Window is the same on the window clock: the boot clock less the time
	// that was spent in restarts. A restart slower than RetryInterval would
	// otherwise age its own mark away and the limit would never be reached.
	Window time.Duration `json:"window"`
}

// Failure is one entry of F.
type Failure struct {
	Mark
	Weight  int           `json:"weight"` // 1 to 100
	Cause   Cause         `json:"cause"`
	Elapsed time.Duration `json:"elapsed,omitempty"` // of the probe; kept for the record, decides nothing
}

// history is F, the weighted failures, and R, the restarts (fault-monitor.md
// §1.2). A successful restart purges F only; a denied escalation both.
type history struct {
	failures []Failure
	restarts []Mark
}

// outside is the one place that knows the edge of the window: an age of
// exactly the interval is inside.
func outside(age, interval time.Duration) bool {
	return interval >= 0 && age > interval
}

// prune drops what has aged out by window-clock time now.
func (h *history) prune(now, interval time.Duration) {
	h.failures = dropOld(h.failures, func(f Failure) bool { return outside(now-f.Window, interval) })
	h.restarts = dropOld(h.restarts, func(m Mark) bool { return outside(now-m.Window, interval) })
}

// dropOld drops the oldest as long as they are old; s is in order of time.
func dropOld[T any](s []T, old func(T) bool) []T {
	n := slices.IndexFunc(s, func(v T) bool { return !old(v) })
	if n < 0 {
		n = len(s)
	}
	return slices.Delete(s, 0, n)
}

func (h *history) addFailure(f Failure) { h.failures = push(h.failures, f) }

func (h *history) addRestart(m Mark) { h.restarts = push(h.restarts, m) }

// undoRestart takes the newest restart back: it did not take place.
func (h *history) undoRestart() {
	if n := len(h.restarts); n > 0 {
		h.restarts = h.restarts[:n-1]
	}
}

func (h *history) forgive() { h.failures = h.failures[:0] }

func (h *history) clear() {
	h.forgive()
	h.restarts = h.restarts[:0]
}

// sum returns the weights in F.
func (h *history) sum() int {
	s := 0
	for _, f := range h.failures {
		s += f.Weight
	}
	return s
}

// push appends v and keeps the newest maxHistory.
func push[T any](s []T, v T) []T {
	if len(s) >= maxHistory {
		s = slices.Delete(s, 0, len(s)-maxHistory+1)
	}
	return append(s, v)
}
