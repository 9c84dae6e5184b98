package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// A Chassis Off does not wait for a journal that fails or hangs (DESIGN.md
// §3.6): after OffCommit it writes a barrier to the run directory and drives.
// Until its record is in the journal raising requests are refused, and the
// record is written again and again.

const retryRecord = time.Second

// awaitBarrier starts the time that a Chassis Off gives the journal, once for
// its acceptance and its first step together.
func (d *domain) awaitBarrier() {
	if d.barrierAt == 0 && d.barrier == 0 {
		d.barrierAt = d.boot() + d.core.cfg.Times.OffCommit
	}
}

// dueBarrier goes ahead of a journal that has not answered in time.
func (d *domain) dueBarrier() {
	if d.due(d.retryAt) {
		d.rewrite()
	}
	if !d.due(d.barrierAt) {
		return
	}
	d.barrierAt = 0
	if seq, ok := d.offThatWaits(); ok {
		d.goWithoutJournal(seq)
	}
}

// offThatWaits returns the Chassis Off that waits for the journal.
func (d *domain) offThatWaits() (uint64, bool) {
	if r := d.run; r != nil && r.op.Class() == state.Emergency && r.mode == modeJournal {
		return r.seq, true
	}
	for _, req := range d.q.Unfinished() {
		if req.Op.Class() == state.Emergency && !d.core.aggregate(req.Object) && d.undurable[req.Seq] {
			return req.Seq, true
		}
	}
	return 0, false
}

// goWithoutJournal asks for the barrier, unless it is asked for already.
func (d *domain) goWithoutJournal(seq uint64) {
	if d.barrier == seq {
		return
	}
	d.barrier, d.barrierUp, d.barrierAt = seq, false, 0
	if !state.Contains(d.owed, seq) {
		d.owed = append(d.owed, seq)
	}
	d.core.emit(barrierEffect{d.cfg.ID, seq})
}

// barred takes the end of the barrier's writing. Even a barrier that could not
// be written does not keep power on: who asks for power off gets it.
func (d *domain) barred(ev barred) {
	if d.barrier != ev.request {
		return
	}
	d.barrierUp = true
	d.retryAt = d.boot() + retryRecord
	if d.undurable[ev.request] {
		delete(d.undurable, ev.request)
		d.decided = true
		d.durable(ev.request)
	}
	if r := d.run; r != nil && r.seq == ev.request && r.mode == modeJournal {
		d.act(true)
	}
}

// rewrite writes again the records that the journal did not take.
func (d *domain) rewrite() {
	d.retryAt = d.boot() + retryRecord
	for _, seq := range d.owed {
		req, ok := d.q.Get(seq)
		if !ok || d.core.waiting(waitAccept, seq) {
			continue
		}
		d.core.append(history.Entry{Kind: history.KindAccepted, Domain: d.cfg.ID, Request: seq, Accepted: req},
			wait{what: waitAccept, domain: d, request: seq})
	}
}

// recorded takes note that the journal has a power off that went ahead of it.
func (d *domain) recorded(seq uint64) {
	d.owed = state.Remove(d.owed, seq)
	if len(d.owed) == 0 {
		d.barrier, d.retryAt = 0, 0
	}
}

// refusedByBarrier ends a raising request that waits behind a power off that is
// not in the journal.
func (d *domain) refusedByBarrier(head state.Request) bool {
	if d.barrier == 0 || !head.Op.Raising() {
		return false
	}
	d.finish(head.Seq, state.Superseded, "a later power off is not in the journal yet")
	return true
}

// waiting reports whether an entry of that kind waits for the journal.
func (c *Core) waiting(what waitKind, request uint64) bool {
	for _, w := range c.waits {
		if w.what == what && w.request == request {
			return true
		}
	}
	return false
}
