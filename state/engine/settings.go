package engine

import "github.com/bmcstate/bmcstate/state"

// Settings says what the settings objects of a host hold. They are another
// daemon's, or with Own this one's: the values are then those that the journal
// keeps (DESIGN.md §9, S50).
type Settings struct {
	Host   int
	Known  bool // false: the other daemon does not answer
	Own    bool
	Values state.Settings // where they are known and not our own
}

// Supplies says what the supplies of a domain show.
type Supplies struct {
	_ state.Incomparable

	Domain int
	Status state.PowerStatus
}

// Presence says whether the inventory knows that a domain's chassis is not there.
type Presence struct {
	Domain int
	Absent bool
}

func (Settings) isEvent() {}
func (Presence) isEvent() {}
func (Supplies) isEvent() {}

type (
	// writeSettingEffect changes a setting that another daemon holds.
	writeSettingEffect struct {
		_ state.Incomparable

		host    int
		setting state.Setting
		value   uint64
	}
	publishSettings struct {
		_ state.Incomparable

		host     int
		settings state.Settings
	}
)

func (writeSettingEffect) isEffect() {}
func (publishSettings) isEffect()    {}

// settingsOf are the settings as far as they are known.
type settingsOf struct {
	_ state.Incomparable

	known, own bool
	values     state.Settings // of another daemon
}

// takeSettings takes what a settings object says. All hosts of a domain share
// power, so the first speaks for all.
func (c *Core) takeSettings(ev Settings) {
	d := c.domainOf(state.Object{Kind: state.KindHost, Index: ev.Host})
	if d == nil || ev.Host != d.cfg.Hosts[0] {
		return
	}
	d.held = settingsOf{known: ev.Known || ev.Own, own: ev.Own, values: ev.Values}
}

// settings returns what applies; known is false while nobody says.
func (d *domain) settings() (s state.Settings, known bool) {
	if d.held.own {
		return d.values.saved.Settings, true
	}
	return d.held.values, d.held.known
}

// writeSetting changes a setting where it is kept.
func (d *domain) writeSetting(what state.Setting, value uint64) {
	if d.held.own {
		d.values.saved.Settings = d.values.saved.Settings.With(what, value)
		return
	}
	d.held.values = d.held.values.With(what, value)
	d.core.emit(writeSettingEffect{host: d.cfg.Hosts[0], setting: what, value: value})
}

// settingOf are the properties of our own settings objects.
var settingOf = map[Property]state.Setting{
	PropRestorePolicy: state.SettingRestore, PropRestorePolicyOnce: state.SettingRestoreOnce,
	PropRestoreDelay: state.SettingRestoreDelay,
	PropAutoReboot:   state.SettingAutoReboot, PropAutoRebootOnce: state.SettingAutoRebootOnce,
}

// setOwnSetting takes a write to one of our own settings objects.
func (d *domain) setOwnSetting(ev Set) bool {
	what, ok := settingOf[ev.Prop]
	if ok {
		d.values.saved.Settings = d.values.saved.Settings.With(what, ev.Value)
	}
	return ok
}

// publishSettings shows our own settings, whether or not somebody serves them.
func (d *domain) publishSettings(first bool) {
	s := d.values.saved.Settings
	if !first && s == d.shown.settings {
		return
	}
	d.shown.settings = s
	for _, h := range d.cfg.Hosts {
		d.core.emit(publishSettings{host: h, settings: s})
	}
}
