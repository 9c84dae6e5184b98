package powerconfig

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

func (p *parser) signals(n *jsonpos.Node) {
	p.entries("gpio_configs", n, func(e *entry, name *jsonpos.Node) (known bool) {
		e.facts, known = signals[name.Text]
		if known = known && name.Kind == jsonpos.String; !known {
			p.fail(name.Offset, "%s: Name is %s, which is no signal", e.where, name.Source(p.data, 40))
		}
		return known
	})
}

// entries reads a list of signals. facts says of an entry what it is by its
// name, or that it cannot be used.
func (p *parser) entries(list string, n *jsonpos.Node, facts func(*entry, *jsonpos.Node) bool) {
	for i, node := range n.Elems {
		where := fmt.Sprintf("%s[%d]", list, i)
		if node.Kind != jsonpos.Object {
			p.fail(node.Offset, "%s is %s, not an object", where, node.Kind)
			continue
		}
		e := &entry{parser: p, node: node, where: where, members: p.members(node)}
		name := e.get("Name")
		if name == nil {
			p.warn(node.Offset, "%s has no Name and is ignored", where)
			continue
		}
		if facts(e, name) {
			p.signal(e, name.Text)
		}
	}
}

// entry is one element of gpio_configs on its way to a Signal.
type entry struct {
	*parser
	node    *jsonpos.Node
	where   string // for messages: the signal's name, or its index while that is unknown
	members []jsonpos.Member
	facts   signalFacts
	signal  Signal
}

func (p *parser) signal(e *entry, name string) {
	e.where = name
	e.signal = Signal{
		Name: name, Output: e.facts.output, Level: e.facts.level, Offset: -1, Reset: e.facts.reset,
		At: jsonpos.PositionOf(p.data, e.node.Offset),
	}
	before := len(p.errs)
	if present := e.read(); len(p.errs) > before || !present {
		return
	}
	if old, twice := p.config.Signals[e.where]; twice {
		p.warn(e.node.Offset, "%s is there twice; this one replaces the one at %s", e.where, old.At)
	}
	p.config.Signals[e.where] = e.signal
}

// sharedLines warns of a line that two signals name: a line has one owner, so
// the second request of it will fail.
func (p *parser) sharedLines() {
	type place struct {
		chip, line string
		offset     int
	}
	owner := make(map[place]string)
	for _, name := range state.SortedKeys(p.config.Signals) {
		s := p.config.Signals[name]
		at := place{s.Chip, s.Line, s.Offset}
		first, taken := owner[at]
		if taken && s.DBus == nil {
			p.warnings = append(p.warnings, Warning{File: p.file, At: s.At, Text: fmt.Sprintf("%s and %s are the same line", first, name)})
		}
		if s.DBus == nil {
			owner[at] = name
		}
	}
}

