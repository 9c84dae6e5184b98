package config

import (
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
)

// Bounds that no key of its own sets.
const (
	maxIndex   = 15 // of a host or chassis
	maxTimeout = 24 * time.Hour
	year       = 365 * 24 * time.Hour
)

// key is one key of an object: its name and what reads its value.
type key struct {
	name string
	read reader
}

// keys is the table of the file's top level.
func (c *Config) keys() []key {
	timeout := func(to *time.Duration) reader { return duration(to, time.Millisecond, maxTimeout) }
	return []key{
		{"policy", c.readPolicy},
		{"depthLimit", integer(&c.DepthLimit, 1, 65535)},
		{"share", integer(&c.Share, 1, 65535)},
		{"connShare", integer(&c.ConnShare, 1, 65535)},
		{"historyMax", integer(&c.HistoryMax, 16, 1_000_000)},
		{"historyTTL", duration(&c.HistoryTTL, time.Second, 10*year)},
		{"repeatWindow", duration(&c.RepeatWindow, 0, 10*year)},
		{"repeatAfterInvalid", choice(&c.RepeatAfterInvalid, "stored", "retry")},
		{"pendingTTL", timeout(&c.PendingTTL)},
		{"allowedUids", list(&c.AllowedUIDs, 64, func(to *uint32) reader { return integer(to, 0, 1<<32-2) })},
		{"gracefulTimeout", noting(&c.GracefulSet, timeout(&c.GracefulTimeout))},
		{"onGracefulTimeout", choice(&c.ForceAfterOff, "fail", "force")},
		{"confirmTimeout", timeout(&c.ConfirmTimeout)},
		{"reconcileTimeout", timeout(&c.ReconcileTimeout)},
		{"knownTimeout", timeout(&c.KnownTimeout)},
		{"commitTimeout", timeout(&c.CommitTimeout)},
		{"settle", duration(&c.Settle, 0, time.Second)},
		{"hintTTL", timeout(&c.HintTTL)},
		{"rebootWhenOff", choice(&c.RebootWhenOff, "invalid", "on")},
		{"hostRunning", choice(&c.PostComplete, "powerGood", "postComplete")},
		{"postTimeout", timeout(&c.PostTimeout)},
		{"resumeCycle", boolean(&c.ResumeCycle)},
		{"retryAttempts", integer(&c.RetryAttempts, 0, 100)},
		{"executor", c.readExecutor},
		{"offGuard", duration(&c.OffGuard, 0, maxTimeout)},
		{"warmReboot", choice(&c.NoWarmReboot, "target", "reboot")},
		{"jobTimeout", timeout(&c.JobTimeout)},
		{"chassisSystem", word(&c.System, systemNames)},
		{"hypervisor", boolean(&c.Hypervisor)},
		{"settings", word(&c.Settings, settingsNames)},
		{"settingsWait", duration(&c.SettingsWait, 0, maxTimeout)},
		{"requireBMCReady", boolean(&c.RequireBMCReady)},
		{"requireActiveBMC", boolean(&c.RequireActiveBMC)},
		{"requireSupplies", boolean(&c.RequireSupplies)},
		{"overdueMax", duration(&c.OverdueMax, 0, year)},
		{"restoreSettle", duration(&c.RestoreSettle, 0, time.Hour)},
		{"restoreStagger", duration(&c.RestoreStagger, 0, time.Hour)},
		{"restoreAfter", list(&c.RestoreAfter, state.RebootCauses, func(to *state.RebootCause) reader { return word(to, rebootCauses) })},
		{"restoreOnlyAfterPowerLoss", boolean(&c.RestoreOnlyLost)},
		{"restoreAfterForcedOff", boolean(&c.RestoreAfterForce)},
		{"phosphorDir", directory(&c.PhosphorDir)},
		{"powerControlDir", directory(&c.PowerControlDir)},
		{"powerConfigDir", directory(&c.PowerConfigDir)},
		{"hosts", c.readHosts},
		{"monitorTargets", list(&c.MonitorTargets, 16, directory)},
		{"monitorServices", list(&c.MonitorServices, 16, directory)},
		{"simulate", object(c.Simulate.keys)},
		{"monitor", object(c.Monitor.keys)},
	}
}

