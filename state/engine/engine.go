package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/slog"
)

// Board is a domain's hardware. Every method obeys its context's deadline even
// when the hardware hangs; all are safe for concurrent use.
type Board interface {
	// Read samples the inputs twice, settle apart (0: once), and reports
	// whether both samples agree.
	Read(ctx context.Context, settle time.Duration) (levels state.Levels, agreed bool, err error)
	// Pulse asserts an output, releases it after width or at Release, and
	// returns then. moved says whether the line was asserted at all. An urgent
	// pulse is a power off: a press of the power button that is under way
	// becomes its own, and what else could refuse it does not.
	Pulse(ctx context.Context, signal string, width time.Duration, urgent bool) (moved bool, err error)
	// SetLevel drives a level-type output.
	SetLevel(ctx context.Context, signal string, on bool) error
	// Release ends a pulse early.
	Release(signal string)
	// ReleaseAll de-asserts every pulse line, within a second.
	ReleaseAll()
	// Edges carries hints until it is closed.
	Edges() <-chan Edge
}

// Units starts the systemd units that do a domain's work.
type Units interface {
	// Start starts a unit and returns when its job has ended; queued says
	// whether systemd took the job. When ctx ends first it returns at once: with
	// the cause [ErrAbandoned] the job is cancelled, otherwise it goes on. A
	// start that is not urgent waits until the helpers of what was abandoned
	// before are stopped. over is called as soon as the job has ended, before
	// what became of it is known.
	Start(ctx context.Context, domain int, unit, mode string, urgent bool, over func()) (queued bool, err error)
	// Abandon has the helpers stopped that may still act for the domain's
	// earlier operations. It does not wait.
	Abandon(domain int)
	// Cancel ends a job that somebody else queued. It does not wait.
	Cancel(job Foreign, why string)
}

// Edge says that an input may have moved, or that a pulse has asserted its
// output. Without a signal it says only that the levels are to be read.
type Edge struct {
	Signal   string
	Asserted bool
}

// Platform is the BMC that the daemon runs on.
type Platform interface {
	// Reboot starts a reboot of the BMC; hard does not wait for units to stop.
	Reboot(ctx context.Context, hard bool) error
	// ResetSystem starts chassis-system-reset.target and returns when its job has
	// ended.
	ResetSystem(ctx context.Context) error
}

// Options are what an [Engine] needs of the world.
type Options struct {
	Config   Config
	Boards   map[int]Board // by domain id
	Units    Units         // nil where no domain has targets
	Platform Platform
	Journal  history.Options // Commit and Report are the engine's
	Now      func() state.Instant
	Log      *slog.Logger
	// WriteSetting, where not nil, changes a setting that another daemon holds,
	// and Incident takes what belongs into the BMC's event log.
	// Both are called from the engine's loop and must not block.
	WriteSetting func(host int, what state.Setting, value uint64)
	Incident     func(Incident)
	// Beat, where not nil, is called from the engine's own loop at least every
	// Beats; a watchdog hangs on it.
	Beat  func()
	Beats time.Duration
	// Signs, where not nil, takes what the fault monitor has to know. It is called
	// from the engine's loop and must not block.
	Signs func(Sign)
	// Notice, where not nil, takes what is worth a line in a log. It is called
	// from New and from the engine's loop, and must not block.
	Notice func(Notice)
}

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

	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// New opens the journal and takes what it holds. Run does the rest.
