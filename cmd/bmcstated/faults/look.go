package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
)

// Command is a probe by a program: its exit status is the probe's status, and a
// signal that ends it a complete failure. systemd runs it, outside our sandbox.
type Command struct {
	Units *systemd.Units
	Unit  string // of the transient service: no two resources have the same
	Argv  []string
}

// Probe implements [Prober].
func (c Command) Probe(ctx context.Context, _ bool) Result {
	limit := time.Minute
	if at, ok := ctx.Deadline(); ok {
		limit = max(time.Until(at), time.Millisecond)
	}
	exit, err := c.Units.Run(ctx, c.Unit, c.Argv, limit)
	switch {
	case ctx.Err() != nil:
		return Result{monitor.ProbeCompleteFailure, c.Argv[0] + " did not end in time"}
	case err != nil:
		return Result{monitor.ProbeMonitorError, err.Error()}
	case exit.Signalled:
		return Result{monitor.ProbeCompleteFailure, fmt.Sprintf("%s was ended by signal %d", c.Argv[0], exit.Status)}
	case exit.Status == 0:
		return Result{}
	default:
		return Result{int(exit.Status), fmt.Sprintf("%s exited with %d", c.Argv[0], exit.Status)}
	}
}

// Property is a probe of a D-Bus property. A service that is not there or does
// not answer is a complete failure.
type Property struct {
	Read   func(ctx context.Context) inputs.Level // asserted where the value is as wanted
	Name   string
	Weight int // of a value that is not as wanted
}

// ErrValue is wrapped by the error of a predicate that cannot judge a value: that
// is a mistake of the configuration, and says nothing of the resource.
var ErrValue = errors.New("the value cannot be judged")

// Probe implements [Prober].
func (p Property) Probe(ctx context.Context, _ bool) Result {
	l := p.Read(ctx)
	switch {
	case errors.Is(l.Err, inputs.ErrNoBus), errors.Is(l.Err, ErrValue):
		return Result{monitor.ProbeMonitorError, l.Err.Error()}
	case l.Err != nil:
		return Result{monitor.ProbeCompleteFailure, l.Err.Error()}
	case !l.Asserted:
		return Result{p.Weight, "the property " + p.Name + " is not as it should be"}
	}
	return Result{}
}

// Line is a probe of an input of a board.
type Line struct {
	Read     func(ctx context.Context) (state.Level, error)
	Signal   string
	Asserted bool
	Weight   int // of the other level
}

// Probe implements [Prober]. A line that cannot be read says nothing.
func (p Line) Probe(ctx context.Context, _ bool) Result {
	l, err := p.Read(ctx)
	switch {
	case err != nil:
		return Result{monitor.ProbeMonitorError, err.Error()}
	case !l.Known():
		return Result{monitor.ProbeMonitorError, p.Signal + " cannot be read"}
	case l != state.LevelOf(p.Asserted):
		return Result{p.Weight, p.Signal + " is not as it should be"}
	}
	return Result{}
}

// HostView is what a host last showed, and since when its boot has not gone on.
// It is safe for concurrent use.
type HostView struct {
	mu    sync.Mutex
	shown state.Host
	since time.Duration // boot clock
}

// Show takes what a host shows.
func (v *HostView) Show(h state.Host, now time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.shown
	if v.since == 0 || h.Current != s.Current || h.OS != s.OS || h.BootProgress != s.BootProgress || h.BootProgressUpdate != s.BootProgressUpdate {
		v.since = now
	}
	v.shown = h
}

// SilentHost is a probe of a host's boot: one that shows no progress for too long
// before its OS is there is silent.
type SilentHost struct {
	View    *HostView
	Timeout time.Duration // 0 = never silent
	Now     func() state.Instant
}

// Probe implements [Prober].
func (p SilentHost) Probe(context.Context, bool) Result {
	p.View.mu.Lock()
	h, since := p.View.shown, p.View.since
	p.View.mu.Unlock()
	quiet := p.Now().Boot - since
	switch {
	case since == 0:
		return Result{monitor.ProbeMonitorError, "the host has shown nothing yet"}
	case h.Current == state.HostStateQuiesced || h.Current == state.HostStateDiagnosticMode:
		return Result{monitor.ProbeMonitorError, "the host is quiesced or being diagnosed"}
	case p.Timeout == 0 || quiet < p.Timeout || h.Current == state.HostStateOff || booted(h):
		return Result{}
	}
	return Result{monitor.ProbeCompleteFailure, fmt.Sprintf("the host is silent: no boot progress for %v", quiet.Round(time.Second))}
}

// booted reports whether a host has said that its firmware is done.
func booted(h state.Host) bool {
	switch h.BootProgress {
	case state.BootProgressOSStart, state.BootProgressOSRunning, state.BootProgressSystemSetup:
		return true
	default:
		return h.OS != state.OSStateInactive
	}
}
