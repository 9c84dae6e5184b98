package state

import "time"

// RestorePolicy is xyz.openbmc_project.Control.Power.RestorePolicy.Policy.
type RestorePolicy uint8

// The policies, in the order of the interface definition. RestoreNone does
// nothing; of a one-time policy it means that the persistent one applies.
const (
	RestoreNone RestorePolicy = iota
	RestoreAlwaysOn
	RestoreAlwaysOff
	RestorePrevious
)

var restorePolicyNames = [...]string{
	RestoreNone: "None", RestoreAlwaysOn: "AlwaysOn", RestoreAlwaysOff: "AlwaysOff", RestorePrevious: "Restore",
}

// String returns the policy's name in the interface definition.
func (p RestorePolicy) String() string { return name(restorePolicyNames[:], p, "RestorePolicy") }

// Settings is what the settings objects of one host say
// (openbmc-state-manager.md §1.2).
type Settings struct {
	Restore        RestorePolicy `json:"restore"`
	RestoreOnce    RestorePolicy `json:"restoreOnce"`
	RestoreDelay   time.Duration `json:"delay"`
	AutoReboot     bool          `json:"auto"`
	AutoRebootOnce bool          `json:"autoOnce"`
}

// DefaultSettings are those of a machine where nobody has set any: the settings
// daemon's own.
func DefaultSettings() Settings {
	return Settings{Restore: RestoreAlwaysOff, AutoReboot: true, AutoRebootOnce: true}
}

// Setting is one property of the settings objects.
type Setting uint8

// The settings.
const (
	SettingRestore Setting = iota
	SettingRestoreOnce
	SettingRestoreDelay
	SettingAutoReboot
	SettingAutoRebootOnce
)

// With returns the settings with one changed. Value is the number, the enum
// value, the delay in microseconds, or 0 and 1.
func (s Settings) With(what Setting, value uint64) Settings {
	switch what {
	case SettingRestore:
		s.Restore = RestorePolicy(value)
	case SettingRestoreOnce:
		s.RestoreOnce = RestorePolicy(value)
	case SettingRestoreDelay:
		// A delay that no clock can hold is one that never ends.
		s.RestoreDelay = time.Duration(min(value, uint64(maxDelay/time.Microsecond))) * time.Microsecond
	case SettingAutoReboot:
		s.AutoReboot = value != 0
	case SettingAutoRebootOnce:
		s.AutoRebootOnce = value != 0
	}
	return s
}

// maxDelay is as long as a sum with a boot clock does not overflow.
const maxDelay = 100 * 365 * 24 * time.Hour
