package systemd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// The job modes of systemd that the state manager uses (systemctl(1),
// --job-mode=).
const (
	ModeReplace             = "replace"
	ModeReplaceIrreversibly = "replace-irreversibly"
	ModeFail                = "fail"
)

// abandonTimeout is how long we wait for the reply to a call that its caller has
// given up, in order to cancel the job it made.
const abandonTimeout = 10 * time.Minute

// Job is a job that systemd queued for one of our calls.
type Job struct {
	ID   uint32
	Unit string
	// Joined is true when the job was there before our call (systemd merges
	// equal jobs) and has been reported as somebody else's.
	Joined bool
	// Result gets the job's result (Result… constants), once. It has room
	// for it: nobody needs to read. A result says what the job came to, not
	// what the unit is: read the unit.
	Result <-chan string
}

// Start queues a start job. It waits for systemd to come if it is not there, at
// most until ctx ends, else for Options.CallTimeout. If ctx ends after the call
// was sent, the job is cancelled as soon as the late reply names it. Errors are
// *Error.
func (u *Units) Start(ctx context.Context, unit, mode string) (Job, error) {
	return u.enqueue(ctx, "StartUnit", "start", unit, mode)
}

// Stop queues a stop job; as [Units.Start] otherwise.
func (u *Units) Stop(ctx context.Context, unit, mode string) (Job, error) {
	return u.enqueue(ctx, "StopUnit", "stop", unit, mode)
}

// Restart queues a restart job, which starts a stopped unit; as [Units.Start]
// otherwise.
func (u *Units) Restart(ctx context.Context, unit, mode string) (Job, error) {
	return u.enqueue(ctx, "RestartUnit", "restart", unit, mode)
}

// Cancel ends a job that is queued or running; its Result is then
// [ResultCanceled]. A job that has already ended is no error. What the job had
// begun is not undone: a service that was being started may need [Units.Stop].
func (u *Units) Cancel(ctx context.Context, id uint32) error {
	err := u.manager(ctx, "CancelJob", strconv.FormatUint(uint64(id), 10), id)
	if ErrorName(err) == NameNoSuchJob {
		return nil
	}
	return err
}

// ResetFailed takes a unit out of the failed state and clears its start limit.
func (u *Units) ResetFailed(ctx context.Context, unit string) error {
	return u.manager(ctx, "ResetFailedUnit", unit, unit)
}

// Reboot is Manager.Reboot: systemd reboots at once without stopping units.
func (u *Units) Reboot(ctx context.Context) error { return u.manager(ctx, "Reboot", "") }

func (u *Units) manager(ctx context.Context, method, subject string, args ...any) error {
	ctx, cancel := u.deadline(ctx)
	defer cancel()
	for {
		l, err := u.ready(ctx)
		if err != nil {
			return wrap(method, subject, err)
		}
		err = wrap(method, subject, l.call(ctx, managerPath, managerIface+"."+method, args...).Err)
		if !u.absent(ctx, l, err) {
			return err
		}
	}
}

// absent reports whether a call failed because systemd had just left the bus,
// after waiting for the news of that, so that the call can be made again.
func (u *Units) absent(ctx context.Context, l *link, err error) bool {
	if n := ErrorName(err); n != NameServiceUnknown && n != NameNameHasNoOwner {
		return false
	}
	pause := time.NewTimer(minBackoff)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-l.ctx.Done():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (u *Units) enqueue(ctx context.Context, method, typ, unit, mode string, more ...any) (Job, error) {
	if !ValidUnitName(unit) {
		return Job{}, &Error{Op: method, Unit: unit, Name: NameInvalidArgs, Err: fmt.Errorf("%q is not the name of a unit", unit)}
	}
	ctx, cancel := u.deadline(ctx)
	defer cancel()
	for {
		l, err := u.ready(ctx)
		if err != nil {
			return Job{}, wrap(method, unit, err)
		}
		j, err := u.enqueueOn(ctx, l, method, typ, unit, mode, more...)
		if err == nil || !u.absent(ctx, l, err) {
			return j, err
		}
	}
}

// enqueueOn makes the call on one link. A cheap call follows it at once: the
// jobs that systemd announces between the two replies are those of this
// transaction, because systemd sends out what it has queued before it turns to
// the next message.
func (u *Units) enqueueOn(ctx context.Context, l *link, method, typ, unit, mode string, more ...any) (Job, error) {
	rules, err := l.listen(ctx, unit)
	if err != nil {
		return Job{}, wrap(method, unit, err)
	}
	p := u.begin(unit)
	callCtx, cancel := context.WithTimeout(l.ctx, abandonTimeout)
	reply := l.send(callCtx, managerPath, managerIface+"."+method, append([]any{unit, mode}, more...)...)
	fence := l.send(callCtx, managerPath, propsIface+".Get", managerIface, "Version")

	select {
	case call := <-reply:
		var path godbus.ObjectPath
		err := call.Store(&path)
		var id uint32
		if err == nil {
			id, err = jobID(path)
		}
		if err != nil {
			cancel()
			l.fail(p, rules)
			return Job{}, wrap(method, unit, err)
		}
		j := u.adopt(l, p, id, typ, unit, rules, call.ResponseSequence)
		l.after(p, func() {
			defer cancel()
			u.attribute(p, (<-fence).ResponseSequence)
			l.findAlias(callCtx, id, unit)
		})
		return j, nil
	case <-ctx.Done():
		l.after(p, func() {
			defer cancel()
			l.abandon(callCtx, p, reply)
			l.fail(p, rules)
		})
		return Job{}, wrap(method, unit, ctx.Err())
	}
}

// begin registers a call that is about to be sent.
func (u *Units) begin(unit string) *pendingCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := &pendingCall{unit: unit}
	if w := u.watchOf(unit); w != nil {
		p.before = u.openJobs(w)
	}
	u.calls[p] = struct{}{}
	return p
}

