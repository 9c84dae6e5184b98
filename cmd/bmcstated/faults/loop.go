package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// Resource is one watched thing and how it is probed and acted upon.
type Resource struct {
	Config monitor.Config
	Probe  Prober // nil = as Unit is; without a Unit the resource is always well until told otherwise
	Unit   string // systemd unit that is watched, and restarted; "" = none
	Domain int    // power domain whose queue takes the transitions
	Host   bool   // the domain's signs and power good are told to the resource, and Op restarts it
	Op     state.Operation

	// Restart replaces the restart of Unit or by Op. It ends
	// when ctx does, with [context.Cause] [ErrWithdrawn] where an operator wants
	// the resource off.
	Restart func(ctx context.Context, r monitor.Restart) monitor.RestartDone
}

// ErrWithdrawn is why the context of a restart ended early: an operator wants
// the resource off.
var ErrWithdrawn = errors.New("faults: an operator wants it off")

// Shower shows resources. Calls come from the loop's goroutine in order and must
// not block.
type Shower interface {
	ShowFault(v monitor.View, lastFailure uint64) // µs since the epoch, 0 = none
	RemoveFault(name string)
}

// Options are what a [Loop] needs.
type Options struct {
	Limits    monitor.Limits
	Resources []Resource
	Units     *systemd.Units     // the loop reads its events; nil where no resource has a unit
	Post      func(engine.Event) // to the engine; nil where no resource asks for a transition
	// Failover asks the other BMC to take over: the answer, and why not.
	Failover func(ctx context.Context) (monitor.Answer, string)
	Show     Shower
	Now      func() state.Instant
	Random   func() float64
	BootID   string
	RunDir   string // where the snapshot is; "" = nowhere
	Log      *slog.Logger
}

