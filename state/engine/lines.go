package engine

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// Where the executor is "gpio with targets" a transition is a target's job, and
// a unit on its way asks us to drive the lines (DESIGN.md §4). That is a part of
// the running launch: its steps are journalled like any other's, and nothing is
// driven for a call that belongs to no launch.

// driveWithin is how long a call of DriveLines waits for the operation that it
// belongs to: systemd's news of a job may come after the call.
const driveWithin = 10 * time.Second

// drive is a call of DriveLines that is not answered yet.
type drive struct {
	on    bool
	reply func(Answer)
	until time.Duration // it is refused then, if nothing has begun
	probe uint64        // reading that it waits for
	read  bool          // that has come, and the inputs agreed
}

// outerStep is where a launch stands in its plan proper while lines are driven.
type outerStep struct {
	_ state.Incomparable

	part          int // of the plan, that is driven
	step          int
	mode          mode
	stepAt, since time.Duration
	deadline      time.Duration
	acted         *acted // the end of its job, which came meanwhile
	fresh         bool   // no step of the part has acted before
}

func (o *outerStep) on(r *launch) bool { return o.part == r.plan.On }

// proper is the step of the plan proper.
func (r *launch) proper() int {
	if r.outer != nil {
		return r.outer.step
	}
	return r.step
}

func (d *domain) driveAsked(ev DriveLines) {
	switch {
	case ev.Caller.UID != 0:
		d.core.refuse(ev.Reply, &Refusal{CodeAccessDenied, "Only root may have the lines driven: it is for the units of targets."})
	case !d.cfg.Driven || !d.cfg.Options.Lines:
		d.core.refuse(ev.Reply, notAllowedText("No unit has the lines of this domain driven: that takes the executor \"gpio-targets\" and a board."))
	default:
		c := &drive{on: ev.On, reply: ev.Reply, until: d.boot() + driveWithin}
		c.probe = d.probe(d.core.cfg.Times.Settle)
		d.drives = append(d.drives, c)
	}
}

// driveSeen takes the reading that a call waits for.
func (d *domain) driveSeen(probe uint64, agreed bool) {
	for _, c := range d.drives {
		if c.probe != probe || c.read {
			continue
		}
		if c.read = agreed; !agreed {
			c.probe = d.probe(d.core.cfg.Times.Settle)
		}
	}
}

// driveLines begins what calls ask for, as soon as it may.
func (d *domain) driveLines() {
	for _, c := range append([]*drive(nil), d.drives...) {
		if state.Contains(d.drives, c) && !d.drivesNow(c) {
			d.tryDrive(c)
		}
	}
}

// drivesNow reports whether the lines are being driven as c asks.
func (d *domain) drivesNow(c *drive) bool {
	return d.run != nil && d.run.outer != nil && d.run.outer.on(d.run) == c.on
}

func (d *domain) tryDrive(c *drive) {
	on, known := d.powered()
	switch {
	case c.read && known && on == c.on && (on || !d.mayComeUp()):
		d.answerDrive(c, "")
	case c.read && c.on && d.guarded():
		d.answerDrive(c, "power is being switched off, or was a moment ago (offGuard)")
	case c.read && known && d.mayDrive(c):
		d.drive(c)
	case !d.due(c.until):
	case !c.read || !known:
		d.answerDrive(c, "the power inputs contradict each other or cannot be read: "+d.readText())
	default:
		d.answerDrive(c, "no operation is under way that this belongs to: start the target of one, or ask bmcstated for it")
	}
}

// mayDrive reports whether the running launch is what a call belongs to, and is
// where its lines may be driven.
func (d *domain) mayDrive(c *drive) bool {
	r := d.run
	if r == nil || r.plan.On == 0 || r.outer != nil || r.lost && c.on || d.preempt != 0 {
		return false
	}
	waits := r.mode == modeWait || r.mode == modeAct && r.current().Unit != ""
	if c.on {
		settled := d.hands.until == 0 && d.press.until == 0
		return waits && settled && !r.jobOver && r.op.Raising()
	}
	return waits && (!r.op.Raising() || r.op.Passes() && !r.current().AfterPassage)
}

// drive goes through the steps of a part of the plan.
func (d *domain) drive(c *drive) {
	r := d.run
	part, first := r.plan.Off, r.plan.Off
	switch {
	case c.on:
		part, first = r.plan.On, r.plan.On
	case !d.press.raising || d.cfg.Options.PowerLevel:
		first++ // there is no press to wait for
	}
	at, again := r.lineAt[part]
	if again {
		// It acted for an earlier call: only a hold is repeated (DESIGN.md P3).
		if first = at; !r.plan.Steps[at].Hold {
			first = r.plan.Steps[at].Then
		}
	}
	if r.lineAt == nil {
		r.lineAt = map[int]int{}
	}
	r.outer = &outerStep{part: part, step: r.step, mode: r.mode, stepAt: r.stepAt, since: d.boot(), deadline: r.deadline, fresh: !again}
	d.begin(first)
}