func New(opts Options) (*Engine, error) {
	e := &Engine{opts: opts, permits: map[uint64]history.NotDurable{}, jobs: map[uint64]unitJob{}, ready: make(chan struct{})}
	e.inbox.wake = make(chan struct{}, 1)
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
		ev = committed{t.First, t.Last, t.Err}
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

func (e *Engine) carryOut(eff Effect) {
	p := e.pub
	switch eff := eff.(type) {
	case replyEffect:
		eff.reply(eff.answer)
	case probeEffect:
		e.workers.Go(func() { e.read(eff) })
	case pulseEffect:
		e.execute(eff)
	case startEffect:
		e.start(eff)
	case abandonEffect:
		e.endJob(eff.request, ErrAbandoned)
		if e.opts.Units != nil {
			e.opts.Units.Abandon(eff.domain)
		}
	case cancelJobsEffect:
		for _, j := range eff.jobs {
			e.opts.Units.Cancel(j, eff.why)
		}
	case releaseEffect:
		e.opts.Boards[eff.domain].Release(eff.signal)
	case releaseAllEffect:
		for _, b := range e.opts.Boards {
			e.workers.Go(b.ReleaseAll)
		}
	case barrierEffect:
		e.workers.Go(func() { e.bar(eff) })
	case noticeEffect:
		e.tell(eff.notice)
	case voidEffect:
		e.storage(errSilent)
		e.workers.Go(func() { e.void(eff) })
	case signEffect:
		if e.opts.Signs != nil {
			e.opts.Signs(eff.sign)
		}
	case rebootEffect:
		e.reboot(eff)
	case systemResetEffect:
		e.resetSystem(eff)
	case holdEffect:
		e.workers.Go(func() { e.hold(eff) })
	case levelEffect:
		e.workers.Go(func() { e.setLevel(eff) })
	case pressEffect:
		e.workers.Go(func() { e.press(eff) })
	case publishPanel:
		p.PublishPanel(eff.host, eff.panel)
	case publishHost:
		p.PublishHost(eff.index, eff.host)
	case publishChassis:
		p.PublishChassis(eff.index, eff.chassis)
	case publishSystem:
		p.PublishSystem(eff.index, eff.chassis)
	case publishBMC:
		p.PublishBMC(eff.bmc)
	case publishSchedule:
		p.PublishSchedule(eff.index, eff.schedule)
	case publishSettings:
		p.PublishSettings(eff.host, eff.settings)
	case writeSettingEffect:
		if e.opts.WriteSetting != nil {
			e.opts.WriteSetting(eff.host, eff.setting, eff.value)
		}
	case incidentEffect:
		if e.opts.Incident != nil {
			e.opts.Incident(eff.incident)
		}
	case publishQueue:
		p.PublishQueue(eff.domain, eff.queue)
	case publishRequest:
		p.PublishRequest(eff.domain, eff.request)
	case removeRequest:
		p.RemoveRequest(eff.domain, eff.seq)
	default:
		panic(fmt.Sprintf("engine: unknown effect %T", eff))
	}
}

// vouched returns nil if the journal has vouched for an action. Nothing is
// driven and no unit is started without it (DESIGN.md §3.6).
func (e *Engine) vouched(request, entry uint64, barrier bool) error {
	if barrier {
		return e.permits[request].Covers(e.log, request)
	}
	return e.commit.Durable(entry).Covers(e.log, entry)
}

// execute is the one place from which a line is driven.
func (e *Engine) execute(eff pulseEffect) {
	if err := e.vouched(eff.request, eff.entry, eff.barrier); err != nil {
		e.opts.Log.Error("refused to drive a line", "domain", eff.domain, "request", eff.request, "signal", eff.signal, "err", err)
		e.Post(acted{domain: eff.domain, request: eff.request, step: eff.step, err: err})
		return
	}
	board := e.opts.Boards[eff.domain]
	e.workers.Go(func() {
		// The pulse outlives a stop of the daemon: ReleaseAll ends it then.
		ctx, cancel := context.WithTimeout(context.Background(), eff.width+e.core.cfg.Times.Read)
		defer cancel()
		var moved bool
		var err error
		if eff.set {
			err = board.SetLevel(ctx, eff.signal, eff.to)
			moved = err == nil
		} else {
			moved, err = board.Pulse(ctx, eff.signal, eff.width, eff.takeOver || eff.urgent)
		}
		e.Post(acted{eff.domain, eff.request, eff.step, moved, err})
	})
}

// start is the one place from which a domain's unit is started. The job goes on
// when the daemon stops: only what the core abandons is cancelled.
func (e *Engine) start(eff startEffect) {
	if err := e.vouched(eff.request, eff.entry, eff.barrier); err != nil {
		e.opts.Log.Error("refused to start a unit", "domain", eff.domain, "request", eff.request, "unit", eff.unit, "err", err)
		e.Post(acted{domain: eff.domain, request: eff.request, step: eff.step, err: err})
		return
	}
	e.endJob(eff.request, nil)
	ctx, cancel := context.WithCancelCause(e.ctx)
	e.jobs[eff.request] = unitJob{cancel, eff.step}
	e.workers.Go(func() {
		over := func() { e.Post(jobOver{eff.domain, eff.request, eff.step}) }
		queued, err := e.opts.Units.Start(ctx, eff.domain, eff.unit, eff.mode, eff.urgent, over)
		e.Post(acted{eff.domain, eff.request, eff.step, queued, err})
	})
}

// endJob lets go of a request's job; the cause says whether it is cancelled.
func (e *Engine) endJob(request uint64, cause error) {
	if j, ok := e.jobs[request]; ok {
		j.cancel(cause)
		delete(e.jobs, request)
	}
}

// unitJob is a job that a step waits for.
type unitJob struct {
	cancel context.CancelCauseFunc
	step   int
}

// Holder is implemented by boards that can hold an output at its idle level.
type Holder interface {
	Hold(ctx context.Context, signal string, hold bool) error
}

var errNoHold = errors.New("this board cannot hold a line")

// short is a context for one call of a board.
func (e *Engine) short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.ctx, e.core.cfg.Times.Read)
}

