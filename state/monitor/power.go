package monitor

import "time"

// power is what a resource with a power-good line knows of it.
type power struct {
	_ [0]func() // see state.Incomparable

	known   bool
	on      bool
	lost    bool          // a loss has been counted and power is not back yet
	fellAt  time.Duration // of the last fall
	lostAt  time.Duration // when the debounce of that fall ends, or never
	offSign time.Duration // last sign of an intended Off since power came on, or unset
	what    string        // which sign
}

func (r *Resource) offSign(ev OffSign) {
	r.power.offSign, r.power.what = r.now.Boot, ev.What
	r.dirty = true
}

// powerGood takes the observed level. During our own restart of a host both
// edges are ours.
func (r *Resource) powerGood(on bool) {
	p := &r.power
	first, was := !p.known, p.known && p.on
	p.known, p.on = true, on
	switch {
	case on:
		r.powerCame(first, was)
	case first:
		r.goAbsent("power is off")
	case was && r.phase != restarting && r.phase != ended && r.presence == present:
		p.fellAt, p.lostAt = r.now.Boot, r.now.Boot+r.cfg.PowerDebounce
	}
}

// powerCame takes power that is on. A first level is no edge: after a restart
// of the daemon an Off may still be under way.
func (r *Resource) powerCame(first, was bool) {
	p := &r.power
	if p.lostAt != never { // shorter than the debounce: nothing has happened
		p.lostAt = never
		return
	}
	if was {
		return
	}
	if !first {
		p.offSign = unset // it explained the last loss, not the next
	}
	if r.presence == absent || p.lost {
		r.started("")
	}
	p.lost = false
}

// powerOverdue judges a loss that has outlasted the debounce.
func (r *Resource) powerOverdue() {
	p := &r.power
	if r.now.Boot < p.lostAt {
		return
	}
	p.lostAt = never
	if p.offSign != unset && p.fellAt-p.offSign <= r.cfg.GracefulTimeout {
		r.goAbsent("off: " + p.what)
		return
	}
	p.lost = true
	r.abandonProbe()
	r.observe(observation{
		status: ProbeCompleteFailure, n: 1, cause: CausePower, death: true, detail: "no sign of an intended Off",
	})
}
