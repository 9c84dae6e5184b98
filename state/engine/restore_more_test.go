package engine

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// lostOn is a host that ran when the mains went, one step after they are back.
func lostOn(t *testing.T, s state.Settings, change ...func(*Config)) *rig {
	r := settingsRig(t, false, s, change...)
	r.bring("on")
	r.pulses = nil
	r.cut()
	r.pass(30 * time.Second)
	r.life.dead = false
	r.restart(false)
	return r
}

func TestRestoreDelay(t *testing.T) {
	statetest.Covers(t, "S56", "B30")
	for delay, want := range map[time.Duration]time.Duration{
		0: 5 * time.Second, 3 * time.Second: 5 * time.Second, 90 * time.Second: 90 * time.Second,
	} {
		r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn, RestoreDelay: delay})
		start := r.now.Boot
		r.tellSettings()
		r.pass(10 * time.Minute)
		require.Len(t, r.pulses, 1)
		require.GreaterOrEqual(t, r.pulses[0].from, start+delay, "not before the delay is over")
		require.Less(t, r.pulses[0].from, start+want+time.Second)
	}
	forever := state.Settings{Restore: state.RestoreAlwaysOn}.With(state.SettingRestoreDelay, math.MaxUint64)
	r := lostOn(t, forever)
	r.tellSettings()
	r.pass(time.Hour)
	require.Empty(t, r.pulses, "a delay that no clock can hold is one that never ends")
}

// A setting that changes while the policy waits counts.
func TestRestoreReadsThePolicyAtItsEnd(t *testing.T) {
	r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn, RestoreDelay: time.Minute})
	r.tellSettings()
	r.pass(30 * time.Second)
	r.life.settings.Restore = state.RestoreAlwaysOff
	r.tellSettings()
	r.pass(time.Hour)
	require.Empty(t, r.pulses)
}

func TestRestoreWaitsForSettings(t *testing.T) {
	statetest.Covers(t, "B11")
	r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn})
	r.pass(10 * time.Minute)
	require.Empty(t, r.pulses, "nobody has said what the policy is")
	r.tellSettings()
	r.pass(time.Minute)
	require.Len(t, r.pulses, 1)
}

// bug-reports.md 21: supplies that are not known yet, or bad, hold it back.
func TestRestoreWaitsForSupplies(t *testing.T) {
	statetest.Covers(t, "B21")
	supplied := func(c *Config) { c.Supplies = true }
	r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn}, supplied)
	r.tellSettings()
	r.pass(3 * time.Second)
	require.Equal(t, state.PowerStatusUndefined, r.chassis[len(r.chassis)-1].Status)
	r.pass(time.Minute)
	r.step(Supplies{Status: state.PowerStatusUninterruptiblePowerSupply})
	r.pass(time.Minute)
	require.Empty(t, r.pulses)
	require.Equal(t, state.PowerStatusUninterruptiblePowerSupply, r.chassis[len(r.chassis)-1].Status)
	r.step(Supplies{Status: state.PowerStatusGood})
	r.pass(time.Minute)
	require.Len(t, r.pulses, 1)
}

// C18: when bad supplies are good again with the chassis off, the policy is
// looked at again; with the chassis on, nothing happens.
func TestGoodSuppliesBringThePolicyBack(t *testing.T) {
	statetest.Covers(t, "C18")
	for _, on := range []bool{false, true} {
		r := settingsRig(t, false, state.Settings{Restore: state.RestoreAlwaysOn}, func(c *Config) { c.Supplies = true })
		r.crash(false)
		r.tellSettings()
		r.step(Supplies{Status: state.PowerStatusGood})
		r.pass(time.Minute)
		require.Equal(t, 1, len(r.pulses), "of the first boot")
		if !on {
			r.write(state.ChassisOff)
			r.pass(time.Minute)
		}
		before := len(r.pulses)
		r.step(Supplies{Status: state.PowerStatusBrownOut})
		r.pass(time.Minute)
		require.Equal(t, state.PowerStatusBrownOut, r.chassis[len(r.chassis)-1].Status)
		r.step(Supplies{Status: state.PowerStatusGood})
		r.pass(time.Minute)
		require.Equal(t, before+int(1-truth(on)), len(r.pulses))
	}
}

