package faults

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
)

// jobNews is how long a clean end of a unit waits for the news of the job that
// ordered it: systemd's two signals come in any order.
const jobNews = 300 * time.Millisecond

// unitWatch is what the loop knows of one unit. It turns systemd's states and
// jobs into deaths, and into what an operator did (fault-monitor.md §2.5).
type unitWatch struct {
	_ state.Incomparable

	unit string
	name string // of the resource

	known     bool // a state was read
	last      systemd.UnitState
	up        bool   // the instance with this invocation was seen up
	ours      bool   // our own restart is under way
	before    string // invocation when that began
	adopt     bool   // the next invocation is that of our restart,
	adoptUp   bool   // which has brought it up
	cancelled bool   // it is down since others cancelled our restart: only an order of theirs is told
	coming    bool   // the news of a job is on its way
	order     order  // the newest job that is not ours
	newest    uint32 // its number, also when it is forgotten
	operator  bool   // an operator stopped it
	verdictAt time.Duration
	read      chan struct{} // has a token after each reading
}

// order is a job that is not ours. It is not forgotten for a reading that shows
// the instance still there: that reading may be older than the job.
type order struct {
	_ state.Incomparable

	job    uint32 // 0 = none
	typ    string // "" for one that was gone before it could be read
	pulled bool   // in the transaction of a job of ours
	open   bool
	done   bool          // it ended, with success
	ended  time.Duration // boot clock; of one that is not open
}

// unreadFor is how long after its end an order of an unknown type explains a
// clean end of the unit.
const unreadFor = 5 * time.Second

// explains reports whether the order is why an instance has ended. Behind a
// restart that is done stands a new instance, whatever was read of it: systemd
// tells the end of a job after what it has done.
func (o order) explains(s systemd.UnitState, now time.Duration) bool {
	switch {
	case o.job == 0:
		return false
	case o.typ == "":
		// A stop ends after the unit has changed; what did nothing, before.
		behind := o.done && s.StateChangeMonotonic != 0 && s.StateChangeMonotonic <= o.ended
		stopped := s.Active == "inactive" || s.Active == "failed" && behind
		return stopped && (o.open || now-o.ended < unreadFor)
	case o.typ == "stop":
		return true
	default:
		return !o.done && o.restarts()
	}
}

// ordered reports whether the instance that was up ends by an order, or may have.
func (w *unitWatch) ordered(now time.Duration) bool {
	return w.verdictAt != 0 || w.up && w.order.explains(w.last, now)
}

func (o order) restarts() bool { return o.typ == "restart" || o.typ == "try-restart" }

// noStart are results of a job that should have brought a unit up.
var noStart = map[string]bool{
	systemd.ResultFailed: true, systemd.ResultTimeout: true, systemd.ResultDependency: true, systemd.ResultLost: true,
}

// watchUnits begins to watch. It runs in the loop's goroutine.
func (l *Loop) watchUnits() {
	for i := range l.opts.Resources {
		r := &l.opts.Resources[i]
		if r.Unit == "" {
			continue
		}
		w := &unitWatch{unit: r.Unit, name: r.Config.Name, read: make(chan struct{}, 1)}
		if res, ok := l.mon.Resource(w.name); ok {
			w.operator = res.Snapshot().OperatorOff
		}
		l.watches[r.Unit] = w
		l.opts.Units.Watch(r.Unit)
	}
}

// unitEvent takes what systemd tells.
func (l *Loop) unitEvent(ev systemd.Event) {
	switch ev := ev.(type) {
	case systemd.LinkChanged:
		if ev.Up {
			return // every unit is read again
		}
		for _, w := range l.watches {
			w.newest = 0 // another systemd may count anew
			l.step(w.name, monitor.LostSight{Reason: fmt.Sprintf("systemd does not answer: %v", ev.Err)})
		}
	case systemd.UnitChanged:
		if w := l.watches[ev.State.Name]; w != nil {
			l.unitChanged(w, ev)
		}
	case systemd.JobQueued:
		if w := l.watches[ev.Job.Unit]; w != nil {
			w.queued(ev.Job)
		}
	case systemd.JobEnded:
		if w := l.watches[ev.Job.Unit]; w != nil {
			w.ended(ev, l.opts.Now().Boot)
		}
	}
}

