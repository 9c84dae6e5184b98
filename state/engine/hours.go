package engine

import "time"

// hoursEvery is how often the part of an hour that the chassis was on for is
// noted. A crash costs no more.
const hoursEvery = 15 * time.Minute

// countHours counts power-on hours. Parts of an hour add up, over power off and
// over restarts (openbmc-state-manager.md §2.4 loses them).
func (d *domain) countHours() {
	if d.onSince == 0 || d.boot() < d.onSince+hoursEvery {
		return
	}
	d.addHours()
	d.onSince = d.boot()
}

// hoursMoved begins or ends the counting with the power state.
func (d *domain) hoursMoved(on bool) {
	if d.onSince != 0 {
		d.addHours()
	}
	d.onSince = 0
	if on {
		d.onSince = max(d.boot(), 1)
	}
}

func (d *domain) addHours() {
	s := &d.values.saved
	s.POHRest += d.boot() - d.onSince
	s.POH += uint32(s.POHRest / time.Hour)
	s.POHRest %= time.Hour
}

func (d *domain) hoursDeadline() time.Duration {
	if d.onSince == 0 {
		return 0
	}
	return d.onSince + hoursEvery
}
