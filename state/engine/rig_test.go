package engine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// rig is a world for a Core, in virtual time: a journal that answers at once or
// as told, and a board with a host on it. Nothing waits and nothing is random.
type rig struct {
	t    *testing.T
	fail require.TestingT // t, or the random test's own
	core *Core
	now  state.Instant

	// The journal.
	journal []history.Entry
	next    uint64
	commit  func(first, last uint64) error // nil = answered at once with success
	hang    bool                           // commits wait for flush
	waiting []uint64
	durable []history.Entry

	// The board.
	levels state.Levels
	plan   []event // due later
	held   map[string]int
	plant  plant
	pulses []pulsed
	sets   []string    // levels that were driven, as "signal true"
	blind  error       // readings fail
	lies   state.Level // what power good reads instead; absent = the truth
	edges  []powerEdge
	split  int    // so many settled readings contradict themselves
	upBy   uint64 // request whose press has brought the power up that is on, 0 = none

	intercept func(Effect) bool // takes effects that are not the board's

	// What was shown.
	host     []state.Host
	chassis  []state.Chassis
	bmc      state.BMC
	queue    state.Queue
	systems  map[int]state.Chassis
	requests map[uint64]state.Request // objects on the bus
	signals  []state.Request          // every publication of a request
	effects  []Effect
	reboots  int
	life     life
	bootID   string
}

type event struct {
	at    time.Duration
	plant bool // the board's own: goes on while no daemon lives
	do    func()
}

// powerEdge is a change of power good.
type powerEdge struct {
	at time.Duration
	on bool
}

type pulsed struct {
	signal   string
	from, to time.Duration
	step     pulseEffect
	wasOn    bool // at its start
}

// plant is the host's behaviour.
type plant struct {
	powerGood   time.Duration // from the press; 0 = never
	post        time.Duration // from power good
	guest       time.Duration // from a short press to power off; 0 = the guest hangs
	override    time.Duration // a press this long cuts the power
	ignoreHolds int           // so many long presses do nothing
	resetDead   bool          // the reset line leads nowhere
	lineErr     error         // pulses fail, and the line does not move
	falls       int           // so many presses meet a host that has powered itself off at that moment
}

func quickTimings() sequence.Timings {
	t := sequence.DefaultTimings()
	t.ForceOffPulse, t.PowerOKWatchdog = 6*time.Second, 8*time.Second
	return t
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	r := &rig{
		t: t, fail: t, requests: map[uint64]state.Request{}, held: map[string]int{}, systems: map[int]state.Chassis{},
		now:    state.Instant{Boot: time.Minute, Wall: time.Unix(1_700_000_000, 0)},
		levels: state.Levels{PowerGood: state.LevelOff, PostComplete: state.LevelOff},
		plant: plant{powerGood: 300 * time.Millisecond, post: 500 * time.Millisecond, guest: 2 * time.Second,
			override: 4 * time.Second},
	}
	cfg := Config{
		Times: DefaultTimes(), ResumeCycle: true, RetryAttempts: 3,
		Domains: []DomainConfig{{
			Hosts: []int{0}, Chassis: []int{0}, Driven: true, Timings: quickTimings(),
			Options: sequence.Options{ForceAfterGraceful: true, ForceOffTries: 3},
			Queue:   queue.Config{DepthLimit: 100, Share: 100, ConnShare: queue.Unlimited},
		}},
	}
	for _, f := range change {
		f(&cfg)
	}
	r.core = NewCore(cfg, r)
	for _, d := range r.core.domains {
		d.values.saved.Boot = r.boot() // a daemon has been here before in this boot
	}
	r.step(tick{})
	return r
}

// restart replaces the core by one that replays the journal, as a daemon that
// was killed comes back; another boot starts the boot clock anew.
func (r *rig) restart(sameBoot bool) {
	cfg := r.core.cfg
	boot := r.boot()
	if !sameBoot {
		boot = fmt.Sprintf("boot%d", len(r.journal))
		shift := r.now.Boot - time.Second
		for i := range r.plan {
			r.plan[i].at -= shift
		}
		r.now.Boot = time.Second
	}
	r.waiting, r.requests, r.host, r.chassis = nil, map[uint64]state.Request{}, nil, nil
	r.held, r.edges = map[string]int{}, nil
	picture := history.Fold(r.durable)
	r.core = NewCore(cfg, r)
	require.Empty(r.fail, r.core.Recover(r.now, &picture, boot))
	r.bootID = boot
	r.step(tick{})
}

