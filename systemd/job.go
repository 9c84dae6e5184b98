package systemd

import (
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// holdMax bounds how long the announcement of a job waits for the reply that
// tells whether it is ours. systemd announces a job before it answers the call
// that made it.
const holdMax = 500 * time.Millisecond

// maxEarly bounds the results kept for jobs whose call has not been answered.
const maxEarly = 256

// job is a job that we asked for or that stands on a watched unit; guarded by
// Units.mu.
type job struct {
	id        uint32
	watch     *watch // nil: the unit is not watched
	own       bool
	parent    uint32
	asked     string        // unit of the call that brought it along
	results   []chan string // one per call that got this job; capacity 1 each
	rules     []string      // match rules of an unwatched unit, dropped at the end
	ruleLink  *link
	seq       godbus.Sequence // of JobNew
	holdUntil time.Time       // zero: settled whose it is
	typ       string
	typeKnown bool
	typing    bool
	announced bool
	ended     bool
	result    string
	checkAt   time.Time // look it up then
	checking  bool
}

// pendingCall is a call that makes a job, from before it is sent until the jobs
// that systemd announced around its reply are attributed.
type pendingCall struct {
	before   []*job // open on the unit when the call was sent
	unit     string
	anchor   uint32 // its job, 0 until the reply
	replySeq godbus.Sequence
}

// earlyEnd is the end of a job that no reply has named yet.
type earlyEnd struct {
	_ [0]func() // see state.Incomparable

	result    string
	announced bool // as somebody else's
}

// jobNew notes a new job; callers hold mu.
func (u *Units) jobNew(id uint32, unit string, seq godbus.Sequence) {
	w := u.watchOf(unit)
	if w == nil || u.jobs[id] != nil {
		return
	}
	j := &job{id: id, watch: w, seq: seq, checkAt: time.Now().Add(u.opt.Resync)}
	if len(u.calls) > 0 {
		j.holdUntil = time.Now().Add(holdMax)
	}
	u.jobs[id] = j
	w.dirty = true
	u.settle(j)
	u.kick()
}

// jobRemoved notes a job's end; callers hold mu.
func (u *Units) jobRemoved(id uint32, unit, result string) {
	if w := u.watchOf(unit); w != nil {
		w.dirty = true
	}
	j := u.jobs[id]
	if j == nil {
		if len(u.calls) > 0 && len(u.early) < maxEarly {
			u.early[id] = earlyEnd{result: result}
		}
		u.kick()
		return
	}
	j.ended, j.result = true, result
	u.settle(j)
	u.kick()
}

func (u *Units) watchOf(unit string) *watch {
	for _, w := range u.watched {
		if w.id == unit || w.name == unit {
			return w
		}
	}
	return nil
}

// settle takes a job as far as what is known of it allows; callers hold mu.
func (u *Units) settle(j *job) {
	if j.ended {
		u.deliver(j, j.result)
	}
	if j.watch != nil && !j.announced {
		if !j.holdUntil.IsZero() || !j.typeKnown {
			return
		}
		j.announced = true
		u.events.put(JobQueued{Job: j.info()})
	}
	if !j.ended || !j.holdUntil.IsZero() {
		return
	}
	if j.announced && j.watch != nil {
		u.events.put(JobEnded{Job: j.info(), Result: j.result})
	}
	u.forget(j)
}

func (j *job) info() JobInfo {
	i := JobInfo{ID: j.id, Type: j.typ, Own: j.own, Parent: j.parent, ParentUnit: j.asked}
	if j.watch != nil {
		i.Unit = j.watch.name
	}
	return i
}

// deliver gives the result to everyone who waits for it; callers hold mu.
func (u *Units) deliver(j *job, result string) {
	for _, c := range j.results {
		c <- result // capacity 1, sent once
	}
	j.results = nil
}

func (u *Units) forget(j *job) {
	delete(u.jobs, j.id)
	if !j.own && len(u.calls) > 0 && len(u.early) < maxEarly {
		u.early[j.id] = earlyEnd{result: j.result, announced: j.announced} // its call may still be waiting for a late reply
	}
	if j.ruleLink != nil && u.link == j.ruleLink {
		j.ruleLink.dropMatches(j.rules)
	}
}

// stepJob starts what j needs; callers hold mu.
func (u *Units) stepJob(l *link, j *job, now time.Time) time.Time {
	if !j.holdUntil.IsZero() {
		if now.Before(j.holdUntil) {
			return j.holdUntil
		}
		j.holdUntil = time.Time{}
		u.settle(j)
	}
	if j.watch != nil && !j.typeKnown && !j.typing {
		j.typing = true
		l.spawn(func() { l.readType(j) })
	}
	if j.ended || j.checking {
		return now.Add(u.opt.Resync)
	}
	if !now.Before(j.checkAt) {
		j.checking = true
		l.spawn(func() { l.check(j) })
	}
	return j.checkAt
}

// readType asks the job object for the type, which no signal carries.
func (l *link) readType(j *job) {
	u := l.u
	ctx, cancel := u.deadline(l.ctx)
	defer cancel()
	var typ string
	// A job that is gone has no type any more; that is no failure.
	err := storeProperty(l.call(ctx, jobPath(j.id), propsIface+".Get", jobIface, "JobType"), &typ)
	u.mu.Lock()
	defer u.mu.Unlock()
	j.typing = false
	if j.typeKnown {
		return
	}
	if err != nil && l.ctx.Err() != nil && !j.ended {
		return // asked again on the next link
	}
	j.typ, j.typeKnown = typ, true
	u.settle(j)
}

// check looks a job up whose end may have been missed. systemd announces an end
// before it can deny that the job exists, on the same connection, so a job that
// is still open here after the denial was lost.
func (l *link) check(j *job) {
	u := l.u
	ctx, cancel := u.deadline(l.ctx)
	defer cancel()
	err := wrap("GetJob", "", l.call(ctx, managerPath, managerIface+".GetJob", j.id).Err)
	u.mu.Lock()
	defer u.mu.Unlock()
	j.checking = false
	j.checkAt = time.Now().Add(u.opt.Resync)
	if ErrorName(err) == NameNoSuchJob && !j.ended {
		u.lose(j)
	} else if err != nil {
		l.suspect(err)
	}
}

// lose ends a job whose result nobody told; callers hold mu.
func (u *Units) lose(j *job) {
	j.ended, j.result, j.typeKnown = true, ResultLost, true
	if j.watch != nil {
		j.watch.dirty = true
	}
	u.settle(j)
	u.kick()
}

// openJobs lists the jobs on w that have not ended; callers hold mu.
func (u *Units) openJobs(w *watch) []*job {
	var open []*job
	for _, j := range u.jobs {
		if j.watch == w && !j.ended {
			open = append(open, j)
		}
	}
	return open
}

// jobComes reports whether a job on w is not announced yet; callers hold mu.
func (u *Units) jobComes(w *watch) bool {
	for _, j := range u.jobs {
		if j.watch == w && !j.announced {
			return true
		}
	}
	return false
}

// reconcileJobs compares the unit's job as read with what the signals told:
// before were the open jobs when the reading was asked for. Callers hold mu.
func (u *Units) reconcileJobs(w *watch, current uint32, before []*job) {
	for _, j := range before {
		if j.id != current && !j.ended {
			u.lose(j)
		}
	}
	if current != 0 && u.jobs[current] == nil {
		j := &job{id: current, watch: w, checkAt: time.Now().Add(u.opt.Resync)}
		if len(u.calls) > 0 {
			j.holdUntil = time.Now().Add(holdMax)
		}
		u.jobs[current] = j
		u.kick()
	}
}

func jobPath(id uint32) godbus.ObjectPath { return godbus.ObjectPath(jobPrefix + utoa(id)) }
