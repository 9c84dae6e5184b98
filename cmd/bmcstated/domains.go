package main

import (
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// engineConfig is the configuration in the engine's terms.
func engineConfig(cfg config.Config, m *machine) engine.Config {
	times := engine.DefaultTimes()
	times.Known, times.Commit, times.Settle, times.Hint = cfg.KnownTimeout, cfg.CommitTimeout, cfg.Settle, cfg.HintTTL
	times.OffGuard, times.RestoreSettle = cfg.OffGuard, cfg.RestoreSettle
	ec := engine.Config{
		Times: times, RebootCause: m.cause, System: engine.SystemMode(cfg.System), Chassis0: m.chassis0(), BMCUnits: m.units != nil && !m.simulate,
		RebootWhenOff: cfg.RebootWhenOff, ResumeCycle: cfg.ResumeCycle, RetryAttempts: cfg.RetryAttempts,
		RequireBMCReady: cfg.RequireBMCReady, RequireActiveBMC: cfg.RequireActiveBMC, Gates: true, Supplies: cfg.RequireSupplies,
		OverdueMax: cfg.OverdueMax, RestoreOnlyLost: cfg.RestoreOnlyLost, RestoreAfterForcedOff: cfg.RestoreAfterForce,
	}
	for cause := range ec.RestoreNotAfter {
		ec.RestoreNotAfter[cause] = !state.Contains(cfg.RestoreAfter, state.RebootCause(cause))
	}
	for i, d := range m.domains {
		_, driven := m.boards[d.Number]
		opts := options(cfg, m.power[d.Number])
		opts.Lines = m.lines[d.Number]
		ec.Domains = append(ec.Domains, engine.DomainConfig{
			ID: d.Number, Hosts: d.Hosts, Chassis: d.Chassis, Driven: driven, Targets: m.targets[d.Number],
			RestoreStagger:    time.Duration(i) * cfg.RestoreStagger,
			PassThrough:       m.power[d.Number] != nil && m.power[d.Number].ButtonPassthrough,
			NMIWhenPoweredOff: m.power[d.Number] == nil || m.power[d.Number].NMIWhenPoweredOff,
			Queue: queue.Config{
				Policy: cfg.PolicyOf(d.Number), DepthLimit: int(cfg.DepthLimit), Share: int(cfg.Share), ConnShare: int(cfg.ConnShare),
				HistoryMax: cfg.HistoryMax, HistoryTTL: cfg.HistoryTTL, RepeatWindow: cfg.RepeatWindow,
				PendingTTL: cfg.PendingTTL, RetryInvalid: cfg.RepeatAfterInvalid,
			},
			Timings: timings(cfg, m.power[d.Number]),
			Options: opts,
			Resets:  resets(cfg, m.power[d.Number]),
			Slot:    m.slotOf(d),
		})
	}
	return ec
}

// slotOf returns the number of a domain's slot, 0 if it has none. That of host 0
// would be chassis_system0, which is the whole machine: its supply is only set
// at a boot.
func (m *machine) slotOf(d config.Domain) int {
	if m.signals[d.Number][gpio.SlotPower] {
		return d.Hosts[0]
	}
	return 0
}

// chassis0 reports whether chassis0 stands for all chassis: there are several, and
// none is it.
func (m *machine) chassis0() bool { return len(m.domains) > 1 && m.domains[0].Chassis[0] > 0 }

// systems are the numbers of the chassis_system objects.
func (m *machine) systems(cfg config.Config) (all []int) {
	if cfg.System != config.SystemNone {
		all = append(all, 0)
	}
	for _, d := range m.domains {
		if n := m.slotOf(d); n != 0 {
			all = append(all, n)
		}
	}
	return all
}

// resets are the levels that a board's outputs get once per boot. A virtual
// board has none but HpmStbyEn to be set.
func resets(cfg config.Config, pc *powerconfig.Config) []engine.Output {
	switch {
	case pc != nil:
		return resetsOf(pc)
	case cfg.Simulate.Board.HpmStbyEn:
		return []engine.Output{{Signal: gpio.HpmStbyEn, On: true}}
	default:
		return nil
	}
}

// forceOffTries is how many holds of the power button a force-off makes while
// power reads on (DESIGN.md P3).
const forceOffTries = 3

func options(cfg config.Config, pc *powerconfig.Config) sequence.Options {
	o := sequence.Options{ForceAfterGraceful: cfg.ForceAfterOff, StrictRunning: cfg.PostComplete, ForceOffTries: forceOffTries}
	if pc == nil {
		o.PowerLevel = cfg.Simulate.Board.PowerLevel
		return o
	}
	o.PowerLevel = pc.Signals[gpio.PowerOut].Level
	o.PowerOn, _ = powerOnOf(pc)
	_, post := pc.Signals[gpio.PostComplete]
	_, reset := pc.Signals[gpio.PlatformReset]
	if o.WarmResetSource = pc.WarmResetSource; o.WarmResetSource == "" && !post && reset {
		o.WarmResetSource = gpio.PlatformReset
	}
	return o
}

// timings are the board's where it has a file, else those of --simulate. A
// gracefulTimeout of our own configuration rules over a board's
// GracefulPowerOffS, which rules over the default.
func timings(cfg config.Config, pc *powerconfig.Config) sequence.Timings {
	t := sequence.DefaultTimings()
	t.GracefulTimeout, t.PostTimeout = cfg.GracefulTimeout, cfg.PostTimeout
	t.ConfirmTimeout, t.ReconcileTimeout, t.JobTimeout = cfg.ConfirmTimeout, cfg.ReconcileTimeout, cfg.JobTimeout
	if pc == nil {
		s := cfg.Simulate.Timings
		t.PowerPulse, t.ForceOffPulse, t.ResetPulse = s.PowerPulse, s.ForceOffPulse, s.ResetPulse
		t.PowerCycle, t.PowerOKWatchdog, t.SIOWatchdog = s.PowerCycle, s.PowerOKWatchdog, s.SIOWatchdog
		return t
	}
	p := pc.Timings
	t.PowerPulse, t.ForceOffPulse, t.ResetPulse = p.PowerPulse, p.ForceOffPulse, p.ResetPulse
	t.PowerCycle, t.PowerOKWatchdog, t.SIOWatchdog = p.PowerCycle, p.PowerOKWatchdog, p.SIOWatchdog
	t.WarmResetCheck, t.SlotCycle = p.WarmResetCheck, p.SlotPowerCycle
	if pc.GracefulSet && !cfg.GracefulSet {
		t.GracefulTimeout = p.GracefulPowerOff
	}
	return t
}
