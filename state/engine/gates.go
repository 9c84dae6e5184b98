package engine

import (
	"errors"
	"time"

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
	default:
		return c.toldRefusal(op)
	}
}

// toldRefusal is gateRefusal of the gates that other daemons close.
func (c *Core) toldRefusal(op state.Operation) *Refusal {
	if c.blocked && op.Raising() && !c.updating {
		return &Refusal{CodeUnavailable, "An error in the event log blocks power: resolve or delete it first, or switch off"}
	}
	return c.updateRefusal(op)
}

// gates is what is known of the gates that other daemons close. Before their
// first word nothing that they stand before is begun, but for so long only: who
// never answers must not keep a machine off.
type gates struct {
	wait  bool // for the first word
	told  uint8
	until time.Duration // by the boot clock
	since time.Duration // when the waiting ended; 0 = it has not, or there was none
}

// The bits of gates.told.
const (
	toldFirmware = 1 << iota
	toldError
	toldAll = toldFirmware | toldError
)

// gateTold takes note that somebody has said how a gate is.
func (c *Core) gateTold(gate uint8) {
	if c.gates.told |= gate; c.gates.told == toldAll {
		c.knowGates()
	}
}

// knowGates ends the waiting. Calls that were held back have an answer now.
func (c *Core) knowGates() {
	if !c.gates.wait {
		return
	}
	c.gates.wait, c.gates.since = false, c.now.Boot
	for _, d := range c.domains {
		d.decided = true
	}
}

// overdueGates goes on as if no gate were closed once nobody has answered for too
// long.
func (c *Core) overdueGates() {
	switch g := &c.gates; {
	case !g.wait:
	case g.until == 0:
		g.until = c.now.Boot + c.cfg.Times.Known
	case c.now.Boot >= g.until:
		c.knowGates()
		c.emit(incidentEffect{Incident{Kind: IncidentGatesUnknown, Domain: BMCDomain}})
	}
}

// gated reports whether an operation has to wait for the gates' first word.
func (c *Core) gated(op state.Operation) bool {
	return c.gates.wait && (op.Raising() || op == state.BMCReboot)
}

// stops says why what the daemon does by itself may not begin now, nil if it may.
func (c *Core) stops(op state.Operation) *Refusal {
	if c.gated(op) {
		return unavailable(errGatesUnknown)
	}
	return c.gateRefusal(op)
}

// lateRefusal says why a request that waited for the gates must not be begun, nil
// if it may: it is refused as one that came later is.
func (c *Core) lateRefusal(req *state.Request) *Refusal {
	if req.Accepted.Boot > c.gates.since {
		return nil
	}
	return c.toldRefusal(req.Op)
}

var errGatesUnknown = errors.New("it is not known yet whether firmware is being updated or an error blocks power: ask again")

// Firmware says whether some daemon is updating firmware. While one is, nothing
// that applies power and no reboot of the BMC is accepted; taking power away is,
// and so are repeats of what was accepted before.
type Firmware struct{ Updating bool }

func (Firmware) isEvent() {}

// firmware takes the news.
func (c *Core) firmware(ev Firmware) {
	c.updating = ev.Updating
	c.gateTold(toldFirmware)
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
