package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
)

// parent is a request to all chassis.
type parent struct {
	seq      uint64
	op       state.Operation
	caller   Caller
	target   bool // a target does it
	members  []*domain
	parts    []part
	released bool // the parts run
	sameBoot bool // an earlier run of this boot has left it
	deadline time.Duration
	entry    uint64 // of a target's launch
}

// part is what a parent asks of one domain.
type part struct {
	_ state.Incomparable

	d   *domain
	seq uint64
	why string // refused: it has no request
}

// ask makes the next part, in d.
func (p *parent) ask(d *domain) {
	dl := queue.Delivery{
		Key: state.Key{UID: p.caller.UID}, Object: d.object(p.op), Op: p.op, Conn: p.caller.Sender, Property: true,
		Parent: p.seq, Cause: systemCause,
	}
	t := part{d: d}
	if d.barrier != 0 && p.op.Raising() {
		t.why = "a power off is not in the journal yet"
		p.parts = append(p.parts, t)
		return
	}
	switch a := d.q.Admit(d.now(), dl, func() uint64 { return d.journalNew(dl) }); a.Outcome {
	case queue.Accepted:
		t.seq = a.Seq
		d.wanted(dl.Key, dl.Op)
	case queue.Repeat:
		t.seq = a.Seq
		d.intervened()
		if a.Claimed {
			d.journalClaim(a.Seq, dl.Key.UID, false)
		}
	default:
		t.why = a.Text
	}
	p.parts = append(p.parts, t)
}

// status is what has become of a part.
func (t *part) status() (state.Status, string) {
	if t.seq == 0 {
		return state.Failed, t.why
	}
	req, ok := t.d.q.Get(t.seq)
	if !ok {
		return state.Failed, "it is forgotten"
	}
	return req.Status, req.Reason
}

// harmless reports whether a part that has ended so leaves the others to act.
func harmless(s state.Status) bool {
	return s == state.Success || s == state.Noop || s == state.Invalid
}

// advanceParent reports whether the parent has ended.
func (c *Core) advanceParent(p *parent) bool {
	lowest := c.domains[0]
	req, ok := lowest.q.Get(p.seq)
	switch {
	case !ok || req.Status.Final(): // withdrawn, or the journal refused it
		p.cancel("the request to the whole machine was withdrawn")
		return true
	case lowest.undurable[p.seq]:
		return false
	case p.target:
		if req.Status == state.Pending {
			p.entry = c.startParent(p)
		}
		return false
	case !p.released && !p.gather(c):
		return false
	}
	return c.endParent(p, req)
}

// gather takes the executors one by one. It reports whether the parent can be
// looked at as one whose parts run, or have failed.
func (p *parent) gather(c *Core) bool {
	for {
		if n := len(p.parts); n > 0 {
			t := &p.parts[n-1]
			status, _ := t.status()
			settled := status.Final() || status != state.Pending || t.d.parked == t.seq
			switch {
			case p.broken():
				p.cancel("another chassis could not take part")
				return true
			case !settled && c.now.Boot >= p.deadline:
				p.parts[n-1].why = fmt.Sprintf("its executor was not free within %s", c.cfg.Times.Gather)
				p.cancel(p.parts[n-1].why)
				return true
			case !settled:
				return false
			}
		}
		if len(p.parts) == len(p.members) {
			p.release()
			return true
		}
		p.ask(p.members[len(p.parts)])
		c.keepParts()
	}
}

// broken reports whether a part has ended so that the others must not begin.
func (p *parent) broken() bool {
	for _, t := range p.parts {
		if s, _ := t.status(); s.Final() && !harmless(s) {
			return true
		}
	}
	return false
}

// release lets all parts begin. They are judged again: a while has passed.
func (p *parent) release() {
	p.released = true
	for _, t := range p.parts {
		if t.d.parked == t.seq {
			t.d.parked = 0
		}
	}
}

// cancel ends the parts that have not begun.
func (p *parent) cancel(why string) {
	if p.released {
		return
	}
	p.released = true
	for _, t := range p.parts {
		if s, _ := t.status(); s == state.Pending {
			t.d.finish(t.seq, state.Cancelled, why)
		}
	}
}

// startParent tells that parts have begun.
func (c *Core) startParent(p *parent) uint64 {
	d := c.domains[0]
	if err := d.q.Start(c.now, p.seq); err != nil {
		panic(fmt.Sprintf("engine: start %d: %v", p.seq, err))
	}
	d.touch(p.seq)
	return c.append(history.Entry{Kind: history.KindStarted, Domain: d.cfg.ID, Request: p.seq}, wait{what: waitStep, domain: d, request: p.seq})
}

// endParent ends a parent whose parts have all ended.
func (c *Core) endParent(p *parent, req state.Request) bool {
	var bad []string
	count := map[state.Status]int{}
	ended := true
	for i := range p.parts {
		status, why := p.parts[i].status()
		count[status]++
		begun := status != state.Pending && status != state.Noop && status != state.Invalid && status != state.Cancelled
		if begun && p.parts[i].seq != 0 && req.Status == state.Pending {
			c.startParent(p)
			req.Status = state.Running
		}
		ended = ended && status.Final()
		if status.Final() && !harmless(status) {
			bad = append(bad, fmt.Sprintf("%s: %s %s", p.parts[i].d.object(p.op), status, why))
		}
	}
	if !ended {
		return false
	}
	status, reason := state.Success, strings.Join(bad, "; ")
	switch n := len(p.parts); {
	case len(bad) > 0 && count[state.Interrupted] == len(bad):
		status = state.Interrupted
	case len(bad) > 0:
		status = state.Failed
	case count[state.Invalid] == n:
		status, reason = state.Invalid, fmt.Sprintf("%s makes no sense while all power is off", p.op)
	case count[state.Invalid]+count[state.Noop] == n:
		status = state.Noop
	}
	c.domains[0].finish(p.seq, status, reason)
	return true
}