// Append is the journal.
func (r *rig) Append(e history.Entry) uint64 {
	r.next++
	e.Seq, e.BootID = r.next, r.boot()
	if e.Boot == 0 {
		e.Boot, e.Wall = r.now.Boot, r.now.Wall
	}
	if e.Kind == history.KindAccepted {
		if e.Request == 0 {
			e.Request = e.Seq
		}
		e.Accepted.Seq = e.Request
		if e.Accepted.Key.Request == "" {
			e.Accepted.Key.Request = fmt.Sprint(e.Request)
		}
	}
	r.journal = append(r.journal, e)
	r.waiting = append(r.waiting, e.Seq)
	return e.Seq
}

func (r *rig) boot() string {
	if r.bootID == "" {
		return "boot"
	}
	return r.bootID
}

// flush lets the journal answer.
func (r *rig) flush() {
	for len(r.waiting) > 0 {
		first, last := r.waiting[0], r.waiting[len(r.waiting)-1]
		r.waiting = nil
		var err error
		if r.commit != nil {
			err = r.commit(first, last)
		}
		if err == nil {
			r.durable = append(r.durable, r.journal[first-1:last]...)
		}
		r.stepOnce(committed{first: first, last: last, err: err})
	}
}

// step gives the core an event, and everything that follows at this moment.
func (r *rig) step(ev Event) {
	r.stepOnce(ev)
	if !r.hang {
		r.flush()
	}
}

func (r *rig) stepOnce(ev Event) {
	if r.life.dead {
		return
	}
	for _, e := range r.core.Step(r.now, ev) {
		r.effects = append(r.effects, e)
		r.carryOut(e)
	}
}

func (r *rig) carryOut(e Effect) {
	if r.intercept != nil && r.intercept(e) {
		return
	}
	r.lifeEffect(e)
	switch e := e.(type) {
	case replyEffect:
		e.reply(e.answer)
	case probeEffect:
		r.after(e.settle, func() {
			agreed := true
			if e.settle > 0 && r.split > 0 {
				r.split--
				agreed = false
			}
			l := r.levels
			if r.lies != state.LevelAbsent {
				l.PowerGood = r.lies
			}
			if r.blind != nil {
				l = state.Levels{PowerGood: state.LevelUnknown}
			}
			r.step(seen{e.domain, e.id, l, agreed, r.blind})
		})
	case pulseEffect:
		r.pulse(e)
	case releaseEffect:
		r.release(e.signal)
	case levelEffect:
		err := r.plant.lineErr
		if err == nil {
			r.sets = append(r.sets, fmt.Sprint(e.out.Signal, " ", e.out.On))
			if e.out.Signal == "SlotPower" {
				r.levels.Slot = state.LevelOf(e.out.On)
			}
		}
		r.after(0, func() { r.step(controlled{e.domain, e.id, err}) })
	case voidEffect:
		r.after(0, func() { r.step(voided(e)) })
	case barrierEffect:
		r.after(0, func() { r.step(barred{domain: e.domain, request: e.request, err: nil}) })
	case rebootEffect:
		r.reboots++
	case publishHost:
		r.host = append(r.host, e.host)
	case publishChassis:
		r.chassis = append(r.chassis, e.chassis)
	case publishSystem:
		r.systems[e.index] = e.chassis
	case publishBMC:
		r.bmc = e.bmc
	case publishQueue:
		r.queue = e.queue
	case publishRequest:
		r.requests[e.request.Seq] = e.request
		r.signals = append(r.signals, e.request)
	case removeRequest:
		_, ok := r.requests[e.seq]
		require.True(r.fail, ok, "request %d was no object", e.seq)
		delete(r.requests, e.seq)
	}
}

// after does something later; due things happen in [rig.pass].
func (r *rig) after(d time.Duration, do func()) {
	r.plan = append(r.plan, event{r.now.Boot + d, false, do})
}

