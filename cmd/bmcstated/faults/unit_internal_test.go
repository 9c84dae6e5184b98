package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/systemd"
)

// news is what a watch is told, one after the other.
type news func(w *unitWatch, now time.Duration) []string

func names[E any](events []E) (all []string) {
	for _, ev := range events {
		all = append(all, fmt.Sprintf("%T", ev)[len("monitor."):])
	}
	return all
}

func reads(active, invocation string) news {
	return func(w *unitWatch, now time.Duration) []string {
		return names(w.changed(systemd.UnitState{Load: "loaded", Active: active, InvocationID: invocation}, now))
	}
}

func queued(typ string) news {
	return func(w *unitWatch, now time.Duration) []string {
		return names(w.queued(systemd.JobInfo{ID: 7, Type: typ}, now))
	}
}

func pulled(typ string) news {
	return func(w *unitWatch, now time.Duration) []string {
		return names(w.queued(systemd.JobInfo{ID: 7, Type: typ, Parent: 3}, now))
	}
}

func ended(result string) news {
	return func(w *unitWatch, now time.Duration) []string {
		w.ended(systemd.JobEnded{Job: systemd.JobInfo{ID: 7}, Result: result}, now)
		return nil
	}
}

// later lets so much time go by that what waits for news is decided.
func later(d time.Duration) func(*time.Duration) { return func(now *time.Duration) { *now += d } }

// TestUnitWatch plays systemd's news in the orders in which they come: states are
// read and jobs announced side by side, so a reading may be older than an order.
func TestUnitWatch(t *testing.T) {
	up := reads("active", "a")
	for name, c := range map[string]struct {
		play []any
		want string // the last thing told
	}{
		"a death":                                {[]any{reads("failed", "a")}, "Died"},
		"a clean end":                            {[]any{reads("inactive", "a"), later(time.Second)}, "Died"},
		"a stop":                                 {[]any{queued("stop"), reads("inactive", "a"), ended("done")}, "OperatorOff"},
		"its news late":                          {[]any{reads("inactive", "a"), queued("stop")}, "OperatorOff"},
		"an older reading after its end":         {[]any{queued("stop"), ended("done"), up, reads("inactive", "a")}, "OperatorOff"},
		"an older reading during it":             {[]any{queued("stop"), up, reads("inactive", "a")}, "OperatorOff"},
		"of a type that was not read":            {[]any{queued(""), ended("done"), up, reads("inactive", "a")}, "OperatorOff"},
		"that explains no death":                 {[]any{queued(""), ended("done"), reads("failed", "a")}, "Died"},
		"nor an end long after":                  {[]any{queued(""), ended("done"), later(time.Minute), reads("inactive", "a"), later(time.Second)}, "Died"},
		"cancelled":                              {[]any{queued("stop"), ended("canceled"), reads("failed", "a")}, "Died"},
		"a start of what is up":                  {[]any{queued("start"), ended("done"), reads("failed", "a")}, "Died"},
		"a restart":                              {[]any{queued("restart"), reads("inactive", "a"), reads("active", "b"), ended("done")}, "Started"},
		"its new instance dies":                  {[]any{queued("restart"), reads("active", "b"), ended("done"), reads("failed", "b")}, "Died"},
		"after an older reading":                 {[]any{queued("restart"), ended("done"), up, reads("active", "b"), reads("failed", "b")}, "Died"},
		"stopped again before it was seen":       {[]any{queued("stop"), reads("active", "b"), ended("done"), reads("inactive", "b")}, "OperatorOff"},
		"stopped with another unit of ours":      {[]any{pulled("stop"), reads("inactive", "a")}, "Absent"},
		"pulled in by another one, then a death": {[]any{pulled("start"), ended("done"), reads("failed", "a")}, "Died"},
	} {
		t.Run(name, func(t *testing.T) {
			w, now := &unitWatch{unit: "x.service"}, time.Hour
			told := up(w, now)
			for _, p := range c.play {
				switch p := p.(type) {
				case news:
					told = append(told, p(w, now)...)
				case func(*time.Duration):
					p(&now)
					if w.verdictAt != 0 && now >= w.verdictAt {
						told = append(told, names(w.verdict(now))...)
					}
				}
			}
			assert.Equal(t, c.want, told[len(told)-1], "%v", told)
			if c.want == "OperatorOff" || c.want == "Absent" {
				assert.NotContains(t, told, "Died")
			}
		})
	}
}