func (l *Loop) unitChanged(w *unitWatch, ev systemd.UnitChanged) {
	if ev.Err != nil {
		l.step(w.name, monitor.LostSight{Reason: ev.Err.Error()})
		return
	}
	now := l.opts.Now().Boot
	if ev.MissedJobs > 0 && w.order.open { // its end may be among them
		w.order.open, w.order.ended = false, now
	}
	w.coming = ev.JobComes
	events := w.changed(ev.State, now)
	select {
	case w.read <- struct{}{}:
	default:
	}
	l.tellUnit(w, events)
}

func (l *Loop) tellUnit(w *unitWatch, events []monitor.Event) {
	for _, ev := range events {
		l.step(w.name, ev)
	}
}

// queued notes who ordered what. It decides nothing: the job may have ended
// before the unit did, and that news follows. News of an older job changes
// nothing: their types are read side by side, and ids rise.
func (w *unitWatch) queued(j systemd.JobInfo) {
	w.coming = false
	if !j.Own && j.ID > w.newest {
		w.newest = j.ID
		w.order = order{job: j.ID, typ: j.Type, pulled: !j.Foreign(), open: true}
	}
}

// ended notes the end of a job. An order that came to nothing explains no death.
// Nor does a restart whose new instance did not come up: it was to be up.
func (w *unitWatch) ended(ev systemd.JobEnded, now time.Duration) {
	if ev.Job.ID != w.order.job {
		return
	}
	w.order.open, w.order.ended = false, now
	w.order.done = ev.Result == systemd.ResultDone
	cancelled := ev.Result == systemd.ResultCanceled && w.last.Active == "failed"
	switch {
	case w.order.typ == "stop" && ev.Result == systemd.ResultLost:
		w.order.typ, w.order.done = "", true // the readings that follow tell whether it was done
	case w.order.restarts() && noStart[ev.Result] && !w.ours && !running(w.last):
		w.up, w.order, w.verdictAt = true, order{}, now+jobNews // its last reading may be to come
	case w.up && !w.order.done && (running(w.last) || cancelled):
		w.order = order{}
	}
}

// running reports whether an instance is there. One that waits for its automatic
// restart is not.
func running(s systemd.UnitState) bool {
	return s.Active == "active" || s.Active == "reloading" || s.Active == "activating" && s.Sub != "auto-restart"
}

// changed compares a reading with the last one.
func (w *unitWatch) changed(s systemd.UnitState, now time.Duration) []monitor.Event {
	before, first := w.last, !w.known
	w.last, w.known = s, true
	if w.adopt && s.InvocationID != before.InvocationID {
		w.adopt, w.up = false, w.up || w.adoptUp
		before.InvocationID, before.NRestarts = s.InvocationID, s.NRestarts
	}
	switch {
	case s.Load != "" && s.Load != "loaded":
		w.up, w.verdictAt = false, 0
		return []monitor.Event{monitor.Absent{Reason: "the unit is " + s.Load}}
	case w.ours:
		return nil // what happens is ours until the restart has ended
	case first:
		return w.found(s)
	case running(s):
		return w.running(before, s)
	}
	var events []monitor.Event
	if !w.up && s.InvocationID != "" && s.InvocationID != before.InvocationID { // it came and went unseen
		if w.up = true; !w.order.explains(s, now) {
			events = w.cameUp(s)
		}
	}
	switch {
	case s.Active == "deactivating" || s.Active == "activating":
		return events // on its way: its end tells
	case !w.up:
		return nil
	}
	return append(events, w.down(before.Job != 0, now)...)
}

// down takes a reading that shows no instance. What explains that may come later.
func (w *unitWatch) down(hadJob bool, now time.Duration) []monitor.Event {
	if w.order.explains(w.last, now) || w.last.Active != "inactive" && !hadJob && !w.coming {
		return w.verdict(now)
	}
	if w.verdictAt == 0 {
		w.verdictAt = now + jobNews
	}
	return nil
}

