package sim

import (
	"math"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// crash kills the daemon. The server goes on by itself.
func (r *run) crash() {
	r.crashes = r.crashes[1:]
	r.restart = r.now + r.o.Down
	if r.watch.Crash != nil {
		r.watch.Crash(r.now, r.restart)
	}
}

// recover starts the daemon again: the queue is rebuilt from its records, which
// are what the journal holds, and unfinished ones are settled as DESIGN.md §3.5
// says.
func (r *run) recover() {
	r.restart = never
	old := r.q
	r.q = queue.New(r.o.Queue)
	if r.o.NoJournal {
		r.result.Ended.Forgotten += len(old.Unfinished())
		r.goOn()
		if r.job.active() {
			r.leave(state.Interrupted)
		}
		r.sample()
		return
	}
	for _, rec := range old.Page(0, math.MaxInt) {
		age, _ := old.Age(r.instant(), rec.Seq)
		r.q.Restore(r.instant(), rec, queue.Restored{Age: age})
	}
	r.q.SetCounters(old.Counters())
	r.resume()
	if r.o.OtherBoot {
		r.expireAll()
	}
	r.pump()
}

// resume settles the running request, or goes on waiting for it.
func (r *run) resume() {
	j := &r.job
	switch {
	case !j.active():
	case j.hidden:
		r.settleHidden()
	case r.o.OtherBoot:
		r.goOn()
		r.settle(state.Interrupted, "BMC restarted")
	case !r.power && !j.passed && j.rest > 0: // off is proven: the power-on never ran
		j.passed, j.done = true, r.now+j.rest
	case r.now >= j.unknown:
		r.unconfirmed()
	}
}

// settleHidden judges what ended while the daemon was dead. A level that has
// changed proves it; a passage that nobody saw is not proven.
func (r *run) settleHidden() {
	switch j := &r.job; {
	case j.failed:
		r.settle(state.Failed, "no confirmation")
	case j.op.Passes() && !j.passed:
		r.settle(state.Interrupted, "effect not proven")
	default:
		r.settle(state.Success, "")
	}
}

// goOn brings the server to where the step that was under way leads: nobody
// continues the transition after it.
func (r *run) goOn() {
	switch j := &r.job; {
	case !j.active() || j.hidden || j.failed:
	case j.lowers() || j.rest > 0 && !j.passed: // its first half
		r.power, r.host = false, false
	default:
		r.power, r.host = true, true
	}
}

// expireAll ends what waited when the BMC rebooted.
func (r *run) expireAll() {
	for _, req := range r.q.Unfinished() {
		if req.Status == state.Pending {
			r.end(req.Seq, state.Expired, "BMC restarted")
		}
	}
}
