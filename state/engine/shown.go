package engine

import (
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// showing is what the running step has to show. Where a cycle by units has passed
// through off, and somebody else's unit is to bring power up, off is shown until
// that does.
func (d *domain) showing(on bool) sequence.Show {
	if d.run == nil || d.run.mode == modeUnknown {
		return sequence.ShowSeen
	}
	st := d.run.current()
	if !on && d.cfg.Targets != nil && st.AfterPassage {
		return sequence.ShowSeen
	}
	return st.Show
}

// hostState is what CurrentHostState shows.
func (d *domain) hostState() state.HostState {
	if h := d.values.hostHint; h.until != 0 {
		return state.HostState(h.value)
	}
	on, known := d.powered()
	if !known {
		return d.values.lastHost
	}
	running := d.running()
	switch d.showing(on) {
	case sequence.ShowStopping, sequence.ShowCutting:
		if on && d.values.lastHost != state.HostStateOff {
			return state.HostStateTransitioningToOff
		}
		return state.HostStateOff
	case sequence.ShowPowering, sequence.ShowStarting:
		if !running || d.run.verdict == state.VerdictReset {
			return state.HostStateTransitioningToRunning
		}
	}
	switch {
	case !on && d.values.saved.Exhausted:
		return state.HostStateQuiesced
	case !on:
		return state.HostStateOff
	case d.toReboot():
		return state.HostStateTransitioningToOff
	case d.hands.phase == sequence.PhaseWarmReset:
		return state.HostStateTransitioningToRunning
	case d.hands.phase == sequence.PhaseToOff:
		return state.HostStateTransitioningToOff
	case d.quiesced():
		return state.HostStateQuiesced
	case d.levels.Diagnostic == state.LevelOn:
		return state.HostStateDiagnosticMode
	case running:
		return state.HostStateRunning
	default:
		return state.HostStateOff
	}
}

// powerState is what CurrentPowerState shows.
func (d *domain) powerState() state.PowerState {
	if h := d.values.powerHint; h.until != 0 {
		return state.PowerState(h.value)
	}
	on, known := d.powered()
	if !known {
		return d.values.lastPower
	}
	switch show := d.showing(on); {
	case show == sequence.ShowCutting && on:
		return state.PowerStateTransitioningToOff
	case (show == sequence.ShowPowering || show == sequence.ShowSupplying) && !on:
		return state.PowerStateTransitioningToOn
	case on:
		return state.PowerStateOn
	default:
		return state.PowerStateOff
	}
}
