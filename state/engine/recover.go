package engine

import (
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// recovered is a request that an earlier run of the daemon launched and did not
// end. It is settled once the power state is known (DESIGN.md §3.5).
type recovered struct {
	history.Record
	sameBoot bool
	deadline time.Duration // when the power state is given up
}

// Recover takes what the journal holds. Call it once, before the first Step.
// It returns what could not be taken, for the log.
func (c *Core) Recover(now state.Instant, p *history.Picture, bootID string) []error {
	c.now = now
	var problems []error
	for _, d := range c.domains {
		d.lostAt = now.Boot
		if text, ok := p.Note(d.cfg.ID, savedNote); ok {
			if err := d.values.restore(text); err != nil {
				problems = append(problems, d.setAside(text, err, bootID, p))
			}
		} else if d.cfg.Legacy != nil {
			d.inherit(d.cfg.Legacy())
		}
		d.bootSeen(bootID)
		n := p.Counters[d.cfg.ID]
		d.counted = n
		defer d.q.SetCounters(queue.Counters(n))
	}
	c.readParts(p)
	for i := range p.Requests {
		r := &p.Requests[i]
		age := p.Age(r, bootID, now.Boot)
		if r.Domain == bmcDomain {
			c.bmc.recover(r, bootID, age)
			continue
		}
		if d := c.find(r.Domain); d != nil {
			d.recover(r, r.Boot == bootID, age)
		} else if !r.Status.Final() {
			problems = append(problems, fmt.Errorf("request %d (%s) is of domain %d, which is not configured any more", r.Seq, r.Op, r.Domain))
		}
	}
	c.resumeSystem()
	return problems
}

func (c *Core) find(id int) *domain {
	for _, d := range c.domains {
		if d.cfg.ID == id {
			return d
		}
	}
	return nil
}

func (d *domain) recover(r *history.Record, sameBoot bool, age time.Duration) {
	extra := queue.Restored{Age: age, Aside: d.core.aggregate(r.Object)}
	if p := d.core.leftParent(r.Seq); p != nil && p.seq != r.Seq && isPart(&r.Request) {
		extra.Parent = p.seq
	}
	d.q.Restore(d.now(), r.Request, extra)
	if d.recoverSystem(r, sameBoot) {
		return
	}
	if r.Launched && r.Status.Final() {
		d.keepObject(r.Seq)
	}
	switch {
	case r.Status.Final():
		return
	}
	d.wished(r.Op)
	if !sameBoot && r.Launched && !r.Op.Raising() {
		d.values.saved.WasOn = false // what was being switched off is not lost
	}
	switch {
	case r.Status == state.Pending && !sameBoot:
		d.finish(r.Seq, state.Expired, "BMC restarted")
	case r.Status == state.Pending && r.Key.Client == FaultsClient:
		d.finish(r.Seq, state.Cancelled, "the daemon restarted: the fault monitor decides anew")
	case r.Status == state.Pending:
		d.touch(r.Seq)
	default:
		d.touch(r.Seq)
		d.q.Contrary(r.Seq) // what was seen before the restart is not known
		d.recovered = append(d.recovered, recovered{*r, sameBoot, d.boot() + d.core.cfg.Times.Known})
	}
}

// keepObject shows a finished launch again, as far as it is among the newest.
func (d *domain) keepObject(seq uint64) {
	req, _ := d.q.Get(seq)
	d.live[seq] = req
	d.restored = append(d.restored, seq)
	if len(d.restored) > finishedObjects {
		delete(d.live, d.restored[0])
		d.restored = d.restored[1:]
	}
}

// settleRecovered ends or resumes what an earlier run left running.
func (d *domain) settleRecovered() {
	if len(d.recovered) == 0 {
		return
	}
	_, known := d.powered()
	list := d.recovered
	d.recovered = nil
	for _, r := range list {
		switch {
		case !known && d.cfg.Driven && !d.due(r.deadline):
			d.recovered = append(d.recovered, r)
		case !known:
			d.finish(r.Seq, state.Interrupted, "the power state is not known: "+d.readText())
		case !r.sameBoot || d.run != nil:
			d.settleObserved(r)
		default:
			d.resume(r)
		}
	}
	if d.run != nil && len(d.recovered) == 0 {
		d.offResumes()
	}
}

// laterOff reports whether a power off was accepted after a request. The
// request's waits go on then, but it drives no line any more.
func (d *domain) laterOff(seq uint64) bool {
	return d.anyAfter(seq, func(req *state.Request) bool { return req.Op == state.ChassisOff || req.Op == state.HostOff })
}

// offResumes lets a Chassis Off that was accepted before the run was resumed
// take it over, as it would have on arrival.
func (d *domain) offResumes() {
	d.anyAfter(d.run.seq, func(req *state.Request) bool {
		if req.Status != state.Pending || req.Op.Class() != state.Emergency || d.undurable[req.Seq] || d.core.aggregate(req.Object) {
			return false
		}
		d.emergency(*req)
		return true
	})
}

// anyAfter reports whether is holds for a request that is newer than seq, and
// stops at the first.
func (d *domain) anyAfter(seq uint64, is func(*state.Request) bool) bool {
	for {
		page := d.q.Page(seq, 64)
		for i := range page {
			if is(&page[i]) {
				return true
			}
		}
		if len(page) == 0 {
			return false
		}
		seq = page[len(page)-1].Seq
	}
}

// settleObserved ends a record by what is observed now, without continuing it.
func (d *domain) settleObserved(r recovered) {
	if d.proven(r) {
		d.finish(r.Seq, state.Success, "")
		return
	}
	d.finish(r.Seq, state.Interrupted, "effect not proven")
}

// proven reports whether what is observed proves that the record's target was
// reached by a change after its start. The verdict says what was seen at the
// start; a passage needs a step that only comes after it.
func (d *domain) proven(r recovered) bool {
	on, _ := d.powered()
	switch r.Verdict {
	case state.VerdictPowerOn:
		return on && (r.Op.Kind() == state.KindChassis || d.running())
	case state.VerdictGracefulOff, state.VerdictPowerOff, state.VerdictCutPower:
		return !on
	case state.VerdictTakeBack:
		return !on && d.levels.Applied == state.LevelOff
	case state.VerdictStartHost:
		return d.running()
	case state.VerdictSlotOn:
		return d.levels.Slot == state.LevelOn
	case state.VerdictSlotOff:
		return d.levels.Slot == state.LevelOff && !on
	case state.VerdictSlotCycle:
		st, _, ok := d.stepOf(r)
		return ok && st.AfterPassage && d.levels.Slot == state.LevelOn
	default:
		st, _, ok := d.stepOf(r)
		return ok && st.AfterPassage && on && (r.Op.Kind() == state.KindChassis || d.running())
	}
}

// stepOf finds the record's newest step in the plan that is built today. It is
// not found where the configuration changed so much that it has no such step.
func (d *domain) stepOf(r recovered) (sequence.Step, sequence.Plan, bool) {
	if r.Steps == 0 || !r.Verdict.Launches() {
		return sequence.Step{}, sequence.Plan{}, false
	}
	for _, powerUp := range []bool{false, true} {
		plan := d.plan(r.Verdict, r.Op, powerUp)
		if r.Key.Client == ForeignClient {
			plan = sequence.BuildAdopted(r.Verdict, r.Op, d.cfg.Timings, d.options())
		}
		i := int(r.Step.Index)
		if i < len(plan.Steps) && plan.Steps[i].Name == r.Step.Name {
			return plan.Steps[i], plan, true
		}
	}
	return sequence.Step{}, sequence.Plan{}, false
}

// resume goes on with a record of this boot. A step that was journalled may
// have run and is not run again; only a force-off hold that finds power still
// on is repeated (DESIGN.md P3).
func (d *domain) resume(r recovered) {
	st, plan, ok := d.stepOf(r)
	if !ok {
		d.settleObserved(r)
		return
	}
	i := int(r.Step.Index)
	on, _ := d.powered()
	d.run = &launch{
		seq: r.Seq, op: r.Op, object: r.Object, verdict: r.Verdict, plan: plan,
		step: i, stepAt: r.StepAt.Boot, moved: true, resumed: true, unproven: st.Pulse != "", waitsOnly: d.laterOff(r.Seq),
		seen: sequence.Seen{Levels: d.levels, WentReset: st.AfterPassage}, since: r.Started.Boot, heldOn: st.Waits() || on,
		started: st.Unit != "" || d.cfg.Targets != nil, adopted: r.Key.Client == ForeignClient,
	}
	d.run.see(d.levels)
	d.core.notice(NoticeLaunched, d.cfg.ID, d.q, r.Seq)
	switch part := plan.Part(i); {
	case part != 0:
		d.resumeLines(part, st)
	case r.Status == state.Unknown:
		d.run.mode, d.run.deadline = modeUnknown, d.boot()+d.cfg.Timings.ReconcileTimeout
		d.observed(0, true)
	case st.Unit != "":
		// The job may have ended while nobody listened.
		d.resumeWait(i+1, r.StepAt.Boot+st.Within)
	case st.Waits():
		d.resumeWait(i, r.Step.Deadline)
	case st.Hold:
		d.resumeHold(i)
	case st.Then == sequence.End:
		d.interrupt("reset not observable")
	case !plan.Steps[st.Then].Waits():
		// A sequence of several actions: the next one never ran, and begin
		// decides whether it may.
		d.begin(st.Then)
	default:
		// The pulse may have run: what it should have led to is waited for,
		// as long as it would have been.
		d.resumeWait(st.Then, r.StepAt.Boot+st.Width+plan.Steps[st.Then].Within)
	}
}

// resumeHold goes on with a force-off hold. One that a death has cut short may
// have met a board that was off, and has started it: that is seen before anything
// counts as off.
func (d *domain) resumeHold(i int) {
	r := d.run
	if on, _ := d.powered(); !on && r.plan.Steps[i].Pulse != "" {
		if r.verdict == state.VerdictPowerOff || r.verdict == state.VerdictCutPower {
			r.plan, i = d.plan(r.verdict, r.op, true), 0
		}
		if see := r.plan.Steps[r.plan.Steps[i].Then].Doubt; see != 0 {
			i = see
		}
		d.press = openPress{until: d.boot() + d.cfg.Timings.ConfirmTimeout, raising: true, at: d.boot()}
	}
	d.begin(i)
}

// resumeWait goes on with a wait for what is left of its deadline.
func (d *domain) resumeWait(i int, deadline time.Duration) {
	d.run.step, d.run.mode, d.run.deadline = i, modeWait, deadline
	if d.run.current().Goal == sequence.GoalTime && !d.core.cfg.ResumeCycle {
		d.interrupt("the daemon restarted between off and on, and resumeCycle is off")
		return
	}
	if why := d.run.barred(); why != "" {
		d.interrupt(why)
		return
	}
	d.core.record(d, d.stepEntry())
	d.waited(0)
}

// barred returns why the present step may not run, as it would drive a line or
// stands before one that would; "" if it may. Of what a restart interrupted only
// the power-on of a cycle goes on to steps that apply power (DESIGN.md §3.5), and
// lines that a unit asks for which have not been driven yet.
func (r *launch) barred() string {
	st := r.current()
	switch {
	case r.waitsOnly && (!st.Waits() || st.AfterOff):
		return "a later power off was accepted while the daemon was down"
	case r.resumed && st.Raising && !st.AfterOff && st.Line() != "" && (r.outer == nil || !r.outer.fresh):
		return "the daemon restarted in the middle of the power-on sequence"
	default:
		return ""
	}
}

func (d *domain) interrupt(reason string) { d.end(state.Interrupted, reason) }
