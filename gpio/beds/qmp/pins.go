package qmp

import (
	"encoding/json"
	"sync/atomic"
)

// Pins are the lines of a GPIO controller of the emulated machine, by the names
// of its properties. They satisfy the board's Wires. The methods are safe for
// concurrent use once the fields are set.
type Pins struct {
	Client *Client
	Path   string            // of the controller in the object tree
	Names  map[string]string // line name → property
	Idle   map[string]bool   // line name → level of a line that nobody drives

	reset atomic.Bool
}

// Reset says that the machine was reset: its controller has forgotten every
// level. Until [Pins.Driven] a line reads as nobody drove it, as it would on a
// board, where a resistor holds it. Call it from the client's onEvent: QEMU sends
// the event before the answer to anything that it was asked afterwards, so that no
// level of the controller's own comes through.
func (p *Pins) Reset() { p.reset.Store(true) }

// Driven says that every line has been driven again.
func (p *Pins) Driven() { p.reset.Store(false) }

// Read returns the level of a pin.
func (p *Pins) Read(line string) (bool, error) {
	result, err := p.Client.Execute("qom-get", map[string]any{"path": p.Path, "property": p.Names[line]})
	if err != nil {
		return false, err
	}
	if p.reset.Load() {
		return p.Idle[line], nil
	}
	var high bool
	err = json.Unmarshal(result, &high)
	return high, err
}

// Drive sets the level of a pin that the guest reads.
func (p *Pins) Drive(line string, high bool) error {
	_, err := p.Client.Execute("qom-set", map[string]any{"path": p.Path, "property": p.Names[line], "value": high})
	return err
}
