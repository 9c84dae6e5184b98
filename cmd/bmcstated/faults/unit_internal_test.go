package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/state/monitor"
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

// job is a reading that shows a job whose news has not come yet.
func job(id uint32) news {
	return func(w *unitWatch, now time.Duration) []string {
		s := w.last
		s.Job = id
		return names(w.changed(s, now))
	}
}

func queued(typ string) news { return queuedAs(7, typ) }

func queuedAs(id uint32, typ string) news {
	return func(w *unitWatch, now time.Duration) []string {
		w.queued(systemd.JobInfo{ID: id, Type: typ})
		return nil
	}
}

// started is all the news of a start that was ordered after what [queued] tells.
func started(w *unitWatch, now time.Duration) []string {
	j := systemd.JobInfo{ID: 8, Type: "start"}
	w.queued(j)
	w.ended(systemd.JobEnded{Job: j, Result: "done"}, now)
	return nil
}

func pulled(typ string) news {
	return func(w *unitWatch, now time.Duration) []string {
		w.queued(systemd.JobInfo{ID: 7, Type: typ, Parent: 3})
		return nil
	}
}

func ended(result string) news {
	return func(w *unitWatch, now time.Duration) []string {
		w.ended(systemd.JobEnded{Job: systemd.JobInfo{ID: 7}, Result: result}, now)
		return nil
	}
}

// changed is a reading of a unit that has changed then.
func changed(active, invocation string, at time.Duration) news {
	return func(w *unitWatch, now time.Duration) []string {
		return names(w.changed(systemd.UnitState{Load: "loaded", Active: active, InvocationID: invocation, StateChangeMonotonic: at}, now))
	}
}

// coming says that there is a job whose news is still to come.
func coming(w *unitWatch, _ time.Duration) []string {
	w.coming = true
	return nil
}

// begun is our own restart.
func begun(w *unitWatch, _ time.Duration) []string {
	w.ours, w.before = true, w.last.InvocationID
	w.verdictAt = 0
	return nil
}

