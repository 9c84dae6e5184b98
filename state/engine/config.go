package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// Config is what an engine is made of. Durations are by the boot clock.
type Config struct {
	Domains []DomainConfig
	Times   Times

	RebootWhenOff bool   // rebootWhenOff: "on": a reboot of a host that is off powers it on
	ResumeCycle   bool   // resumeCycle: finish a cycle whose off is proven after a restart
	RetryAttempts uint32 // before anyone wrote RetryAttempts

	System SystemMode // what chassis_system0 is
	// Chassis0 says that chassis0 stands for all chassis: none of them is it.
	Chassis0 bool

	RebootCause state.RebootCause // of this boot; the zero value is POR

	RestoreNotAfter  [state.RebootCauses]bool // the restore policy is not looked at after such a boot
	RequireBMCReady  bool                     // nothing is started while the BMC is not Ready
	RequireActiveBMC bool                     // nor while it is the passive one of two
	// Gates says that [Firmware] and [ErrorBlock] events tell whether those gates
	// are closed. Until both have been told, what they stand before waits, for
	// Times.Known from the start at most. Without it they are open until told.
	Gates bool

	OverdueMax time.Duration // a schedule that is later is dropped; 0 = however late

	RestoreOnlyLost       bool // Restore and AlwaysOff act only where power was lost
	RestoreAfterForcedOff bool // a Chassis Off does not change what Restore brings back
	// Supplies says that [Supplies] events tell how the power supplies are.
	// Without it they are always good.
	Supplies bool

	// BMCUnits says that [BMCUnits] events tell how the BMC is. Without it the
	// BMC is always ready.
	BMCUnits bool
}

// DomainConfig is one power domain: a chassis and the hosts on it.
type DomainConfig struct {
	ID      int // its lowest chassis
	Chassis []int
	Hosts   []int
	Queue   queue.Config
	Timings sequence.Timings
	Options sequence.Options
	// Targets, where not nil, are the units that do the work; otherwise lines
	// are driven.
	Targets *sequence.Targets
	// Slot is the number of the domain's slot, chassis_system<Slot>; 0 = none.
	Slot int
	// Resets are level-type outputs that are driven once per boot of the BMC, as
	// soon as the power is known to be off.
	Resets []Output
	// PassThrough has a press of the power or reset button passed on to its output.
	PassThrough bool
	// NMIWhenPoweredOff lets the NMI button act on a host that is off.
	NMIWhenPoweredOff bool
	// Legacy, where not nil, returns what another state manager has stored of
	// the domain. It is asked for while we have stored nothing of our own.
	Legacy func() *Legacy
	// RestoreStagger holds this domain's restore policy back after the others'.
	RestoreStagger time.Duration
	Driven         bool // has a board; without one the objects are served and requests end FAILED
}

// Output is a level of an output.
type Output struct {
	_ state.Incomparable

	Signal string
	On     bool
}

// Times are the deadlines of DESIGN.md that are not a sequence's own.
type Times struct {
	Known     time.Duration // knownTimeout: a request waits for the power state
	Commit    time.Duration // commitTimeout: the journal answers
	OffCommit time.Duration // how long Chassis Off waits for the journal
	Settle    time.Duration // power inputs must agree over it
	Hint      time.Duration // hintTTL
	Read      time.Duration // a reading of the inputs
	Poll      time.Duration // between two readings without a reason
	Judge     time.Duration // inputs may contradict each other
	Gather    time.Duration // a request to the whole machine takes all executors
	OffGuard  time.Duration // after a power off: nobody else's job may apply power
	Reboot    time.Duration // of the BMC, until it counts as not done
	// RestoreSettle is how long power must read the same after a boot.
	RestoreSettle time.Duration
}

// DefaultTimes are DESIGN.md's.
func DefaultTimes() Times {
	return Times{
		Known:     30 * time.Second,
		Commit:    5 * time.Second,
		OffCommit: 50 * time.Millisecond,
		Settle:    20 * time.Millisecond,
		Hint:      60 * time.Second,
		Read:      time.Second,
		Poll:      5 * time.Second,
		Judge:     10 * time.Second,
		Gather:    30 * time.Second,
		OffGuard:  30 * time.Second,
		Reboot:    10 * time.Minute,

		RestoreSettle: 5 * time.Second,
	}
}
