package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// cell is one case of the power-cut matrix, in the words of RESTORE.md.
type cell struct{ policy, once, host, event, reading string }

func (c cell) String() string {
	return c.policy + "/once=" + c.once + "/" + c.host + "/" + c.event + "/" + c.reading
}

var matrix = struct{ policies, hosts, events, readings []string }{
	policies: []string{"AlwaysOn", "AlwaysOff", "Restore", "None"},
	// Two hosts are in transition to off: one gets there while the BMC is away.
	hosts:    []string{"on", "off", "going up", "going down", "going down late", "forced off"},
	events:   []string{"AC loss", "BMC reboot", "daemon crash"},
	readings: []string{"at once", "after 5 s", "flickering"},
}

func cells() (all []cell) {
	for _, p := range matrix.policies {
		for _, o := range []string{"None", "AlwaysOn", "AlwaysOff", "Restore"} {
			for _, h := range matrix.hosts {
				for _, e := range matrix.events {
					for _, r := range matrix.readings {
						all = append(all, cell{p, o, h, e, r})
					}
				}
			}
		}
	}
	return all
}

// outcome is what an operator finds some minutes later.
type outcome struct {
	power     string // "on" or "off"
	asked     string // what the policy asked for: "", "On" or "Off"
	cause     string // RestartCause, where the policy has powered on
	once      string // one-time policy
	lost      bool   // a Blackout was logged
	requested string // RequestedHostTransition
}

// facts are the few things about a cell that the rules speak of. They are
// plain observations, found without any rule.
var hostFacts = map[string]struct {
	powerAtBoot string // while the mains stay
	powerLater  string
	wasOn       bool // power was on when the BMC went
	asked       string
	offRunning  bool
}{
	"on":              {"on", "on", true, "On", false},
	"off":             {"off", "off", false, "Off", false},
	"going up":        {"on", "on", false, "On", false},
	"going down":      {"off", "off", true, "Off", true},
	"going down late": {"on", "off", true, "Off", true},
	"forced off":      {"off", "off", false, "On", false},
}

// expected applies the rules of RESTORE.md. It calls no code of the product.
func expected(c cell) outcome {
	f := hostFacts[c.host]
	out := outcome{power: f.powerLater, once: c.once, requested: f.asked}
	if c.event == "daemon crash" { // rule 1
		return out
	}
	power := f.powerAtBoot // rules 2 and 3: what is seen counts, however late
	if c.event == "AC loss" {
		power = "off"
	}
	if power == "on" { // rule 4
		return out
	}
	out.power = "off"
	out.lost = f.wasOn && !f.offRunning // rule 11
	policy := c.policy
	if c.once != "None" { // rule 5
		policy, out.once = c.once, "None"
	}
	rules := map[string]struct{ asked, cause string }{
		"AlwaysOn":  {"On", "PowerPolicyAlwaysOn"},      // rule 6
		"AlwaysOff": {"Off", ""},                        // rule 7
		"None":      {},                                 // rule 8
		"Restore":   {"On", "PowerPolicyPreviousState"}, // rules 9 and 10
	}
	rule := rules[policy]
	if policy == "Restore" && f.asked == "Off" { // rule 9
		rule.asked, rule.cause = "", ""
	}
	if rule.asked == f.asked && rule.asked == "Off" {
		rule.asked = "" // it is so already
	}
	out.asked, out.cause = rule.asked, rule.cause
	if rule.asked != "" {
		out.requested = rule.asked
	}
	if rule.asked == "On" {
		out.power = "on"
	}
	return out
}

// TestPowerCutMatrix runs every cell against the rules, with the settings kept
// by their own daemon and by us.
func TestPowerCutMatrix(t *testing.T) {
	statetest.Covers(t, "C17", "S54", "S56", "B9", "B15")
	ran := 0
	for _, own := range []bool{false, true} {
		for _, c := range cells() {
			t.Run(fmt.Sprintf("own=%v/%s", own, c), func(t *testing.T) {
				require.Equal(t, expected(c), runCell(t, c, own))
			})
			ran++
		}
	}
	require.Equal(t, 2*4*4*6*3*3, ran)
}

var policyByName = map[string]state.RestorePolicy{
	"AlwaysOn": state.RestoreAlwaysOn, "AlwaysOff": state.RestoreAlwaysOff,
	"Restore": state.RestorePrevious, "None": state.RestoreNone,
}

