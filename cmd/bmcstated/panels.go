package main

import (
	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
)

// virtualSignals are the signals of a virtual board that clients can tell are
// there. It has every pulse output.
func virtualSignals(cfg config.Config) map[string]bool {
	all := map[string]bool{gpio.NMIOut: true}
	all[gpio.SlotPower] = cfg.Simulate.Board.SlotPower
	for _, name := range cfg.Simulate.Board.Inputs {
		all[name] = true
	}
	return all
}

// nmiHost is the host whose NMI the settings daemon's one record is about: the
// first that has an output for it.
func (m *machine) nmiHost() (int, bool) {
	for _, d := range m.domains {
		if m.signals[d.Number][gpio.NMIOut] {
			return d.Hosts[0], true
		}
	}
	return 0, false
}

// panels are the private objects of x86-power-control's that each host has: all
// hosts of a domain show the one board that it has.
func (m *machine) panels() []dbus.Panel {
	var panels []dbus.Panel
	for _, d := range m.domains {
		signals := m.signals[d.Number]
		if signals == nil {
			continue
		}
		for _, host := range d.Hosts {
			p := dbus.Panel{Host: host, NMI: signals[gpio.NMIOut]}
			for b, signal := range buttonSignals {
				if signals[signal] {
					p.Buttons = append(p.Buttons, state.Button(b))
				}
			}
			panels = append(panels, p)
		}
	}
	return panels
}
