package sequence

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

// Targets are the systemd units of one domain's transitions
// (openbmc-state-manager.md §2.3, §2.4).
type Targets struct {
	_ state.Incomparable

	HostOn, HostOff, HostReboot, GracefulWarmReboot, ForceWarmReboot string
	ChassisOn, ChassisOff, HardOff, PowerCycle                       string
}

// BuildTargets returns the plan for a verdict where systemd targets do the
// work: one unit is started, and what its services lead to is waited for. A job
// that ends without "done" ends the request; what is seen ends it with success,
// whether the job has ended or not. With o.Lines the jobs' own end is waited
// for, because units may come behind the lines, and the plan has two more parts:
// what the units on the way have us drive.
func BuildTargets(v state.Verdict, op state.Operation, u Targets, t Timings, o Options) Plan {
	b := builder{t: t, o: o, chassis: op.Kind() == state.KindChassis}
	switch v {
	case state.VerdictPowerOn, state.VerdictStartHost:
		b.unitOn(u)
	case state.VerdictGracefulOff:
		if o.Lines { // the OS is asked by the lines, which force it where that is wanted
			b.unit(u.HostOff, ShowStopping, GoalPowerOff)
			b.steps[0].Graceful, b.steps[1].Graceful = true, true
		} else {
			b.unitGracefulOff(u)
		}
	case state.VerdictPowerOff:
		b.unitOff(u.ChassisOff)
	case state.VerdictCutPower:
		b.unitOff(u.HardOff)
	case state.VerdictReboot:
		b.unitCycle(u.HostReboot, GoalPassage)
	case state.VerdictPowerCycle:
		b.unitCycle(cycleUnit(op, u), GoalOffSeen)
	case state.VerdictGracefulWarm:
		b.unitCycle(u.GracefulWarmReboot, GoalPassage)
	case state.VerdictReset:
		b.unitCycle(u.ForceWarmReboot, GoalPassage)
	default:
		panic(fmt.Sprintf("sequence: no targets for verdict %q", v))
	}
	b.finish()
	return b.withLines(v, op)
}

func cycleUnit(op state.Operation, u Targets) string {
	if op == state.ChassisPowerCycle {
		return u.PowerCycle
	}
	return u.HostReboot
}

const replace = "replace"

// unit adds the start of a unit and the wait for what it leads to.
func (b *builder) unit(name string, show Show, goal Goal) {
	b.start(name, show, goal)
	b.add(Step{Name: "wait for " + name, Goal: goal, Within: b.t.ConfirmTimeout, OnTimeout: TimeoutUnknown, Show: show})
}

// start adds the start of a unit, which its goal ends early.
func (b *builder) start(name string, show Show, goal Goal) {
	if b.o.Lines {
		goal = GoalNone
	}
	b.add(Step{Name: "start " + name, Unit: name, Mode: replace, Goal: goal, Within: b.t.JobTimeout,
		OnTimeout: TimeoutFail, Reason: fmt.Sprintf("the job of %s did not end within jobTimeout (%s)", name, b.t.JobTimeout),
		Show: show, Then: b.next() + 1})
}

func (b *builder) unitOn(u Targets) {
	if b.chassis {
		b.unit(u.ChassisOn, ShowSupplying, GoalPowerOn)
		return
	}
	b.unit(u.HostOn, ShowPowering, GoalHostRunning)
}

func (b *builder) unitOff(name string) { b.unit(name, ShowCutting, GoalPowerOff) }

func (b *builder) unitGracefulOff(u Targets) {
	ask := Step{Name: "start " + u.HostOff, Unit: u.HostOff, Mode: replace, Goal: GoalPowerOff, Within: b.t.GracefulTimeout,
		OnTimeout: TimeoutFail, Reason: fmt.Sprintf("the OS did not power off within gracefulTimeout (%s)", b.t.GracefulTimeout),
		Show: ShowStopping, Graceful: true, Then: 4}
	wait := Step{Name: "wait for " + u.HostOff, Goal: GoalPowerOff, Within: b.t.ConfirmTimeout, OnTimeout: TimeoutUnknown,
		Show: ShowStopping, Graceful: true, Then: 4}
	if b.o.ForceAfterGraceful {
		ask.OnTimeout, ask.Else = TimeoutNext, 2
	}
	b.add(ask)
	b.add(wait)
	if b.o.ForceAfterGraceful {
		b.unitOff(u.HardOff)
	}
}

