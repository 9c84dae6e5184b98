package queue

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// The errors of calls that do not fit the request's status. They mean a defect
// of the caller; the queue is unchanged.
var (
	ErrUnknownRequest = errors.New("queue: no such request")
	ErrNotDurable     = errors.New("queue: the request is not in the journal")
	ErrExecutorHeld   = errors.New("queue: another transition is running")
	ErrTransition     = errors.New("queue: impossible change of status")
)

// Durable tells that the journal holds the request: it may be launched now. It
// reports false where the request is unknown.
func (q *Queue) Durable(seq uint64) bool {
	r := q.find(seq)
	if r == nil {
		return false
	}
	if r.live != nil {
		r.live.durable = true
	}
	return true
}

// Drop forgets a request that the journal refused, as if it had never been
// seen; the key's earlier record, if any, answers again. It reports false where
// there is no such request or it is durable.
func (q *Queue) Drop(seq uint64) bool {
	r := q.find(seq)
	if r == nil || r.live == nil || r.live.durable {
		return false
	}
	before := r.live.replaces
	q.unlink(r)
	q.forget(r)
	if before != nil && !before.gone {
		q.index(before)
	}
	q.counters.Refused++
	return true
}

// Head returns the oldest waiting request if it is durable. An older one that
// is not holds the others back: requests are launched in the order of their
// admission.
func (q *Queue) Head() (state.Request, bool) {
	for r := q.first; r != nil; r = r.live.next {
		if r.waits() {
			if !r.live.durable {
				break
			}
			return r.copy(), true
		}
	}
	return state.Request{}, false
}

// Running returns the request that holds the executor: RUNNING or UNKNOWN.
func (q *Queue) Running() (state.Request, bool) {
	if q.running == nil {
		return state.Request{}, false
	}
	return q.running.copy(), true
}

// Start launches a waiting request. Only an emergency may be launched before it
// is durable (DESIGN.md §3.6).
func (q *Queue) Start(now state.Instant, seq uint64) error {
	r := q.find(seq)
	switch {
	case r == nil:
		return ErrUnknownRequest
	case r.status != state.Pending:
		return change(r, state.Running)
	case !r.live.durable && r.op.Class() != state.Emergency:
		return fmt.Errorf("%w: %d", ErrNotDurable, seq)
	case q.running != nil && !r.live.aside:
		return fmt.Errorf("%w: %d cannot start beside %d", ErrExecutorHeld, seq, q.running.seq)
	}
	if r.waits() {
		q.count(r, -1)
		q.running = r
	}
	r.status, r.started, r.launched = state.Running, stampOf(now), true
	q.counters.Launches++
	return nil
}

func change(r *record, to state.Status) error {
	return fmt.Errorf("%w: %d is %v and cannot become %v", ErrTransition, r.seq, r.status, to)
}

// Unknown tells that the running request was not confirmed in time.
func (q *Queue) Unknown(seq uint64) error {
	r := q.find(seq)
	if r == nil {
		return ErrUnknownRequest
	}
	if r.status != state.Running {
		return change(r, state.Unknown)
	}
	r.status = state.Unknown
	q.log.delayed(seq)
	return nil
}

// Contrary tells that a level, a button or a foreign job against the running
// request was seen: no later property write joins it.
func (q *Queue) Contrary(seq uint64) {
	if r := q.find(seq); r != nil && r.live != nil {
		r.live.contrary = true
	}
}

// ends says which final statuses each unfinished one may get.
var ends = [16][16]bool{
	state.Pending: {state.Noop: true, state.Invalid: true, state.Failed: true, state.Cancelled: true,
		state.Superseded: true, state.Expired: true, state.Interrupted: true},
	state.Running: {state.Success: true, state.Failed: true, state.Cancelled: true, state.Superseded: true,
		state.Interrupted: true},
	state.Unknown: {state.Success: true, state.Failed: true, state.Cancelled: true, state.Superseded: true,
		state.Interrupted: true},
}

