package engine

import (
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// partsNote is the note of the lowest domain that tells which requests are the
// parts of which request to the whole machine: "PARENT:DOMAIN=PART,…;" for each
// that is unfinished, 0 for a part that was refused. A part may be a request of
// somebody else's that was joined. It is written behind the parts and before
// they may run. A daemon that does not know it ends such requests INTERRUPTED.
const partsNote = "parts"

// keepParts writes the note.
func (c *Core) keepParts() {
	text := ""
	for _, p := range c.system.parents {
		text += strconv.FormatUint(p.seq, 10) + ":"
		for _, t := range p.parts {
			text += strconv.Itoa(t.d.cfg.ID) + "=" + strconv.FormatUint(t.seq, 10) + ","
		}
		text += ";"
	}
	c.record(c.domains[0], history.Entry{Kind: history.KindNote, Domain: c.domains[0].cfg.ID, Note: history.Note{Name: partsNote, Text: text}})
}

// readParts takes the note that an earlier run has left. What is cut off at its
// end is as if it were not there.
func (c *Core) readParts(p *history.Picture) {
	text, _ := p.Note(c.domains[0].cfg.ID, partsNote)
	for {
		one, rest, whole := strings.Cut(text, ";")
		if !whole {
			return
		}
		text = rest
		seq, parts, _ := strings.Cut(one, ":")
		left := &parent{}
		left.seq, _ = strconv.ParseUint(seq, 10, 64)
		for parts != "" {
			one, parts, _ = strings.Cut(parts, ",")
			id, seq, _ := strings.Cut(one, "=")
			n, err := strconv.Atoi(id)
			if d := c.find(n); d != nil && err == nil {
				t := part{d: d, why: "it was refused before the daemon restarted"}
				t.seq, _ = strconv.ParseUint(seq, 10, 64)
				left.parts = append(left.parts, t)
			}
		}
		c.system.left = append(c.system.left, left)
	}
}

// leftParent is the request to the whole machine that a request is, or is a part
// of; nil if the note knows none.
func (c *Core) leftParent(seq uint64) *parent {
	for _, p := range c.system.left {
		for _, t := range p.parts {
			if t.seq == seq {
				return p
			}
		}
		if p.seq == seq {
			return p
		}
	}
	return nil
}

// recoverSystem takes an unfinished record of a request to the whole machine. It
// reports whether the record was one.
func (d *domain) recoverSystem(r *history.Record, sameBoot bool) bool {
	if !d.core.aggregate(r.Object) || r.Status.Final() {
		return false
	}
	d.touch(r.Seq)
	d.q.Contrary(r.Seq) // what was seen before the restart is not known
	if p := d.core.leftParent(r.Seq); p != nil {
		p.op, p.caller, p.sameBoot = r.Op, Caller{UID: r.Key.UID}, sameBoot
		p.target = r.Object == systemObject && d.core.cfg.System == SystemTarget
		p.released = r.Status != state.Pending || r.Op == state.ChassisOff
		return true
	}
	d.endLeft(r.Seq, sameBoot || r.Status != state.Pending, "the daemon restarted; each chassis has a request of its own")
	return true
}

// endLeft ends what is not gone on with.
func (d *domain) endLeft(seq uint64, sameBoot bool, why string) {
	if sameBoot {
		d.finish(seq, state.Interrupted, why)
		return
	}
	d.finish(seq, state.Expired, "BMC restarted")
}

// resumeSystem goes on with the requests to the whole machine, after all records
// are known. A part that had not begun, and whose parent is gone, does not begin.
func (c *Core) resumeSystem() {
	for _, p := range c.system.left {
		if p.op != 0 && c.resumeParent(p) {
			c.system.parents = append(c.system.parents, p)
		}
	}
	c.system.left = nil
	for _, d := range c.domains {
		d.anyAfter(0, func(req *state.Request) bool {
			if isPart(req) && req.Status == state.Pending && req.Op != state.ChassisOff && !c.system.has(req.Seq) {
				d.finish(req.Seq, state.Interrupted, "the daemon restarted before all chassis were ready")
			}
			return false
		})
	}
}

func (s *system) has(seq uint64) bool {
	for _, p := range s.parents {
		for _, t := range p.parts {
			if t.seq == seq {
				return true
			}
		}
	}
	return false
}

// resumeParent reports whether the parent goes on. One whose parts may have begun
// waits for them; others go on taking executors.
func (c *Core) resumeParent(p *parent) bool {
	lowest := c.domains[0]
	if p.target {
		if !p.released && p.sameBoot {
			return true
		}
		lowest.endLeft(p.seq, p.released, "effect not proven")
		return false
	}
	p.members, p.deadline = c.members(), c.now.Boot+c.cfg.Times.Gather
	for _, t := range p.parts {
		req, ok := t.d.q.Get(t.seq)
		p.released = p.released || ok && isPart(&req) && req.Launched
	}
	switch {
	case p.released:
		c.askRest(p)
	case !p.sameBoot:
		lowest.finish(p.seq, state.Expired, "BMC restarted")
		return false
	}
	for i := range p.parts {
		if !p.released && (i >= len(p.members) || p.members[i] != p.parts[i].d) {
			lowest.finish(p.seq, state.Interrupted, "the daemon restarted with other chassis configured")
			return false
		}
	}
	return true
}

// askRest asks those that had not been asked of what every domain does at once.
func (c *Core) askRest(p *parent) {
	for _, d := range p.members {
		asked := false
		for _, t := range p.parts {
			asked = asked || t.d == d
		}
		switch {
		case asked:
		case p.sameBoot && p.op == state.ChassisOff:
			p.ask(d)
		default:
			p.parts = append(p.parts, part{d: d, why: "the daemon restarted before it was asked"})
		}
	}
	c.keepParts()
}