// later is after for what the board does by itself.
func (r *rig) later(d time.Duration, do func()) {
	r.plan = append(r.plan, event{r.now.Boot + d, true, do})
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	end := r.now.Boot + d
	for {
		next, at := -1, end
		if !r.life.dead {
			at = min(r.core.NextDeadline(), end)
		}
		at = max(at, r.now.Boot)
		for i, ev := range r.plan {
			if ev.at < at || ev.at == at && next < 0 {
				next, at = i, ev.at
			}
		}
		if next < 0 && at >= end {
			break
		}
		r.setTime(at)
		if next < 0 {
			before := r.core.NextDeadline()
			r.step(tick{})
			if r.core.NextDeadline() == before && before <= r.now.Boot && len(r.plan) == 0 {
				require.FailNow(r.fail, "the core wants a tick at once, for ever")
			}
			continue
		}
		do := r.plan[next].do
		r.plan = append(r.plan[:next], r.plan[next+1:]...)
		do()
	}
	r.setTime(end)
	r.step(tick{})
}

func (r *rig) setTime(at time.Duration) {
	if at > r.now.Boot {
		r.now.Wall = r.now.Wall.Add(at - r.now.Boot)
		r.now.Boot = at
	}
}

// pulse plays the line and the host behind it.
func (r *rig) pulse(e pulseEffect) {
	if r.plant.lineErr != nil {
		err := r.plant.lineErr
		r.after(0, func() { r.step(acted{e.domain, e.request, e.step, false, err}) })
		return
	}
	if e.set {
		r.setLevel(e)
		return
	}
	if r.held[e.signal] != 0 && !e.takeOver {
		require.FailNow(r.fail, "two pulses at once on "+e.signal)
	}
	id := len(r.pulses) + 1
	from := r.now.Boot
	if r.held[e.signal] != 0 {
		from = r.pulses[r.held[e.signal]-1].from
		r.pulses[r.held[e.signal]-1].to = r.now.Boot // goes on as the new one
	}
	r.held[e.signal] = id
	r.after(0, func() { r.step(edge{e.domain, e.signal, true}) })
	r.fall(e)
	wasOn := r.levels.PowerGood == state.LevelOn
	r.pulses = append(r.pulses, pulsed{e.signal, from, math.MaxInt64, e, wasOn})
	r.after(e.width, func() { r.endPulse(id, e, wasOn) })
	if e.signal == sequence.PowerOut {
		r.later(max(0, r.plant.override-(r.now.Boot-from)), func() { r.override(id) })
	} else if wasOn && !r.plant.resetDead {
		r.set(func(l *state.Levels) { l.PostComplete = state.LevelOff })
	}
}

// fall lets the host power itself off in the moment of a press that asks it to.
func (r *rig) fall(e pulseEffect) {
	if r.plant.falls == 0 || e.signal != sequence.PowerOut || e.width > time.Second || r.levels.PowerGood != state.LevelOn {
		return
	}
	r.plant.falls--
	r.levels.PowerGood, r.levels.PostComplete = state.LevelOff, state.LevelOff
	r.edges = append(r.edges, powerEdge{r.now.Boot, false})
	r.upBy = 0
	r.after(0, func() { r.step(edge{0, "PowerOk", false}) })
}

// setLevel plays a level-type output. PowerOut holds the power on; an edge
// switches it.
func (r *rig) setLevel(e pulseEffect) {
	r.sets = append(r.sets, fmt.Sprint(e.signal, " ", e.to))
	if e.signal == sequence.PowerOut && r.levels.PowerOut != state.LevelOf(e.to) {
		r.levels.PowerOut = state.LevelOf(e.to)
		delay := r.plant.powerGood
		if !e.to {
			delay = 50 * time.Millisecond
		}
		if delay > 0 {
			r.later(delay, func() {
				if r.levels.PowerOut == state.LevelOf(e.to) {
					r.power(e.to)
				}
			})
		}
	}
	if e.signal == "RailEn" {
		r.levels.Applied = state.LevelOf(e.to)
	}
	if e.signal == "SlotPower" {
		r.levels.Slot = state.LevelOf(e.to)
		if !e.to {
			r.later(10*time.Millisecond, func() { r.power(false) })
		}
	}
	r.after(0, func() { r.step(acted{e.domain, e.request, e.step, true, nil}) })
}

func (r *rig) release(signal string) {
	if id := r.held[signal]; id != 0 {
		r.endPulse(id, r.pulses[id-1].step, r.pulses[id-1].wasOn)
	}
}