// Finish gives a request its final status and frees the executor if it held it.
// Under DEDUP the key of a request that ends INVALID is unknown again.
func (q *Queue) Finish(now state.Instant, seq uint64, status state.Status, reason string) error {
	r := q.find(seq)
	if r == nil {
		return ErrUnknownRequest
	}
	if !ends[r.status][status] {
		return change(r, status)
	}
	q.finish(now, r, status, reason)
	return nil
}

func (q *Queue) finish(now state.Instant, r *record, status state.Status, reason string) {
	q.unlink(r)
	r.live = nil
	r.status, r.reason = status, reason
	r.ended, r.aged = stampOf(now), int64(now.Boot)
	q.retire(r)
	if q.unkept(r) {
		q.unindex(r)
	}
}

// unkept reports whether the policy does not remember the key of r.
func (q *Queue) unkept(r *record) bool {
	return q.cfg.Policy == state.Dedup && r.status == state.Invalid && !r.launched
}

// Overtaken returns which older requests the forced or emergency request seq
// supersedes if it is launched on arrival, oldest first. The caller judges it
// first: what could not be launched supersedes nothing. gracefulWait says that
// the running request only waits for the OS: a forced request cuts nothing
// else, an emergency takes over from everything. Internal clients never
// supersede external requests.
func (q *Queue) Overtaken(seq uint64, gracefulWait bool) []uint64 {
	by := q.find(seq)
	if by == nil || by.live == nil || by.op.Class() < state.Forced {
		return nil
	}
	emergency := by.op.Class() == state.Emergency
	var out []uint64
	for r := q.first; r != nil && r != by; r = r.live.next {
		if by.internal() && !r.internal() || r.live.aside {
			continue
		}
		if r.waits() || emergency || gracefulWait {
			out = append(out, r.seq)
		}
	}
	return out
}

// Supersede ends the requests victims SUPERSEDED by the request by and lists
// them in its record. It returns those that it ended; finished and unknown ones
// are left alone.
func (q *Queue) Supersede(now state.Instant, by uint64, victims []uint64) []uint64 {
	winner := q.find(by)
	if winner == nil {
		return nil
	}
	var done []uint64
	for _, seq := range victims {
		r := q.find(seq)
		if r == nil || r.live == nil || r == winner {
			continue
		}
		q.finish(now, r, state.Superseded, "superseded by request "+strconv.FormatUint(by, 10))
		done = append(done, seq)
	}
	if len(done) > 0 {
		winner.more().superseded = append(winner.more().superseded, done...)
	}
	return done
}

// Expire ends the waiting requests whose time is over and returns them.
func (q *Queue) Expire(now state.Instant) []uint64 {
	if int64(now.Boot) < q.expiry {
		return nil
	}
	var done []uint64
	q.expiry = math.MaxInt64
	for r := q.first; r != nil; {
		next := r.live.next
		switch due := q.deadline(r); {
		case r.status != state.Pending:
		case due <= int64(now.Boot):
			q.finish(now, r, state.Expired, "waited too long")
			done = append(done, r.seq)
		default:
			q.expiry = min(q.expiry, due)
		}
		r = next
	}
	return done
}

// deadline returns when the waiting request r expires, by the boot clock.
func (q *Queue) deadline(r *record) int64 {
	switch {
	case r.rare != nil && r.rare.expires != 0:
		return r.rare.expires
	case q.cfg.PendingTTL < 0:
		return math.MaxInt64
	default:
		return addClamped(r.accepted.boot, int64(q.cfg.PendingTTL))
	}
}

// NextDeadline returns when [Queue.Expire] has something to do, or earlier, by
// the boot clock; false if never.
func (q *Queue) NextDeadline() (time.Duration, bool) {
	return time.Duration(q.expiry), q.expiry != math.MaxInt64
}
