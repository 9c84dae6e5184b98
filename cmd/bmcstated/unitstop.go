package main

import (
	"context"
	"sync"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/systemd"
)

// abandonJob ends a job and those that it brought with it to apply power: a hung
// unit would hold them for ever, and they would go on where nobody waits for them
// any more. Jobs that take power away stay: a power off that came meanwhile shares
// them.
func (w *unitWorld) abandonJob(id uint32, unit string) {
	pulled := w.units.Pulled(id)
	w.cancel(id, unit) // first: it must not fail because of the others
	for _, j := range pulled {
		fact, _, _ := systemd.FactOf(j.Unit)
		if op, err := state.ParseOperation(fact.Op); err == nil && op.Raising() && raises[j.Type] {
			w.cancel(j.ID, j.Unit)
		}
	}
}

// cancel ends a job in the background of whatever follows.
func (w *unitWorld) cancel(id uint32, unit string) {
	ctx, cancel := context.WithTimeout(context.Background(), helpersWithin)
	defer cancel()
	if err := w.units.Cancel(ctx, id); err != nil {
		w.log.Warn("a job that was given up goes on", "unit", unit, "job", id, "err", err)
	}
}

// Cancel ends somebody else's job.
func (w *unitWorld) Cancel(job engine.Foreign, why string) {
	w.log.Warn("somebody else's job is cancelled", systemd.LogMessageID, systemd.MsgForeignJob,
		"domain", job.Domain, "unit", job.Unit, "job", job.Job, "why", why)
	w.background.Go(func() { w.cancel(job.Job, job.Unit) })
}

// Abandon has the helpers of a domain stopped.
func (w *unitWorld) Abandon(domain int) {
	if d := w.domains[domain]; d != nil {
		// Not the one for power off: what comes now may be one.
		w.stopHelpers(d, systemd.LineUnits(d.chassis)[:1])
	}
}

// stopHelpers has every helper of a domain stopped that is not stopped yet, and
// returns a channel that is closed when that has been done. Who asks while it
// is being done asks for another round: a helper may have come up behind it.
// Those of lines, which have lines driven, are stopped unless they have done so.
func (w *unitWorld) stopHelpers(d *unitDomain, lines []string) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, done := d.stopping, make(chan struct{})
	d.stopping = done
	w.background.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(context.Background(), helpersWithin)
		defer cancel()
		var wg sync.WaitGroup
		for _, unit := range systemd.HelperUnits(d.host) {
			wg.Go(func() { w.stop(ctx, unit, false) })
		}
		if d.lines {
			for _, unit := range lines {
				wg.Go(func() { w.stop(ctx, unit, true) })
			}
		}
		wg.Wait()
	})
	return done
}

func (d *unitDomain) awaitHelpers(ctx context.Context, stopped <-chan struct{}) {
	select {
	case <-stopped:
	case <-ctx.Done():
	}
}

// stop stops a unit that is not stopped, and waits for it. One that rests when
// it is active has done its work, and is left alone then.
func (w *unitWorld) stop(ctx context.Context, unit string, rests bool) {
	s, err := w.units.Read(ctx, unit)
	if err == nil && s.Job == 0 && (s.Active == "inactive" || s.Active == "failed" || rests && s.Active == "active") {
		return
	}
	var job systemd.Job
	if err == nil {
		job, err = w.units.Stop(ctx, unit, systemd.ModeReplace)
	}
	if err != nil {
		if systemd.ErrorName(err) != systemd.NameNoSuchUnit {
			w.log.Warn("a helper of what was given up may still act", "unit", unit, "err", err)
		}
		return
	}
	w.log.Info("a helper of what was given up is stopped", "unit", unit)
	select {
	case <-job.Result:
	case <-ctx.Done():
	}
}
