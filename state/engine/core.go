package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// Journal is where the core writes before anything acts. Append must not wait
// for the disk: the entry's fate arrives as a committed event.
type Journal interface {
	// Append queues an entry and returns its sequence.
	Append(history.Entry) uint64
}

// Core is the rules of all domains. It is not safe for concurrent use.
type Core struct {
	cfg     Config
	journal Journal
	now     state.Instant
	out     []Effect

	domains  []*domain
	bmc      bmc
	system   system
	waits    map[uint64]wait // by journal entry: who waits for it
	voiding  map[uint64]wait // likewise, given up and being marked void
	unsaved  []history.Entry // final statuses and values that the journal refused
	saveAt   time.Duration   // when they are tried again, 0 = there are none
	updating bool            // firmware is: see [Firmware]
	blocked  bool            // an error blocks power: see [ErrorBlock]
	gates    gates           // what is known of these two
	passive  bool            // another BMC runs the machine
	probes   uint64          // last probe id given
	last     uint64          // last entry appended

	// commitDue is when some wait may be overdue, or earlier.
	commitDue time.Duration
	late      []replyEffect  // answers that follow this step's publications
	sets      []func(Answer) // writes that are answered when they are in the journal
}

// wait is what an entry's commit leads to.
type wait struct {
	since   time.Duration
	what    waitKind
	domain  *domain // nil for the BMC's own
	request uint64
	entry   history.Entry
	also    []func(error) // calls that are answered once this is durable
}

type waitKind uint8

const (
	waitAccept waitKind = iota // the request is durable
	waitStep                   // the step may act
	waitRecord                 // a final status or value: kept until it is saved
)

// NewCore returns a core that knows nothing yet of the levels. Call
// [Core.Recover] before the first Step.
func NewCore(cfg Config, j Journal) *Core {
	c := &Core{cfg: cfg, journal: j, gates: gates{wait: cfg.Gates}, waits: map[uint64]wait{}, voiding: map[uint64]wait{}, commitDue: math.MaxInt64}
	for _, dc := range cfg.Domains {
		c.domains = append(c.domains, newDomain(c, dc))
	}
	c.bmc = newBMC(c)
	return c
}

// Step takes one event in and returns what it leads to. The effects are in the
// order in which they must be seen: a value is published before the call that
// caused it is answered.
func (c *Core) Step(now state.Instant, ev Event) []Effect {
	c.now, c.out = now, nil
	switch ev := ev.(type) {
	case Write:
		c.write(ev)
	case Submit:
		c.submit(ev)
	case Lookup:
		c.lookup(ev)
	case Cancel:
		c.cancel(ev)
	case Dismiss:
		c.dismiss(ev)
	case History:
		c.history(ev)
	case Deliveries:
		c.deliveries(ev)
	case Internal:
		c.internal(ev)
	case Set:
		c.set(ev)
	case seen:
		c.domain(ev.domain).seen(ev)
	case edge:
		c.domain(ev.domain).edge(ev)
	case acted:
		c.domain(ev.domain).acted(ev)
	case committed:
		c.committed(ev)
	case voided:
		c.voided(ev)
	case barred:
		c.domain(ev.domain).barred(ev)
	case rebootFailed:
		c.bmc.failed(ev)
	case systemReset:
		c.systemWasReset(ev)
	case Mask:
		c.mask(ev)
	case NMI:
		c.nmi(ev)
	case jobOver:
		c.domain(ev.domain).jobOver(ev)
	case DriveLines:
		c.domain(ev.Domain).driveAsked(ev)
	case controlled:
		c.domain(ev.domain).controlled(ev)
	case Firmware:
		c.firmware(ev)
	case Foreign:
		c.domain(ev.Domain).foreignJob(ev)
	case BMCUnits:
		c.bmc.seen(ev)
	case Settings:
		c.takeSettings(ev)
	case ErrorBlock:
		c.blocked = ev.Blocks
		c.gateTold(toldError)
	case BMCRole:
		c.passive = ev.Passive
	case HostCrashed:
		c.domain(ev.Domain).crashed()
	case Presence:
		c.domain(ev.Domain).absent = ev.Absent
	case Supplies:
		c.domain(ev.Domain).supplied(ev.Status)
	case tick:
	default:
		panic(fmt.Sprintf("engine: unknown event %T", ev))
	}
	c.settle()
	return c.out
}

// settle lets everything that the event or the time made possible happen, then
// publishes and answers.
func (c *Core) settle() {
	c.overdueCommits()
	c.overdueGates()
	if c.saveAt != 0 && c.now.Boot >= c.saveAt {
		c.saveAgain()
	}
	c.advanceSystem()
	for _, d := range c.domains {
		d.advance()
	}
	c.advanceSystem()
	c.bmc.advance()
	for _, d := range c.domains {
		calls := d.ready()
		d.publish()
		d.reply(calls)
	}
	c.publishSystem()
	c.bmc.publish()
	for _, r := range c.late {
		c.emit(r)
	}
	c.late = nil
	c.answerSets()
}

