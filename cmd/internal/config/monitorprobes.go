package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// HostProbe makes a resource a host: its domain's power good and what people
// want of it are told, and Restart goes through the queue.
type HostProbe struct {
	_ state.Incomparable

	Index       int
	Restart     state.Operation
	BootTimeout time.Duration // a host that shows no progress for so long while it boots is silent; 0 = never
}

// NetProbe is a probe over TCP.
type NetProbe struct {
	_ state.Incomparable

	Host         string // name or address
	Port         int
	Send         string // what is said first
	Expect       string // what the first line of the answer begins with
	HTTPPath     string // GET of this path instead, "" = no HTTP
	FamilyWeight int    // of one address family's failure while the other is well
}

// LineProbe is a probe of a line: an input of a domain's board by its signal, or
// any other by its place.
type LineProbe struct {
	_ state.Incomparable

	Signal string // as in power-config-host<N>.json; "" = the line is named by what follows

	Chip      string // label of the chip or name of its device, "" = any
	Name      string // of the line, "" = by Offset
	Offset    int    // on Chip; −1 = by Name
	ActiveLow bool   // asserted means low

	Asserted bool // as it is while all is well
	Weight   int  // of the other level
}

// Text names the line for people.
func (l *LineProbe) Text() string {
	switch {
	case l.Signal != "":
		return l.Signal
	case l.Name != "":
		return l.Name
	default:
		return l.Chip + " " + strconv.Itoa(l.Offset)
	}
}

// The bounds of a PropertyProbe that has none.
const (
	NoMin = math.MinInt32
	NoMax = math.MaxInt32
)

// PropertyProbe is a D-Bus property and what it shows while all is well.
type PropertyProbe struct {
	_ state.Incomparable

	Service, Path, Interface, Name string
	Equals, Not                    string // text form of the value; "" = any
	Min, Max                       int    // of a number
	Weight                         int    // of any other value
}

// Holds says whether a value is one that is wanted. It is an error for a value
// that cannot be compared.
func (p *PropertyProbe) Holds(v any) (bool, error) {
	text := fmt.Sprint(v)
	if p.Equals != "" && text != p.Equals || p.Not != "" && text == p.Not {
		return false, nil
	}
	if p.Min == NoMin && p.Max == NoMax {
		return true, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false, fmt.Errorf("%s is %.40q, which is no number", p.Name, text)
	}
	return n >= float64(p.Min) && n <= float64(p.Max), nil
}

// Inhibit is a condition of the whole BMC under which nothing is acted upon.
type Inhibit struct {
	Reason   string
	Property PropertyProbe // the condition is there while it Holds
}

// restarts are the operations that restart a host.
var restarts = []state.Operation{
	state.HostReboot, state.HostGracefulWarmReboot, state.HostForceWarmReboot, state.ChassisPowerCycle,
}

// transitions are what an escalation may ask for; Chassis Off is an operator's.
var transitions = append([]state.Operation{state.HostOn, state.HostOff, state.ChassisOn}, restarts...)

// escalatesTo returns the operation of an escalation; its error says which there
// are.
func escalatesTo(target string) (state.Operation, error) {
	var names []string
	for _, op := range transitions {
		if op.String() == target {
			return op, nil
		}
		names = append(names, strconv.Quote(op.String()))
	}
	return 0, errors.New("one of " + strings.Join(names, ", "))
}

func operation(to *state.Operation, allowed []state.Operation) reader {
	var names []string
	for _, op := range allowed {
		names = append(names, strconv.Quote(op.String()))
	}
	return text(to, "one of "+strings.Join(names, ", "), func(s string) (state.Operation, error) {
		for _, op := range allowed {
			if op.String() == s {
				return op, nil
			}
		}
		return 0, errOutOfRange
	})
}

func (w *Watched) readHost(d *decoder, field string, n *jsonpos.Node) {
	h := HostProbe{Restart: state.HostReboot}
	object(func() []key {
		return []key{
			{"index", integer(&h.Index, 0, maxIndex)},
			{"restart", operation(&h.Restart, restarts)},
			{"bootTimeout", duration(&h.BootTimeout, 0, maxTimeout)},
		}
	})(d, field, n)
	w.Host = &h
}

func (w *Watched) readNet(d *decoder, field string, n *jsonpos.Node) {
	p := NetProbe{Host: "localhost", FamilyWeight: 100}
	before := len(d.errs)
	object(func() []key {
		return []key{
			{"host", name(&p.Host)},
			{"port", integer(&p.Port, 1, 65535)},
			{"send", text(&p.Send, "a string", asIs)},
			{"expect", text(&p.Expect, "a string", asIs)},
			{"httpPath", text(&p.HTTPPath, `a path that begins with "/"`, httpPath)},
			{"familyWeight", integer(&p.FamilyWeight, 1, 100)},
		}
	})(d, field, n)
	if p.Port == 0 && len(d.errs) == before {
		d.fail(field, n, "has no port", "a port from 1 to 65535")
	}
	w.Net, w.Config.PartialWeights = &p, true // a hung service is a partial failure
}

// maxOffset is far above what a chip has lines.
const maxOffset = 4095

// oneLine reports whether it is said in one way which line is meant.
func (l *LineProbe) oneLine() bool {
	if l.Signal != "" {
		return l.Name == "" && l.Chip == "" && l.Offset < 0 && !l.ActiveLow
	}
	return (l.Name != "") != (l.Offset >= 0) && (l.Name != "" || l.Chip != "")
}

