package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// destructiveFor is how long a start is repeated that systemd refuses because
// of jobs that are still queued (openbmc/openbmc#1894).
const destructiveFor = 10 * time.Second

// retryPause is the time between two attempts, and between two looks at a unit
// whose job nobody reports on.
const retryPause = 250 * time.Millisecond

// helpersWithin bounds how long a start waits for helpers to stop.
const helpersWithin = 10 * time.Second

// unitWorld is systemd in the engine's terms: it starts units, judges what
// became of them, and passes on what others do.
type unitWorld struct {
	units *systemd.Units
	log   *slog.Logger
	bmc   bool // it tells how the BMC is, too

	critical *criticalUnits  // nil where no files are configured
	ctx      context.Context // of the life of what goes on in the background
	end      context.CancelFunc

	domains map[int]*unitDomain    // by domain id
	owner   map[string]*unitDomain // by watched unit

	// The rest belongs to the goroutine that consumes the events.
	jobs  map[uint32]engine.Foreign // of others, as told to the engine
	ended chan struct{}

	background sync.WaitGroup // what goes on behind a call
}

var _ engine.Units = (*unitWorld)(nil)

// unitDomain is a domain that is run by targets.
type unitDomain struct {
	_ state.Incomparable

	id, host, chassis int
	board             *unitBoard // nil where lines show the power
	lines             bool       // its targets have us drive lines

	mu       sync.Mutex
	stopping chan struct{} // closed when the helpers are stopped; nil = nothing to wait for
}

// openUnits connects to systemd. It waits for nothing.
func openUnits(bmc bool, log *slog.Logger) *unitWorld {
	w := &unitWorld{
		units: systemd.Open(systemd.Options{Log: log}), log: log, bmc: bmc,
		domains: map[int]*unitDomain{}, owner: map[string]*unitDomain{}, jobs: map[uint32]engine.Foreign{},
	}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// add has a domain run by its targets.
func (w *unitWorld) add(d *unitDomain) {
	w.domains[d.id] = d
	names := append(systemd.HostTargets(d.host), systemd.ChassisTargets(d.chassis)...)
	if d.lines {
		names = append(names, systemd.LineUnits(d.chassis)...)
	}
	for _, name := range names {
		w.owner[name] = d
	}
	w.units.Watch(names...)
}

// attach begins to tell the engine, by post, what happens.
func (w *unitWorld) attach(post func(engine.Event)) {
	if w.bmc {
		w.units.Watch(append(systemd.BMCTargets(), timeSync)...)
	}
	w.ended = make(chan struct{})
	go func() {
		defer close(w.ended)
		for ev := range w.units.Events() {
			w.take(ev, post)
		}
	}()
}

func (w *unitWorld) close() error {
	w.end()
	w.units.Close()
	if w.ended != nil {
		<-w.ended // it may leave something behind
	}
	w.background.Wait()
	return nil
}

// timeSync says by being active that the wall clock is right.
const timeSync = "time-sync.target"

// take passes an event on. Whatever it says of a unit, the engine reads anew.
func (w *unitWorld) take(ev systemd.Event, post func(engine.Event)) {
	if w.critical != nil && w.critical.take(ev) {
		w.background.Go(func() { w.quiesce(w.ctx) })
		w.postBMC(post)
	}
	switch ev := ev.(type) {
	case systemd.UnitChanged:
		w.changed(ev, post)
	case systemd.JobQueued:
		w.queued(ev.Job, post)
	case systemd.JobEnded:
		if f, ok := w.jobs[ev.Job.ID]; ok {
			delete(w.jobs, ev.Job.ID)
			f.Ended, f.Result = true, ev.Result
			post(f)
		}
		w.crashUnread(ev, post)
	}
}

// crashUnread looks at a crash target whose job was over before its type could be
// read, as that of a target which needs nothing always is: it was a start if the
// target is active now.
func (w *unitWorld) crashUnread(ev systemd.JobEnded, post func(engine.Event)) {
	d := w.owner[ev.Job.Unit]
	fact, _, _ := systemd.FactOf(ev.Job.Unit)
	if d == nil || fact.Role != systemd.RoleHostCrash || ev.Job.Type != "" || ev.Result != systemd.ResultDone {
		return
	}
	w.background.Go(func() {
		if s, err := w.units.Read(w.ctx, ev.Job.Unit); err == nil && s.Active == "active" {
			post(engine.HostCrashed{Domain: d.id})
		}
	})
}

func (w *unitWorld) changed(ev systemd.UnitChanged, post func(engine.Event)) {
	if d := w.owner[ev.State.Name]; d != nil {
		if d.board != nil {
			d.board.moved()
		}
		return
	}
	w.postBMC(post)
}

// postBMC tells the engine how the BMC is.
func (w *unitWorld) postBMC(post func(engine.Event)) {
	if !w.bmc {
		return
	}
	state := func(name string) systemd.UnitState { s, _ := w.units.State(name); return s }
	reboot := state("reboot.target")
	post(engine.BMCUnits{
		Ready:      state("multi-user.target").Active == "active" && reboot.Job == 0 && reboot.Active != "active",
		Quiesced:   state(bmcQuiesced).Active == "active" || w.critical != nil && w.critical.kept.Quiesced,
		TimeSynced: state(timeSync).Active == "active",
	})
}

// raises are the types of jobs that bring a unit up.
var raises = map[string]bool{"start": true, "restart": true, "try-restart": true}

// queued tells the engine of a job that somebody else queued.
func (w *unitWorld) queued(j systemd.JobInfo, post func(engine.Event)) {
	d := w.owner[j.Unit]
	fact, _, _ := systemd.FactOf(j.Unit)
	if d != nil && fact.Role == systemd.RoleHostCrash && raises[j.Type] {
		post(engine.HostCrashed{Domain: d.id})
		return
	}
	op, err := state.ParseOperation(fact.Op)
	if d == nil || err != nil || !raises[j.Type] || !j.Foreign() && !contradicts(op, j.ParentUnit) {
		return
	}
	f := engine.Foreign{Domain: d.id, Job: j.ID, Unit: j.Unit, Op: op, Rank: systemd.Rank(j.Unit)}
	w.jobs[j.ID] = f
	w.log.Info("somebody else queued a job", systemd.LogMessageID, systemd.MsgForeignJob, "domain", d.id, "unit", j.Unit, "job", j.ID)
	post(f)
}

// contradicts reports whether an operation cannot have been brought along by the
// start of a unit that has to do the opposite.
func contradicts(op state.Operation, parent string) bool {
	fact, _, _ := systemd.FactOf(parent)
	asked, err := state.ParseOperation(fact.Op)
	return err == nil && !asked.Passes() && asked.Raising() != op.Raising()
}

// Start starts a unit and says what became of it: the job's result is half of
// that, the unit itself the other.
func (w *unitWorld) Start(ctx context.Context, domain int, unit, mode string, urgent bool, over func()) (bool, error) {
	d := w.domains[domain]
	if !urgent {
		d.awaitHelpers(ctx, w.stopHelpers(d, systemd.LineUnits(d.chassis)))
	}
	job, err := w.enqueue(ctx, unit, mode)
	if urgent {
		w.stopHelpers(d, nil) // after the start was sent: power goes first
	}
	if err != nil {
		return false, fmt.Errorf("systemd refused: %w", err)
	}
	select {
	case result := <-job.Result:
		over()
		return true, w.judge(ctx, unit, result)
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), engine.ErrAbandoned) {
			w.abandonJob(job.ID, unit)
		}
		return true, context.Cause(ctx)
	}
}

