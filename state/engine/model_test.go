package engine

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// sequences is how many random histories the model test runs; under the race
// detector only some, as one goroutine has no races.
const (
	sequences     = "10000"
	raceSequences = "200"
)

func TestMain(m *testing.M) {
	flag.Parse()
	checks := sequences
	if statetest.Race {
		checks = raceSequences
	}
	if !isSet("rapid.checks") {
		_ = flag.Set("rapid.checks", checks)
	}
	os.Exit(m.Run())
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// model is a small reference for what DESIGN.md promises about requests. It
// keeps its own list of them, made only of what callers were told and what the
// bus showed, and says beforehand what each delivery must be answered. It knows
// nothing of steps, plans or the journal.
type model struct {
	t     *rapid.T
	r     *rig
	limit int
	known map[string]*asked // by key
	all   []*asked          // in the order of acceptance
	seen  int               // publications looked at
}

// asked is a request as its callers know it.
type asked struct {
	key      string
	op       state.Operation
	seq      uint64
	status   state.Status
	contrary bool // a contrary event was seen since it ran
	started  time.Duration
	off      int // length of the journal at its delivery, for a Chassis Off
}

func (a *asked) unfinished() bool { return !a.status.Final() }

// look takes what the bus showed since the last time.
func (m *model) look() {
	for _, s := range m.r.signals[m.seen:] {
		for _, a := range m.all {
			if a.seq != s.Seq {
				continue
			}
			require.False(m.t, a.status.Final() && s.Status != a.status, "final %s of %d became %s", a.status, a.seq, s.Status)
			a.status, a.started = s.Status, s.Started.Boot
		}
	}
	m.seen = len(m.r.signals)
	for _, a := range m.all { // those that are no objects are looked up
		if req, ok := m.r.core.domains[0].q.Get(a.seq); ok {
			require.False(m.t, a.status.Final() && req.Status != a.status, "final %s of %d became %s", a.status, a.seq, req.Status)
			a.status, a.started = req.Status, req.Started.Boot
		}
		m.lookContrary(a)
	}
}

// restart crashes the daemon. What it had seen since a launch is lost, so
// nothing joins a request that ran.
func (m *model) restart(sameBoot bool) {
	m.look()
	for _, a := range m.all {
		a.contrary = a.contrary || a.status == state.Running || a.status == state.Unknown
	}
	if !sameBoot {
		m.r.away(5 * time.Second) // a BMC takes longer to boot than what was pressed before takes to show
	}
	m.r.crash(sameBoot)
}

// lookContrary notes that power moved against a running request that does not
// pass through off by itself.
func (m *model) lookContrary(a *asked) {
	if a.status != state.Running || a.op.Passes() {
		return
	}
	for _, e := range m.r.edges {
		a.contrary = a.contrary || e.at > a.started && e.on != a.op.Raising()
	}
}

// newest returns the newest unfinished request.
func (m *model) newest() *asked {
	for _, a := range slices.Backward(m.all) {
		if a.unfinished() {
			return a
		}
	}
	return nil
}

func (m *model) waiting() (n int) {
	for _, a := range m.all {
		if a.status == state.Pending {
			n++
		}
	}
	return n
}

// expect is the model's word on a delivery.
type expect struct {
	joins *asked
	code  Code
}

func (m *model) expectWrite(op state.Operation) expect {
	if n := m.newest(); n != nil && n.op == op && (n.status == state.Pending || n.status == state.Running && !n.contrary) {
		return expect{joins: n}
	}
	return m.expectRoom(op)
}

func (m *model) expectSubmit(key string, op state.Operation) expect {
	if a := m.known[key]; a != nil {
		if a.op != op {
			return expect{code: CodeIDConflict}
		}
		return expect{joins: a}
	}
	return m.expectRoom(op)
}

func (m *model) expectRoom(op state.Operation) expect {
	if op != state.ChassisOff && m.waiting() >= m.limit {
		return expect{code: CodeFull}
	}
	return expect{}
}

var operations = []state.Operation{
	state.HostOn, state.HostOff, state.HostReboot, state.HostGracefulWarmReboot, state.HostForceWarmReboot,
	state.ChassisOn, state.ChassisOff, state.ChassisPowerCycle,
}

// deliver sends a request and compares the answer with the model's word.
func (m *model) deliver(key string, op state.Operation, send func() *reply) {
	m.look()
	want := m.expectSubmit(key, op)
	if key == "" {
		want = m.expectWrite(op)
	}
	journalled := len(m.r.journal)
	p := send()
	fresh := m.accepted(journalled)
	barred := m.r.core.domains[0].barrier != 0
	switch {
	case want.joins != nil:
		require.Nil(m.t, fresh, "a repeat of %s made a request", op)
		if p.got && p.answer.Err == nil {
			require.Equal(m.t, want.joins.seq, p.answer.Seq)
			require.True(m.t, p.answer.Repeated)
		}
	case want.code == CodeIDConflict, want.code != 0 && !(barred && op.Raising()):
		require.Nil(m.t, fresh)
		require.True(m.t, p.got && p.answer.Err != nil, "%s must be refused", op)
		require.Equal(m.t, want.code, p.answer.Err.Code)
	case fresh == nil:
		require.True(m.t, barred && op.Raising(), "%s was neither accepted nor refused", op)
	default:
		a := &asked{key: key, op: op, seq: fresh.Request, status: state.Pending}
		m.all = append(m.all, a)
		if key != "" {
			m.known[key] = a
		}
	}
	m.settleAnswers(p, key)
}

// settleAnswers lets a request that the disk refused be forgotten.
func (m *model) settleAnswers(p *reply, key string) {
	if !p.got || p.answer.Err == nil || p.answer.Err.Code != CodeUnavailable {
		return
	}
	gone := func(a *asked) bool {
		_, ok := m.r.core.domains[0].q.Get(a.seq)
		return !ok
	}
	if a := m.known[key]; key != "" && a != nil && gone(a) {
		delete(m.known, key)
	}
	m.all = slices.DeleteFunc(m.all, gone)
}

func (m *model) accepted(from int) *history.Entry {
	for i := from; i < len(m.r.journal); i++ {
		if m.r.journal[i].Kind == history.KindAccepted {
			return &m.r.journal[i]
		}
	}
	return nil
}

// check holds after every action.
func (m *model) check() {
	m.look()
	running := 0
	for _, a := range m.all {
		if a.status == state.Running || a.status == state.Unknown {
			running++
		}
	}
	require.LessOrEqual(m.t, running, 1, "P1: one at a time")
	m.checkStarts()
	started := map[uint64]int{}
	steps := map[string]int{}
	for _, e := range m.r.durable { // a launch that the journal refused is written again
		if e.Kind == history.KindStarted {
			started[e.Request]++
		}
	}
	for _, e := range m.r.journal {
		if e.Kind == history.KindStep && e.Step.Deadline == 0 { // a wait moves nothing, and goes on after a crash
			steps[fmt.Sprint(e.Request, " ", e.Step.Name)]++
		}
	}
	for seq, n := range started {
		require.LessOrEqual(m.t, n, 1, "P3: request %d was launched %d times", seq, n)
	}
	for step, n := range steps {
		if !isHold(step) {
			require.LessOrEqual(m.t, n, 1, "P3: step %q ran %d times", step, n)
		}
	}
}

// checkStarts holds at any time: no power off that has ended well has started the
// host with its own press.
func (m *model) checkStarts() {
	for _, a := range m.all {
		graceful := a.op == state.HostOff || a.op == state.ChassisOff
		require.False(m.t, graceful && a.status == state.Success && m.r.upBy == a.seq, "%s %d ended SUCCESS, and its press has started the host", a.op, a.seq)
	}
}

func isHold(step string) bool {
	for _, w := range []string{"force off", "wait", "dwell", "back", "pause", "delay"} {
		if len(step) > 0 && containsWord(step, w) {
			return true
		}
	}
	return false
}

func containsWord(s, w string) bool {
	for i := 0; i+len(w) <= len(s); i++ {
		if s[i:i+len(w)] == w {
			return true
		}
	}
	return false
}

// checkOff holds after a Chassis Off on a powered board: nothing that was
// accepted before it raises power any more. One that was withdrawn while it
// waited for the end of a pulse took nothing over.
func (m *model) checkOff(off *asked) {
	if off.status == state.Cancelled {
		return
	}
	for _, e := range m.r.journal[off.off:] {
		if e.Kind == history.KindStep && e.Request < off.seq && (e.Step.Name == "press power" || strings.HasPrefix(e.Step.Name, "set ")) {
			require.Fail(m.t, "an older request applied power after a Chassis Off", "request %d, off %d", e.Request, off.seq)
		}
	}
}

// TestModel runs random histories: submits, writes, repeats, conflicts,
// cancels, forced and emergency operations, buttons, power loss, time, crashes,
// boots and disk errors.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const limit = 4
		kind := rapid.IntRange(0, 5).Draw(rt, "board")
		level := kind == 0 // power is held on by a level
		r := newRig(t, func(c *Config) {
			c.Domains[0].Options.PowerLevel = level
			if kind == 1 {
				c.Domains[0].Options.PowerOn = []sequence.Action{
					{Kind: sequence.ActionSet, Signal: "RailEn", On: true}, {Kind: sequence.ActionDelay, Time: 100 * time.Millisecond},
					{Kind: sequence.ActionPulse, Signal: out, Time: 200 * time.Millisecond},
				}
			}
			c.Domains[0].Queue = queue.Config{DepthLimit: limit, Share: queue.Unlimited, ConnShare: queue.Unlimited, PendingTTL: time.Hour}
		})
		r.fail = rt
		m := &model{t: rt, r: r, limit: limit, known: map[string]*asked{}}
		if level {
			r.levels.PowerOut = state.LevelOff
		}
		r.pass(time.Second)
		if rapid.Bool().Draw(rt, "on") {
			if level {
				r.levels.PowerOut = state.LevelOn
			}
			r.power(true)
			r.pass(5 * time.Second)
		}
		op := rapid.SampledFrom(operations)
		var offs []*asked
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				o := op.Draw(rt, "op")
				m.deliver("", o, func() *reply { return r.write(o) })
			},
			"submit": func(rt *rapid.T) {
				o, key := op.Draw(rt, "op"), fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "key"))
				m.deliver(key, o, func() *reply { return r.submit("c", key, o) })
			},
			"off": func(rt *rapid.T) {
				pulsing := r.held[out] != 0 || r.held[reset] != 0
				on := r.levels.PowerGood == state.LevelOn
				_, known := r.core.domains[0].powered()
				cutting := r.core.domains[0].run != nil && r.core.domains[0].run.op == state.ChassisOff
				at, before := len(r.journal), len(r.pulses)+len(r.sets)
				m.deliver("", state.ChassisOff, func() *reply { return r.write(state.ChassisOff) })
				if len(m.all) > 0 && m.all[len(m.all)-1].op == state.ChassisOff {
					a := m.all[len(m.all)-1]
					a.off = at
					offs = append(offs, a)
				}
				r.pass(100 * time.Millisecond)
				if on && known && !pulsing && !cutting && r.levels.PowerGood == state.LevelOn && r.blind == nil {
					require.Greater(rt, len(r.pulses)+len(r.sets), before, "Chassis Off reached no line within 100 ms")
				}
			},
			"cancel": func(rt *rapid.T) {
				if len(m.all) == 0 {
					return
				}
				a := rapid.SampledFrom(m.all).Draw(rt, "request")
				m.look()
				was := a.status
				p := &reply{}
				r.step(Cancel{Seq: a.seq, Reply: p.take(t)})
				m.look()
				if was.Final() {
					require.Equal(rt, was, a.status, "a final request is not cancelled")
				} else if was == state.Pending {
					require.Equal(rt, state.Cancelled, a.status)
				}
			},
			"time":  func(rt *rapid.T) { r.pass(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond) },
			"later": func(rt *rapid.T) { r.pass(time.Duration(rapid.IntRange(1, 200).Draw(rt, "s")) * time.Second) },
			"button": func(rt *rapid.T) {
				m.look()
				for _, a := range m.all {
					a.contrary = a.contrary || a.status == state.Running
				}
				r.step(edge{0, "PowerButton", true})
			},
			"power loss": func(rt *rapid.T) {
				if r.levels.PowerGood != state.LevelOn {
					return
				}
				r.power(false)
				r.pass(10 * time.Millisecond)
			},
			"guest hangs": func(rt *rapid.T) { r.plant.guest = 0 },
			"guest obeys": func(rt *rapid.T) { r.plant.guest = 2 * time.Second },
			"no power":    func(rt *rapid.T) { r.plant.powerGood = 0 },
			"power again": func(rt *rapid.T) { r.plant.powerGood = 300 * time.Millisecond },
			"falls":       func(rt *rapid.T) { r.plant.falls = rapid.IntRange(0, 2).Draw(rt, "presses") },
			"stubborn":    func(rt *rapid.T) { r.plant.ignoreHolds = rapid.IntRange(0, 4).Draw(rt, "holds") },
			"disk fails":  func(rt *rapid.T) { r.failing(errors.New("history: write: input/output error")) },
			"disk works":  func(rt *rapid.T) { r.commit = nil; r.pass(2 * time.Second) },
			"crash": func(rt *rapid.T) {
				if r.commit != nil {
					return // what a failing disk holds is the journal's own test
				}
				m.restart(true)
				r.pass(100 * time.Millisecond)
			},
			"boot": func(rt *rapid.T) {
				if r.commit != nil {
					return
				}
				offs = nil
				m.restart(false)
				r.pass(100 * time.Millisecond)
			},
			"": func(*rapid.T) {
				m.check()
				for _, off := range offs {
					m.checkOff(off)
				}
			},
		})
		m.finish()
	})
}

// finish lets everything end and looks at what is left.
func (m *model) finish() {
	r := m.r
	r.commit, r.plant.ignoreHolds = nil, 0
	r.pass(3 * time.Hour)
	m.look()
	for _, a := range m.all {
		require.True(m.t, a.status.Final(), "P4: request %d (%s) is %s after hours", a.seq, a.op, a.status)
	}
	on := r.levels.PowerGood == state.LevelOn
	require.Equal(m.t, on, r.powerState() == state.PowerStateOn, "P5: the published power state is the observed one")
	require.Equal(m.t, on, r.hostState() == state.HostStateRunning)
	require.Empty(m.t, r.held[out]+r.held[reset], "no line stays pressed")
	for _, p := range r.pulses {
		require.LessOrEqual(m.t, p.to-p.from, 20*time.Second)
	}
}
