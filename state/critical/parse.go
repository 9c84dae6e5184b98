package critical

import (
	"errors"
	"fmt"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// Config is what the files name. The zero value names nothing.
type Config struct {
	targets   []target
	services  []string
	immediate []string
}

type target struct {
	unit, message string
	results       map[string]bool
}

// Empty reports whether nothing is to be watched.
func (c *Config) Empty() bool { return len(c.targets)+len(c.services)+len(c.immediate) == 0 }

// results are what errorsToMonitor may list; "default" stands for all others.
var results = []string{"default", "timeout", "failed", "dependency"}

// spelt are messages of the stock file that no interface has, and what the
// interface calls them.
var spelt = map[string]string{
	"xyz.openbmc_project.State.Host.Error.HostStartMinFailure": "xyz.openbmc_project.State.Host.Error.HostMinStartFailure",
}

// Add reads the text of a file, of either kind, into c. What is wrong with one
// entry does not keep the others; the error joins one for each, with file, line
// and column.
func (c *Config) Add(file string, data []byte) error {
	p := parser{c: c, file: file, data: data}
	root, err := jsonpos.Parse(data)
	var syntax *jsonpos.SyntaxError
	switch {
	case errors.As(err, &syntax):
		p.fail(syntax.Offset, "not valid JSON: %s", syntax.Text)
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case root.Kind != jsonpos.Object:
		p.fail(root.Offset, `the file is %s, not an object with "targets" or "services"`, root.Kind)
	default:
		p.root(root)
	}
	return errors.Join(p.errs...)
}

type parser struct {
	c    *Config
	file string
	data []byte
	errs []error
}

func (p *parser) fail(offset int, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%s: %s", p.file, jsonpos.PositionOf(p.data, offset), fmt.Sprintf(format, args...)))
}

func (p *parser) root(n *jsonpos.Node) {
	known := false
	for _, m := range n.Members {
		switch m.Key {
		case "targets":
			p.targets(m.Value)
		case "services":
			p.names(m.Value, &p.c.services)
		case "immediate_quiesce_services":
			p.names(m.Value, &p.c.immediate)
		default:
			continue
		}
		known = true
	}
	if !known {
		p.fail(n.Offset, `the file names nothing: "targets", "services" or "immediate_quiesce_services" is expected`)
	}
}

func (p *parser) targets(n *jsonpos.Node) {
	if n.Kind != jsonpos.Object {
		p.fail(n.Offset, "targets is %s, not an object from a unit to what is monitored of it", n.Kind)
		return
	}
	for _, m := range n.Members {
		before := len(p.errs)
		t := target{unit: m.Key, results: map[string]bool{}}
		for _, f := range m.Value.Members {
			switch f.Key {
			case "errorsToMonitor":
				p.results(f.Value, t.results)
			case "errorToLog":
				t.message = f.Value.Text
			}
		}
		switch {
		case len(p.errs) > before:
		case m.Key == "" || t.message == "" || len(t.results) == 0:
			p.fail(m.Offset, "%q needs errorsToMonitor, a list, and errorToLog, the name of an error", m.Key)
		default:
			if name := spelt[t.message]; name != "" {
				t.message = name
			}
			p.c.targets = append(p.c.targets, t)
		}
	}
}

func (p *parser) results(n *jsonpos.Node, into map[string]bool) {
	for _, e := range n.Elems {
		switch {
		case !contains(results, e.Text):
			p.fail(e.Offset, "%q is no result that can be monitored; there are %q", e.Text, results)
		case e.Text == "default" && len(n.Elems) > 1:
			p.fail(e.Offset, `"default" stands for all results and stands alone`)
		case e.Text == "default":
			for _, r := range results[1:] {
				into[r] = true
			}
		default:
			into[e.Text] = true
		}
	}
}

func (p *parser) names(n *jsonpos.Node, into *[]string) {
	if n.Kind != jsonpos.Array {
		p.fail(n.Offset, "a list of services is expected, not %s", n.Kind)
		return
	}
	for _, e := range n.Elems {
		if e.Kind != jsonpos.String || e.Text == "" {
			p.fail(e.Offset, "the name of a service is expected, not %s", e.Source(p.data, 40))
			continue
		}
		*into = append(*into, e.Text)
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
