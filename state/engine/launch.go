package engine

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// launch is the one transition that a domain's executor runs.
type launch struct {
	seq     uint64
	op      state.Operation
	object  state.Object
	verdict state.Verdict
	plan    sequence.Plan

	step      int
	mode      mode
	stepAt    time.Duration
	deadline  time.Duration
	entry     uint64 // journal entry of the present step
	needs     int    // entries that must be durable before the step acts
	startAt   uint64 // journal entry of the launch itself
	startLost bool   // the journal refused that entry: it goes with the next step that acts
	seen      sequence.Seen
	pulsing   string        // output that is asserted
	job       bool          // a unit's job may be under way
	started   bool          // a unit was started: its helpers may still act
	since     time.Duration // when it was launched
	adopted   bool          // somebody else began it; foreignJob tells the job
	short     bool          // the pulse is being ended early
	takeOver  bool          // the first pulse goes on from one that is asserted
	heldFrom  uint64        // first probe since the newest pulse is asserted, 0 = none
	heldOn    bool          // power was seen on since then: its loss is the pulse's doing, if it presses for off
	reread    uint64        // probe that decides an expired wait, 0 = none
	moved     bool          // a line was asserted
	attempt   bool          // it took one of the host's attempts
	resumed   bool          // an earlier run of the daemon began it
	failing   string        // why the plan only takes back what it has set
	unproven  bool          // that run may have died before its pulse: a level in reset may be older

	waitsOnly bool // resumed, and a later power off was accepted

	// Where units have us drive the lines.
	outer   *outerStep  // the step of the plan proper, while lines are driven
	lineAt  map[int]int // by part of the plan: its newest step that acted
	fault   string      // why the lines were not driven
	broken  string      // why it ends when its pulse has ended
	jobOpen bool        // adopted: success waits for the end of its job
	jobOver bool        // its job has ended, and how is not known yet
	lost    bool        // adopted: the journal refused the operation
}

// mode is what a launch is doing.
type mode uint8

const (
	modeJournal mode = iota // the step waits for the journal
	modeCheck               // the inputs are read again before a line is asserted
	modeAct                 // a pulse is under way
	modeWait                // the step waits for its goal
	modeUnknown             // unconfirmed; levels are re-read (reconciliation)
)

// waitsForOS reports whether the launch only waits for a guest that was asked
// to shut down.
func (r *launch) waitsForOS() bool {
	st := r.current()
	return st.Graceful && (r.mode == modeWait || r.mode == modeAct && st.Unit != "")
}

// driven reports whether the launch has asserted a line, or is asserting one.
func (r *launch) driven() bool { return r.moved || r.pulsing != "" }

func (r *launch) current() *sequence.Step { return &r.plan.Steps[r.step] }

// launch starts the transition that a verdict calls for. held says that a press
// of the power button is to become its first hold.
func (d *domain) launch(req state.Request, v state.Verdict, powerUp, held bool) {
	if err := d.q.Start(d.now(), req.Seq); err != nil {
		panic(fmt.Sprintf("engine: launch %d: %v", req.Seq, err))
	}
	d.unjudge()
	d.endLook()
	d.askedOfAll(&req, false)
	d.run = &launch{
		seq: req.Seq, op: req.Op, object: req.Object, verdict: v,
		plan: d.plan(v, req.Op, powerUp),
		seen: sequence.Seen{Levels: d.levels}, since: d.boot(), takeOver: held,
	}
	d.takeAttempt(req)
	d.operated(req)
	d.setRestartCause(req)
	d.clearHints()
	if req.Op.Raising() {
		d.others.guardUntil = 0 // power is wanted again, and jobs that belong to this are welcome
	}
	d.touch(req.Seq)
	d.began(&req)
	d.core.notice(NoticeLaunched, d.cfg.ID, d.q, req.Seq)
	d.journalStart()
	d.begin(0)
}

// plan builds what a verdict does on this domain's executor.
func (d *domain) plan(v state.Verdict, op state.Operation, powerUp bool) sequence.Plan {
	if d.cfg.Targets != nil && !(d.cfg.Options.Lines && untargeted[v]) {
		return sequence.BuildTargets(v, op, *d.cfg.Targets, d.cfg.Timings, d.options())
	}
	return sequence.Build(v, op, d.cfg.Timings, d.options(), powerUp)
}

// untargeted are what lines do by themselves where targets have them driven for
// all else.
var untargeted = [256]bool{
	state.VerdictReset: true, state.VerdictTakeBack: true, state.VerdictSlotOn: true, state.VerdictSlotOff: true, state.VerdictSlotCycle: true,
}

// options are the configured ones and what the board shows.
func (d *domain) options() sequence.Options {
	o := d.cfg.Options
	o.HasSIO = d.levels.SIOGood != state.LevelAbsent
	o.ResetVisible = d.levels.ResetVisible()
	return o
}

