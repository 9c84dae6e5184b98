package monitor

import "time"

// flap notices a resource that is restarted again and again, each time within
// the limit. It raises an event and causes no action. Its list is its own: a
// denied escalation does not clear it.
type flap struct {
	marks []time.Duration // boot time of restarts, oldest first
	on    bool
}

func (f *flap) add(now time.Duration) {
	f.marks = append(f.marks[max(0, len(f.marks)-maxHistory+1):], now)
}

func (f *flap) undo() {
	if n := len(f.marks); n > 0 {
		f.marks = f.marks[:n-1]
	}
}

// update ages the list and reports whether flapping began or ended.
func (f *flap) update(c FlapConfig, now time.Duration) (changed bool) {
	was := f.on
	if c.Count == 0 {
		*f = flap{}
		return was
	}
	f.marks = youngOf(f.marks, now, c.Window)
	switch n := len(f.marks); {
	case n >= c.Count:
		f.on = true
	case n <= c.Clear:
		f.on = false
	}
	return f.on != was
}