func runCell(t *testing.T, c cell, own bool) outcome {
	r := settingsRig(t, own, state.Settings{
		Restore: policyByName[c.policy], RestoreOnce: policyByName[c.once],
	})
	r.bring(c.host)
	before := r.next
	r.strike(c)
	r.pass(10 * time.Minute)
	return r.found(before)
}

// settingsRig returns a host that is off, with settings.
func settingsRig(t *testing.T, own bool, s state.Settings, change ...func(*Config)) *rig {
	r := newRig(t, append([]func(*Config){func(c *Config) { c.RestoreAfterForcedOff = true }}, change...)...)
	r.life.own = own
	r.life.settings = &state.Settings{}
	r.restart(true) // with a boot id, as every daemon has one
	r.tellSettings()
	r.pass(time.Minute)
	require.Empty(r.t, r.pulses)
	if own {
		for prop, v := range map[Property]uint64{
			PropRestorePolicy: uint64(s.Restore), PropRestorePolicyOnce: uint64(s.RestoreOnce),
			PropRestoreDelay: uint64(s.RestoreDelay / time.Microsecond),
			PropAutoReboot:   truth(s.AutoReboot), PropAutoRebootOnce: truth(s.AutoRebootOnce),
		} {
			r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: prop, Value: v, Reply: func(a Answer) { require.Nil(t, a.Err) }})
		}
	} else {
		*r.life.settings = s
		r.tellSettings()
	}
	return r
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// bring brings the host to where the event finds it.
func (r *rig) bring(host string) {
	r.plant.guest = 20 * time.Second
	switch host {
	case "off":
		r.write(state.HostOn)
		r.pass(time.Minute)
		r.write(state.HostOff)
		r.pass(time.Minute)
	case "on", "going down", "going down late", "forced off":
		r.write(state.HostOn)
		r.pass(time.Minute)
	}
	switch host {
	case "going up":
		r.plant.powerGood = 4 * time.Second
		r.write(state.HostOn)
		r.pass(2 * time.Second)
	case "going down":
		r.write(state.HostOff)
		r.pass(2 * time.Second)
	case "going down late":
		r.plant.guest = time.Minute
		r.write(state.HostOff)
		r.pass(2 * time.Second)
	case "forced off":
		r.write(state.ChassisOff)
		r.pass(time.Minute)
	}
}

// strike is the event, and how power good reads after it.
func (r *rig) strike(c cell) {
	switch c.event {
	case "AC loss":
		r.cut()
		r.pass(30 * time.Second)
		r.life.dead = false
	case "BMC reboot":
		r.away(30 * time.Second)
	case "daemon crash":
		r.away(time.Second)
	}
	switch c.reading {
	case "after 5 s":
		r.blind = fmt.Errorf("the service of power good is not there yet")
		r.later(5*time.Second, func() { r.blind = nil })
	case "flickering":
		r.lies = state.LevelOn
	}
	r.restart(c.event == "daemon crash")
	if c.reading == "flickering" {
		r.flicker(9)
	}
	r.later(time.Second, r.tellSettings)
}

// found is what an operator finds. Requests up to before are of the time before
// the event.
func (r *rig) found(before uint64) outcome {
	d := r.core.domains[0]
	out := outcome{
		power: "off", once: r.setting().RestoreOnce.String(), lost: len(r.life.lost) > 0,
		requested: d.host().Requested.String()[len("Host "):],
	}
	if r.levels.PowerGood == state.LevelOn {
		out.power = "on"
	}
	for _, req := range d.q.Page(before, 100) {
		require.Equal(r.t, state.InternalPrefix+restoreClient, req.Key.Client, "nobody else asks")
		require.Empty(r.t, out.asked, "the policy asks once")
		require.Contains(r.t, []state.Status{state.Success, state.Noop}, req.Status)
		out.asked = req.Op.String()[len("Host "):]
	}
	if out.asked == "On" {
		out.cause = map[state.RestartCause]string{
			state.RestartCausePowerPolicyAlwaysOn: "PowerPolicyAlwaysOn", state.RestartCausePowerPolicyPreviousState: "PowerPolicyPreviousState",
		}[d.values.saved.RestartCause]
	}
	return out
}