// after goes on with a call in the background.
func (l *link) after(p *pendingCall, f func()) {
	l.u.mu.Lock()
	alive := l.spawn(f)
	l.u.mu.Unlock()
	if !alive {
		f() // every call of a dead link has already failed
	}
}

// fail ends a call that made no job.
func (l *link) fail(p *pendingCall, rules []string) {
	l.u.attribute(p, 0)
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	l.dropMatches(rules)
}

// listen adds the match rule for an unwatched unit's jobs.
func (l *link) listen(ctx context.Context, unit string) ([]string, error) {
	l.u.mu.Lock()
	w := l.u.watched[unit]
	ready := w != nil && w.prepared
	l.u.mu.Unlock()
	if ready {
		return nil, nil
	}
	rules := []string{jobRule(unit)}
	return rules, l.addMatch(ctx, rules[0])
}

// adopt makes the job of a reply ours.
func (u *Units) adopt(l *link, p *pendingCall, id uint32, typ, unit string, rules []string, seq godbus.Sequence) Job {
	u.mu.Lock()
	defer u.mu.Unlock()
	p.anchor, p.replySeq = id, seq
	j := u.jobs[id]
	if j == nil {
		j = &job{id: id, watch: u.watchOf(unit), checkAt: time.Now().Add(u.opt.Resync)}
		u.jobs[id] = j
	}
	early, over := u.early[id]
	out := Job{ID: id, Unit: unit, Joined: early.announced || j.announced && !j.own}
	if !j.typeKnown {
		j.typ, j.typeKnown = typ, true
	}
	if len(rules) > 0 {
		j.rules, j.ruleLink = append(j.rules, rules...), l
	}
	result := make(chan string, 1)
	out.Result = result
	j.own, j.holdUntil, j.results = true, time.Time{}, append(j.results, result)
	if over {
		delete(u.early, id)
		j.ended, j.result, j.announced = true, early.result, early.announced
		if early.announced {
			j.watch = nil // its end was reported, too
		}
	}
	u.settle(j)
	u.kick()
	return out
}

// attribute ends a pending call: jobs announced between its reply and the fence,
// with later numbers, belong to its transaction.
func (u *Units) attribute(p *pendingCall, fence godbus.Sequence) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, p)
	for _, j := range u.jobs {
		if j.holdUntil.IsZero() {
			continue
		}
		if p.anchor != 0 && j.id > p.anchor && j.seq > p.replySeq && j.seq < fence {
			j.parent, j.asked = p.anchor, p.unit
			j.holdUntil = time.Time{}
		}
		if len(u.calls) == 0 {
			j.holdUntil = time.Time{}
		}
		u.settle(j)
	}
	if len(u.calls) == 0 {
		clear(u.early)
	}
	u.kick()
}

// findAlias looks after a job whose unit goes by another name: its end would be
// announced under that name, and has perhaps been already.
func (l *link) findAlias(ctx context.Context, id uint32, unit string) {
	u := l.u
	u.mu.Lock()
	j := u.jobs[id]
	lookUp := j != nil && j.watch == nil
	u.mu.Unlock()
	if !lookUp {
		return
	}
	var v godbus.Variant
	err := wrap("Get", unit, l.call(ctx, jobPath(id), propsIface+".Get", jobIface, "Unit").Store(&v))
	if ErrorName(err) == NameUnknownObject {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.jobs[id] == j { // it is gone and we were not told
			u.lose(j)
		}
		return
	}
	pair, _ := v.Value().([]any)
	if len(pair) == 0 {
		return
	}
	name, _ := pair[0].(string)
	if name == unit || !ValidUnitName(name) || l.addMatch(ctx, jobRule(name)) != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.jobs[id] != j {
		l.dropMatches([]string{jobRule(name)})
		return
	}
	j.rules, j.ruleLink, j.checkAt = append(j.rules, jobRule(name)), l, time.Time{}
	u.kick()
}

// abandon waits for the reply of a call whose caller has gone and cancels the
// job: an operation that has ended must not act any more.
func (l *link) abandon(ctx context.Context, p *pendingCall, reply <-chan *godbus.Call) {
	var path godbus.ObjectPath
	if (<-reply).Store(&path) != nil {
		return
	}
	id, err := jobID(path)
	if err != nil {
		return
	}
	for _, j := range p.before {
		if j.id == id {
			return // somebody else's job stays
		}
	}
	ctx, cancel := l.u.deadline(ctx)
	defer cancel()
	if err := l.call(ctx, managerPath, managerIface+".CancelJob", id).Err; err != nil {
		err = wrap("CancelJob", utoa(id), err)
		l.u.opt.Log.Warn("a job that was given up could not be cancelled", "error", err)
	}
}

func jobID(path godbus.ObjectPath) (uint32, error) {
	if len(path) > len(jobPrefix) && path[:len(jobPrefix)] == jobPrefix {
		if id, err := strconv.ParseUint(string(path[len(jobPrefix):]), 10, 32); err == nil {
			return uint32(id), nil
		}
	}
	return 0, fmt.Errorf("systemd answered with %q, which is no job", path)
}

func utoa(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