// found takes the first reading.
func (w *unitWatch) found(s systemd.UnitState) []monitor.Event {
	switch {
	case running(s):
		return w.cameUp(s)
	case s.Active == "failed":
		return []monitor.Event{monitor.Died{Invocation: s.InvocationID, Detail: s.Result}}
	default:
		return []monitor.Event{monitor.Absent{Reason: "the unit is " + s.Active}}
	}
}

// running takes a reading that shows an instance.
func (w *unitWatch) running(before, s systemd.UnitState) []monitor.Event {
	w.verdictAt = 0
	same := s.InvocationID == before.InvocationID
	var deaths uint32 // a decrease of NRestarts is a new baseline
	if s.NRestarts > before.NRestarts {
		deaths = s.NRestarts - before.NRestarts
	}
	switch {
	case deaths > 0 && w.up:
		w.settled()
		return []monitor.Event{monitor.Died{
			N: int(deaths), Invocation: before.InvocationID, Restarted: true, Detail: "restarted by systemd",
		}}
	case !same || !w.up:
		return w.cameUp(s)
	}
	return nil
}

// cameUp takes an instance that others have started.
func (w *unitWatch) cameUp(s systemd.UnitState) []monitor.Event {
	var events []monitor.Event
	if w.operator || w.order.job != 0 && !w.order.pulled && w.known {
		events = append(events, monitor.OperatorOn{})
	}
	w.operator, w.up, w.adopt, w.cancelled = false, true, false, false
	w.settled()
	return append(events, monitor.Started{Invocation: s.InvocationID})
}

// settled forgets what explains an end, unless it is still being carried out.
func (w *unitWatch) settled() {
	w.verdictAt = 0
	if !w.order.open {
		w.order = order{}
	}
}

// verdict says why a unit that was up is down.
func (w *unitWatch) verdict(now time.Duration) []monitor.Event {
	s, pulled := w.last, w.order.pulled
	explained := w.order.explains(s, now)
	if running(s) || s.Active == "deactivating" || !w.up {
		w.verdictAt = 0
		return nil
	}
	if !explained && (w.coming || w.order.open && w.order.typ == "start") {
		w.verdictAt = now + jobNews // somebody may have stopped it, or is bringing it up
		return nil
	}
	w.up, w.verdictAt = false, 0
	if !explained || !w.order.open || !w.order.restarts() {
		w.order = order{} // how a restart goes on is still to come
	}
	operator, cancelled := w.operator, w.cancelled
	w.operator, w.cancelled = explained && !pulled, false
	switch {
	case explained && !pulled:
		return []monitor.Event{monitor.OperatorOff{Reason: "stopped by an operator"}}
	case explained:
		return []monitor.Event{monitor.Absent{Reason: "stopped together with another unit"}}
	case cancelled:
		return nil
	}
	died := monitor.Died{Invocation: s.InvocationID, Detail: s.Result}
	if s.Result == "" || s.Result == "success" {
		died.Detail = "the service ended by itself"
	}
	if operator { // it was told of the instance before
		died.Invocation = ""
		return []monitor.Event{monitor.OperatorOn{}, died}
	}
	return []monitor.Event{died}
}

// probeUnit answers with what the watch last saw of a resource's unit. Deaths come
// from the watch; the probe is what sees that a unit is still down, and counts no
// end that the watch has not judged. It also has the unit read again, for the
// watch: a signal may have been lost.
func (l *Loop) probeUnit(r *Resource, tag monitor.Tag) {
	w := l.watches[r.Unit]
	if w != nil {
		l.opts.Units.Refresh(w.unit)
	}
	l.post(func() {
		var res Result
		if w != nil {
			res = w.probed()
		}
		l.step(r.Config.Name, monitor.ProbeResult{Tag: tag, Status: res.Status, Detail: res.Detail})
	})
}

func (w *unitWatch) probed() Result {
	switch {
	case !w.known:
		return Result{monitor.ProbeMonitorError, "the unit was not read yet"}
	case w.verdictAt != 0:
		return Result{monitor.ProbeMonitorError, "why the unit ended is not known yet"}
	case running(w.last):
		return Result{}
	case w.last.Active == "failed":
		return Result{monitor.ProbeCompleteFailure, "the unit has failed: " + w.last.Result}
	default:
		return Result{monitor.ProbeMonitorError, "the unit is " + w.last.Active}
	}
}
