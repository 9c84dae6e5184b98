package sequence

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

// slot drives the supply of a host's slot. Without it the host is off, whatever
// it did (power-sequencing.md §4.6).
func (b *builder) slot(v state.Verdict) {
	if v != state.VerdictSlotOn {
		b.setSlot("cut the slot", false)
		b.add(Step{Name: "wait for the slot", Phase: PhaseToOff, Goal: GoalSlotOff, Within: b.t.PowerOff, OnTimeout: TimeoutFail,
			Reason: "the slot's line does not show that it is off", Show: ShowCutting})
		b.add(Step{Name: "wait for power off", Phase: PhaseToOff, Goal: GoalPowerOff, Within: b.t.ForceOffPulse, OnTimeout: TimeoutFail,
			Reason: fmt.Sprintf("power good stays on %s after the slot's supply was cut", b.t.ForceOffPulse), Show: ShowCutting})
	}
	if v == state.VerdictSlotOff {
		return
	}
	first := len(b.steps)
	if v == state.VerdictSlotCycle {
		b.add(Step{Name: "dwell", Phase: PhaseCycleOff, Goal: GoalTime, Within: b.t.SlotCycle, OnTimeout: TimeoutNext, Else: b.next()})
	}
	b.setSlot("supply the slot", true)
	b.add(Step{Name: "wait for the slot", Goal: GoalSlotOn, Within: b.t.PowerOff, OnTimeout: TimeoutFail,
		Reason: "the slot's line does not show that it is on"})
	for i := first; i < len(b.steps) && v == state.VerdictSlotCycle; i++ {
		b.steps[i].AfterPassage = true
		b.steps[i].AfterOff = i < len(b.steps)-1
	}
}

func (b *builder) setSlot(name string, on bool) {
	show := ShowSeen
	if !on {
		show = ShowCutting
	}
	b.add(Step{Name: name, Phase: PhaseToOff, Set: slotOut, To: on, Hold: !on, Goal: GoalRelease, Within: stuckAfter,
		OnTimeout: TimeoutFail, Reason: stuckLevel(slotOut), Raising: on, Show: show})
}