func TestRestoreIsVoid(t *testing.T) {
	for name, intervene := range map[string]func(*rig){
		"request":      func(r *rig) { r.write(state.HostOff) },
		"power button": func(r *rig) { r.step(edge{0, "PowerButton", true}); r.step(edge{0, "PowerButton", false}) },
		"reset button": func(r *rig) { r.step(edge{0, "ResetButton", true}); r.step(edge{0, "ResetButton", false}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn, RestoreOnce: state.RestorePrevious, RestoreDelay: time.Minute})
			r.tellSettings()
			r.pass(20 * time.Second)
			intervene(r)
			r.pass(time.Hour)
			require.Empty(t, r.pulses)
			require.Equal(t, state.RestoreNone, r.setting().RestoreOnce, "used up all the same")
		})
	}
	t.Run("before power is known", func(t *testing.T) {
		r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn})
		r.write(state.HostOn)
		r.write(state.HostOff)
		r.tellSettings()
		r.pass(time.Hour)
		require.Equal(t, state.PowerStateOff, r.powerState())
		require.Len(t, r.life.lost, 1, "that power was lost is told all the same")
	})
}

// A daemon that dies while the policy waits goes on waiting, and decides once.
func TestRestoreSurvivesTheDaemon(t *testing.T) {
	for at := time.Second; at < 20*time.Second; at += time.Second {
		r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn, RestoreOnce: state.RestoreAlwaysOn, RestoreDelay: 15 * time.Second})
		r.tellSettings()
		r.pass(at)
		r.crash(true)
		r.tellSettings()
		r.pass(10 * time.Minute)
		require.Len(t, r.pulses, 1, "killed after %s", at)
		require.Len(t, r.life.lost, 1)
		require.Equal(t, state.PowerStateOn, r.powerState())
	}
}

func TestRestoreAfterCauses(t *testing.T) {
	statetest.Covers(t, "B3", "B14")
	for name, c := range map[string]struct {
		change func(*Config)
		policy state.RestorePolicy
		host   string
		on     bool
	}{
		"software reboot, by default": {func(c *Config) { c.RebootCause = state.RebootCauseSoftware }, state.RestoreAlwaysOn, "off", true},
		"software reboot, left out": {func(c *Config) {
			c.RebootCause = state.RebootCauseSoftware
			c.RestoreNotAfter[state.RebootCauseSoftware] = true
		}, state.RestoreAlwaysOn, "off", false},
		"power-on, software left out":      {func(c *Config) { c.RestoreNotAfter[state.RebootCauseSoftware] = true }, state.RestoreAlwaysOn, "off", true},
		"only lost, AlwaysOn all the same": {func(c *Config) { c.RestoreOnlyLost = true }, state.RestoreAlwaysOn, "off", true},
		"only lost, not lost":              {func(c *Config) { c.RestoreOnlyLost = true }, state.RestorePrevious, "forced off", false},
		"only lost, lost":                  {func(c *Config) { c.RestoreOnlyLost = true }, state.RestorePrevious, "on", true},
		"forced off, by default":           {func(*Config) {}, state.RestorePrevious, "forced off", true},
		"forced off is off":                {func(c *Config) { c.RestoreAfterForcedOff = false }, state.RestorePrevious, "forced off", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := settingsRig(t, false, state.Settings{}, c.change)
			r.bring(c.host)
			r.life.settings.Restore = c.policy
			r.cut()
			r.pass(30 * time.Second)
			r.life.dead = false
			r.restart(false)
			r.tellSettings()
			r.pass(time.Hour)
			require.Equal(t, c.on, r.levels.PowerGood == state.LevelOn)
		})
	}
}

// Domains follow each other, and one that hangs holds nobody back.
func TestRestoreStagger(t *testing.T) {
	r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn}, func(c *Config) { c.Domains[0].RestoreStagger = 40 * time.Second })
	start := r.now.Boot
	r.tellSettings()
	r.pass(10 * time.Minute)
	require.Len(t, r.pulses, 1)
	require.GreaterOrEqual(t, r.pulses[0].from, start+40*time.Second)
}