func (e *entry) get(key string) *jsonpos.Node {
	for _, m := range e.members {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// read fills in the signal and reports whether the board has it.
func (e *entry) read() bool {
	typ := e.get("Type")
	switch {
	case typ == nil:
		e.fail(e.node.Offset, `%s has no Type; it must be "GPIO" or "DBUS"`, e.where)
	case typ.Text == "GPIO":
		return e.gpio()
	case typ.Text == "DBUS":
		return e.dbus()
	default:
		e.fail(typ.Offset, `%s: Type is %s, not "GPIO" or "DBUS"`, e.where, typ.Source(e.data, 40))
	}
	return false
}

var gpioKeys = []string{
	"Name", "Type", "LineName", "Polarity", "chip", "offset", "bias", "drive", "debounce", "idle", "level", "reset", "direction",
}

func (e *entry) gpio() bool {
	e.unknownKeys(gpioKeys)
	if n := e.get("direction"); n != nil && !e.facts.own {
		e.warn(n.Offset, "%s: direction is ignored: its name says it", e.where)
	}
	line := e.get("LineName")
	switch {
	case line != nil && line.Kind == jsonpos.String:
		e.signal.Line = line.Text
	case line != nil:
		e.fail(line.Offset, "%s: LineName is %s, not a string", e.where, line.Kind)
	case e.get("offset") == nil:
		e.fail(e.node.Offset, "%s has no LineName and no chip and offset", e.where)
	}
	e.polarity()
	e.own()
	if e.signal.Line == "" && e.signal.Offset < 0 {
		e.warn(e.node.Offset, "%s has an empty LineName: the board is taken not to have it", e.where)
		return false
	}
	return true
}

func (e *entry) polarity() {
	n := e.get("Polarity")
	switch {
	case n == nil:
		e.fail(e.node.Offset, `%s has no Polarity; it must be "ActiveLow" or "ActiveHigh"`, e.where)
	case n.Text == "ActiveLow", n.Text == "ActiveHigh":
		e.signal.ActiveLow = n.Text == "ActiveLow"
	default:
		e.fail(n.Offset, `%s: Polarity is %s, not "ActiveLow" or "ActiveHigh"`, e.where, n.Source(e.data, 40))
	}
}

// own reads the keys that x86-power-control does not know.
func (e *entry) own() {
	s := &e.signal
	if n := e.get("chip"); n != nil {
		if n.Kind != jsonpos.String || n.Text == "" {
			e.fail(n.Offset, "%s: chip is %s, not a chip's label", e.where, n.Source(e.data, 40))
		}
		s.Chip = n.Text
	}
	if n := e.get("offset"); n != nil {
		v, err := strconv.ParseUint(n.Text, 10, 32)
		if n.Kind != jsonpos.Number || err != nil || v > math.MaxInt32 {
			e.fail(n.Offset, "%s: offset is %s, not a line's number", e.where, n.Source(e.data, 40))
		} else if s.Chip == "" {
			e.fail(n.Offset, "%s: offset needs chip", e.where)
		}
		s.Offset = int(v)
	}
	s.Bias = word(e, "bias", true, "every line", []string{"as-is", "disabled", "pull-up", "pull-down"}, s.Bias)
	s.Drive = word(e, "drive", s.Output, "outputs", []string{"push-pull", "open-drain", "open-source"}, s.Drive)
	e.level()
	s.Idle = word(e, "idle", s.Output && !s.Level, "pulse outputs", []string{"release", "hold"}, s.Idle)
	s.Reset = word(e, "reset", s.Output && s.Level, "level-type outputs", []string{"keep", "off", "on"}, s.Reset)
	e.debounce()
}

// word reads a key whose value is one of words, in the order of T's constants.
func word[T ~uint8](e *entry, key string, applies bool, to string, words []string, unset T) T {
	n := e.get(key)
	if n == nil {
		return unset
	}
	if !applies {
		e.fail(n.Offset, "%s: %s is for %s only", e.where, key, to)
		return unset
	}
	i := state.Index(words, n.Text)
	if n.Kind != jsonpos.String || i < 0 {
		e.fail(n.Offset, "%s: %s is %s; allowed: %q", e.where, key, n.Source(e.data, 40), words)
		return unset
	}
	return T(i)
}

func (e *entry) level() {
	n := e.get("level")
	switch {
	case n == nil:
	case !e.facts.output:
		e.fail(n.Offset, "%s: level is for outputs only", e.where)
	case e.facts.pulse && n.Kind == jsonpos.Bool && n.Bool, e.facts.own:
		e.fail(n.Offset, "%s: level cannot be chosen here", e.where)
	case n.Kind != jsonpos.Bool:
		e.fail(n.Offset, "%s: level is %s, not true or false", e.where, n.Source(e.data, 40))
	default:
		e.signal.Level = n.Bool
	}
}

// maxDebounce bounds the debounce of an input; a longer one would hide a
// power loss.
const maxDebounce = time.Second

func (e *entry) debounce() {
	n := e.get("debounce")
	if n == nil {
		return
	}
	if e.facts.output {
		e.fail(n.Offset, "%s: debounce is for inputs only", e.where)
		return
	}
	d, err := time.ParseDuration(n.Text)
	if n.Kind != jsonpos.String || err != nil || d < 0 || d > maxDebounce {
		e.fail(n.Offset, `%s: debounce is %s; allowed: a duration from "0s" to %q, for example "5ms"`,
			e.where, n.Source(e.data, 40), maxDebounce)
		return
	}
	e.signal.Debounce = d
}

var dbusKeys = []string{"Name", "Type", "DbusName", "Path", "Interface", "Property", "MatchRegex", "Polarity"}

func (e *entry) dbus() bool {
	e.unknownKeys(dbusKeys)
	if n := e.get("Polarity"); n != nil {
		e.warn(n.Offset, "%s: Polarity is ignored for Type \"DBUS\": true means asserted", e.where)
	}
	if e.facts.output && !e.facts.mandatory {
		e.warn(e.node.Offset, "%s is an output and cannot be of Type \"DBUS\"; it is ignored", e.where)
		return false
	}
	if e.facts.output {
		e.fail(e.node.Offset, "%s is an output and cannot be of Type \"DBUS\"", e.where)
		return false
	}
	e.signal.DBus = &Property{
		Service: e.text("DbusName"), Path: e.text("Path"), Interface: e.text("Interface"), Name: e.text("Property"),
	}
	if n := e.get("MatchRegex"); n != nil {
		e.signal.DBus.Match = e.regex(n)
	}
	return true
}

func (e *entry) text(key string) string {
	n := e.get(key)
	if n == nil || n.Kind != jsonpos.String || n.Text == "" {
		e.fail(e.node.Offset, "%s: Type \"DBUS\" needs %s, a string that is not empty", e.where, key)
		return ""
	}
	return n.Text
}

func (e *entry) regex(n *jsonpos.Node) *Pattern {
	if n.Kind != jsonpos.String {
		e.fail(n.Offset, "%s: MatchRegex is %s, not a string", e.where, n.Kind)
		return nil
	}
	pattern, err := CompilePattern(n.Text)
	if err != nil {
		e.fail(n.Offset, "%s: MatchRegex %s cannot be used: %v", e.where, n.Source(e.data, 60), err)
	}
	return pattern
}

func (e *entry) unknownKeys(known []string) {
	for _, m := range e.members {
		if !state.Contains(known, m.Key) {
			e.warn(m.Offset, "%s: unknown key %q is ignored", e.where, m.Key)
		}
	}
}