// begin goes on with step i, or with the first after it that is not met
// already.
func (d *domain) begin(i int) {
	r := d.run
	for i != sequence.End {
		st := &r.plan.Steps[i]
		switch {
		case d.met(st.Short):
			i = st.ShortTo
			continue
		case st.Waits() && d.met(st.Goal):
			i = d.out(st, st.Then)
			continue
		}
		break
	}
	if i == sequence.End {
		d.planEnded()
		return
	}
	r.step, r.stepAt, r.short, r.reread = i, d.boot(), false, 0
	st := r.current()
	if st.Withdraws && r.failing == "" {
		r.failing = st.Reason // a restart has forgotten why
	}
	if why := r.barred(); why != "" {
		d.interrupt(why)
		return
	}
	if st.Waits() {
		r.mode, r.deadline = modeWait, d.boot()+st.Within
		d.core.record(d, d.stepEntry())
		return
	}
	if i > 0 && st.Line() != "" && !st.Hold && !r.takeOver {
		r.mode, r.deadline = modeCheck, d.boot()+d.core.cfg.Times.Judge
		r.reread = d.probe(d.core.cfg.Times.Settle)
		return
	}
	d.journalStep()
}

// journalStep writes the step that will act.
func (d *domain) journalStep() {
	r := d.run
	r.mode, r.deadline = modeJournal, 0
	if r.startLost {
		d.journalStart()
	}
	r.entry = d.core.append(d.stepEntry(), wait{what: waitStep, domain: d, request: r.seq})
	r.needs++
	if r.op.Class() == state.Emergency {
		d.awaitBarrier()
		if d.barrier == r.seq && d.barrierUp {
			d.act(true) // ahead of the journal already
		}
	}
}

func (d *domain) stepEntry() history.Entry {
	r := d.run
	st := r.current()
	e := history.Entry{Kind: history.KindStep, Domain: d.cfg.ID, Request: r.seq}
	e.Step = history.Step{Index: uint32(r.step), Name: st.Name}
	if st.Waits() {
		e.Step.Deadline = r.deadline
	}
	return e
}

// journalStart writes that the request is launched. A step that acts needs this
// entry too: a replay would launch the request again (DESIGN.md P3).
func (d *domain) journalStart() {
	r := d.run
	r.startLost = false
	r.needs++
	r.startAt = d.core.append(history.Entry{Kind: history.KindStarted, Domain: d.cfg.ID, Request: r.seq, Verdict: r.verdict},
		wait{what: waitStep, domain: d, request: r.seq})
}

// mayAct takes the journal's answer about a launch or its step.
func (d *domain) mayAct(request, entry uint64, err error) {
	r := d.run
	if r == nil || r.seq != request {
		d.core.launchedTarget(request, entry, err)
		return
	}
	r.needs--
	if err == nil {
		if r.mode == modeJournal && r.needs <= 0 && r.entry == entry {
			d.act(false)
		}
		return
	}
	r.startLost = r.startLost || entry == r.startAt
	if r.op.Class() == state.Emergency {
		if r.mode == modeJournal {
			d.goWithoutJournal(request)
		}
		return
	}
	if r.mode == modeJournal {
		d.fail("stuck: the journal did not take the step: " + err.Error())
	}
}

// act lets the step's line be driven, or its unit be started.
func (d *domain) act(barrier bool) {
	r := d.run
	st := r.current()
	if !st.Hold && d.met(st.Short) { // seen while the journal wrote
		d.barrierAt = 0
		d.begin(st.ShortTo)
		return
	}
	r.mode, r.pulsing = modeAct, st.Line()
	r.heldFrom, r.heldOn = 0, false
	if st.Unit != "" {
		d.startUnit(st, barrier)
		return
	}
	r.deadline = d.boot() + st.Width + st.Within
	d.barrierAt = 0
	if r.outer != nil {
		r.lineAt[r.outer.part] = r.step
	}
	d.core.emit(pulseEffect{
		domain: d.cfg.ID, request: r.seq, step: r.step, entry: r.entry, barrier: barrier,
		signal: st.Line(), set: st.Set != "", to: st.To, width: st.Width, takeOver: r.takeOver, urgent: r.op.Class() == state.Emergency,
	})
	r.takeOver = false
	if st.Pulse == sequence.PowerOut && !st.Hold {
		d.press = openPress{until: d.boot() + d.cfg.Timings.ConfirmTimeout, raising: st.Raising, at: d.boot()}
	}
}

// startUnit lets the step's unit be started.
func (d *domain) startUnit(st *sequence.Step, barrier bool) {
	r := d.run
	r.deadline, r.job, r.started = d.boot()+st.Within, true, true
	d.barrierAt = 0
	d.core.emit(startEffect{
		domain: d.cfg.ID, request: r.seq, step: r.step, entry: r.entry, barrier: barrier, unit: st.Unit, mode: st.Mode,
		urgent: r.op.Class() == state.Emergency,
	})
}