// NextDeadline returns the boot clock of the next tick that changes something.
func (c *Core) NextDeadline() time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, d := range c.domains {
		next = min(next, d.nextDeadline())
	}
	if c.saveAt != 0 {
		next = min(next, c.saveAt)
	}
	if c.gates.wait {
		next = min(next, c.gates.until)
	}
	return min(c.system.nextDeadline(next), c.commitDue, c.bmc.nextDeadline())
}

func (c *Core) emit(e Effect) { c.out = append(c.out, e) }

func (c *Core) domain(id int) *domain {
	for _, d := range c.domains {
		if d.cfg.ID == id {
			return d
		}
	}
	panic(fmt.Sprintf("engine: no domain %d", id))
}

// domainOf returns the domain of a host or chassis, nil if there is none.
func (c *Core) domainOf(o state.Object) *domain {
	for _, d := range c.domains {
		if d.owns(o) {
			return d
		}
	}
	return nil
}

// append journals an entry and remembers who waits for it.
func (c *Core) append(e history.Entry, w wait) uint64 {
	seq := c.journal.Append(e)
	w.since, w.entry = c.now.Boot, e
	c.waits[seq], c.last = w, seq
	c.commitDue = min(c.commitDue, c.commitDeadline(w))
	return seq
}

// record journals what nothing waits for. It is kept until the disk takes it.
func (c *Core) record(d *domain, e history.Entry) {
	c.append(e, wait{what: waitRecord, domain: d, request: e.Request})
}

// committed hands the journal's answer to those who wait for it.
func (c *Core) committed(ev committed) {
	for seq := ev.first; seq <= ev.last; seq++ {
		w, ok := c.waits[seq]
		if !ok {
			continue // voided: whoever waited has been told
		}
		delete(c.waits, seq)
		c.resolve(w, seq, ev.err)
	}
	if ev.err == nil {
		c.saveAgain()
	}
}

func (c *Core) resolve(w wait, seq uint64, err error) {
	switch w.what {
	case waitAccept:
		if w.domain != nil {
			w.domain.accepted(w.request, err)
		} else {
			c.bmc.accepted(w.request, err)
		}
	case waitStep:
		if w.domain != nil {
			w.domain.mayAct(w.request, seq, err)
		} else {
			c.bmc.mayAct(w.request, seq, err)
		}
	case waitRecord:
		if err != nil {
			c.unsaved = append(c.unsaved, w.entry)
			c.saveAt = c.now.Boot + retryRecord
		}
	}
	for _, also := range w.also {
		also(err)
	}
}

// saveAgain writes what an earlier failure kept from the journal.
func (c *Core) saveAgain() {
	again := c.unsaved
	c.unsaved, c.saveAt = nil, 0
	for _, e := range again {
		c.append(e, wait{what: waitRecord, request: e.Request})
	}
}

func (c *Core) commitDeadline(w wait) time.Duration {
	unwaited := w.what == waitRecord && len(w.also) == 0
	ahead := w.domain != nil && state.Contains(w.domain.owed, w.request)
	if unwaited || ahead {
		return math.MaxInt64
	}
	return w.since + c.cfg.Times.Commit
}

// overdueCommits gives up waiting for a journal that hangs (DESIGN.md §3.6):
// whoever waits is told, and the numbers go as void to the run directory, so
// that a replay does not run what was refused.
func (c *Core) overdueCommits() {
	if c.now.Boot < c.commitDue {
		return
	}
	var void []uint64
	c.commitDue = math.MaxInt64
	for seq, w := range c.waits {
		due := c.commitDeadline(w)
		if c.now.Boot >= due {
			void = append(void, seq)
		} else {
			c.commitDue = min(c.commitDue, due)
		}
	}
	if len(void) == 0 {
		return
	}
	state.Sort(void)
	for _, seq := range void {
		c.voiding[seq] = c.waits[seq]
		delete(c.waits, seq)
	}
	c.emit(voidEffect{void})
}

// voided tells those whose entries are marked void now.
func (c *Core) voided(ev voided) {
	for _, seq := range ev.entries {
		w := c.voiding[seq]
		delete(c.voiding, seq)
		c.resolve(w, seq, errStorageHangs)
	}
}

// ready reports whether every driven domain's power state is known and what an
// earlier run left is settled.
func (c *Core) ready() bool {
	for _, d := range c.domains {
		if _, known := d.powered(); d.cfg.Driven && (!known || len(d.recovered) > 0) {
			return false
		}
	}
	return true
}