func (s *Simulate) keys() []key {
	return []key{
		{"count", integer(&s.Count, 1, maxIndex+1)},
		{"timings", object(s.timings)},
		{"inputs", list(&s.Board.Inputs, 32, signal(gpio.IsInput, "an input"))},
		{"slotPower", boolean(&s.Board.SlotPower)},
		{"powerLevel", boolean(&s.Board.PowerLevel)},
		{"hpmStbyEn", boolean(&s.Board.HpmStbyEn)},
		{"startOn", boolean(&s.Board.StartOn)},
		{"faults", object(func() []key { return faults(&s.Board.Faults) })},
	}
}

// timings holds the sequence's times and the board's: they are tuned together.
func (s *Simulate) timings() []key {
	t, b := &s.Timings, &s.Board
	pulse := func(to *time.Duration) reader { return duration(to, time.Millisecond, time.Minute) }
	board := func(to *gpio.Duration) reader {
		return duration(to, gpio.Duration(time.Millisecond), gpio.Duration(time.Hour))
	}
	return []key{
		{"powerPulse", pulse(&t.PowerPulse)},
		{"forceOffPulse", pulse(&t.ForceOffPulse)},
		{"resetPulse", pulse(&t.ResetPulse)},
		{"powerCycle", duration(&t.PowerCycle, 0, time.Hour)},
		{"powerOKWatchdog", duration(&t.PowerOKWatchdog, time.Millisecond, time.Hour)},
		{"sioPowerGoodWatchdog", duration(&t.SIOWatchdog, time.Millisecond, time.Hour)},
		{"powerGoodDelay", board(&b.PowerGoodDelay)},
		{"sioDelay", board(&b.SioDelay)},
		{"postDelay", board(&b.PostDelay)},
		{"guestShutdown", board(&b.GuestShutdown)},
		{"overrideHold", board(&b.OverrideHold)},
		{"flickerPeriod", board(&b.FlickerPeriod)},
	}
}

func faults(f *gpio.Faults) []key {
	signals := func(to *[]string) reader { return list(to, 32, signal(isSignal, "a signal")) }
	return []key{
		{"neverPowerGood", boolean(&f.NeverPowerGood)},
		{"neverPostComplete", boolean(&f.NeverPostComplete)},
		{"dropPowerGoodAfter", duration(&f.DropPowerGoodAfter, 0, gpio.Duration(maxTimeout))},
		{"powerGoodFlickers", integer(&f.PowerGoodFlickers, 0, 10000)},
		{"guestHangsOnShutdown", boolean(&f.GuestHangsOnShutdown)},
		{"guestCrash", boolean(&f.GuestCrash)},
		{"forceOffIgnored", integer(&f.ForceOffIgnored, 0, 10000)},
		{"lineBusy", signals(&f.LineBusy)},
		{"lineMissing", signals(&f.LineMissing)},
		{"lineHung", signals(&f.LineHung)},
	}
}

func isSignal(s string) bool { return gpio.IsInput(s) || gpio.IsOutput(s) }

// signal reads the name of a signal that is of the kind.
func signal(is func(string) bool, kind string) func(*string) reader {
	allowed := "the name of " + kind + " of x86-power-control"
	return func(to *string) reader {
		return text(to, allowed, func(s string) (string, error) {
			if !is(s) {
				return "", errOutOfRange
			}
			return s, nil
		})
	}
}

// rebootCauses are the causes of a boot of the BMC, in the order of package
// state.
var rebootCauses = []string{"POR", "PinholeReset", "Watchdog", "Software", "Unknown"}

// policyRange is what a policy's key allows, in words.
var policyRange = `"CHECK", "DEDUP", "FIFO" or "FIFO_DEDUP"`

func policy(to *state.Policy) reader {
	return text(to, policyRange, state.ParsePolicy)
}
