package engine

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// ForeignClient is the client id of what somebody else began with systemd and
// the queue has adopted (DESIGN.md §4).
const ForeignClient = "foreign"

// adoptAfter is how long jobs are gathered before one is adopted: systemd
// announces the jobs of one transaction one by one, and in no order that would
// tell which of them was asked for.
const adoptAfter = 100 * time.Millisecond

// otherJobs are the jobs that others queued on a domain's units.
type otherJobs struct {
	open    []Foreign
	since   time.Duration // when the first of them was announced
	from    state.Levels  // what was seen then
	adoptAt time.Duration // 0 = nothing to adopt
	running Foreign       // the job of the adopted operation that runs

	guardUntil time.Duration // offGuard after a power off
}

// waits reports whether a job waits to be adopted.
func (o *otherJobs) waits() bool { return o.adoptAt != 0 }

// foreignJob takes the news of a job that is not ours.
func (d *domain) foreignJob(ev Foreign) {
	switch {
	case ev.Ended:
		d.foreignEnded(ev)
	case ev.Op.Raising() && d.guarded():
		d.core.emit(cancelJobsEffect{d.cfg.ID, []Foreign{ev}, "it would apply power during or shortly after a power off"})
	default:
		d.foreignQueued(ev)
	}
}

// guarded reports whether nobody else may apply power now: a power off runs, is
// about to, or was a moment ago (offGuard).
func (d *domain) guarded() bool {
	if d.preempt != 0 {
		return true
	}
	if d.run != nil {
		return !d.run.op.Raising()
	}
	return d.boot() < d.others.guardUntil
}

// foreignQueued keeps a job in mind. A running operation that applies power
// takes jobs that do the same for its own: the second half of a reboot is
// started by a helper (openbmc-state-manager.md §2.3).
func (d *domain) foreignQueued(ev Foreign) {
	o := &d.others
	for i := range o.open {
		if o.open[i].Job == ev.Job {
			return
		}
	}
	if len(o.open) == 0 {
		o.since, o.from = d.boot(), d.levels
	}
	o.open = append(o.open, ev)
	if goesOff(ev.Op) {
		d.sign(Sign{Kind: SignOff, What: ev.Unit}) // power may go before it is adopted
	}
	switch {
	case d.run == nil:
		d.gather()
	case d.run.op.Raising() != ev.Op.Raising() && !d.run.op.Passes():
		d.contrary()
	}
}

// gather begins to wait for the rest of a transaction.
func (d *domain) gather() {
	if d.others.adoptAt == 0 {
		d.others.adoptAt = d.boot() + adoptAfter
		d.unjudge()
	}
}

// unended returns those of jobs that go on.
func unended(jobs []Foreign) []Foreign {
	var left []Foreign
	for _, f := range jobs {
		if !f.Ended {
			left = append(left, f)
		}
	}
	return left
}

func (d *domain) foreignEnded(ev Foreign) {
	o := &d.others
	r := d.run
	for i := range o.open {
		if o.open[i].Job == ev.Job {
			o.open[i].Ended, o.open[i].Result = true, ev.Result
		}
	}
	mine := r != nil && r.adopted && o.running.Job == ev.Job
	if !o.waits() {
		o.open = unended(o.open)
	}
	switch {
	case mine:
		d.adoptedEnded(ev)
	case r != nil && r.owns(ev) && broke[ev.Result]:
		d.breakOff(fmt.Sprintf("the job of %s ended: %s", ev.Unit, ev.Result))
	case r != nil && d.cfg.Options.Lines && r.mode == modeWait && r.outer == nil:
		d.waited(0) // success may have waited for this
	}
}

// broke are the results of a job whose unit, or one that it needs, has failed.
var broke = map[string]bool{"failed": true, "timeout": true, "dependency": true}

// adoptedEnded takes the end of the job that was adopted. One that was done has
// led to what is waited for, or soon will.
func (d *domain) adoptedEnded(ev Foreign) {
	r := d.run
	waited := r.jobOpen
	r.jobOpen = false
	switch by := d.boot() + d.cfg.Timings.ConfirmTimeout; {
	case ev.Result != jobDone && (waited || !d.confirmed()):
		d.breakOff(fmt.Sprintf("the job of %s that somebody else queued ended: %s", ev.Unit, ev.Result))
	case r.outer != nil:
		r.outer.deadline = min(r.outer.deadline, by)
	default:
		r.deadline = min(r.deadline, by)
		if waited && r.mode == modeWait {
			d.waited(0)
		}
	}
}

// jobDone is the result of a job that did what it should.
const jobDone = "done"