// unitCycle waits for the passage first: the host, or the power, seen off, then
// running. The host's unit leaves long before the power does, or has left
// already: that proves no power cycle.
func (b *builder) unitCycle(name string, passage Goal) {
	goal, down, up := GoalHostRunning, ShowStopping, ShowStarting
	if b.chassis {
		goal, down, up = GoalPowerOn, ShowCutting, ShowSupplying
	}
	b.start(name, down, passage)
	b.add(Step{Name: "wait for the passage of " + name, Goal: passage, Within: b.t.ConfirmTimeout,
		OnTimeout: TimeoutUnknown, Show: down})
	b.add(Step{Name: "wait for " + name, Goal: goal, Within: b.t.ConfirmTimeout, OnTimeout: TimeoutUnknown,
		Show: up, AfterPassage: true})
}

// BuildAdopted returns the plan of an operation that somebody else's job does:
// nothing but waits, each of which ends the request when its time is over.
func BuildAdopted(v state.Verdict, op state.Operation, t Timings, o Options) Plan {
	b := builder{t: t, o: o}
	reason := fmt.Sprintf("a job that somebody else queued led to nothing within jobTimeout (%s)", t.JobTimeout)
	wait := func(name string, goal Goal, show Show) {
		b.add(Step{Name: "adopted: wait for " + name, Goal: goal, Within: t.JobTimeout, OnTimeout: TimeoutFail,
			Reason: reason, Show: show, Graceful: op == state.HostOff})
	}
	on, passage, up, name := GoalHostRunning, GoalPassage, ShowPowering, "the host"
	if op.Kind() == state.KindChassis {
		on, passage, up, name = GoalPowerOn, GoalOffSeen, ShowSupplying, "power good"
	}
	switch {
	case !op.Raising():
		wait("power off", GoalPowerOff, ShowStopping)
	case op.Passes():
		wait("the passage", passage, ShowStopping)
		wait(name, on, up)
		b.steps[1].AfterPassage = true
	default:
		wait(name, on, up)
	}
	b.finish()
	return b.withLines(v, op)
}

// withLines ends the plan. Where units have us drive the lines, that comes
// behind the plan proper: first the way to off, then the way to on.
func (b *builder) withLines(v state.Verdict, op state.Operation) Plan {
	p := Plan{Verdict: v}
	if b.o.Lines {
		p.Off = len(b.steps)
		b.linesOff(v)
		p.On = len(b.steps)
		b.chassis = true // power good is enough
		b.powerOn()
		b.finishFrom(p.On)
		for i := p.On; i < len(b.steps) && op.Passes(); i++ {
			st := &b.steps[i]
			st.AfterPassage, st.AfterOff = !st.Withdraws, st.Show == ShowPowering
		}
	}
	p.Steps = b.steps
	return p
}

// linesOff adds the way to off. Its first step is skipped unless a press for on
// is still open.
func (b *builder) linesOff(v state.Verdict) {
	off := len(b.steps)
	b.awaitPowerUp()
	switch {
	case !asksOS[v]:
		b.cutPower(v == state.VerdictPowerCycle)
	case v == state.VerdictGracefulOff:
		b.gracefulOff(v)
	default: // an OS that restarts instead has not powered off
		b.gracefulOff(state.VerdictReboot)
	}
	b.finishFrom(off)
	if ask := &b.steps[off+1]; ask.Asks() {
		b.steps[off].Else = ask.ShortTo // nothing is on: nobody is asked, and nothing is cut
	}
}

// asksOS are the verdicts whose way to off leads through the operating system.
var asksOS = [256]bool{state.VerdictGracefulOff: true, state.VerdictReboot: true, state.VerdictGracefulWarm: true}

// Part says which part of a plan a step belongs to: 0 for the plan proper,
// [Plan.Off] or [Plan.On].
func (p *Plan) Part(step int) int {
	switch {
	case p.On != 0 && step >= p.On:
		return p.On
	case p.Off != 0 && step >= p.Off:
		return p.Off
	default:
		return 0
	}
}

// After is the step of the plan proper that a part of the lines, once driven,
// leads to: what the part was for is waited for there.
func (p *Plan) After(part int) int {
	if part == p.On {
		return p.Off - 1
	}
	for i := range p.Steps[:p.Off] {
		if p.Steps[i].Waits() {
			return i
		}
	}
	return p.Off - 1
}
