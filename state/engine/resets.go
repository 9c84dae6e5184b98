package engine

import "fmt"

// Some outputs have a level that they get once per boot of the BMC: standby
// power of a module, the supply of a slot. They are no transition: nobody asked,
// and they are driven with power off only. A restart of the daemon, or a BMC
// that boots beside a running host, changes nothing (DESIGN.md P7).

// resetOutputs drives what is due, and reports whether it is under way: nothing
// is launched meanwhile.
func (d *domain) resetOutputs() bool {
	s := &d.values.saved
	on, known := d.powered()
	k := &d.controls
	if len(d.cfg.Resets) == 0 || !known || s.OutputsReset {
		return false
	}
	switch {
	case on:
		s.OutputsReset = true
		return false
	case k.resets > 0:
		return true
	case d.boot() < k.resetAgain:
		return false // a line that does not work must not keep the others' work
	}
	failed := false
	for _, o := range d.cfg.Resets {
		k.resets++
		id := k.begin(func(err error) {
			k.resets--
			failed = failed || err != nil
			d.again = true // no edge tells of it
			switch {
			case k.resets > 0:
			case failed:
				k.resetAgain = d.boot() + d.core.cfg.Times.Poll
			default:
				s.OutputsReset = true
			}
		})
		d.core.emit(levelEffect{domain: d.cfg.ID, id: id, out: o, again: k.resetAgain != 0})
	}
	return true
}

// setLevel drives an output for what is no transition.
func (e *Engine) setLevel(eff levelEffect) {
	ctx, cancel := e.short()
	defer cancel()
	err := e.opts.Boards[eff.domain].SetLevel(ctx, eff.out.Signal, eff.out.On)
	if err != nil && !eff.again {
		e.opts.Log.Error("an output did not take its level; it is tried again", "domain", eff.domain, "level", fmt.Sprint(eff.out.On), "err", err)
	}
	e.Post(controlled{eff.domain, eff.id, err})
}
