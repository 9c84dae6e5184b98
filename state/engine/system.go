package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
)

// SystemMode says what chassis_system0 is.
type SystemMode uint8

// The modes.
const (
	SystemNone      SystemMode = iota // there is no such object
	SystemAggregate                   // all chassis
	SystemTarget                      // its PowerCycle starts chassis-system-reset.target
)

// systemObject is the whole machine, chassis_system0.
var systemObject = state.Object{Kind: state.KindSystem}

// systemCause marks, in the journal, the part of a request to the whole machine.
const systemCause = "chassis_system0"

// system is chassis_system0 (DESIGN.md §3.2). A request to it is a parent with a
// part per domain. It is kept in the queue of the lowest domain, where it stands
// in nobody's way.
//
// Off is asked of every domain at once. What else there is takes the executors
// of all domains in ascending order, each as soon as the one before is held, so
// that two such requests cannot wait for each other; then all begin, or after
// Times.Gather none.
type system struct {
	parents []*parent
	shown   state.Chassis
	once    bool
}

type parent struct {
	seq      uint64
	op       state.Operation
	caller   Caller
	parts    []part
	released bool // the parts run
	deadline time.Duration
	entry    uint64 // of a target's launch
}

type part struct {
	d   *domain
	seq uint64
	why string // refused: it has no request
}

// writeSystem takes a write to chassis_system0.
func (c *Core) writeSystem(ev Write) {
	if c.cfg.System == SystemNone || c.cfg.System == SystemTarget && ev.Op != state.ChassisPowerCycle {
		c.refuse(ev.Reply, invalidArgument("chassis_system0 does not take %s", ev.Op))
		return
	}
	seq := c.domains[0].admit(queue.Delivery{
		Key: state.Key{UID: ev.Caller.UID}, Object: systemObject, Op: ev.Op, Conn: ev.Caller.Sender, Property: true, Aside: true,
	}, ev.Reply)
	if seq == 0 {
		return // a repeat, or refused
	}
	p := &parent{seq: seq, op: ev.Op, caller: ev.Caller, deadline: c.now.Boot + c.cfg.Times.Gather}
	c.system.parents = append(c.system.parents, p)
	if ev.Op == state.ChassisOff {
		for _, d := range c.domains {
			p.ask(d)
		}
		p.released = true
	}
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
	} else if a := d.q.Admit(d.now(), dl, func() uint64 { return d.journalNew(dl) }); a.Outcome == queue.Accepted || a.Outcome == queue.Repeat {
		t.seq = a.Seq
		d.wanted(dl.Key, dl.Op)
	} else {
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

// holds reports whether a domain's request, which could be launched, waits for
// the other parts.
func (s *system) holds(d *domain, seq uint64) bool {
	for _, p := range s.parents {
		if !p.released && slices.ContainsFunc(p.parts, func(t part) bool { return t.d == d && t.seq == seq }) {
			return true
		}
	}
	return false
}

// advanceSystem moves the requests to the whole machine on.
func (c *Core) advanceSystem() {
	s := &c.system
	if len(s.parents) == 0 {
		return
	}
	s.parents = slices.DeleteFunc(s.parents, func(p *parent) bool { return c.advanceParent(p) })
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
	case c.cfg.System == SystemTarget:
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
		if len(p.parts) == len(c.domains) {
			p.release()
			return true
		}
		p.ask(c.domains[len(p.parts)])
	}
}

// broken reports whether a part has ended so that the others must not begin.
func (p *parent) broken() bool {
	return slices.ContainsFunc(p.parts, func(t part) bool {
		s, _ := t.status()
		return s.Final() && !harmless(s)
	})
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

// launchedTarget takes the journal's answer about the launch of a target.
func (c *Core) launchedTarget(request, entry uint64, err error) {
	for _, p := range c.system.parents {
		switch {
		case p.seq != request || p.entry == 0 || p.entry != entry:
		case err != nil:
			c.domains[0].finish(p.seq, state.Failed, "stuck: the journal did not take the start: "+err.Error())
		default:
			c.emit(systemResetEffect{entry, p.seq})
		}
	}
}

// systemWasReset takes the end of the target's job.
func (c *Core) systemWasReset(ev systemReset) {
	d := c.domains[0]
	if req, ok := d.q.Get(ev.seq); !ok || req.Status.Final() {
		return
	}
	if ev.err != nil {
		d.finish(ev.seq, state.Failed, ev.err.Error())
		return
	}
	d.finish(ev.seq, state.Success, "")
}

// recoverSystem settles what an earlier run left of requests to the whole
// machine. It reports whether the record was one of these.
func (d *domain) recoverSystem(r *history.Record, sameBoot bool) bool {
	part := r.Cause == systemCause && r.Status == state.Pending && r.Op != state.ChassisOff
	if r.Object != systemObject && !part || r.Status.Final() {
		return false
	}
	switch {
	case r.Status == state.Pending && !sameBoot:
		d.finish(r.Seq, state.Expired, "BMC restarted")
	case part:
		d.finish(r.Seq, state.Interrupted, "the daemon restarted before all chassis were ready")
	default:
		d.finish(r.Seq, state.Interrupted, "the daemon restarted; each chassis has a request of its own")
	}
	return true
}

// publishSystem shows the whole machine: on while any chassis is.
func (c *Core) publishSystem() {
	if c.cfg.System == SystemNone {
		return
	}
	s := &c.system
	v := state.Chassis{Requested: state.ChassisOn, Status: state.PowerStatusGood}
	for _, d := range c.domains {
		if d.shown.chassis.Current != state.PowerStateOff {
			v.Current = state.PowerStateOn
		}
		v.LastStateChange = max(v.LastStateChange, d.shown.chassis.LastStateChange)
		if d.shown.chassis.Status != state.PowerStatusGood {
			v.Status = d.shown.chassis.Status
		}
	}
	if n, ok := c.domains[0].q.Newest(systemObject); ok {
		v.Requested = n.Op
	}
	if !s.once || v != s.shown {
		s.once, s.shown = true, v
		c.emit(publishSystem{0, v})
	}
}

// nextDeadline returns when a parent gives up waiting for executors.
func (s *system) nextDeadline(next time.Duration) time.Duration {
	for _, p := range s.parents {
		if !p.released {
			next = min(next, p.deadline)
		}
	}
	return next
}
