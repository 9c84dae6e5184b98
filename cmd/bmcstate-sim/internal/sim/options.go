// Package sim replays a trace in virtual time through the daemon's own
// admission: state/queue decides what is admitted, state.Judge what a request
// leads to. What is here is only the world around them: the clock, the server,
// its executor, crashes, and the counting.
package sim

import (
	"math"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// Durations are those of the transitions, in u.
type Durations struct {
	On     float64 // power on, or starting the host of a powered chassis
	Off    float64 // graceful off, or taking power from a host that is off
	Reboot float64 // graceful off and on
	Cut    float64 // forced off
	Cycle  float64 // forced off and on
	Warm   float64 // graceful warm reboot
	Reset  float64 // forced warm reboot
}

// Options select the policy and the world.
type Options struct {
	Queue     queue.Config // one u is one second
	Durations Durations

	UnknownAfter float64 // u from the launch until an unconfirmed request is UNKNOWN
	Reconcile    float64 // u from then until it is settled

	Overtaking    bool // forced and emergency requests overtake (DESIGN.md §3.5)
	RebootWhenOff bool // rebootWhenOff: "on"

	Crashes   []float64 // when the daemon dies, in u, rising
	Down      float64   // u from a crash to the restart
	OtherBoot bool      // the BMC reboots with it
	NoJournal bool      // the history is lost with it
}

// Paper returns the paper's world under a policy: no bound, no overtaking, no
// crash.
func Paper(p state.Policy) Options {
	return Options{
		Queue: queue.Config{
			Policy: p, DepthLimit: queue.Unlimited, Share: queue.Unlimited, ConnShare: queue.Unlimited,
			HistoryMax: queue.Unlimited, HistoryTTL: queue.Unlimited, PendingTTL: queue.Unlimited, LogMax: queue.Unlimited,
		},
		Durations:    Durations{On: 5, Off: 3, Reboot: 8, Cut: 3, Cycle: 8, Warm: 8, Reset: 5},
		UnknownAfter: 12, Reconcile: 2,
	}
}

// length returns how long what a verdict starts takes, and when within that
// power is off before it is applied again; 0 = never.
func (d Durations) length(v state.Verdict) (total, off float64) {
	switch v {
	case state.VerdictPowerOn, state.VerdictStartHost:
		return d.On, 0
	case state.VerdictGracefulOff, state.VerdictPowerOff:
		return d.Off, 0
	case state.VerdictCutPower:
		return d.Cut, 0
	case state.VerdictReboot:
		return d.Reboot, min(d.Off, d.Reboot)
	case state.VerdictPowerCycle:
		return d.Cycle, min(d.Cut, d.Cycle)
	case state.VerdictGracefulWarm:
		return d.Warm, min(d.Off, d.Warm)
	default:
		return d.Reset, 0
	}
}

var never = math.Inf(1)