// adopt makes what others have begun the running operation.
func (d *domain) adopt() {
	o := &d.others
	if d.run != nil || d.preempt != 0 {
		o.adoptAt = 0 // looked at when that has ended
		return
	}
	if !d.due(o.adoptAt) {
		return
	}
	if _, known := d.powered(); !known || len(d.recovered) > 0 {
		return // looked at again with the next event
	}
	o.adoptAt = 0
	jobs := o.open
	o.open = unended(jobs)
	if len(jobs) == 0 {
		return
	}
	best := jobs[0]
	for _, f := range jobs {
		if f.Rank > best.Rank {
			best = f
		}
	}
	plan := sequence.BuildAdopted(adoptedVerdicts[best.Op], best.Op, d.cfg.Timings, d.options())
	first := plan.Steps[0].Goal
	pressed := d.cfg.Options.Lines && !best.Op.Raising() && d.mayComeUp()
	if first.Met(sequence.Seen{Levels: o.from}, d.cfg.Options.StrictRunning) && !pressed {
		return // so it was already: nothing is going on
	}
	if best.Ended && best.Result != jobDone {
		return // it has failed: what it led to is seen
	}
	d.launchAdopted(best, plan)
	if best.Ended && d.run != nil {
		d.adoptedEnded(best)
	}
}

// adoptedVerdicts say under which verdict an adopted operation is recorded.
var adoptedVerdicts = [256]state.Verdict{
	state.HostOn: state.VerdictPowerOn, state.ChassisOn: state.VerdictPowerOn,
	state.HostOff: state.VerdictGracefulOff, state.ChassisOff: state.VerdictPowerOff,
	state.HostReboot: state.VerdictReboot, state.ChassisPowerCycle: state.VerdictPowerCycle,
	state.HostGracefulWarmReboot: state.VerdictGracefulWarm, state.HostForceWarmReboot: state.VerdictGracefulWarm,
}

// launchAdopted registers and watches an operation. It needs no journal to go
// on, as nothing of it is ours to hold back.
func (d *domain) launchAdopted(job Foreign, plan sequence.Plan) {
	dl := queue.Delivery{
		Key:    state.Key{Client: ForeignClient, Request: fmt.Sprintf("%d-%d", d.now().WallMicros(), job.Job)},
		Object: d.object(job.Op), Op: job.Op, Cause: job.Unit, Adopted: true,
	}
	a := d.q.Admit(d.now(), dl, func() uint64 {
		e := history.Entry{Kind: history.KindAccepted, Domain: d.cfg.ID, Accepted: newRequest(d.now(), dl)}
		seq := d.core.append(e, wait{what: waitAccept, domain: d})
		w := d.core.waits[seq]
		w.request = seq
		d.core.waits[seq] = w
		return seq
	})
	d.q.Durable(a.Seq)
	if err := d.q.Start(d.now(), a.Seq); err != nil {
		panic(fmt.Sprintf("engine: adopt %d: %v", a.Seq, err))
	}
	req, _ := d.q.Get(a.Seq)
	d.unjudge()
	d.endLook()
	d.wished(job.Op)
	d.others.running = job
	d.run = &launch{
		seq: req.Seq, op: req.Op, object: req.Object, verdict: plan.Verdict, plan: plan, adopted: true,
		seen: sequence.Seen{Levels: d.others.from}, since: d.others.since, moved: true, started: true,
		jobOpen: d.cfg.Options.Lines && !job.Ended,
	}
	d.run.see(d.others.from)
	d.run.see(d.levels)
	d.takeAttempt(req)
	d.clearHints()
	d.touch(req.Seq)
	d.intend()
	d.began(&req)
	d.core.notice(NoticeLaunched, d.cfg.ID, d.q, req.Seq)
	d.core.append(history.Entry{Kind: history.KindStarted, Domain: d.cfg.ID, Request: req.Seq, Verdict: plan.Verdict},
		wait{what: waitRecord, domain: d, request: req.Seq})
	d.begin(0)
}

// afterRun looks at the jobs of others when an operation has ended. After a
// power off, and where an operation was superseded, none may apply power any
// more; what else is still going on is adopted.
func (d *domain) afterRun(r *launch) {
	o := &d.others
	var raising, rest []Foreign
	for _, f := range o.open {
		if f.Ended {
			continue
		}
		if f.Op.Raising() && (d.preempt != 0 || r.op.Raising() && r.status(d) == state.Superseded) {
			raising = append(raising, f)
		} else if !r.adopted { // those of an adopted operation have ended with it
			rest = append(rest, f)
		}
	}
	o.open, o.running = rest, Foreign{}
	if len(raising) > 0 {
		d.core.emit(cancelJobsEffect{d.cfg.ID, raising, "the operation that it belongs to was superseded"})
	}
	if len(rest) > 0 && !d.reached(rest) {
		o.since, o.from = d.boot(), d.levels
		d.gather()
	}
}

// reached reports whether every job's target is reached: such jobs only tidy up.
func (d *domain) reached(jobs []Foreign) bool {
	for _, f := range jobs {
		g := sequence.BuildAdopted(adoptedVerdicts[f.Op], f.Op, d.cfg.Timings, d.options()).Steps[0].Goal
		if !g.Met(sequence.Seen{Levels: d.levels}, d.cfg.Options.StrictRunning) {
			return false
		}
	}
	return true
}

func (r *launch) status(d *domain) state.Status {
	req, _ := d.q.Get(r.seq)
	return req.Status
}