// Loop is the goroutine around a monitor. Its methods are safe for concurrent
// use; none blocks.
type Loop struct {
	opts   Options
	mon    *monitor.Monitor
	inbox  inbox
	byName map[string]*Resource

	// The loop's own.
	probes   map[probeKey]context.CancelFunc
	restarts map[restartKey]context.CancelCauseFunc
	watches  map[string]*unitWatch // by unit
	intents  map[int]uint64        // by domain, as last told
	refused  string                // by the step being taken

	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

type probeKey struct {
	name string
	tag  monitor.Tag
}

type restartKey struct {
	name       string
	generation uint64
}

// New checks the resources and takes the snapshot of an earlier run in the same
// boot. Warnings go to the log. A snapshot that cannot be used is logged, not
// an error.
func New(o Options) (*Loop, error) {
	if o.Show == nil {
		o.Show = nobody{}
	}
	mon, err := monitor.New(o.Limits, o.Random)
	if err != nil {
		return nil, err
	}
	l := &Loop{
		opts: o, mon: mon, inbox: inbox{wake: make(chan struct{}, 1)}, byName: map[string]*Resource{},
		probes: map[probeKey]context.CancelFunc{}, restarts: map[restartKey]context.CancelCauseFunc{},
		watches: map[string]*unitWatch{}, intents: map[int]uint64{},
	}
	var cfgs []monitor.Config
	units := map[string]string{}
	for i := range o.Resources {
		r := &o.Resources[i]
		if l.byName[r.Config.Name] != nil {
			return nil, fmt.Errorf("faults: resource %q is there twice", r.Config.Name)
		}
		if r.Unit != "" && o.Units == nil {
			return nil, fmt.Errorf("faults: resource %q has a unit, and there is no systemd to watch it with", r.Config.Name)
		}
		if other := units[r.Unit]; r.Unit != "" && other != "" {
			return nil, fmt.Errorf("faults: resources %q and %q watch one unit, %s", other, r.Config.Name, r.Unit)
		}
		units[r.Unit] = r.Config.Name
		warnings, err := r.Config.Validate()
		if err != nil {
			return nil, err
		}
		for _, w := range warnings {
			o.Log.Warn("fault monitor: " + w)
		}
		l.byName[r.Config.Name] = r
		cfgs = append(cfgs, r.Config)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	now := o.Now()
	actions, err := mon.Configure(now, cfgs)
	if err != nil {
		l.cancel()
		return nil, err
	}
	l.post(func() { l.carryOut(actions) })
	l.restore(now)
	return l, nil
}

// nobody shows nothing.
type nobody struct{}

func (nobody) ShowFault(monitor.View, uint64) {}
func (nobody) RemoveFault(string)             {}

// Tell passes an event to one resource. reply, where not nil, is called from the
// loop's goroutine with why it had no effect, "" if it had one.
func (l *Loop) Tell(name string, ev monitor.Event, reply func(refusal string)) {
	l.post(func() {
		l.refused = ""
		l.step(name, ev)
		if reply != nil {
			reply(l.refused)
		}
	})
}

// Inhibit begins or ends a reason of the whole BMC for which nothing is acted
// upon.
func (l *Loop) Inhibit(reason string, on bool) {
	l.post(func() { l.carryOut(l.mon.SetInhibit(l.opts.Now(), reason, on)) })
}

// Inspect calls f with a resource, nil if there is none of that name, from the
// loop's goroutine.
func (l *Loop) Inspect(name string, f func(*monitor.Resource)) {
	l.post(func() {
		r, _ := l.mon.Resource(name)
		f(r)
	})
}

// Change alters the configuration of a resource and keeps its histories. reply
// is called as in [Loop.Tell]; a range that is violated changes nothing.
func (l *Loop) Change(name string, change func(*monitor.Config), reply func(refusal string)) {
	l.post(func() {
		r, ok := l.mon.Resource(name)
		if !ok {
			reply(monitor.ErrUnknownResource.Error())
			return
		}
		cfg := r.Config()
		change(&cfg)
		if _, err := cfg.Validate(); err != nil {
			reply(err.Error())
			return
		}
		l.refused = ""
		l.step(name, monitor.Configure{Config: cfg})
		reply(l.refused)
	})
}

// Run owns the monitor until ctx ends, stores a last snapshot and returns when
// every goroutine that it started has ended. Call it once.
func (l *Loop) Run(ctx context.Context) {
	var events <-chan systemd.Event
	if l.opts.Units != nil {
		events = l.opts.Units.Events()
		l.watchUnits()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if job, ok := l.inbox.take(); ok {
			job()
			continue
		}
		l.tick()
		timer.Reset(l.idle())
		select {
		case <-ctx.Done():
		case <-l.inbox.wake:
		case <-timer.C:
		case ev, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			l.unitEvent(ev)
		}
	}
	l.save()
	l.cancel()
	l.workers.Wait()
}

// longest is how long the loop sleeps where nothing is due.
const longest = time.Hour

func (l *Loop) idle() time.Duration {
	due, ok := l.mon.NextDeadline()
	for _, w := range l.watches {
		if w.verdictAt != 0 && (!ok || w.verdictAt < due) {
			due, ok = w.verdictAt, true
		}
	}
	if !ok {
		return longest
	}
	return min(longest, max(0, due-l.opts.Now().Boot))
}

func (l *Loop) tick() {
	l.carryOut(l.mon.Tick(l.opts.Now()))
	for _, w := range l.watches {
		switch now := l.opts.Now().Boot; {
		case w.verdictAt == 0 || now < w.verdictAt:
		case l.opts.Units.Owes(w.unit):
			w.verdictAt = now + jobNews // what explains the end may be among it
		default:
			w.coming = false // it was lost on its way
			l.tellUnit(w, w.verdict(now))
		}
	}
}

func (l *Loop) step(name string, ev monitor.Event) {
	actions, err := l.mon.Step(l.opts.Now(), name, ev)
	if err != nil {
		l.refused = err.Error()
		l.opts.Log.Debug("fault monitor", "resource", name, "err", err)
	}
	l.carryOut(actions)
}

// post hands a job to the loop's goroutine.
func (l *Loop) post(job func()) { l.inbox.put(job) }

// answer is a post of a worker. After the end of Run nobody takes it.
func (l *Loop) answer(name string, ev monitor.Event) { l.post(func() { l.step(name, ev) }) }

// inbox is an unbounded queue of jobs: their senders must not block. What is in
// it is bounded by one answer per probe and action in flight.
type inbox struct {
	wake chan struct{}
	mu   sync.Mutex
	jobs []func()
}

func (b *inbox) put(job func()) {
	b.mu.Lock()
	b.jobs = append(b.jobs, job)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) take() (func(), bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.jobs) == 0 {
		return nil, false
	}
	job := b.jobs[0]
	b.jobs[0] = nil
	b.jobs = b.jobs[1:]
	return job, true
}
