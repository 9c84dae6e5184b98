package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/systemd"
)

// Monitor is the fault monitor's block.
type Monitor struct {
	Limits    monitor.Limits
	Inhibits  []Inhibit
	Resources []Watched
}

// Watched is one resource of the fault monitor. At most one of the probes is
// set; without one the unit's own state is the probe.
type Watched struct {
	Config   monitor.Config
	Unit     string     // systemd unit that is watched and restarted; "" = none
	Host     *HostProbe // nil = none
	Domain   int        // whose queue an escalation's transition goes to, and whose board Line is of; not of a Host
	Net      *NetProbe
	Line     *LineProbe
	Property *PropertyProbe
	Command  []string
}

func defaultMonitor() Monitor {
	return Monitor{Limits: monitor.Limits{RestartsPerMinute: 10, Parallel: 4}}
}

// maxResources bounds what one daemon watches.
const maxResources = 512

func (m *Monitor) keys() []key {
	return []key{
		{"restartsPerMinute", integer(&m.Limits.RestartsPerMinute, 0, 1000)},
		{"parallel", integer(&m.Limits.Parallel, 0, 1000)},
		{"inhibit", m.readInhibits},
		{"resources", m.readResources},
	}
}

func (m *Monitor) readResources(d *decoder, field string, n *jsonpos.Node) {
	allowed := fmt.Sprintf("a list of at most %d objects", maxResources)
	if n.Kind != jsonpos.Array {
		d.wrongType(field, n, allowed)
		return
	}
	if len(n.Elems) > maxResources {
		d.outOfRange(field, n, allowed)
		return
	}
	before, names, units := len(d.errs), map[string]bool{}, map[string]bool{}
	var all []Watched
	for i, e := range n.Elems {
		at := fmt.Sprintf("%s[%d]", field, i)
		w := Watched{Config: monitor.DefaultConfig("")}
		if e.Kind == jsonpos.Object && offsetOf(e, "host") != e.Offset { // what follows overrides it
			hostDefaults(&w.Config)
		}
		object(w.keys)(d, at, e)
		w.check(d, at, e)
		if name := w.Config.Name; name != "" && names[name] {
			d.report(offsetOf(e, "name"), FieldError{Field: at + ".name", Value: fmt.Sprintf("%q", name), Problem: "is there twice"})
		}
		if w.Unit != "" && units[w.Unit] {
			d.report(offsetOf(e, "unit"), FieldError{Field: at + ".unit", Value: strconv.Quote(w.Unit),
				Problem: "is watched by another resource already; let one have the unit, and the others mode LOG_ONLY or retryCount 0"})
		}
		names[w.Config.Name], units[w.Unit] = true, true
		all = append(all, w)
	}
	m.checkParents(d, field, n, all, names)
	if len(d.errs) == before {
		m.Resources = all
	}
}

func (m *Monitor) checkParents(d *decoder, field string, n *jsonpos.Node, all []Watched, names map[string]bool) {
	for i, w := range all {
		for _, p := range w.Config.DependsOn {
			if !names[p] {
				d.report(offsetOf(n.Elems[i], "dependsOn"), FieldError{Field: fmt.Sprintf("%s[%d].dependsOn", field, i),
					Value: fmt.Sprintf("%q", p), Problem: "names no resource"})
			}
		}
	}
	cfgs := make([]monitor.Config, len(all))
	for i := range all {
		cfgs[i] = all[i].Config
	}
	if err := monitor.FindCycle(cfgs); err != nil {
		d.report(n.Offset, FieldError{Field: field, Problem: err.Error()})
	}
}

// checkPlaces reports resources of a host or a domain that is not there.
func (m *Monitor) checkPlaces(d *decoder, root *jsonpos.Node, domains []Domain) {
	hosts := map[int]bool{}
	for _, at := range domains {
		for _, h := range at.Hosts {
			hosts[h] = true
		}
	}
	for i := range m.Resources {
		w, at := &m.Resources[i], fmt.Sprintf("monitor.resources[%d]", i)
		switch {
		case w.Host != nil && !hosts[w.Host.Index]:
			d.report(offsetOf(root, "monitor"), FieldError{Field: at + ".host.index", Value: strconv.Itoa(w.Host.Index),
				Problem: "names no host of hosts"})
		case w.Host == nil && (w.Line != nil || w.Config.Escalation == monitor.EscalateTransition): // else it is not used
			d.checkDomain(domains, root, "monitor", at+".domain", w.Domain, strconv.Itoa(w.Domain))
		}
	}
}

func (w *Watched) keys() []key {
	c := &w.Config
	span := func(to *time.Duration) reader { return duration(to, 0, maxTimeout) }
	return []key{
		{"name", name(&c.Name)},
		{"dependsOn", list(&c.DependsOn, 32, name)},
		{"unit", unit(&w.Unit)},
		{"host", w.readHost},
		{"domain", integer(&w.Domain, 0, maxIndex)},
		{"net", w.readNet},
		{"line", w.readLine},
		{"property", w.readProperty},
		{"command", w.readCommand},
		{"mode", text(&c.Mode, `"NONE", "SOFT", "HARD", "RESTART_ONLY" or "LOG_ONLY"`, monitor.ParseMode)},
		{"dryRun", boolean(&c.DryRun)},
		{"retryCount", integer(&c.RetryCount, -1, 100)},
		{"retryInterval", text(&c.RetryInterval, `"never", or a duration from "1s" to "24h"`, retryInterval)},
		{"thoroughProbe", span(&c.ThoroughProbe)},
		{"cheapProbe", span(&c.CheapProbe)},
		{"probeTimeout", span(&c.ProbeTimeout)},
		{"timeoutWeight", integer(&c.TimeoutWeight, 1, 100)},
		{"startGrace", span(&c.StartGrace)},
		{"restartTimeout", span(&c.RestartTimeout)},
		{"escalateTimeout", span(&c.EscalateTimeout)},
		{"escalation", text(&c.Escalation, `"none", "unit", "transition" or "failover"`, monitor.ParseEscalation)},
		{"target", name(&c.Target)},
		{"quiesceTarget", unit(&c.QuiesceTarget)},
		{"denialLimit", integer(&c.DenialLimit, -1, 100)},
		{"backoff", object(func() []key { return backoff(&c.Backoff) })},
		{"stableFor", span(&c.StableFor)},
		{"flap", object(func() []key { return flap(&c.Flap) })},
		{"gracefulTimeout", span(&c.GracefulTimeout)},
		{"powerDebounce", span(&c.PowerDebounce)},
	}
}