func (w *Watched) readLine(d *decoder, field string, n *jsonpos.Node) {
	l := LineProbe{Offset: -1, Asserted: true, Weight: 100}
	before := len(d.errs)
	object(func() []key {
		return []key{
			{"signal", signal(gpio.IsInput, "an input")(&l.Signal)},
			{"chip", name(&l.Chip)},
			{"name", name(&l.Name)},
			{"offset", integer(&l.Offset, 0, maxOffset)},
			{"activeLow", boolean(&l.ActiveLow)},
			{"asserted", boolean(&l.Asserted)},
			{"weight", integer(&l.Weight, 1, 100)},
		}
	})(d, field, n)
	if !l.oneLine() && len(d.errs) == before {
		d.fail(field, n, "does not name one line", `"signal" alone, or "name" with or without "chip", or "chip" and "offset"`)
	}
	w.Line, w.Config.PartialWeights = &l, w.Config.PartialWeights || l.Weight < 100
}

func (w *Watched) readProperty(d *decoder, field string, n *jsonpos.Node) {
	var p PropertyProbe
	p.read(d, field, n, key{"weight", integer(&p.Weight, 1, 100)})
	w.Property, w.Config.PartialWeights = &p, w.Config.PartialWeights || p.Weight < 100
}

// read reads a property and its predicate, and more keys of the same object.
func (p *PropertyProbe) read(d *decoder, field string, n *jsonpos.Node, more ...key) {
	*p = PropertyProbe{Min: NoMin, Max: NoMax, Weight: 100}
	before := len(d.errs)
	object(func() []key {
		return append(more, []key{
			{"service", text(&p.Service, "a bus name", dotted)},
			{"path", text(&p.Path, "an object path", objectPath)},
			{"interface", text(&p.Interface, "an interface", dotted)},
			{"property", name(&p.Name)},
			{"equals", name(&p.Equals)},
			{"not", name(&p.Not)},
			{"min", integer(&p.Min, NoMin, NoMax)},
			{"max", integer(&p.Max, NoMin, NoMax)},
		}...)
	})(d, field, n)
	if len(d.errs) > before {
		return
	}
	switch {
	case p.Service == "" || p.Path == "" || p.Interface == "" || p.Name == "":
		d.fail(field, n, "does not say which property", `"service", "path", "interface" and "property"`)
	case p.Min > p.Max:
		d.fail(field, n, "has no value that is good", `"min" up to "max"`)
	case p.Equals == "" && p.Not == "" && p.Min == NoMin && p.Max == NoMax:
		d.fail(field, n, "does not say which values are good", `"equals", "not", "min" or "max"`)
	}
}

func (m *Monitor) readInhibits(d *decoder, field string, n *jsonpos.Node) {
	const allowed = "a list of at most 32 objects"
	if n.Kind != jsonpos.Array {
		d.wrongType(field, n, allowed)
		return
	}
	if len(n.Elems) > 32 {
		d.outOfRange(field, n, allowed)
		return
	}
	for i, e := range n.Elems {
		in, at := Inhibit{}, fmt.Sprintf("%s[%d]", field, i)
		in.Property.read(d, at, e, key{"reason", name(&in.Reason)})
		if in.Reason == "" {
			d.fail(at, e, "has no reason", `a "reason"`)
		}
		m.Inhibits = append(m.Inhibits, in)
	}
}

func (w *Watched) readCommand(d *decoder, field string, n *jsonpos.Node) {
	if n.Kind != jsonpos.Array || len(n.Elems) == 0 || len(n.Elems) > 32 {
		d.fail(field, n, "is no command", "a list of 1 to 32 strings: an absolute path and its arguments")
		return
	}
	for i, e := range n.Elems {
		var arg string
		parse := asIs
		if i == 0 {
			parse = absolute
		}
		text(&arg, "a string; the first one an absolute path", parse)(d, fmt.Sprintf("%s[%d]", field, i), e)
		w.Command = append(w.Command, arg)
	}
	w.Config.PartialWeights = true
}

func absolute(s string) (string, error) {
	if !filepath.IsAbs(s) {
		return "", errOutOfRange
	}
	return s, nil
}

// element says whether r may stand in an element of a path; names of the bus
// may have a dash as well.
func element(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// dotted takes a name of the bus or of an interface: elements with dots between.
func dotted(s string) (string, error) {
	wrong := func(r rune) bool { return r != '.' && r != '-' && !element(r) }
	if len(s) > 255 || !strings.Contains(s, ".") || strings.Contains("."+s+".", "..") || strings.ContainsFunc(s, wrong) {
		return "", errOutOfRange
	}
	return s, nil
}

func objectPath(s string) (string, error) {
	wrong := func(r rune) bool { return r != '/' && !element(r) }
	if !strings.HasPrefix(s, "/") || len(s) > 1 && strings.HasSuffix(s, "/") || strings.Contains(s, "//") || strings.ContainsFunc(s, wrong) {
		return "", errOutOfRange
	}
	return s, nil
}

func asIs(s string) (string, error) { return s, nil }

func httpPath(s string) (string, error) {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, " \r\n") {
		return "", errOutOfRange
	}
	return s, nil
}