// Two domains in one engine: the second follows the first by its stagger,
// whatever has held back both, and where the first does not come up.
func TestRestoreStaggerOfTwoDomains(t *testing.T) {
	for name, c := range map[string]struct {
		stagger, delay, late time.Duration // late: until the settings are known
		change               func(*rig)
	}{
		"at once":                   {stagger: 40 * time.Second},
		"shorter than the settling": {stagger: 2 * time.Second},
		"after the delay":           {stagger: 2 * time.Second, delay: time.Minute},
		"settings come late":        {stagger: 2 * time.Second, late: time.Minute},
		"a host that does not come": {stagger: 40 * time.Second, change: func(r *rig) { r.plant.powerGood = 0 }},
		"supplies come late": {stagger: 2 * time.Second, change: func(r *rig) {
			for d := range 2 {
				r.step(Supplies{Domain: d, Status: state.PowerStatusBrownOut})
				r.after(2*time.Minute, func() { r.step(Supplies{Domain: d, Status: state.PowerStatusGood}) })
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, second := twoDomains(t, c.stagger)
			r.cut()
			r.pass(30 * time.Second)
			r.life.dead = false
			r.restart(false)
			if c.change != nil {
				c.change(r)
			}
			r.pass(c.late)
			for host := range 2 {
				r.step(Settings{Host: host, Known: true, Values: state.Settings{Restore: state.RestoreAlwaysOn, RestoreDelay: c.delay}})
			}
			r.pass(10 * time.Minute)
			require.NotEmpty(t, r.pulses)
			require.NotEmpty(t, *second)
			require.InDelta(t, c.stagger, (*second)[0]-r.pulses[0].from, float64(100*time.Millisecond))
		})
	}
}

// twoDomains is a rig with a second domain, whose host is off and stays so. It
// returns when that one was switched on.
func twoDomains(t *testing.T, stagger time.Duration) (r *rig, second *[]time.Duration) {
	r, second = newRig(t, func(c *Config) {
		d := c.Domains[0]
		d.ID, d.Hosts, d.Chassis, d.RestoreStagger = 1, []int{1}, []int{1}, stagger
		c.Domains = append(c.Domains, d)
	}), new([]time.Duration)
	r.intercept = func(e Effect) bool {
		switch e := e.(type) {
		case probeEffect:
			if e.domain == 1 {
				off := state.Levels{PowerGood: state.LevelOff, PostComplete: state.LevelOff}
				r.after(e.settle, func() { r.step(seen{1, e.id, off, true, nil}) })
			}
			return e.domain == 1
		case pulseEffect:
			if e.domain == 1 {
				*second = append(*second, r.now.Boot)
				r.after(e.width, func() { r.step(acted{1, e.request, e.step, true, nil}) })
			}
			return e.domain == 1
		}
		return false
	}
	return r, second
}

// bug-reports.md 7, 12, 17, 18, 20 and S60: what a running host had is not given
// up for a level that reads wrong while the board is set up, and a BMC reboot
// under it drives nothing.
func TestRunningHostKeepsItsValuesOverABoot(t *testing.T) {
	statetest.Covers(t, "B7", "B12", "B17", "B18")
	r := settingsRig(t, false, state.Settings{Restore: state.RestoreAlwaysOff, RestoreOnce: state.RestoreAlwaysOn})
	r.bring("on")
	host := state.Object{Kind: state.KindHost}
	for prop, v := range map[Property]uint64{PropBootProgress: uint64(state.BootProgressOSRunning), PropOSState: uint64(state.OSStateBootComplete)} {
		r.step(Set{Object: host, Prop: prop, Value: v, Reply: func(Answer) {}})
	}
	r.pass(time.Second)
	changed, pulses := r.chassis[len(r.chassis)-1].LastStateChange, len(r.pulses)
	r.away(30 * time.Second)
	r.lies = state.LevelOff
	r.restart(false)
	r.tellSettings()
	r.later(2*time.Second, func() {
		r.lies = state.LevelAbsent
		r.step(edge{0, "PowerOk", true})
	})
	r.pass(time.Hour)
	h, c := r.host[len(r.host)-1], r.chassis[len(r.chassis)-1]
	require.Equal(t, state.HostStateRunning, h.Current)
	require.Equal(t, state.PowerStateOn, c.Current)
	require.Equal(t, state.BootProgressOSRunning, h.BootProgress)
	require.Equal(t, state.OSStateBootComplete, h.OS)
	require.Equal(t, state.HostOn, h.Requested)
	require.Equal(t, changed, c.LastStateChange)
	require.Equal(t, state.RestoreAlwaysOn, r.setting().RestoreOnce)
	require.Len(t, r.pulses, pulses)
	require.Empty(t, r.life.lost)
}

// S60: power that was lost changes LastStateChangeTime to now; a host that was
// off before keeps it.
func TestLastStateChangeAfterPowerLoss(t *testing.T) {
	statetest.Covers(t, "S60", "C15")
	for host, moves := range map[string]bool{"on": true, "off": false} {
		r := settingsRig(t, false, state.Settings{})
		r.bring(host)
		before := r.chassis[len(r.chassis)-1].LastStateChange
		require.NotZero(t, before)
		r.cut()
		r.pass(time.Minute)
		r.life.dead = false
		r.restart(false)
		from := r.now.WallMillis()
		r.pass(time.Minute)
		after := r.chassis[len(r.chassis)-1].LastStateChange
		if moves {
			require.GreaterOrEqual(t, after, from)
			require.LessOrEqual(t, after, r.now.WallMillis())
		} else {
			require.Equal(t, before, after)
		}
	}
}

// S53: the cause is there before the request is seen.
func TestRestoreCauseComesFirst(t *testing.T) {
	statetest.Covers(t, "S53")
	r := lostOn(t, state.Settings{Restore: state.RestoreAlwaysOn})
	r.write(state.HostOff) // so that the request is a change
	r.restart(false)
	r.tellSettings()
	from := len(r.host)
	r.pass(time.Minute)
	for _, h := range r.host[from:] {
		if h.Requested == state.HostOn {
			require.Equal(t, state.RestartCausePowerPolicyAlwaysOn, h.RestartCause)
		}
	}
	require.Equal(t, state.HostOn, r.host[len(r.host)-1].Requested)
}

// Supplies that are good again while a reading fails are not forgotten.
func TestGoodSuppliesWhilePowerIsUnknown(t *testing.T) {
	r := settingsRig(t, false, state.Settings{Restore: state.RestoreAlwaysOn}, func(c *Config) { c.Supplies = true })
	r.crash(false)
	r.tellSettings()
	r.step(Supplies{Status: state.PowerStatusGood})
	r.pass(time.Minute)
	r.write(state.ChassisOff)
	r.pass(time.Minute)
	r.step(Supplies{Status: state.PowerStatusBrownOut})
	before := len(r.pulses)
	r.blind = errors.New("stuck")
	r.pass(time.Minute)
	r.step(Supplies{Status: state.PowerStatusGood})
	r.pass(time.Second)
	require.Len(t, r.pulses, before)
	r.blind = nil
	r.pass(time.Minute)
	require.Len(t, r.pulses, before+1)
}

// A Chassis Off that went ahead of the journal refuses what raises until it is
// written. The policy waits for that, and is not lost.
func TestRestoreWaitsForAPowerOffThatIsNotWritten(t *testing.T) {
	r := settingsRig(t, false, state.Settings{Restore: state.RestoreAlwaysOn}, func(c *Config) { c.Supplies = true })
	r.crash(false)
	r.tellSettings()
	r.step(Supplies{Status: state.PowerStatusGood})
	r.pass(time.Minute)
	r.hang = true
	r.write(state.ChassisOff)
	r.pass(time.Minute)
	require.Equal(t, state.PowerStateOff, r.powerState())
	before := len(r.pulses)
	r.step(Supplies{Status: state.PowerStatusBrownOut})
	r.step(Supplies{Status: state.PowerStatusGood})
	r.pass(time.Minute)
	require.Len(t, r.pulses, before)
	r.hang = false
	r.flush()
	r.pass(time.Minute)
	require.Len(t, r.pulses, before+1)
	require.Equal(t, state.PowerStateOn, r.powerState())
}