// enqueue queues a start job. A transaction that is refused because of jobs
// that are about to end is tried again for a while.
func (w *unitWorld) enqueue(ctx context.Context, unit, mode string) (systemd.Job, error) {
	for end := time.Now().Add(destructiveFor); ; {
		job, err := w.units.Start(ctx, unit, mode)
		name := systemd.ErrorName(err)
		again := name == systemd.NameDestructive || name == systemd.NameJobsConflicting || w.lostReply(ctx, name)
		if !again || time.Now().After(end) || !pause(ctx, retryPause) {
			return job, err
		}
		w.log.Info("systemd refused a start that is tried again", "unit", unit, "err", err)
	}
}

// lostReply reports whether systemd went away over a call: it was executed
// again, and starting again joins the job, if there is one.
func (w *unitWorld) lostReply(ctx context.Context, name string) bool {
	return ctx.Err() == nil && name == systemd.NameNoReply
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// judge says why a job has not led to what it should. A target whose condition
// failed is inactive after a job that was done (openbmc-state-manager.md §4.3,
// 4f51875d).
func (w *unitWorld) judge(ctx context.Context, unit, result string) error {
	s, err := w.units.Read(ctx, unit)
	for result == systemd.ResultLost && err == nil && s.Job != 0 {
		if !pause(ctx, retryPause) {
			return context.Cause(ctx)
		}
		s, err = w.units.Read(ctx, unit)
	}
	w.units.Refresh()
	up := err != nil || s.Up() // what cannot be read is judged by the levels alone
	switch {
	case result == systemd.ResultDone && (up || systemd.Passing(unit)), result == systemd.ResultLost && up:
		return nil
	case result == systemd.ResultDone:
		return fmt.Errorf("%s is %s although its job is done: a condition of it does not hold, or it was stopped again", unit, s.Active)
	default:
		return fmt.Errorf("the job of %s ended: %s (%s)", unit, result, w.why(ctx, unit, result, s.Active))
	}
}

// why names the units that kept a job from being done, or says how the unit is.
func (w *unitWorld) why(ctx context.Context, unit, result, active string) string {
	if result == systemd.ResultDependency {
		if failed := w.units.FailedBelow(ctx, unit); len(failed) > 0 {
			return strings.Join(failed, ", ") + " failed"
		}
	}
	return "the unit is " + active
}

// systemResetTarget is x86-power-control's: what the board hooks to it resets the
// whole machine.
const systemResetTarget = "chassis-system-reset.target"

// run starts a unit and returns when its job has ended.
func (w *unitWorld) run(ctx context.Context, unit string) error {
	job, err := w.enqueue(ctx, unit, systemd.ModeReplace)
	if err != nil {
		return fmt.Errorf("systemd refused: %w", err)
	}
	select {
	case result := <-job.Result:
		return w.judge(ctx, unit, result)
	case <-ctx.Done():
		return fmt.Errorf("the job of %s did not end within jobTimeout", unit)
	}
}

// reboot restarts the BMC and returns when systemd has begun to, or why not.
func (w *unitWorld) reboot(ctx context.Context, hard bool) error {
	if hard {
		return w.units.Reboot(ctx)
	}
	t, _ := systemd.TargetFor(state.BMCReboot.String(), 0, systemd.Selection{})
	job, err := w.units.Start(ctx, t.Unit, t.Mode)
	if err != nil {
		return fmt.Errorf("systemd refused: %w", err)
	}
	select {
	case result := <-job.Result:
		if result != systemd.ResultDone {
			return fmt.Errorf("the job of %s ended: %s", t.Unit, result)
		}
	case <-ctx.Done(): // units that take long to stop hold it up; it goes on
	}
	return nil
}