func (r *rig) endPulse(id int, e pulseEffect, wasOn bool) {
	if r.held[e.signal] != id {
		return
	}
	r.held[e.signal] = 0
	r.pulses[id-1].to = r.now.Boot
	switch {
	case e.signal == sequence.ResetOut && wasOn && !r.plant.resetDead:
		r.later(r.plant.post, func() { r.set(func(l *state.Levels) { l.PostComplete = state.LevelOn }) })
	case e.signal == sequence.PowerOut && !wasOn && r.plant.powerGood > 0 && r.levels.PowerGood != state.LevelOn:
		r.later(r.plant.powerGood, func() {
			r.power(true)
			r.upBy = e.request
		})
	case e.signal == sequence.PowerOut && wasOn && r.plant.guest > 0 && r.now.Boot-r.pulses[id-1].from < r.plant.override:
		r.later(r.plant.guest, func() { r.power(false) })
	}
	r.after(0, func() { r.step(acted{e.domain, e.request, e.step, true, nil}) })
}

func (r *rig) override(id int) {
	if r.held[sequence.PowerOut] != id || r.levels.PowerGood != state.LevelOn {
		return
	}
	if r.plant.ignoreHolds > 0 {
		r.plant.ignoreHolds--
		return
	}
	r.power(false)
}

func (r *rig) power(on bool) {
	r.upBy = 0
	r.set(func(l *state.Levels) {
		l.PowerGood = state.LevelOf(on)
		if !on {
			l.PostComplete = state.LevelOff
		}
		if !on && l.SIOGood != state.LevelAbsent {
			l.SIOGood = state.LevelOff
		}
	})
	if on {
		r.later(r.plant.post, func() {
			if r.levels.PowerGood == state.LevelOn {
				r.set(func(l *state.Levels) { l.PostComplete = state.LevelOn })
			}
		})
	}
}

// set moves inputs and tells the core, as a board does, by an edge.
func (r *rig) set(change func(*state.Levels)) {
	before := r.levels
	change(&r.levels)
	if before.PostComplete == state.LevelAbsent {
		r.levels.PostComplete = state.LevelAbsent
	}
	if r.levels.PowerGood != before.PowerGood {
		r.edges = append(r.edges, powerEdge{r.now.Boot, r.levels.PowerGood == state.LevelOn})
		r.step(edge{0, "PowerOk", r.levels.PowerGood == state.LevelOn})
	}
	if r.levels.PostComplete != before.PostComplete {
		r.step(edge{0, "PostComplete", r.levels.PostComplete == state.LevelOn})
	}
}

// The clients.

type reply struct {
	answer Answer
	got    bool
}

func (r *rig) write(op state.Operation) *reply {
	return r.writeAs(0, op)
}

func (r *rig) writeAs(uid uint32, op state.Operation) *reply {
	p := &reply{}
	r.step(Write{Caller: Caller{UID: uid, Sender: fmt.Sprintf(":1.%d", uid)}, Object: state.Object{Kind: op.Kind()}, Op: op, Reply: p.take(r.t)})
	return p
}

func (r *rig) submit(client, request string, op state.Operation) *reply {
	p := &reply{}
	r.step(Submit{Caller: Caller{Sender: ":1.0"}, Client: client, Request: request, Op: op, Reply: p.take(r.t)})
	return p
}

func (p *reply) take(t require.TestingT) func(Answer) {
	return func(a Answer) {
		require.False(t, p.got, "answered twice")
		p.answer, p.got = a, true
	}
}

func (r *rig) status(seq uint64) state.Status {
	req, ok := r.core.domains[0].q.Get(seq)
	require.True(r.fail, ok, "request %d is known", seq)
	return req.Status
}

func (r *rig) reason(seq uint64) string {
	req, _ := r.core.domains[0].q.Get(seq)
	return req.Reason
}

func (r *rig) hostState() state.HostState   { return r.host[len(r.host)-1].Current }
func (r *rig) powerState() state.PowerState { return r.chassis[len(r.chassis)-1].Current }

// presses returns the signals pulsed so far.
func (r *rig) presses() []string {
	var s []string
	for _, p := range r.pulses {
		s = append(s, p.signal)
	}
	return s
}

// runningHost returns a rig whose host runs, with nothing pulsed.
func runningHost(t *testing.T, change ...func(*Config)) *rig {
	r := newRig(t, change...)
	r.pass(time.Second)
	r.power(true)
	r.pass(5 * time.Second)
	require.Equal(t, state.HostStateRunning, r.hostState())
	return r
}
