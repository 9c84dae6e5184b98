package config

import (
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
)

// DefaultPath is where the daemon looks for its configuration. A file that is
// missing there is no error.
const DefaultPath = "/etc/bmcstate/bmcstate.json"

// Config is the daemon's configuration. It is a plain value; the slices and
// the map are not to be changed.
type Config struct {
	// Driven says that a configuration was read without an error. Without it
	// the objects are served and nothing is driven, except the virtual chassis
	// of --simulate.
	Driven bool

	Policy   state.Policy         // of every domain that Policies does not name
	Policies map[int]state.Policy // by domain; see PolicyOf

	DepthLimit uint32 // unfinished requests per domain
	Share      uint32 // of them per uid
	ConnShare  uint32 // of them per bus connection

	HistoryMax         int           // final records per domain
	HistoryTTL         time.Duration // of a final record, in accumulated uptime
	RepeatWindow       time.Duration // a final record younger than this is never evicted
	RepeatAfterInvalid bool          // a repeat after INVALID is judged again ("retry")
	PendingTTL         time.Duration // of a queued request, by the boot clock

	AllowedUIDs []uint32 // may write and call methods, besides root and our own uid

	GracefulTimeout  time.Duration // from asking the OS to power off
	GracefulSet      bool          // the file has gracefulTimeout, which then rules over a board's GracefulPowerOffS
	ForceAfterOff    bool          // a graceful time-out cuts power ("force"), else it fails
	ConfirmTimeout   time.Duration // from the last line action to UNKNOWN
	ReconcileTimeout time.Duration // from UNKNOWN to the end
	KnownTimeout     time.Duration // that requests wait for the power state to be known
	CommitTimeout    time.Duration // of one fsync
	Settle           time.Duration // that power inputs must agree for
	HintTTL          time.Duration // that another daemon's transitional value is shown
	RebootWhenOff    bool          // a passage asked of a host that is off powers it on ("on")
	PostComplete     bool          // host running takes POST complete ("postComplete"), else power good is enough
	PostTimeout      time.Duration // from power good to POST complete, where that is waited for
	ResumeCycle      bool          // a restarted daemon applies power again in a cycle whose off is proven
	RetryAttempts    uint32        // launches until the next Host On from outside

	Executor     Executor         // of every domain that Executors does not name
	Executors    map[int]Executor // by domain; see ExecutorOf
	OffGuard     time.Duration    // after a power off: a job of others may not apply power
	NoWarmReboot bool             // systemd: both warm reboots go through power off ("reboot")
	JobTimeout   time.Duration    // of a systemd job that a transition waits for

	System     System // what chassis_system0 is
	Hypervisor bool   // host 0 runs one, which is shown

	Settings     Settings      // who keeps the settings objects
	SettingsWait time.Duration // that an absent settings daemon is waited for, with SettingsAuto

	RequireBMCReady  bool // nothing is started while the BMC is not Ready
	RequireActiveBMC bool // nor while it is the passive one of two
	RequireSupplies  bool // the restore policy waits until the supplies are known

	OverdueMax time.Duration // a schedule that is later is dropped; 0 = however late

	RestoreSettle     time.Duration       // that power must read the same after a boot
	RestoreStagger    time.Duration       // between the restore policies of two domains
	RestoreAfter      []state.RebootCause // boots after which the restore policy is looked at
	RestoreOnlyLost   bool                // Restore and AlwaysOff act only where power was lost
	RestoreAfterForce bool                // a forced off does not change what Restore brings back

	PhosphorDir     string // where phosphor-state-manager has stored its values
	PowerControlDir string // where x86-power-control has

	PowerConfigDir string    // of power-config-host<N>.json
	Hosts          []Mapping // hosts and the chassis that power them, sorted

	// Files of phosphor-systemd-target-monitor: units whose failure is logged, and
	// services that the BMC cannot do without. Both may hold either.
	MonitorTargets, MonitorServices []string

	Monitor Monitor // what the fault monitor watches; nothing by default

	Simulate Simulate // the virtual chassis of --simulate
}

// System says what chassis_system0 is.
type System uint8

