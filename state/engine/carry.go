package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

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

// read takes a reading. The readings of a domain follow each other: two at a time
// might be told in the other order, and what had been would count for what is.
func (e *Engine) read(eff probeEffect) {
	turn := e.reads[eff.domain]
	turn <- struct{}{}
	defer func() { <-turn }()
	ctx, cancel := context.WithTimeout(e.ctx, e.core.cfg.Times.Read+eff.settle)
	defer cancel()
	levels, agreed, err := e.opts.Boards[eff.domain].Read(ctx, eff.settle)
	e.Post(seen{eff.domain, eff.id, levels, agreed, err})
}

func (e *Engine) bar(eff barrierEffect) {
	permit, err := e.log.NotDurable(eff.domain, eff.request)
	if err != nil {
		e.opts.Log.Error("the barrier of a power off could not be written", "domain", eff.domain, "request", eff.request, "err", err)
	}
	e.inbox.put(permitEvent{barred: barred{domain: eff.domain, request: eff.request, err: err}, permit: permit})
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
