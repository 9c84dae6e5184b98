package main

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus/failover"
	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// resourceOf wires one resource of the configuration.
func (fm *faultMonitor) resourceOf(w config.Watched) (faults.Resource, error) {
	r := faults.Resource{Config: w.Config, Unit: w.Unit, Domain: w.Domain}
	if w.Config.Escalation == monitor.EscalateTransition || w.Line != nil && w.Line.Signal != "" || w.Host != nil {
		d, err := fm.domainOf(w)
		if err != nil {
			return r, err
		}
		r.Domain = d.Number
		if w.Host != nil {
			fm.wireHost(&r, w, d)
		}
	}
	switch {
	case w.Net != nil:
		n := w.Net
		r.Probe = faults.Net{
			Host: n.Host, Port: strconv.Itoa(n.Port), Send: n.Send, Expect: n.Expect, HTTPPath: n.HTTPPath, FamilyWeight: n.FamilyWeight,
			Lookup: lookup,
		}
	case w.Line != nil:
		read, asserted, err := fm.lineOf(r.Domain, w.Config.Name, w.Line)
		if err != nil {
			return r, err
		}
		r.Probe = faults.Line{Read: read, Signal: w.Line.Text(), Asserted: asserted, Weight: w.Line.Weight}
	case w.Property != nil:
		read := func(ctx context.Context) inputs.Level { return fm.props.One(ctx, w.Config.Name) }
		r.Probe = faults.Property{Read: read, Name: w.Property.Name, Weight: w.Property.Weight}
	case w.Command != nil:
		r.Probe = faults.Command{Units: fm.units, Unit: "bmcstate-probe-" + systemd.EscapePath(w.Config.Name) + ".service", Argv: w.Command}
	}
	return r, nil
}

func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return systemd.ResolveHost(ctx, "", name)
}

// domainOf returns the power domain that a resource belongs to.
func (fm *faultMonitor) domainOf(w config.Watched) (config.Domain, error) {
	for _, d := range fm.m.domains {
		if w.Host != nil && state.Contains(d.Hosts, w.Host.Index) || w.Host == nil && d.Number == w.Domain {
			return d, nil
		}
	}
	if w.Host != nil {
		return config.Domain{}, fmt.Errorf("there is no host %d", w.Host.Index)
	}
	return config.Domain{}, fmt.Errorf("there is no power domain %d: one is numbered by its lowest chassis", w.Domain)
}

// wireHost makes a resource a host. One that is run by targets is quiesced as
// such.
func (fm *faultMonitor) wireHost(r *faults.Resource, w config.Watched, d config.Domain) {
	view := &faults.HostView{}
	fm.hosts[w.Host.Index] = view
	r.Host, r.Op = true, w.Host.Restart
	r.Probe = faults.SilentHost{View: view, Timeout: w.Host.BootTimeout, Now: fm.m.now}
	if fm.m.targets[d.Number] != nil && r.Config.QuiesceTarget == "" && fm.units != nil {
		r.Config.QuiesceTarget = "obmc-host-quiesce@" + strconv.Itoa(w.Host.Index) + ".target"
	}
}

// line returns what reads one input of a domain's board.
func (m *machine) line(domain int, signal string) func(context.Context) (state.Level, error) {
	return func(ctx context.Context) (state.Level, error) {
		switch b := m.boards[domain].(type) {
		case nil:
			return state.LevelAbsent, fmt.Errorf("domain %d has no board", domain)
		case *board:
			all, err := b.Board.Read(ctx, 0)
			return level(all, signal), err
		default:
			return otherLine(ctx, b, signal)
		}
	}
}

// otherLine reads a board that is run by targets: it has power good alone.
func otherLine(ctx context.Context, b engine.Board, signal string) (state.Level, error) {
	if signal != gpio.PowerOk {
		return state.LevelAbsent, fmt.Errorf("%s: this domain is run by targets and shows %s only", signal, gpio.PowerOk)
	}
	l, _, err := b.Read(ctx, 0)
	return l.PowerGood, err
}

// redundancy are the conditions of a redundant pair under which nothing is acted
// upon: a passive BMC restarts nothing, nor does one that hands over.
var redundancy = []config.Inhibit{
	{Reason: "passive role", Property: redundancyProperty("Role", failover.Interface+".Role.Passive")},
	{Reason: "failover in progress", Property: redundancyProperty("FailoverInProgress", "true")},
}

func redundancyProperty(name, value string) config.PropertyProbe {
	return config.PropertyProbe{
		Service: failover.Service, Path: failover.Path, Interface: failover.Interface, Name: name, Equals: value,
		Min: config.NoMin, Max: config.NoMax,
	}
}

// propertyRetry is the time between two looks at the properties without a
// signal.
const propertyRetry = 10 * time.Second

// inhibitSignal marks the signals that stand for reasons, not for resources.
const inhibitSignal = "inhibit "

// openProperties reads the properties that resources and reasons are made of.
func (fm *faultMonitor) openProperties(m config.Monitor, log *slog.Logger) {
	var all []inputs.Property
	add := func(signal string, p *config.PropertyProbe) {
		all = append(all, inputs.Property{
			Signal: signal, Service: p.Service, Path: p.Path, Interface: p.Interface, Name: p.Name,
			Test: func(v any) (bool, error) {
				ok, err := p.Holds(v)
				if err != nil {
					err = fmt.Errorf("%w: %w", faults.ErrValue, err)
				}
				return ok, err
			},
		})
	}
	reasons := m.Inhibits
	for _, w := range m.Resources {
		if w.Property != nil {
			add(w.Config.Name, w.Property)
		}
		if w.Config.Escalation == monitor.EscalateFailover && len(reasons) == len(m.Inhibits) {
			reasons = append(reasons, redundancy...)
		}
	}
	for i := range reasons {
		add(inhibitSignal+reasons[i].Reason, &reasons[i].Property)
	}
	if len(all) > 0 {
		fm.props = inputs.New(inputs.Options{Properties: all, Retry: propertyRetry, Log: log})
	}
}

// passProperties has what changes looked at until ctx ends: a reason begins or
// ends, a resource is probed.
func (fm *faultMonitor) passProperties(ctx context.Context) {
	if fm.props == nil {
		return
	}
	for {
		select {
		case e := <-fm.props.Events():
			fm.propertyMoved(ctx, e)
		case <-ctx.Done():
			return
		}
	}
}

func (fm *faultMonitor) propertyMoved(ctx context.Context, e inputs.Event) {
	reason, inhibits := strings.CutPrefix(e.Signal, inhibitSignal)
	if !inhibits {
		fm.loop.Tell(e.Signal, monitor.ProbeNow{}, nil)
		return
	}
	on := e.Asserted
	if e.Gap { // a service that is not there has no reason against anything
		on = fm.props.One(ctx, e.Signal).Asserted
	}
	fm.loop.Inhibit(reason, on)
}
