package config

import (
	"time"

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
		{"gracefulTimeout", timeout(&c.GracefulTimeout)},
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
		{"powerConfigDir", directory(&c.PowerConfigDir)},
		{"hosts", c.readHosts},
		{"simulate", object(c.Simulate.keys)},
	}
}

func (s *Simulate) keys() []key {
	return []key{
		{"count", integer(&s.Count, 1, maxIndex+1)},
		{"timings", object(s.Timings.keys)},
		{"faults", object(s.Faults.keys)},
	}
}

func (t *Timings) keys() []key {
	delay := func(to *time.Duration) reader { return duration(to, 0, time.Hour) }
	pulse := func(to *time.Duration) reader { return duration(to, time.Millisecond, time.Minute) }
	return []key{
		{"powerPulse", pulse(&t.PowerPulse)},
		{"forceOffPulse", pulse(&t.ForceOffPulse)},
		{"resetPulse", pulse(&t.ResetPulse)},
		{"powerCycle", delay(&t.PowerCycle)},
		{"powerOKWatchdog", duration(&t.PowerOKWatchdog, time.Millisecond, time.Hour)},
		{"powerGoodDelay", delay(&t.PowerGoodDelay)},
		{"powerOffDelay", delay(&t.PowerOffDelay)},
		{"postDelay", delay(&t.PostDelay)},
		{"guestShutdown", delay(&t.GuestShutdown)},
		{"overrideHold", duration(&t.OverrideHold, time.Millisecond, time.Minute)},
	}
}

func (f *Faults) keys() []key {
	after := func(to *time.Duration) reader { return duration(to, 0, maxTimeout) }
	return []key{
		{"neverPowerGood", boolean(&f.NeverPowerGood)},
		{"dropPowerGood", after(&f.DropPowerGood)},
		{"guestHangs", boolean(&f.GuestHangs)},
		{"guestCrashes", after(&f.GuestCrashes)},
		{"linesBusy", list(&f.LinesBusy, 32, name)},
		{"linesMissing", list(&f.LinesMissing, 32, name)},
	}
}

// policyRange is what a policy's key allows, in words.
var policyRange = `"CHECK", "DEDUP", "FIFO" or "FIFO_DEDUP"`

func policy(to *state.Policy) reader {
	return text(to, policyRange, state.ParsePolicy)
}
