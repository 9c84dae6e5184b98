package queue

import (
	"strconv"

	"github.com/bmcstate/bmcstate/state"
)

// CancelOutcome is what a cancel leads to.
type CancelOutcome uint8

// The outcomes of a cancel.
const (
	CancelNoRequest CancelOutcome = iota + 1 // no such request
	CancelDenied                             // the caller neither asked for it nor is root
	CancelFinal                              // it has ended already: answer its status
	CancelClaim                              // others want it too: only the caller's claim is dropped
	CancelDone                               // it waited and is CANCELLED
	CancelRunning                            // it runs: the executor decides
)

var cancelNames = [...]string{
	CancelNoRequest: "no request", CancelDenied: "denied", CancelFinal: "final", CancelClaim: "claim dropped",
	CancelDone: "cancelled", CancelRunning: "running",
}

// String returns the outcome's name.
func (c CancelOutcome) String() string {
	if int(c) < len(cancelNames) && cancelNames[c] != "" {
		return cancelNames[c]
	}
	return "CancelOutcome(" + strconv.Itoa(int(c)) + ")"
}

const root = 0

// CanCancel says what [Queue.Cancel] would do, and changes nothing.
func (q *Queue) CanCancel(seq uint64, uid uint32) CancelOutcome {
	r := q.find(seq)
	if r == nil {
		return CancelNoRequest
	}
	wanted := r.claimants()
	mine := state.Contains(wanted, uid)
	switch {
	case !mine && uid != root:
		return CancelDenied
	case r.live == nil:
		return CancelFinal
	case mine && len(wanted) > 1:
		return CancelClaim
	case r.status == state.Pending:
		return CancelDone
	default:
		return CancelRunning
	}
}

// Cancel withdraws a request for uid. The change is in memory only: the caller
// journals it and answers after that. Whether a running request can still be
// given up is the executor's knowledge: on [CancelRunning] nothing has changed.
func (q *Queue) Cancel(now state.Instant, seq uint64, uid uint32, reason string) CancelOutcome {
	out := q.CanCancel(seq, uid)
	switch r := q.find(seq); out {
	case CancelClaim:
		r.disclaim(uid)
	case CancelDone:
		q.finish(now, r, state.Cancelled, reason)
	}
	return out
}
