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
	heldFrom  uint64        // first probe since the hold's line is asserted, 0 = none
	heldOn    bool          // power was seen on since then: its loss is the hold's doing
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
			i = st.Then
			continue
		}
		break
	}
	if i == sequence.End {
		d.planEnded()
		return
	}
	r.step, r.stepAt, r.short, r.reread = i, d.boot(), false, 0
	r.heldFrom, r.heldOn = 0, false
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
	r.mode, r.pulsing = modeAct, st.Line()
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

// acted takes the end of a pulse or of a unit's job.
func (d *domain) acted(ev acted) {
	r := d.run
	if r != nil && r.seq == ev.request && r.outer != nil && r.outer.step == ev.step {
		d.outerActed(ev)
		return
	}
	if r == nil || r.seq != ev.request || r.step != ev.step || r.mode != modeAct {
		return
	}
	r.pulsing, r.job, r.jobOver = "", false, false
	r.moved = r.moved || ev.moved
	if d.pulseEnded() {
		return
	}
	d.again = true // what it led to may show no edge: POST complete stays off when a reset meets POST
	if ev.err != nil {
		if !ev.moved {
			d.press = openPress{}
		}
		d.giveUp(ev.err.Error())
		return
	}
	if d.preempt != 0 {
		r.mode = modeWait // nothing more of this launch runs: see takeOver
		return
	}
	switch st := r.current(); {
	case r.short:
		d.begin(st.ShortTo)
	case st.Unit != "" && !d.met(st.Goal):
		d.begin(r.step + 1) // the job is done; what it should lead to is not seen yet
	default:
		d.begin(st.Then)
	}
}

// met reports whether a goal is met by what was seen since the launch.
func (d *domain) met(g sequence.Goal) bool {
	return g.Met(d.run.seen, d.cfg.Options.StrictRunning)
}

// observed lets the launch see a new reading.
func (d *domain) observed(probe uint64, agreed bool) {
	r := d.run
	r.see(d.levels)
	on, known := d.powered()
	r.heldOn = r.heldOn || r.heldFrom != 0 && probe >= r.heldFrom && known && on
	switch r.mode {
	case modeCheck:
		if probe == r.reread {
			d.checked(agreed)
		}
	case modeAct:
		if st := r.current(); st.Unit != "" {
			d.watchJob(st)
			return
		}
		if !r.short && d.met(r.current().Short) && (r.heldOn || !r.current().Hold) {
			r.short = true
			d.core.emit(releaseEffect{d.cfg.ID, r.pulsing})
		}
	case modeWait:
		d.waited(probe)
	case modeUnknown:
		if d.confirmed() {
			d.succeed()
		}
	}
}

// watchJob looks whether what a unit is to lead to is seen before its job ends.
func (d *domain) watchJob(st *sequence.Step) {
	if d.met(st.Goal) {
		d.begin(st.Then)
	}
}

// confirmed reports whether every goal that is left is met.
func (d *domain) confirmed() bool {
	for i := d.run.step; i != sequence.End; i = d.run.plan.Steps[i].Then {
		if !d.met(d.run.plan.Steps[i].Goal) {
			return false
		}
	}
	return true
}

// see adds a reading to what was seen since the launch.
func (r *launch) see(l state.Levels) {
	on, known := l.Power()
	r.seen.Levels = l
	anew := l.HostActive == state.LevelOn && l.HostSince > r.since
	r.seen.HostWent = r.seen.HostWent || l.HostActive == state.LevelOff || anew
	r.seen.WentOff = r.seen.WentOff || known && (!on || l.PowerSince > r.since)
	r.unproven = r.unproven && !(known && on && !l.InReset())
	r.seen.WentReset = r.seen.WentReset || r.driven() && !r.unproven && known && on && l.InReset()
}

// asserted takes the sign that a pulse has reached its line. A force-off hold
// may meet a board that went off by itself meanwhile: it then is a press that
// starts the board, and has to go on until the board is on and cut again.
func (d *domain) asserted(signal string) {
	if r := d.run; r != nil && r.mode == modeAct && r.pulsing == signal && r.current().Hold && r.heldFrom == 0 {
		r.heldFrom = d.probe(0)
	}
}

// checked goes on with a pulse whose inputs were read again.
func (d *domain) checked(agreed bool) {
	if !agreed {
		d.run.reread = d.probe(d.core.cfg.Times.Settle)
		return
	}
	if st := d.run.current(); d.met(st.Short) {
		d.begin(st.ShortTo)
		return
	}
	d.journalStep()
}

// waited looks whether a wait has ended.
func (d *domain) waited(probe uint64) {
	st := d.run.current()
	switch {
	case d.met(st.Short):
		d.begin(st.ShortTo)
	case d.met(st.Goal):
		d.begin(st.Then)
	case d.met(st.Abort):
		d.fail(st.AbortReason)
	case d.run.reread != 0 && probe == d.run.reread:
		d.expire()
	}
}

