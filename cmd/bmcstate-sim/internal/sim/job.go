package sim

import (
	"github.com/bmcstate/bmcstate/state"
)

// job is what the executor does. Times are those at which something will
// happen, never for what will not.
type job struct {
	seq     uint64 // 0 = idle
	op      state.Operation
	verdict state.Verdict
	start   float64
	off     float64 // power goes off, to come back
	unknown float64
	done    float64
	rest    float64 // from off to done
	failed  bool    // done finds that the target was not reached
	passed  bool    // off was seen
	hidden  bool    // done came while the daemon was dead
}

func idle() job { return job{off: never, unknown: never, done: never} }

func (j *job) active() bool { return j.seq != 0 }

// gracefulWait reports whether the job waits for the OS and nothing else.
func (j *job) gracefulWait() bool {
	switch j.verdict {
	case state.VerdictGracefulOff, state.VerdictReboot, state.VerdictGracefulWarm:
		return j.active() && !j.passed
	}
	return false
}

// raising reports whether the job is applying power.
func (j *job) raising() bool {
	return j.active() && (j.passed || j.verdict == state.VerdictPowerOn || j.verdict == state.VerdictStartHost)
}

// lowers reports whether the job ends with power off.
func (j *job) lowers() bool {
	return j.verdict == state.VerdictGracefulOff || j.verdict == state.VerdictPowerOff || j.verdict == state.VerdictCutPower
}

// next returns the job's next event. A dead daemon sees no UNKNOWN and its
// restart settles what is done.
func (j *job) next(alive bool) (float64, event) {
	unknown := j.unknown
	if !alive {
		unknown = never
	}
	switch at := min(j.off, unknown, j.done); {
	case at == j.off:
		return at, eventOff
	case at == unknown:
		return at, eventUnknown
	default:
		return at, eventDone
	}
}

// launch starts what a verdict stands for.
func (r *run) launch(seq uint64, op state.Operation, v state.Verdict) {
	r.check(r.q.Start(r.instant(), seq))
	r.intents[r.requests[seq-1].intents[0]].launches++
	total, off := r.o.Durations.length(v)
	j := idle()
	j.seq, j.op, j.verdict, j.start = seq, op, v, r.now
	limit := r.o.UnknownAfter + r.o.Reconcile
	switch {
	case r.requests[seq-1].delayed: // confirmed by the very end of the reconciliation
		j.unknown, j.done = r.now+r.o.UnknownAfter, r.now+limit
	case total <= r.o.UnknownAfter:
		j.done = r.now + total
	case total <= limit:
		j.unknown, j.done = r.now+r.o.UnknownAfter, r.now+total
	default:
		j.unknown, j.done, j.failed = r.now+r.o.UnknownAfter, r.now+limit, true
	}
	if off > 0 && !j.failed {
		j.off = r.now + off
		j.rest = j.done - j.off
	}
	r.job = j
}

// powerGone is the passage through off of a reboot or cycle. The power-on that
// follows is a step of the daemon: a dead one does not take it.
func (r *run) powerGone() {
	r.power, r.host = false, false
	r.job.off = never
	if r.alive() {
		r.job.passed = true
	} else {
		r.job.done = never
	}
}

func (r *run) unconfirmed() {
	r.job.unknown = never
	r.check(r.q.Unknown(r.job.seq))
}

// done is the end of the job: the server has arrived. A restart settles what a
// dead daemon has not seen.
func (r *run) done() {
	r.job.done = never
	if !r.job.failed {
		on := !r.job.lowers()
		r.power, r.host = on, on
	}
	if !r.alive() {
		r.job.hidden = true
		return
	}
	status, reason := state.Success, ""
	if r.job.failed {
		status, reason = state.Failed, "no confirmation"
	}
	r.settle(status, reason)
	r.pump()
}

// settle ends the running request.
func (r *run) settle(status state.Status, reason string) {
	r.end(r.job.seq, status, reason)
	r.leave(status)
}

// abort leaves the executor after another hand ended the request: what was
// being applied stays applied.
func (r *run) abort(status state.Status) {
	if r.job.raising() {
		r.power, r.host = true, false
	}
	r.leave(status)
}

func (r *run) leave(status state.Status) {
	if r.watch.Transition != nil {
		r.watch.Transition(r.job.start, r.now, r.job.op, status)
	}
	r.job = idle()
}