// over is its end, with success or not, and what is known of the unit then.
func over(outcome monitor.RestartOutcome, active, invocation string) news {
	return func(w *unitWatch, now time.Duration) []string {
		s := systemd.UnitState{Load: "loaded", Active: active, InvocationID: invocation}
		return names(w.restarted(s, true, outcome, now))
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
		"its news late":                          {[]any{reads("inactive", "a"), queued("stop"), later(time.Second)}, "OperatorOff"},
		"its news and its end late":              {[]any{reads("inactive", "a"), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"an older reading after its end":         {[]any{queued("stop"), ended("done"), up, reads("inactive", "a")}, "OperatorOff"},
		"an older reading during it":             {[]any{queued("stop"), up, reads("inactive", "a")}, "OperatorOff"},
		"of a type that was not read":            {[]any{queued(""), ended("done"), up, reads("inactive", "a")}, "OperatorOff"},
		"that explains no death":                 {[]any{queued(""), ended("done"), reads("failed", "a")}, "Died"},
		"nor an end long after":                  {[]any{queued(""), ended("done"), later(time.Minute), reads("inactive", "a"), later(time.Second)}, "Died"},
		"cancelled":                              {[]any{queued("stop"), ended("canceled"), reads("failed", "a")}, "Died"},
		"cancelled, the news late":               {[]any{job(7), reads("failed", "a"), queued("stop"), ended("canceled"), later(time.Second)}, "Died"},
		"a start of what is up":                  {[]any{queued("start"), ended("done"), reads("failed", "a")}, "Died"},
		"a restart":                              {[]any{queued("restart"), reads("inactive", "a"), reads("active", "b"), ended("done")}, "Started"},
		"its new instance dies":                  {[]any{queued("restart"), reads("active", "b"), ended("done"), reads("failed", "b")}, "Died"},
		"news of the restart after it was seen":  {[]any{reads("active", "b"), queued("restart"), ended("done"), reads("failed", "b")}, "Died"},
		"and after it has died":                  {[]any{job(7), reads("failed", "b"), queued("restart"), ended("done"), later(time.Second)}, "Died"},
		"and that one was never seen":            {[]any{queued("restart"), reads("deactivating", "a"), ended("done"), reads("inactive", "b"), later(time.Second)}, "Died"},
		"its news in the pause":                  {[]any{reads("inactive", "a"), queued("restart"), reads("active", "b"), ended("done")}, "Started"},
		"after an older reading":                 {[]any{queued("restart"), ended("done"), up, reads("active", "b"), reads("failed", "b")}, "Died"},
		"stopped again before it was seen":       {[]any{queued("stop"), reads("active", "b"), ended("done"), reads("inactive", "b")}, "OperatorOff"},
		"stopped with another unit of ours":      {[]any{pulled("stop"), reads("inactive", "a")}, "Absent"},
		"news of a stop after those of a start":  {[]any{reads("inactive", "a"), news(started), reads("active", "b"), queued("stop"), ended("done"), reads("failed", "b"), later(time.Second)}, "Died"},
		"pulled in by another one, then a death": {[]any{pulled("start"), ended("done"), reads("failed", "a")}, "Died"},

		"its news late, ended with an error":      {[]any{news(coming), reads("failed", "a"), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"its news later than it is waited for":    {[]any{news(coming), reads("inactive", "a"), later(time.Second), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"ended with an error, not read":           {[]any{queued(""), ended("done"), changed("failed", "a", time.Hour), later(time.Second)}, "OperatorOff"},
		"a death behind what was not read":        {[]any{queued(""), ended("done"), changed("failed", "a", time.Hour+1)}, "Died"},
		"a start in its place":                    {[]any{queued("stop"), reads("deactivating", "a"), ended("canceled"), queuedAs(8, "start"), reads("inactive", "a"), later(time.Second), reads("active", "b")}, "Started"},
		"a start that fails":                      {[]any{queued("stop"), reads("inactive", "a"), ended("done"), queued("start"), reads("activating", "b"), reads("failed", "b"), ended("failed"), later(time.Second)}, "Died"},
		"and is seen at its end":                  {[]any{queued("stop"), reads("inactive", "a"), ended("done"), queued("start"), reads("failed", "b"), ended("failed"), later(time.Second)}, "Died"},
		"a stop of what was never seen":           {[]any{queued("stop"), reads("inactive", "a"), ended("done"), queuedAs(8, "start"), queuedAs(9, "stop"), reads("inactive", "b"), later(time.Second)}, "OperatorOff"},
		"a restart that fails":                    {[]any{queued("restart"), reads("inactive", "a"), reads("activating", "b"), ended("failed"), reads("failed", "b")}, "Died"},
		"its end late":                            {[]any{queued("restart"), reads("inactive", "a"), reads("activating", "b"), reads("failed", "b"), ended("failed"), later(time.Second)}, "Died"},
		"its end late, the start not seen":        {[]any{queued("restart"), reads("inactive", "a"), reads("failed", "b"), ended("failed"), later(time.Second)}, "Died"},
		"its end early, the start not seen":       {[]any{queued("restart"), reads("inactive", "a"), ended("failed"), reads("failed", "b"), later(time.Second)}, "Died"},
		"nothing seen before its end":             {[]any{queued("restart"), ended("failed"), reads("failed", "b"), later(time.Second)}, "Died"},
		"for what it depends on":                  {[]any{queued("restart"), reads("inactive", "a"), ended("dependency"), later(time.Second)}, "Died"},
		"a restart that is cancelled":             {[]any{queued("restart"), reads("inactive", "a"), ended("canceled"), later(time.Second)}, "OperatorOff"},
		"a stop in its place, the news crossed":   {[]any{queuedAs(8, "stop"), queued("restart"), ended("canceled"), reads("inactive", "a"), later(time.Second)}, "OperatorOff"},
		"a stop whose end was missed":             {[]any{queued("stop"), ended("lost"), reads("inactive", "a"), later(time.Second)}, "OperatorOff"},
		"that ended with an error, missed":        {[]any{queued("stop"), ended("lost"), changed("failed", "a", time.Hour), later(time.Second)}, "OperatorOff"},
		"that came to nothing, missed":            {[]any{queued("stop"), ended("lost"), up, later(time.Minute), reads("inactive", "a"), later(time.Second)}, "Died"},
		"that had been seen to stop, missed":      {[]any{queued("stop"), reads("deactivating", "a"), ended("lost"), reads("inactive", "a"), later(time.Second)}, "OperatorOff"},
		"a restart whose end was missed":          {[]any{queued("restart"), ended("lost"), reads("active", "b"), reads("failed", "b")}, "Died"},
		"in the pause":                            {[]any{queued("restart"), reads("inactive", "a"), ended("lost"), reads("active", "b"), later(time.Second)}, "Started"},
		"ours in the place of a stop, a death":    {[]any{news(begun), queued("stop"), reads("deactivating", "a"), ended("canceled"), over(monitor.RestartOK, "active", "b"), reads("failed", "b")}, "Died"},
		"ours, a stop behind it":                  {[]any{news(begun), queued("stop"), ended("done"), over(monitor.RestartOK, "active", "a"), reads("inactive", "b"), later(time.Second)}, "OperatorOff"},
		"and its instance read in time":           {[]any{news(begun), queued("stop"), ended("done"), over(monitor.RestartOK, "active", "b"), reads("inactive", "b"), later(time.Second)}, "OperatorOff"},
		"ours, the news of a stop behind it late": {[]any{news(begun), over(monitor.RestartOK, "inactive", "b"), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"that ended with an error":                {[]any{news(begun), over(monitor.RestartOK, "failed", "b"), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"ours, a restart behind it":               {[]any{news(begun), over(monitor.RestartOK, "inactive", "b"), queued("restart"), reads("active", "c"), ended("done"), later(time.Second)}, "Started"},
		"ours, a death behind it":                 {[]any{news(begun), over(monitor.RestartOK, "failed", "b"), later(time.Second)}, "Died"},
		"ours cancelled by a stop":                {[]any{news(begun), over(monitor.RestartCancelled, "inactive", "a"), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"that ends with an error":                 {[]any{news(begun), over(monitor.RestartCancelled, "failed", "a"), queued("stop"), ended("done"), later(time.Second)}, "OperatorOff"},
		"ours cancelled, by nothing that is told": {[]any{news(begun), over(monitor.RestartCancelled, "inactive", "a"), later(time.Second)}, "Started"},
		"ours has failed, and is counted":         {[]any{news(begun), over(monitor.RestartFailed, "failed", "a"), reads("failed", "b"), later(time.Second)}, "Started"},
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
			if c.want != "Died" {
				assert.NotContains(t, told, "Died")
			}
		})
	}
}
