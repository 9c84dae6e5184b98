package engine

import (
	"errors"

	"github.com/bmcstate/bmcstate/state"
)

// BMCRole says whether this BMC is the passive one of two.
type BMCRole struct{ Passive bool }

func (BMCRole) isEvent() {}

// ErrorBlock says whether an error in the event log keeps power from being
// applied until somebody has seen to it.
type ErrorBlock struct{ Blocks bool }

func (ErrorBlock) isEvent() {}

// gateRefusal says why nothing may be started now, nil if it may. A gate never
// stands before an Off, and leaves nothing behind. Before an error that blocks the
// reference's target waits without end (openbmc-state-manager.md §2.16); here
// everything ends (DESIGN.md P4), so that is refused like the rest, and only what
// the daemon itself asks for, a policy or a schedule, waits.
func (c *Core) gateRefusal(op state.Operation) *Refusal {
	if !op.Raising() {
		return nil
	}
	what := "host"
	if op.Kind() == state.KindChassis {
		what = "power"
	}
	switch {
	case c.cfg.RequireBMCReady && c.bmc.state() != state.BMCStateReady:
		return &Refusal{CodeBMCNotReady, "The BMC is not in a Ready state, no " + what + " operations allowed"}
	case c.cfg.RequireActiveBMC && c.passive:
		return &Refusal{CodeUnavailable, "This BMC is the passive one: ask the active BMC, or let this one take over first"}
	case c.updating:
		return c.updateRefusal(op)
	case c.blocked:
		return &Refusal{CodeUnavailable, "An error in the event log blocks power: resolve or delete it first, or switch off"}
	default:
		return nil
	}
}

// Firmware says whether some daemon is updating firmware. While one is, nothing
// that applies power and no reboot of the BMC is accepted; taking power away is,
// and so are repeats of what was accepted before.
type Firmware struct{ Updating bool }

func (Firmware) isEvent() {}

// firmware takes the news.
func (c *Core) firmware(ev Firmware) {
	c.updating = ev.Updating
	c.emit(signEffect{Sign{Kind: SignFirmware, On: ev.Updating}})
}

var errUpdating = errors.New("a firmware update is in progress: ask again when it has ended, or switch off")

// updateRefusal says why an operation may not begin during a firmware update, nil
// if it may. Unlike the other gates it stands before buttons and resumed
// requests too, and before a reboot of the BMC.
func (c *Core) updateRefusal(op state.Operation) *Refusal {
	if c.updating && (op.Raising() || op == state.BMCReboot) {
		return unavailable(errUpdating)
	}
	return nil
}
