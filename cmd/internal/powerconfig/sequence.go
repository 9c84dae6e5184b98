package powerconfig

import (
	"math"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// Action is one step of power_on_sequence; exactly one of Set, Pulse and Await
// names a signal, or none for a delay.
type Action struct {
	_ [0]func() // see state.Incomparable

	Set, Pulse, Await string
	To                bool          // of Set and Await
	Time              time.Duration // of Pulse, Await and a delay; 0 = PowerPulseMs
}

// maxActions bounds a sequence. Every action may wait for maxActionTime.
const (
	maxActions    = 32
	maxActionTime = 10 * time.Minute
)

// extras reads sequence_gpio_configs: lines that x86-power-control has no name
// for.
func (p *parser) extras(n *jsonpos.Node) {
	p.entries("sequence_gpio_configs", n, func(e *entry, name *jsonpos.Node) bool {
		if _, known := signals[name.Text]; name.Kind != jsonpos.String || known || !identifier(name.Text) {
			p.fail(name.Offset, "%s: Name is %s; a name of your own is needed: letters, digits and _", e.where, name.Source(p.data, 40))
			return false
		}
		d := e.get("direction")
		if d == nil || d.Text != "input" && d.Text != "output" {
			p.fail(e.node.Offset, `%s needs a direction, "input" or "output"`, name.Text)
			return false
		}
		e.facts = signalFacts{output: d.Text == "output", level: d.Text == "output", own: true}
		return true
	})
}

func identifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && (c == '_' || c >= '0' && c <= '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// sequence reads power_on_sequence, once all signals are known.
func (p *parser) sequence(n *jsonpos.Node) {
	if len(n.Elems) == 0 || len(n.Elems) > maxActions {
		p.fail(n.Offset, "power_on_sequence has %d steps; allowed: 1 to %d", len(n.Elems), maxActions)
		return
	}
	power := false
	for i, e := range n.Elems {
		where := "power_on_sequence[" + strconv.Itoa(i) + "]"
		if e.Kind != jsonpos.Object {
			p.fail(e.Offset, "%s is %s, not an object", where, e.Kind)
			continue
		}
		a := p.action(where, e)
		power = power || a.Pulse == gpio.PowerOut || a.Set == gpio.PowerOut
		p.config.PowerOn = append(p.config.PowerOn, a)
	}
	if !power {
		p.fail(n.Offset, "power_on_sequence neither sets nor pulses PowerOut: nothing would switch the power")
	}
}

// action reads one step. What it does is its first key: "set", "pulse", "await"
// or "delay".
func (p *parser) action(where string, n *jsonpos.Node) (a Action) {
	verbs := 0
	for _, m := range p.members(n) {
		v := m.Value
		switch m.Key {
		case "set":
			verbs++
			a.Set = p.actionSignal(where, m, func(s Signal) bool { return s.Output && s.Level }, "a level-type output")
		case "pulse":
			verbs++
			a.Pulse = p.actionSignal(where, m, func(s Signal) bool { return s.Output && !s.Level }, "a pulse output")
		case "await":
			verbs++
			a.Await = p.actionSignal(where, m, func(s Signal) bool { return !s.Output }, "an input")
		case "delay":
			verbs++
			a.Time = p.actionTime(where, m)
		case "ms":
			a.Time = p.actionTime(where, m)
		case "to":
			if v.Kind != jsonpos.Bool {
				p.fail(v.Offset, "%s.to is %s, not true or false", where, v.Kind)
			}
			a.To = v.Bool
		default:
			p.fail(m.Offset, `%s has an unknown key %q; allowed: set, pulse, await, delay, to, ms`, where, m.Key)
		}
	}
	named := a.Set != "" || a.Await != ""
	switch {
	case verbs != 1:
		p.fail(n.Offset, "%s must have one of set, pulse, await and delay", where)
	case named && !has(n, "to"), !named && has(n, "to"):
		p.fail(n.Offset, `%s: "to" belongs to set and await, which need it`, where)
	case a.Set != "" && has(n, "ms"), a.Await != "" && !has(n, "ms"), a.Pulse != "" && a.Pulse != gpio.PowerOut && !has(n, "ms"):
		p.fail(n.Offset, `%s: "ms" is the width of a pulse and the deadline of an await`, where)
	}
	return a
}

func has(n *jsonpos.Node, key string) bool {
	for _, m := range n.Members {
		if m.Key == key {
			return true
		}
	}
	return false
}

func (p *parser) actionSignal(where string, m jsonpos.Member, fits func(Signal) bool, what string) string {
	s, known := p.config.Signals[m.Value.Text]
	if m.Value.Kind != jsonpos.String || !known || !fits(s) {
		p.fail(m.Value.Offset, "%s.%s is %s; it must name %s that is configured", where, m.Key, m.Value.Source(p.data, 40), what)
	}
	return m.Value.Text
}

func (p *parser) actionTime(where string, m jsonpos.Member) time.Duration {
	v, err := strconv.ParseFloat(m.Value.Text, 64)
	if m.Value.Kind != jsonpos.Number || err != nil || v < 1 || v > float64(maxActionTime/time.Millisecond) || v != math.Trunc(v) {
		p.fail(m.Value.Offset, "%s.%s is %s; allowed: whole milliseconds, 1 to %d", where, m.Key, m.Value.Source(p.data, 40), maxActionTime/time.Millisecond)
		return 0
	}
	return time.Duration(v) * time.Millisecond
}
