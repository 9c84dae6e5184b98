package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
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
