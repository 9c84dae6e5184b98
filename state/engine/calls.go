package engine

import (
	"fmt"
	"math"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// lookup answers the status of a key.
func (c *Core) lookup(ev Lookup) {
	d := c.domain(ev.Domain)
	req, ok := d.q.Lookup(c.now, state.Key{UID: ev.Caller.UID, Client: ev.Client, Request: ev.Request})
	if !ok {
		c.refuse(ev.Reply, unknownRequest(ev.Client, ev.Request))
		return
	}
	_, object := d.live[req.Seq]
	c.emit(replyEffect{ev.Reply, Answer{Status: req.Status, Seq: req.Seq, Object: object, Requests: []state.Request{req}}})
}

func unknownRequest(client, request string) *Refusal {
	return &Refusal{CodeUnknownRequest, fmt.Sprintf("no request %q of client %q is known: it was never sent, or it has aged out of the history", request, client)}
}

// history answers a page of records.
func (c *Core) history(ev History) {
	limit := int(min(ev.Max, math.MaxInt32))
	c.emit(replyEffect{ev.Reply, Answer{Requests: c.domain(ev.Domain).q.Page(ev.After, limit)}})
}

// deliveries answers what arrived last.
func (c *Core) deliveries(ev Deliveries) {
	var a Answer
	for _, l := range c.domain(ev.Domain).q.Deliveries() {
		a.Deliveries = append(a.Deliveries, Delivery{
			Arrived: l.At.Boot, Key: l.Key, Op: l.Op, Seq: l.Seq,
			Repeat: l.Outcome == queue.Repeat, Delayed: l.Delayed,
		})
	}
	c.emit(replyEffect{ev.Reply, a})
}

// cancel withdraws a request (DESIGN.md §3.5). The answer comes when the
// journal has it, so that a crash cannot undo what was told.
func (c *Core) cancel(ev Cancel) {
	d := c.domain(ev.Domain)
	seq := ev.Seq
	if seq == 0 {
		req, ok := d.q.Lookup(c.now, state.Key{UID: ev.Caller.UID, Client: ev.Client, Request: ev.Request})
		if !ok {
			c.refuse(ev.Reply, unknownRequest(ev.Client, ev.Request))
			return
		}
		seq = req.Seq
	}
	out := d.q.Cancel(c.now, seq, ev.Caller.UID, "withdrawn by its caller")
	switch out {
	case queue.CancelNoRequest:
		c.refuse(ev.Reply, &Refusal{CodeUnknownRequest, fmt.Sprintf("no request %d is known", seq)})
		return
	case queue.CancelDenied:
		c.refuse(ev.Reply, &Refusal{CodeAccessDenied, fmt.Sprintf("request %d is somebody else's: only its callers and root may cancel it", seq)})
		return
	case queue.CancelClaim:
		d.journalClaim(seq, ev.Caller.UID, true)
	case queue.CancelDone:
		d.journalStatus(seq)
	case queue.CancelRunning:
		d.cancelRunning(seq)
	}
	if req, _ := d.q.Get(seq); !req.Internal() {
		d.intend()
	}
	d.touch(seq)
	c.answerDurably(d, ev.Reply, seq)
}

// cancelRunning gives up a wait for the OS; a line step goes on, and the
// caller learns that it is still running.
func (d *domain) cancelRunning(seq uint64) {
	if d.run == nil || d.run.seq != seq || !d.run.waitsForOS() {
		return
	}
	d.finish(seq, state.Cancelled, "OS already asked")
	// The OS may power off all the same: requests wait for that, and nothing
	// is forced.
	d.hands = otherHands{until: d.run.deadline, phase: sequence.PhaseGracefulOff}
	d.abandon()
}

// answerDurably answers with the status of a request as soon as everything
// that was journalled before is durable.
func (c *Core) answerDurably(d *domain, reply func(Answer), seq uint64) {
	req, _ := d.q.Get(seq)
	a := Answer{Status: req.Status, Seq: seq}
	c.whenDurable(func(err error) {
		if err != nil {
			a = Answer{Err: unavailable(err)}
		}
		c.emit(replyEffect{reply, a})
	})
}

// whenDurable calls done when everything that was journalled so far is durable,
// or is not going to be.
func (c *Core) whenDurable(done func(error)) {
	w, waits := c.waits[c.last]
	if !waits {
		done(nil)
		return
	}
	w.also = append(w.also, done)
	c.waits[c.last] = w
	c.commitDue = min(c.commitDue, c.commitDeadline(w))
}

// dismiss takes a finished request's object off the bus.
func (c *Core) dismiss(ev Dismiss) {
	d := c.domain(ev.Domain)
	req, ok := d.live[ev.Seq]
	switch {
	case !ok:
		c.refuse(ev.Reply, &Refusal{CodeUnknownRequest, fmt.Sprintf("request %d is not an object", ev.Seq)})
	case ev.Caller.UID != 0 && ev.Caller.UID != req.Key.UID:
		c.refuse(ev.Reply, &Refusal{CodeAccessDenied, fmt.Sprintf("request %d is somebody else's", ev.Seq)})
	case !req.Status.Final():
		c.refuse(ev.Reply, &Refusal{CodeNotAllowed, fmt.Sprintf("request %d has not ended: cancel it first", ev.Seq)})
	default:
		d.remove(ev.Seq)
		c.emit(replyEffect{ev.Reply, Answer{Status: req.Status, Seq: ev.Seq}})
	}
}

// emitReplyLater answers after this step's values are published.
func (c *Core) emitReplyLater(reply func(Answer), a Answer) {
	c.late = append(c.late, replyEffect{reply, a})
}