func backoff(b *monitor.Backoff) []key {
	percent := func(to *float64, least, most int64) reader {
		return func(d *decoder, field string, n *jsonpos.Node) {
			v, before := 0, len(d.errs)
			integer(&v, least, most)(d, field, n)
			if len(d.errs) == before {
				*to = float64(v) / 100
			}
		}
	}
	return []key{
		{"min", duration(&b.Min, 0, maxTimeout)},
		{"max", duration(&b.Max, 0, maxTimeout)},
		{"factorPercent", percent(&b.Factor, 100, 1000)},
		{"jitterPercent", percent(&b.Jitter, 0, 100)},
	}
}

func flap(f *monitor.FlapConfig) []key {
	return []key{
		{"count", integer(&f.Count, 0, 1000)},
		{"clear", integer(&f.Clear, 0, 1000)},
		{"window", duration(&f.Window, 0, maxTimeout)},
	}
}

// check looks at what the fields of a resource say together, in the core's
// words.
func (w *Watched) check(d *decoder, at string, n *jsonpos.Node) {
	if n.Kind != jsonpos.Object {
		return
	}
	w.checkProbes(d, at, n)
	_, err := w.Config.Validate()
	for _, e := range fieldErrors(err) {
		field, rest, nested := strings.Cut(e.Field, ".")
		field = lower(field)
		path := at + "." + field
		if nested {
			path += "." + lower(rest)
		}
		d.report(offsetOf(n, field), FieldError{Field: path, Value: fmt.Sprint(e.Value), Problem: "is not allowed here", Allowed: e.Want})
	}
}

func (w *Watched) checkProbes(d *decoder, at string, n *jsonpos.Node) {
	probes := 0
	for _, there := range []bool{w.Net != nil, w.Line != nil, w.Property != nil, w.Command != nil} {
		if there {
			probes++
		}
	}
	switch {
	case w.Unit != "" && w.Host != nil:
		d.fail(at, n, "is a unit and a host", `"unit" or "host"`)
	case probes > 1:
		d.fail(at, n, "has several probes", `one of "net", "line", "property" and "command"`)
	case probes == 0 && w.Unit == "" && w.Host == nil:
		d.fail(at, n, "watches nothing", `at least one of "unit", "host", "net", "line", "property" and "command"`)
	case w.Unit == "" && w.Host == nil && w.Config.Mode != monitor.ModeLogOnly && w.Config.RetryCount != 0:
		d.fail(at, n, "has nothing to restart", `a "unit", a "host", "retryCount" 0 or "mode" "LOG_ONLY"`)
	}
	w.checkTarget(d, at, n)
}

func (w *Watched) checkTarget(d *decoder, at string, n *jsonpos.Node) {
	wrong := FieldError{Field: at + ".target", Value: strconv.Quote(w.Config.Target)}
	switch w.Config.Escalation {
	case monitor.EscalateTransition:
		if _, err := escalatesTo(w.Config.Target); err != nil {
			wrong.Problem, wrong.Allowed = "is no transition that can be asked for", err.Error()
			d.report(offsetOf(n, "target"), wrong)
		}
	case monitor.EscalateUnit:
		if w.Config.Target != "" && !systemd.ValidUnitName(w.Config.Target) { // Validate tells of an empty one
			wrong.Problem, wrong.Allowed = "is no unit", unitNames
			d.report(offsetOf(n, "target"), wrong)
		}
	}
}

// hostDefaults are what a host differs in: a loss of power good is only logged
// unless the file says more (DESIGN.md §5), and a transition takes its time.
func hostDefaults(c *monitor.Config) {
	c.Mode = monitor.ModeLogOnly
	c.RestartTimeout = 15 * time.Minute
	c.PowerDebounce = time.Second
	c.EscalateTimeout = 10 * time.Minute
}

func fieldErrors(err error) []*monitor.FieldError {
	var all []*monitor.FieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // what Join made
		for _, e := range joined.Unwrap() {
			var f *monitor.FieldError
			if errors.As(e, &f) {
				all = append(all, f)
			}
		}
	}
	return all
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func retryInterval(s string) (time.Duration, error) {
	if s == "never" {
		return monitor.NeverAges, nil
	}
	v, err := time.ParseDuration(s)
	if err == nil && v < 0 {
		err = errOutOfRange
	}
	return v, err
}

// name reads what names something: not empty, printable, at most 255 bytes.
func name(to *string) reader {
	return text(to, "1 to 255 printable characters", func(s string) (string, error) {
		if s == "" || len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 127 }) {
			return "", errOutOfRange
		}
		return s, nil
	})
}

const unitNames = `the name of a unit, for example "web.service"`

// unit reads the name of a unit that systemd can take.
func unit(to *string) reader {
	return text(to, unitNames, func(s string) (string, error) {
		if !systemd.ValidUnitName(s) {
			return "", errOutOfRange
		}
		return s, nil
	})
}