// What it can be.
const (
	SystemNone      System = iota // there is no such object
	SystemAggregate               // all chassis together
	SystemTarget                  // its PowerCycle starts chassis-system-reset.target
)

var systemNames = []string{"none", "aggregate", "target"}

// Settings says who keeps the settings objects.
type Settings uint8

// The keepers.
const (
	SettingsAuto   Settings = iota // we do, while there is no settings daemon for long
	SettingsClient                 // the settings daemon
	SettingsServe                  // we do
)

var settingsNames = []string{"auto", "client", "serve"}

// Mapping says that a host is powered by a chassis. A host on several chassis,
// or a chassis under several hosts, has several mappings.
type Mapping struct{ Host, Chassis int }

// Simulate is the virtual chassis of --simulate. Times are quick by default,
// so that a demonstration does not wait for a real board's.
type Simulate struct {
	Count   int // hosts, each with a chassis of its own; 0 = as Config.Hosts says
	Timings Timings
	Board   gpio.VirtualConfig // of every host alike
}

// Timings are the times of the sequence that drives the virtual board; a real
// board has its own in power-config-host<N>.json.
type Timings struct {
	PowerPulse      time.Duration // button press for on and for graceful off
	ForceOffPulse   time.Duration // longest hold of the button for force-off
	ResetPulse      time.Duration
	PowerCycle      time.Duration // dwell between off and on
	PowerOKWatchdog time.Duration // from the press to power good, then FAILED
	SIOWatchdog     time.Duration // from power good to SIO power good, then FAILED
}

// Default returns the configuration of a machine without a file.
func Default() Config {
	return Config{
		Policy:           state.FIFODedup,
		DepthLimit:       32,
		Share:            16,
		ConnShare:        8,
		HistoryMax:       4096,
		HistoryTTL:       7 * 24 * time.Hour,
		RepeatWindow:     10 * time.Minute,
		PendingTTL:       10 * time.Minute,
		GracefulTimeout:  300 * time.Second,
		ForceAfterOff:    true,
		ConfirmTimeout:   120 * time.Second,
		ReconcileTimeout: 20 * time.Second,
		KnownTimeout:     30 * time.Second,
		CommitTimeout:    5 * time.Second,
		Settle:           20 * time.Millisecond,
		HintTTL:          60 * time.Second,
		PostTimeout:      300 * time.Second,
		ResumeCycle:      true,
		RetryAttempts:    3,
		OffGuard:         30 * time.Second,
		JobTimeout:       300 * time.Second,
		Monitor:          defaultMonitor(),
		SettingsWait:     60 * time.Second,
		RestoreSettle:    5 * time.Second,
		RestoreAfter: []state.RebootCause{state.RebootCausePOR, state.RebootCausePinholeReset, state.RebootCauseWatchdog,
			state.RebootCauseSoftware, state.RebootCauseUnknown},
		RestoreAfterForce: true,
		PhosphorDir:       "/var/lib/phosphor-state-manager",
		PowerControlDir:   "/var/lib/power-control",
		PowerConfigDir:    "/usr/share/x86-power-control",
		Hosts:             []Mapping{{Host: 0, Chassis: 0}},
		Simulate: Simulate{
			Timings: Timings{
				PowerPulse:      50 * time.Millisecond,
				ForceOffPulse:   2 * time.Second,
				ResetPulse:      50 * time.Millisecond,
				PowerCycle:      300 * time.Millisecond,
				PowerOKWatchdog: 3 * time.Second,
				SIOWatchdog:     time.Second,
			},
			Board: gpio.DefaultVirtual(),
		},
	}
}

// PolicyOf returns the admission policy of a domain.
func (c *Config) PolicyOf(domain int) state.Policy {
	if p, ok := c.Policies[domain]; ok {
		return p
	}
	return c.Policy
}

// SimulatedHosts returns the mappings of the virtual chassis.
func (c *Config) SimulatedHosts() []Mapping {
	if c.Simulate.Count == 0 {
		return c.Hosts
	}
	return oneToOne(c.Simulate.Count)
}

func oneToOne(count int) []Mapping {
	m := make([]Mapping, count)
	for i := range m {
		m[i] = Mapping{Host: i, Chassis: i}
	}
	return m
}