// driven ends a part. The plan proper goes on where it stood, with the time that
// the part took added to its deadline; a fault is what its job will fail of.
func (d *domain) driven(fault string) {
	r := d.run
	o := r.outer
	r.outer = nil
	r.step, r.mode, r.stepAt, r.deadline = o.step, o.mode, o.stepAt, o.deadline+d.boot()-o.since
	r.short, r.reread, r.pulsing, r.failing = false, 0, "", ""
	if fault != "" {
		r.fault = fault
	}
	d.answerDrives(o.on(r), fault)
	switch {
	case o.acted != nil:
		d.acted(*o.acted)
	case r.mode == modeWait:
		d.waited(0)
	}
}

// jobOver takes the news that the launch's job has ended. A unit of it that
// failed does not keep those behind it from being started: what has not been
// pressed yet waits until it is known how the job ended.
func (d *domain) jobOver(ev jobOver) {
	r := d.run
	if r == nil || r.seq != ev.request || r.proper() != ev.step {
		return
	}
	r.jobOver = true
	if o := r.outer; o != nil && o.on(r) && o.fresh && (r.mode == modeCheck || r.mode == modeJournal) && len(r.lineAt) == 0 {
		d.driven("the job of its target has ended")
		r.fault = "" // the job's own reason follows
	}
}

// outerActed takes the end of the job while lines are driven. If the job failed,
// whoever asked for the lines has gone with it, or will.
func (d *domain) outerActed(ev acted) {
	d.run.outer.acted = &ev
	if ev.err != nil && d.run.pulsing == "" { // a pulse ends first: see pulseEnded
		d.driven("")
	}
}

// pulseEnded ends a part whose launch has come to its end while a line was
// asserted. It reports whether it did.
func (d *domain) pulseEnded() bool {
	r := d.run
	switch o := r.outer; {
	case o == nil:
		return false
	case r.broken != "":
		d.breakOff(r.broken)
	case o.acted != nil && o.acted.err != nil:
		d.driven("")
	default:
		return false
	}
	return true
}

// jobsGoOn reports whether success has to wait for the end of a job that is not
// the launch's own step: units behind the lines may still fail.
func (d *domain) jobsGoOn() bool {
	r := d.run
	for _, f := range d.others.open {
		if d.cfg.Options.Lines && !f.Ended && r.owns(f) {
			return true
		}
	}
	return r.jobOpen
}

// owns reports whether a job of another's is the launch's all the same: one of the
// second half, which a helper starts, or one that an earlier run of the daemon
// started.
func (r *launch) owns(f Foreign) bool {
	second := r.plan.Steps[r.proper()].AfterPassage && f.Op.Raising()
	return !r.adopted && (second || r.resumed && f.Op.Raising() == r.op.Raising())
}

// breakOff fails the launch, whatever it is doing.
func (d *domain) breakOff(reason string) {
	if d.run.outer != nil && d.run.pulsing != "" {
		d.run.broken = reason // when the pulse has ended
		return
	}
	if d.run.outer != nil {
		d.driven(reason)
	}
	if d.run != nil {
		d.fail(reason)
	}
}

// resumeLines goes on with a launch whose lines were being driven when the
// daemon ended. The unit asks again, and is then found where it was.
func (d *domain) resumeLines(part int, st sequence.Step) {
	r := d.run
	r.lineAt = map[int]int{}
	switch {
	case !st.Waits():
		r.lineAt[part] = r.step
	case r.step > part:
		r.lineAt[part] = r.step - 1 // what acted before the wait
	}
	at := r.plan.After(part)
	r.step, r.mode = at, modeWait
	r.deadline = r.stepAt + st.Width + st.Within + r.plan.Steps[at].Within
	if why := r.barred(); why != "" {
		d.interrupt(why)
		return
	}
	d.waited(0)
}

func (d *domain) answerDrives(on bool, fault string) {
	for _, c := range append([]*drive(nil), d.drives...) {
		if c.on == on {
			d.answerDrive(c, fault)
		}
	}
}

func (d *domain) answerDrive(c *drive, fault string) {
	d.drives = state.Remove(d.drives, c)
	a := Answer{}
	if fault != "" {
		direction := "off"
		if c.on {
			direction = "on"
		}
		a.Err = notAllowedText(fmt.Sprintf("the lines are not driven for power %s: %s", direction, fault))
	}
	d.core.emitReplyLater(c.reply, a)
}