// runOverdue does what a passed deadline calls for.
func (d *domain) runOverdue() {
	r := d.run
	if r == nil || !d.due(r.deadline) {
		return
	}
	switch r.mode {
	case modeWait:
		if r.reread == 0 && r.current().Goal != sequence.GoalTime {
			// One more look before the wait is given up: an edge may have
			// been missed.
			r.reread, r.deadline = d.probe(0), d.boot()+d.core.cfg.Times.Read
			return
		}
		d.expire()
	case modeAct:
		if r.current().Unit != "" {
			d.expire()
			return
		}
		d.giveUp(fmt.Sprintf("stuck: line %s did not answer within %s", r.pulsing, r.deadline-r.stepAt))
	case modeCheck:
		d.fail("the power inputs contradict each other or cannot be read: " + d.readText())
	case modeUnknown:
		if r.resumed {
			d.interrupt("effect not proven")
			return
		}
		d.fail("not confirmed: no " + goalTexts[r.current().Goal] + " was seen")
	}
}

var goalTexts = map[sequence.Goal]string{
	sequence.GoalPowerOn: "power good", sequence.GoalPowerOff: "power off", sequence.GoalHostRunning: "running host",
	sequence.GoalResetSeen: "reset", sequence.GoalPassage: "passage through off or reset", sequence.GoalOffSeen: "passage through off",
}

// expire ends a wait whose goal was not met in time.
func (d *domain) expire() {
	r := d.run
	st := r.current()
	switch {
	case st.Goal == sequence.GoalPowerOn && st.Raising:
		d.tell(NoticeNoPowerGood)
	case st.Goal == sequence.GoalSIOGood:
		d.tell(NoticeNoSIOGood)
	}
	switch st.OnTimeout {
	case sequence.TimeoutNext:
		if r.withdraws() {
			d.press = openPress{}
			d.giveUp(st.Reason)
			return
		}
		d.begin(st.Else)
	case sequence.TimeoutFail:
		d.press = openPress{} // the sequence's own watchdog settles the press
		d.fail(st.Reason)
	case sequence.TimeoutUnknown:
		if err := d.q.Unknown(r.seq); err != nil {
			panic(fmt.Sprintf("engine: unknown %d: %v", r.seq, err))
		}
		d.journalStatus(r.seq)
		d.touch(r.seq)
		r.mode, r.deadline = modeUnknown, d.boot()+d.cfg.Timings.ReconcileTimeout
		d.probe(0)
	}
}

// withdraws reports whether the plan takes back what it has set if the present
// step fails.
func (r *launch) withdraws() bool {
	st := r.current()
	return st.OnTimeout == sequence.TimeoutNext && st.Else != sequence.End && r.plan.Steps[st.Else].Withdraws
}

// giveUp ends a launch whose step failed, after what it has set is taken back.
// One output that cannot be taken back does not keep the others.
func (d *domain) giveUp(reason string) {
	r := d.run
	switch {
	case r.withdraws() && d.preempt == 0:
		r.failing, r.pulsing = reason, ""
		d.begin(r.current().Else)
	case r.current().Withdraws && d.preempt == 0:
		r.failing, r.pulsing = r.failing+"; "+reason, ""
		d.begin(r.current().Then)
	default:
		d.fail(reason)
	}
}

// planEnded ends the launch whose plan is through.
func (d *domain) planEnded() {
	if d.run.failing != "" {
		d.fail(d.run.failing)
		return
	}
	d.succeed()
}

// succeed ends the launch with success.
func (d *domain) succeed() {
	r := d.run
	switch {
	case r.outer != nil:
		d.driven("")
		return
	case d.jobsGoOn():
		if r.mode != modeWait {
			r.mode, r.deadline = modeWait, d.boot()+d.cfg.Timings.JobTimeout
		}
		return
	}
	on, known := d.powered()
	if r.verdict == state.VerdictReset && !(known && on) {
		d.fail("power good was lost at the reset")
		return
	}
	reason := ""
	switch {
	case d.cfg.Targets != nil && !d.cfg.Options.Lines: // units show what they have done, and power that never came up has a job that ended
	case r.verdict == state.VerdictReset && !d.levels.ResetVisible():
		reason = "reset not observable"
	case r.verdict.Cuts() && !r.moved:
		reason = "power did not come up"
	}
	d.press = openPress{}
	d.end(state.Success, reason)
}

// fail ends the launch without success. What it did not begin is given back: no
// line moved, and no job was queued or may have been.
func (d *domain) fail(reason string) {
	if d.run.outer != nil {
		d.driven(reason)
		return
	}
	if f := d.run.fault; f != "" && f != reason {
		reason = f + "; " + reason
	}
	if !d.run.moved && d.run.pulsing == "" && !d.run.job {
		d.refundAttempt()
	}
	d.values.causes = 0 // what comes now has a cause of its own
	d.bootFailed(d.run)
	d.end(state.Failed, reason)
}

func (d *domain) end(status state.Status, reason string) {
	seq := d.run.seq
	d.finish(seq, status, reason)
	if status == state.Success {
		d.run.job, d.run.started = false, false // what is left of it does no harm
	}
	d.abandon()
}

// abandon frees the executor. A pulse that is still asserted ends by itself;
// jobs that go on are cancelled, and helpers that wait are stopped.
func (d *domain) abandon() {
	r := d.run
	d.touch(r.seq)
	if r.outer != nil {
		d.answerDrives(r.outer.on(r), "the operation that it belongs to has ended")
	}
	if r.job || r.started {
		d.core.emit(abandonEffect{d.cfg.ID, r.seq})
	}
	if !r.op.Raising() {
		d.others.guardUntil = d.boot() + d.core.cfg.Times.OffGuard
	}
	d.run, d.barrierAt = nil, 0
	d.afterRun(r)
}
