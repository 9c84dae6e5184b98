package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// life is what a rig has of the world around the host: the settings daemon, and
// what was told to the rest of the BMC.
type life struct {
	settings *state.Settings // of the settings daemon; nil = there is none
	own      bool            // we keep them ourselves
	shown    state.Settings  // our own, as published
	lost     []int           // domains that were told to have lost power
	dead     bool            // no daemon lives

	exhausted []int // domains that were told to have used up their attempts
	others    []IncidentKind
}

func (r *rig) lifeEffect(e Effect) {
	switch e := e.(type) {
	case writeSettingEffect:
		*r.life.settings = r.life.settings.With(e.setting, e.value)
		r.after(0, r.tellSettings)
	case publishSettings:
		r.life.shown = e.settings
	case incidentEffect:
		switch e.incident.Kind {
		case IncidentPowerLost:
			r.life.lost = append(r.life.lost, e.incident.Domain)
		case IncidentQuiesced:
			r.life.exhausted = append(r.life.exhausted, e.incident.Domain)
		default:
			r.life.others = append(r.life.others, e.incident.Kind)
		}
	}
}

// tellSettings is the settings daemon's answer, or that there is none.
func (r *rig) tellSettings() {
	ev := Settings{Own: r.life.own}
	if r.life.settings != nil && !r.life.own {
		ev.Known, ev.Values = true, *r.life.settings
	}
	r.step(ev)
}

// setting returns what is in force.
func (r *rig) setting() state.Settings {
	if r.life.own {
		return r.life.shown
	}
	return *r.life.settings
}

// away lets time pass without a daemon: the board goes on.
func (r *rig) away(d time.Duration) {
	for _, signal := range []string{out, reset} {
		r.release(signal)
	}
	r.keepPlant()
	r.life.dead = true
	r.pass(d)
	r.life.dead = false
}

// cut takes the mains away: the board is dark, and forgets what it was about.
func (r *rig) cut() {
	r.life.dead = true
	r.plan = nil
	r.levels = state.Levels{PowerGood: state.LevelOff, PostComplete: state.LevelOff}
	r.held = map[string]int{}
}

// flicker has the inputs read wrong, on and off by turns, for a while.
func (r *rig) flicker(n int) {
	if n == 0 {
		r.lies = state.LevelAbsent
		r.step(edge{0, "PowerOk", r.levels.PowerGood == state.LevelOn})
		return
	}
	r.lies = state.LevelOf(n%2 == 0)
	r.step(edge{0, "PowerOk", n%2 == 0})
	r.later(300*time.Millisecond, func() { r.flicker(n - 1) })
}
