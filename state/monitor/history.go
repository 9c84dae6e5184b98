package monitor

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
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

// by reports whether m can have been made by now.
func (m Mark) by(now time.Duration) bool { return m.At <= now && m.Window <= now }

// Failure is one entry of F.
type Failure struct {
	_ state.Incomparable

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

// youngOf returns those of marks, which are in order of time, that are within
// the interval.
func youngOf(marks []time.Duration, now, interval time.Duration) []time.Duration {
	for len(marks) > 0 && outside(now-marks[0], interval) {
		marks = marks[1:]
	}
	return marks
}

// prune drops what has aged out by window-clock time now.
func (h *history) prune(now, interval time.Duration) {
	for len(h.failures) > 0 && outside(now-h.failures[0].Window, interval) {
		h.failures = h.failures[1:]
	}
	for len(h.restarts) > 0 && outside(now-h.restarts[0].Window, interval) {
		h.restarts = h.restarts[1:]
	}
}

// addFailure keeps the newest maxHistory.
func (h *history) addFailure(f Failure) {
	h.failures = append(h.failures[max(0, len(h.failures)-maxHistory+1):], f)
}

// addRestart keeps the newest maxHistory.
func (h *history) addRestart(m Mark) {
	h.restarts = append(h.restarts[max(0, len(h.restarts)-maxHistory+1):], m)
}

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
