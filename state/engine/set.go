package engine

import "github.com/bmcstate/bmcstate/state"

// set takes a write to a property that is not a request. Values that are
// observed are accepted, as their writers exist (clients.md §0.6), and have no
// effect but a hint.
func (c *Core) set(ev Set) {
	answer := Answer{}
	switch d := c.domainOf(ev.Object); {
	case ev.Object.Kind == state.KindBMC:
		c.bmc.set(ev)
	case d != nil:
		answer.Err = d.set(ev)
	case !c.aggregate(ev.Object): // which shows what its chassis show
		answer.Err = invalidArgument("there is no %s", ev.Object)
	}
	if durableProps[ev.Prop] && answer.Err == nil {
		c.sets = append(c.sets, ev.Reply)
		return
	}
	c.emitReplyLater(ev.Reply, answer)
}

// durableProps are what an operator sets once and relies on: success means that
// it survives the mains.
var durableProps = [256]bool{
	PropRestorePolicy: true, PropRestorePolicyOnce: true, PropRestoreDelay: true, PropAutoReboot: true, PropAutoRebootOnce: true,
	PropScheduledTime: true, PropHypervisorOn: true, PropScheduledTransition: true, PropRetryAttempts: true, PropAttemptsLeft: true,
}

// answerSets answers writes as soon as what they changed is in the journal.
func (c *Core) answerSets() {
	replies := c.sets
	c.sets = nil
	for _, reply := range replies {
		c.whenDurable(func(err error) {
			a := Answer{}
			if err != nil {
				a.Err = unavailable(err)
			}
			c.emit(replyEffect{reply, a})
		})
	}
}

func (d *domain) set(ev Set) *Refusal {
	s := &d.values.saved
	hintUntil := d.boot() + d.core.cfg.Times.Hint
	if d.setOwnSetting(ev) {
		return nil
	}
	switch ev.Prop {
	case PropHostState:
		if state.HostState(ev.Value).Transitional() {
			d.values.hostHint = hint{ev.Value, hintUntil}
		}
	case PropPowerState:
		if state.PowerState(ev.Value).Transitional() {
			d.values.powerHint = hint{ev.Value, hintUntil}
		}
	case PropRestartCause:
		s.RestartCause = state.RestartCause(ev.Value)
		d.values.ownCause = s.RestartCause != state.RestartCauseUnknown
	case PropRequestedRestartCause:
		if state.RestartCause(ev.Value) != state.RestartCauseWatchdogTimer {
			return invalidArgument("RequestedRestartCause takes WatchdogTimer only")
		}
		s.RestartCause, d.values.ownCause = state.RestartCauseWatchdogTimer, true
		d.controls.requestedCause = state.RestartCauseWatchdogTimer
	case PropBootProgress:
		d.values.progress(state.BootProgress(ev.Value))
		s.ProgressAt = d.now().WallMicros()
	case PropBootProgressUpdate:
		s.ProgressAt = ev.Value
	case PropOSState:
		s.OS = state.OSState(ev.Value)
	case PropAttemptsLeft:
		s.AttemptsLeft = min(uint32(ev.Value), s.Retry)
	case PropRetryAttempts:
		s.Retry, s.AttemptsLeft = uint32(ev.Value), uint32(ev.Value)
	case PropPOHCounter:
		s.POH, s.POHRest, d.onSince = uint32(ev.Value), 0, d.boot()
	case PropHypervisorOn:
		s.Hypervisor = true
	case PropScheduledTime:
		return d.setSchedule(ev.Value)
	case PropScheduledTransition:
		s.ScheduleOp = state.Operation(ev.Value)
	}
	return nil
}
