package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// TestLinesRandomly plays random histories of people, systemd, foreign hands and
// restarts against a domain whose targets have its lines driven. Whatever happens:
// lines are driven only for the launch that runs, and in its direction; no press
// is repeated in one launch (DESIGN.md P3); every call is answered and every
// request ends (P4).
func TestLinesRandomly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := linesRig(t)
		r.fail = rt
		r.plant.powerGood = time.Duration(rapid.SampledFrom([]int{0, 300, 3000}).Draw(rt, "powerGood")) * time.Millisecond
		r.plant.guest = time.Duration(rapid.SampledFrom([]int{0, 2000}).Draw(rt, "guest")) * time.Millisecond
		if rapid.Bool().Draw(rt, "on") {
			r.power(true)
			r.pass(time.Minute)
		}
		m := &linesModel{r: r, rt: rt, pressed: map[string]int{}}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			m.act()
			m.check()
		}
		m.settle()
	})
}

type linesModel struct {
	r       *rig
	rt      *rapid.T
	calls   []*reply
	writes  []*reply
	seen    int // pulses looked at
	ended   int // starts whose job has ended
	jobs    []Foreign
	nextJob uint32
	pressed map[string]int // short presses by launch and step
}

func (m *linesModel) act() {
	r, rt := m.r, m.rt
	switch rapid.IntRange(0, 7).Draw(rt, "what") {
	case 0, 1:
		op := rapid.SampledFrom([]state.Operation{state.HostOn, state.HostOff, state.HostReboot, state.HostForceWarmReboot,
			state.ChassisOn, state.ChassisOff, state.ChassisPowerCycle}).Draw(rt, "op")
		m.writes = append(m.writes, r.write(op))
	case 2, 3:
		m.calls = append(m.calls, r.driveAs(0, rapid.Bool().Draw(rt, "direction")))
	case 4:
		m.endJob(rapid.Bool().Draw(rt, "well"))
	case 5:
		m.foreign()
	case 6:
		if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
			r.restart(true)
			m.calls, m.writes = nil, nil // their daemon has gone
			m.ended = len(r.starts())
		}
	}
	r.pass(time.Duration(rapid.SampledFrom([]int{0, 30, 300, 5000, 40_000}).Draw(rt, "pass")) * time.Millisecond)
}

// endJob ends the job of the unit that was started last.
func (m *linesModel) endJob(well bool) {
	all := m.r.starts()
	if len(all) == m.ended {
		return
	}
	m.ended = len(all)
	s := all[len(all)-1]
	m.r.step(jobOver{s.domain, s.request, s.step})
	var err error
	if !well {
		err = errors.New("failed")
	}
	m.r.jobEnds(true, err)
}

// foreign queues a job of somebody else, or ends one.
func (m *linesModel) foreign() {
	if len(m.jobs) > 0 && rapid.Bool().Draw(m.rt, "end") {
		f := m.jobs[0]
		m.jobs = m.jobs[1:]
		f.Ended, f.Result = true, rapid.SampledFrom([]string{jobDone, "failed", "canceled"}).Draw(m.rt, "result")
		m.r.step(f)
		return
	}
	m.nextJob++
	op := rapid.SampledFrom([]state.Operation{state.ChassisOn, state.ChassisOff, state.HostOn, state.HostReboot}).Draw(m.rt, "foreign")
	f := Foreign{Job: m.nextJob, Unit: op.String(), Op: op, Rank: 4}
	m.jobs = append(m.jobs, f)
	m.r.step(f)
}

// check looks at what was pulsed since the last time.
func (m *linesModel) check() {
	d := m.r.core.domains[0]
	for _, p := range m.r.pulses[m.seen:] {
		req, ok := d.q.Get(p.step.request)
		require.True(m.rt, ok)
		on := !p.hold() && p.signal == sequence.PowerOut && p.raises(d, req)
		require.False(m.rt, on && !req.Op.Raising(), "%s of request %d applied power", req.Op, req.Seq)
		if !p.hold() {
			key := fmt.Sprintf("%d/%d", p.step.request, p.step.step)
			m.pressed[key]++
			require.LessOrEqual(m.rt, m.pressed[key], 1, "%s pressed again", key)
		}
	}
	m.seen = len(m.r.pulses)
}

func (p *pulsed) hold() bool { return p.step.width > time.Second }

// raises reports whether a press was one for on: a step of that part of the plan.
func (p *pulsed) raises(d *domain, req state.Request) bool {
	plans := []sequence.Plan{sequence.BuildAdopted(adoptedVerdicts[req.Op], req.Op, d.cfg.Timings, d.options())}
	if d.run != nil && d.run.seq == req.Seq {
		plans = []sequence.Plan{d.run.plan}
	}
	return slices.ContainsFunc(plans, func(plan sequence.Plan) bool {
		return p.step.step < len(plan.Steps) && plan.Steps[p.step.step].Raising && plan.Steps[p.step.step].Line() != ""
	})
}

// settle lets everything end.
func (m *linesModel) settle() {
	for _, f := range m.jobs {
		f.Ended, f.Result = true, "canceled"
		m.r.step(f)
	}
	for range 40 {
		m.endJob(false)
		m.r.pass(time.Minute)
		m.check()
	}
	for i, c := range append(m.calls, m.writes...) {
		require.True(m.rt, c.got, "call %d of %d is not answered", i, len(m.calls))
	}
	require.Empty(m.rt, m.r.core.domains[0].drives)
	require.Empty(m.rt, m.r.core.domains[0].q.Unfinished())
}
