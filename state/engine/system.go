package engine

import (
	"fmt"
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

// systemObject is the whole machine, and so is chassis0 where no chassis is.
var (
	systemObject   = state.Object{Kind: state.KindSystem}
	chassis0Object = state.Object{Kind: state.KindChassis}
)

// aggregate reports whether an object stands for all chassis.
func (c *Core) aggregate(o state.Object) bool {
	return o == systemObject || c.cfg.Chassis0 && o == chassis0Object
}

// systemCause marks, in the journal, the part of a request to the whole machine.
const systemCause = "chassis_system0"

// system is what stands for all chassis (DESIGN.md §3.2). A request to it is a parent with a
// part per domain. It is kept in the queue of the lowest domain, where it stands
// in nobody's way.
//
// Off is asked of every domain at once. What else there is takes the executors
// of all domains in ascending order, each as soon as the one before is held, so
// that two such requests cannot wait for each other; then all begin, or after
// Times.Gather none.
type system struct {
	parents []*parent
	left    []*parent        // of an earlier run, while it is recovered
	shown   [2]state.Chassis // chassis_system0 and chassis0
	once    bool
}

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

type part struct {
	_ state.Incomparable

	d   *domain
	seq uint64
	why string // refused: it has no request
}

// writeSystem takes a write to what stands for all chassis.
func (c *Core) writeSystem(ev Write) {
	target := ev.Object == systemObject && c.cfg.System == SystemTarget
	if ev.Object == systemObject && c.cfg.System == SystemNone || target && ev.Op != state.ChassisPowerCycle {
		c.refuse(ev.Reply, invalidArgument("%s does not take %s", ev.Object, ev.Op))
		return
	}
	seq := c.domains[0].admit(queue.Delivery{
		Key: state.Key{UID: ev.Caller.UID}, Object: ev.Object, Op: ev.Op, Conn: ev.Caller.Sender, Property: true, Aside: true,
	}, ev.Reply)
	if seq == 0 {
		return // a repeat, or refused
	}
	p := &parent{seq: seq, op: ev.Op, caller: ev.Caller, target: target, members: c.members(), deadline: c.now.Boot + c.cfg.Times.Gather}
	c.system.parents = append(c.system.parents, p)
	if ev.Op == state.ChassisOff {
		for _, d := range p.members {
			p.ask(d)
		}
		p.released = true
	}
	c.keepParts()
}

// members are the domains that take part: those that something drives. A chassis
// that is not there does not (openbmc-state-manager.md §2.12), unless its power is
// on all the same.
func (c *Core) members() []*domain {
	var m []*domain
	for _, d := range c.domains {
		on, _ := d.powered()
		if d.cfg.Driven && (!d.absent || on) {
			m = append(m, d)
		}
	}
	if len(m) == 0 {
		return c.domains // they say why nothing happens
	}
	return m
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

// askedOfAll makes a part the newest request of its chassis, which nobody is told
// of who could be refused. One that may make no sense becomes it when it begins.
func (d *domain) askedOfAll(req *state.Request, later bool) {
	if isPart(req) && !later {
		d.q.SetNewest(req.Seq)
	}
}

// isPart reports whether a request is a part of one to the whole machine. Who
// submits a request may name any cause, but not as a property write.
func isPart(req *state.Request) bool {
	return req.Cause == systemCause && req.Key.Client == state.PropertyClient
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
		for i := range p.parts {
			if !p.released && p.parts[i].d == d && p.parts[i].seq == seq {
				return true
			}
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
	going := s.parents[:0]
	for _, p := range s.parents {
		if !c.advanceParent(p) {
			going = append(going, p)
		}
	}
	s.parents = going
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

// powerRank orders the power states: of several chassis the highest counts
// (openbmc-state-manager.md §2.12).
var powerRank = [...]int{
	state.PowerStateOff: 0, state.PowerStateOn: 1, state.PowerStateTransitioningToOn: 2, state.PowerStateTransitioningToOff: 3,
}

// publishSystem shows what stands for all chassis.
func (c *Core) publishSystem() {
	if c.cfg.System == SystemNone && !c.cfg.Chassis0 {
		return
	}
	v := state.Chassis{Status: state.PowerStatusGood}
	for _, d := range c.members() {
		one := &d.shown.chassis
		if powerRank[one.Current] > powerRank[v.Current] {
			v.Current = one.Current
		}
		v.Status = min(v.Status, one.Status) // Undefined, BrownOut, UPS, Good
		v.LastStateChange = max(v.LastStateChange, one.LastStateChange)
		v.POHCounter = max(v.POHCounter, one.POHCounter)
	}
	system, chassis := v, v
	system.Requested, chassis.Requested = c.newest(systemObject, state.ChassisOn), c.newest(chassis0Object, state.ChassisOff)
	s := &c.system
	if c.cfg.System != SystemNone && (!s.once || system != s.shown[0]) {
		c.emit(publishSystem{index: 0, chassis: system})
	}
	if c.cfg.Chassis0 && (!s.once || chassis != s.shown[1]) {
		c.emit(publishChassis{index: 0, chassis: chassis})
	}
	s.once, s.shown = true, [2]state.Chassis{system, chassis}
}

func (c *Core) newest(o state.Object, unset state.Operation) state.Operation {
	if n, ok := c.domains[0].q.Newest(o); ok {
		return n.Op
	}
	return unset
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
