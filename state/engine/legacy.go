package engine

import "github.com/bmcstate/bmcstate/state"

// Legacy is what another state manager has stored of a domain. The zero value
// says nothing.
type Legacy struct {
	_ state.Incomparable

	Requested    state.Operation // RequestedHostTransition; 0 = not stored
	Retry        uint32          // RetryAttempts; 0 = not stored
	Progress     state.BootProgress
	OS           state.OSState
	HasOS        bool
	StateChange  uint64 // LastStateChangeTime in ms
	POH          uint32
	ScheduleTime uint64 // s since the epoch
	ScheduleOp   state.Operation

	hasPower, on bool
}

// SetPower says how power was when it was last seen.
func (l *Legacy) SetPower(on bool) { l.hasPower, l.on = true, on }

// inherit takes the values of another state manager.
func (d *domain) inherit(l *Legacy) {
	s := &d.values.saved
	s.Inherited, s.Progress, s.StateChange, s.POH = l.Requested, l.Progress, l.StateChange, l.POH
	if l.HasOS {
		s.OS = l.OS
	}
	if l.Retry != 0 {
		s.Retry, s.AttemptsLeft = l.Retry, l.Retry
	}
	if l.hasPower {
		on := l.on
		s.PowerOn = &on
		if on {
			d.values.lastPower = state.PowerStateOn
		}
	}
	if l.ScheduleOp != 0 {
		s.ScheduleTime, s.ScheduleOp = l.ScheduleTime, l.ScheduleOp
	}
	switch {
	case l.Requested == state.HostOff:
		s.Wish = wishOff
	case l.Requested != 0:
		s.Wish = wishOn
	}
}
