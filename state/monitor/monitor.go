package monitor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// ErrUnknownResource is the error of a step for a name that is not configured,
// for example a late answer after a reload.
var ErrUnknownResource = errors.New("monitor: no such resource")

// Monitor owns many resources, their dependencies and the limits they share.
// It is not safe for concurrent use. Its actions carry the resource's name.
type Monitor struct {
	rand      func() float64
	gate      *limiter
	resources map[string]*Resource
	names     []string            // sorted, so that equal input gives equal output
	children  map[string][]string // parent → children, sorted
	bad       map[string]bool     // as last told to the children
	inhibits  []string            // sorted reasons
}

// New returns a Monitor without resources. random gives numbers in [0,1).
func New(limits Limits, random func() float64) (*Monitor, error) {
	if random == nil {
		return nil, errors.New("monitor: no source of random numbers")
	}
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	return &Monitor{
		rand: random, gate: newLimiter(limits),
		resources: map[string]*Resource{}, children: map[string][]string{}, bad: map[string]bool{},
	}, nil
}

// Configure makes cfgs the resources: new ones are added, known ones keep
// their history, missing ones are removed. With an error nothing has changed.
func (m *Monitor) Configure(now state.Instant, cfgs []Config) ([]Action, error) {
	if err := validateAll(cfgs); err != nil {
		return nil, err
	}
	out := m.removeMissing(cfgs)
	m.children = map[string][]string{}
	var fresh []string
	for _, c := range cfgs {
		for _, p := range c.DependsOn {
			m.children[p] = append(m.children[p], c.Name)
		}
		if _, known := m.resources[c.Name]; known {
			continue
		}
		r, err := NewResource(now, c, m.rand)
		if err != nil {
			return nil, err // cannot be: validated above
		}
		r.gate = m.gate
		m.resources[c.Name] = r
		fresh = append(fresh, c.Name)
	}
	m.sortNames()
	for _, c := range cfgs {
		var ev Event = Configure{c}
		if state.Contains(fresh, c.Name) {
			ev = Inhibit{strings.Join(m.inhibits, ", ")}
		}
		out = append(out, m.step(now, c.Name, ev)...)
	}
	for _, c := range cfgs {
		out = append(out, m.syncParents(now, c)...)
	}
	return append(out, m.pump(now)...), nil
}

func (m *Monitor) sortNames() {
	m.names = m.names[:0]
	for n := range m.resources {
		m.names = append(m.names, n)
	}
	state.Sort(m.names)
	for _, c := range m.children {
		state.Sort(c)
	}
}

func (m *Monitor) removeMissing(cfgs []Config) []Action {
	var out []Action
	for _, n := range m.names {
		if configured(cfgs, n) {
			continue
		}
		r := m.resources[n]
		if s := r.probing.slot; s != nil && !s.abandoned {
			out = append(out, CancelProbe{Resource: n, Tag: s.tag})
		}
		m.gate.leave(n)
		m.gate.release(n, true)
		delete(m.resources, n)
		delete(m.bad, n)
		out = append(out, Removed{n})
	}
	return out
}

func configured(cfgs []Config, name string) bool {
	for i := range cfgs {
		if cfgs[i].Name == name {
			return true
		}
	}
	return false
}

// syncParents tells a resource which of its present parents are bad.
func (m *Monitor) syncParents(now state.Instant, c Config) []Action {
	var out []Action
	for _, p := range append([]string(nil), m.resources[c.Name].badParents...) {
		if !state.Contains(c.DependsOn, p) {
			out = append(out, m.step(now, c.Name, ParentGood{p})...)
		}
	}
	for _, p := range c.DependsOn {
		if m.bad[p] {
			out = append(out, m.step(now, c.Name, ParentBad{p})...)
		}
	}
	return out
}

// SetLimits changes the shared limits. Restarts in flight go on.
func (m *Monitor) SetLimits(now state.Instant, l Limits) ([]Action, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	m.gate.limits = l
	m.gate.changed = true
	return m.pump(now), nil
}

// Step passes ev to the resource of that name.
func (m *Monitor) Step(now state.Instant, name string, ev Event) ([]Action, error) {
	if _, ok := m.resources[name]; !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknownResource, name)
	}
	if c, ok := ev.(Configure); ok && !slices.Equal(c.Config.DependsOn, m.resources[name].cfg.DependsOn) {
		return nil, fmt.Errorf("monitor: the dependencies of %q change only with the whole configuration", name)
	}
	return append(m.step(now, name, ev), m.pump(now)...), nil
}

// Broadcast passes ev to every resource, for example an Intent.
func (m *Monitor) Broadcast(now state.Instant, ev Event) []Action {
	var out []Action
	for _, n := range m.names {
		out = append(out, m.step(now, n, ev)...)
	}
	return append(out, m.pump(now)...)
}

// SetInhibit begins or ends one reason for which no restart or escalation is
// started anywhere. Decisions wait until the last reason has ended.
func (m *Monitor) SetInhibit(now state.Instant, reason string, on bool) []Action {
	m.inhibits = state.Remove(m.inhibits, reason)
	if on {
		m.inhibits = append(m.inhibits, reason)
		state.Sort(m.inhibits)
	}
	return m.Broadcast(now, Inhibit{strings.Join(m.inhibits, ", ")})
}

// Tick steps every resource whose deadline has come, those that have waited
// longest for a restart first.
func (m *Monitor) Tick(now state.Instant) []Action {
	var out []Action
	for _, n := range append(m.gate.waiting(), m.names...) {
		if at, ok := m.resources[n].NextDeadline(); ok && at <= now.Boot {
			out = append(out, m.step(now, n, Tick{})...)
		}
	}
	return append(out, m.pump(now)...)
}

// NextDeadline returns when Tick is due if nothing else happens; false = never.
func (m *Monitor) NextDeadline() (time.Duration, bool) {
	next := never
	for _, r := range m.resources {
		if at, ok := r.NextDeadline(); ok {
			next = min(next, at)
		}
	}
	return next, next != never
}

// Names returns the configured names, sorted.
func (m *Monitor) Names() []string { return append([]string(nil), m.names...) }

// Resource returns a resource for reading: View, Counters, Records and the
// like. Stepping it past the Monitor would break the Monitor's promises.
func (m *Monitor) Resource(name string) (*Resource, bool) {
	r, ok := m.resources[name]
	return r, ok
}

// step also tells the children when their parent has turned bad or good. The
// graph has no cycle, so this ends.
func (m *Monitor) step(now state.Instant, name string, ev Event) []Action {
	r := m.resources[name]
	out := r.Step(now, ev)
	bad := r.Bad()
	if bad == m.bad[name] {
		return out
	}
	m.bad[name] = bad
	for _, child := range m.children[name] {
		var tell Event = ParentGood{name}
		if bad {
			tell = ParentBad{name}
		}
		out = append(out, m.step(now, child, tell)...)
	}
	return out
}

// pump lets those who wait for a restart ask again after a place became free.
func (m *Monitor) pump(now state.Instant) []Action {
	var out []Action
	for m.gate.changed {
		m.gate.changed = false
		for _, n := range m.gate.waiting() {
			out = append(out, m.step(now, n, retryLaunch{})...)
		}
	}
	return out
}