func (e *Engine) hold(eff holdEffect) {
	ctx, cancel := e.short()
	defer cancel()
	err := errNoHold
	if h, ok := e.opts.Boards[eff.domain].(Holder); ok {
		err = h.Hold(ctx, eff.signal, eff.hold)
	}
	e.Post(controlled{eff.domain, eff.id, err})
}

func (e *Engine) press(eff pressEffect) {
	ctx, cancel := context.WithTimeout(context.Background(), eff.width+e.core.cfg.Times.Read)
	defer cancel()
	_, err := e.opts.Boards[eff.domain].Pulse(ctx, eff.signal, eff.width, false)
	e.Post(controlled{eff.domain, eff.id, err})
}

func (e *Engine) read(eff probeEffect) {
	ctx, cancel := context.WithTimeout(e.ctx, e.core.cfg.Times.Read+eff.settle)
	defer cancel()
	levels, agreed, err := e.opts.Boards[eff.domain].Read(ctx, eff.settle)
	e.Post(seen{eff.domain, eff.id, levels, agreed, err})
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

func (e *Engine) bar(eff barrierEffect) {
	permit, err := e.log.NotDurable(eff.domain, eff.request)
	if err != nil {
		e.opts.Log.Error("the barrier of a power off could not be written", "domain", eff.domain, "request", eff.request, "err", err)
	}
	e.inbox.put(permitEvent{barred{eff.domain, eff.request, err}, permit})
}

func (e *Engine) void(eff voidEffect) {
	var errs []error
	for _, seq := range eff.entries {
		errs = append(errs, e.log.Void(seq))
	}
	if err := errors.Join(errs...); err != nil {
		e.opts.Log.Error("requests that were refused could not be marked void", "err", err)
	}
	e.Post(voided(eff))
}

func (e *Engine) resetSystem(eff systemResetEffect) {
	if err := e.commit.Durable(eff.entry).Covers(e.log, eff.entry); err != nil {
		e.Post(systemReset{eff.seq, err})
		return
	}
	e.workers.Go(func() {
		ctx, cancel := context.WithTimeout(e.ctx, e.core.cfg.Domains[0].Timings.JobTimeout)
		defer cancel()
		e.Post(systemReset{eff.seq, e.opts.Platform.ResetSystem(ctx)})
	})
}

// releaseAll de-asserts the pulse lines of all boards, and waits for that.
func (e *Engine) releaseAll() {
	var boards sync.WaitGroup
	for _, b := range e.opts.Boards {
		boards.Go(b.ReleaseAll)
	}
	boards.Wait()
}

func (e *Engine) reboot(eff rebootEffect) {
	if err := e.commit.Durable(eff.entry).Covers(e.log, eff.entry); err != nil {
		e.Post(rebootFailed{eff.seq, err})
		return
	}
	e.workers.Go(func() {
		if eff.hard {
			e.releaseAll() // again: lines may have moved while the journal wrote
		}
		ctx, cancel := context.WithTimeout(e.ctx, 30*time.Second)
		defer cancel()
		if err := e.opts.Platform.Reboot(ctx, eff.hard); err != nil {
			e.Post(rebootFailed{eff.seq, err})
		}
	})
}
