package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// Engine is the goroutine around a [Core]. Post is safe for concurrent use.
type Engine struct {
	opts    Options
	core    *Core
	log     *history.Log
	inbox   inbox
	pub     Publisher                     // the loop's own
	permits map[uint64]history.NotDurable // by request; the loop's own
	ready   chan struct{}
	isReady bool           // ready is closed; the loop's own
	commit  history.Commit // the one being handled; the loop's own

	storageBad bool // the journal failed last; the loop's own

	jobs map[uint64]unitJob // by request; the loop's own

	reads map[int]chan struct{} // by domain, filled while a reading is taken: see read

	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// New opens the journal and takes what it holds. Run does the rest.
func New(opts Options) (*Engine, error) {
	e := &Engine{opts: opts, permits: map[uint64]history.NotDurable{}, jobs: map[uint64]unitJob{}, ready: make(chan struct{})}
	e.inbox.wake = make(chan struct{}, 1)
	e.reads = make(map[int]chan struct{}, len(opts.Boards))
	for id := range opts.Boards {
		e.reads[id] = make(chan struct{}, 1)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	jo := opts.Journal
	jo.Now = opts.Now
	jo.Commit = func(c history.Commit) { e.inbox.put(commitEvent{c}) }
	jo.Report = func(r history.Report) { opts.Log.Warn(r.String()) }
	log, replay, err := history.Open(jo)
	if err != nil {
		e.cancel()
		return nil, err
	}
	e.log = log
	for _, r := range replay.Reports {
		opts.Log.Warn(r.String())
	}
	if replay.Volatile != "" {
		e.tell(Notice{Kind: NoticeVolatile, Domain: BMCDomain, Err: fmt.Errorf("%s is on %s", jo.Dir, replay.Volatile)})
	}
	if replay.Unwritable != nil {
		e.storage(replay.Unwritable)
	}
	e.core = NewCore(opts.Config, log)
	for _, problem := range e.core.Recover(opts.Now(), &replay.Picture, jo.BootID) {
		opts.Log.Warn(problem.Error())
	}
	for _, eff := range e.core.out { // what has ended while no daemon lived
		if n, ok := eff.(noticeEffect); ok {
			e.tell(n.notice)
		}
	}
	return e, nil
}

// Post hands an event over. Events of one caller are taken in the order of its
// calls. It never blocks.
func (e *Engine) Post(ev Event) { e.inbox.put(ev) }

// commitEvent is a committed event with the tokens that only the engine needs.
type commitEvent struct{ history.Commit }

// permitEvent is a barred event with its permit.
type permitEvent struct {
	_ state.Incomparable

	barred
	permit history.NotDurable
}

func (commitEvent) isEvent() {}

// Ready is closed once the power state of every domain that is driven is known
// and what an earlier run left is settled.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Close closes the journal of an engine that is not going to run.
func (e *Engine) Close() error {
	e.cancel()
	return e.log.Close()
}

// Run owns the core and shows what it sees to p until ctx ends. It returns when
// every goroutine that it started has ended, lines are released and the journal
// is closed. Call it once.
func (e *Engine) Run(ctx context.Context, p Publisher) error {
	e.pub = p
	for id, b := range e.opts.Boards {
		e.workers.Go(func() { e.watch(id, b) })
	}
	e.loop(ctx)
	for _, b := range e.opts.Boards {
		b.ReleaseAll()
	}
	e.cancel()
	e.workers.Wait()
	return e.log.Close()
}

func (e *Engine) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if e.opts.Beat != nil {
			e.opts.Beat()
		}
		if ev, ok := e.inbox.take(); ok {
			e.step(ev)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		e.step(tick{})
		timer.Reset(e.idle())
		select {
		case <-ctx.Done():
			return
		case <-e.inbox.wake:
		case <-timer.C:
		}
	}
}

// idle is how long the loop may sleep.
func (e *Engine) idle() time.Duration {
	d := e.core.NextDeadline()
	if d != math.MaxInt64 {
		d = max(0, d-e.opts.Now().Boot)
	}
	if e.opts.Beat != nil {
		d = min(d, e.opts.Beats)
	}
	return d
}

func (e *Engine) step(ev Event) {
	switch t := ev.(type) {
	case commitEvent:
		e.commit = t.Commit
		ev = committed{first: t.First, last: t.Last, err: t.Err}
		e.storage(t.Err)
		if t.Due {
			e.compact()
		}
	case acted:
		if e.jobs[t.request].step == t.step {
			e.endJob(t.request, nil)
		}
	case permitEvent:
		e.permits[t.request] = t.permit
		ev = t.barred
	}
	for _, eff := range e.core.Step(e.opts.Now(), ev) {
		e.carryOut(eff)
	}
	if !e.isReady && e.core.ready() {
		e.isReady = true
		close(e.ready)
	}
}

// compact lets the journal drop what the queues have forgotten. The journal
// asks from its own goroutine, so it gets a copy.
func (e *Engine) compact() {
	keep := map[uint64]bool{}
	for _, d := range e.core.domains {
		d.q.Each(func(seq uint64) { keep[seq] = true })
	}
	e.core.bmc.q.Each(func(seq uint64) { keep[seq] = true })
	upTo := e.core.last
	e.log.Compact(func(seq uint64) bool { return seq <= upTo && !keep[seq] })
}

func (e *Engine) watch(id int, b Board) {
	for {
		select {
		case <-e.ctx.Done():
			return
		case ed, ok := <-b.Edges():
			if !ok {
				return
			}
			e.Post(edge{id, ed.Signal, ed.Asserted})
		}
	}
}
