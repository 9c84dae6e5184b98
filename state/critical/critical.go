// Package critical decides what the failure of a unit that matters means: an
// entry in the event log and, for a service that the BMC cannot do without, a BMC
// that is quiesced.
//
// Which units matter is in the files of phosphor-systemd-target-monitor, which
// are read as they are ([Config.Add]); facts and defects of that program are in
// openbmc-state-manager.md §2.9 and §4.1. It is pure: what systemd says comes in
// as calls, what is to be done goes out as [Action] values. A [Monitor] is not
// safe for concurrent use.
package critical

import (
	"fmt"
	"sort"
	"strings"

	"github.com/bmcstate/bmcstate/state"
)

// Failure is the message of a service's failure.
const Failure = "xyz.openbmc_project.State.Error.CriticalServiceFailure"

// Action is what a failure calls for: an entry in the event log, with a dump of
// the BMC, and perhaps a quiesced BMC.
type Action struct {
	_ state.Incomparable

	Message string // the error's name
	Unit    string
	Result  string // of the job; "failed" for a unit that was found failed
	Quiesce bool
}

// Monitor knows which units matter and which of their failures are dealt with.
type Monitor struct {
	cfg     Config
	targets map[string]target  // by unit, every instance of its own
	kinds   map[string]kind    // of services
	failed  map[string]failure // services that have failed and are dealt with
}

type kind uint8

const (
	service   kind = iota + 1
	immediate      // what its state shows is enough
)

// failure is one failure of a service. It is told by its job's end, by the unit's
// state, or by both, in any order, and acted on once.
type failure struct {
	_ state.Incomparable

	byJob      bool   // its job's end is known
	invocation string // of the unit; "" = its state has not been seen yet
}

// New returns a monitor of what cfg names, on a BMC with these hosts and chassis.
func New(cfg Config, hosts, chassis []int) *Monitor {
	m := &Monitor{cfg: cfg, targets: map[string]target{}, kinds: map[string]kind{}, failed: map[string]failure{}}
	for _, t := range cfg.targets {
		m.targets[t.unit] = t
	}
	for _, t := range cfg.targets {
		for _, unit := range instances(t.unit, hosts, chassis, true) {
			if _, named := m.targets[unit]; !named {
				m.targets[unit] = t
			}
		}
	}
	for k, list := range map[kind][]string{service: cfg.services, immediate: cfg.immediate} {
		for _, name := range list {
			for _, unit := range instances(name, hosts, chassis, false) {
				m.kinds[unit] = max(m.kinds[unit], k)
			}
		}
	}
	for unit := range m.targets {
		if isTemplate(unit) {
			delete(m.targets, unit)
		}
	}
	return m
}

// Units lists the units to watch, sorted.
func (m *Monitor) Units() []string {
	var all []string
	for unit := range m.targets {
		all = append(all, unit)
	}
	for unit := range m.kinds {
		if _, both := m.targets[unit]; !both {
			all = append(all, unit)
		}
	}
	sort.Strings(all)
	return all
}

// instances are the units that a name of a file stands for: itself and, for a
// template, every instance there is. The stock file has the targets of host 0 and
// chassis 0 only; with others says that these stand for their siblings too
// (openbmc-state-manager.md §4.1 no. 8).
func instances(name string, hosts, chassis []int, others bool) []string {
	stem, suffix, ok := cutInstance(name)
	number := others && strings.Contains(name, "@0.")
	if !ok || !isTemplate(name) && !number {
		return []string{name}
	}
	numbers := append(append([]int(nil), hosts...), chassis...)
	switch {
	case strings.HasPrefix(stem, "obmc-host-"):
		numbers = hosts
	case strings.HasPrefix(stem, "obmc-chassis-"), strings.HasPrefix(stem, "obmc-power-"):
		numbers = chassis
	case number:
		return []string{name}
	}
	var all []string
	for _, n := range numbers {
		all = append(all, fmt.Sprintf("%s@%d.%s", stem, n, suffix))
	}
	return all
}

func isTemplate(name string) bool {
	return strings.Contains(name, "@.") || strings.Contains(name, "@*.")
}

func cutInstance(name string) (stem, suffix string, ok bool) {
	stem, rest, ok := strings.Cut(name, "@")
	_, suffix, dot := strings.Cut(rest, ".")
	return stem, suffix, ok && dot
}

// starts are the types of the jobs that are to bring a unit up. What becomes of
// others says nothing about it: that a target was stopped late is no failed start
// (openbmc-state-manager.md §4.1 no. 10). Of a job that was over before it could
// be read the type is not known.
var starts = map[string]bool{"": true, "start": true, "restart": true, "try-restart": true}

// JobEnded takes the end of a job on a unit, with its type and result as systemd
// spells them.
func (m *Monitor) JobEnded(unit, typ, result string) []Action {
	if !starts[typ] {
		return nil
	}
	var out []Action
	if t, ok := m.targets[unit]; ok && t.results[result] {
		out = append(out, Action{Message: t.message, Unit: unit, Result: result})
	}
	if m.kinds[unit] == 0 || result != "failed" {
		return out
	}
	f, known := m.failed[unit]
	if known && !f.byJob {
		f.byJob = true // its state told it before
		m.failed[unit] = f
		return out
	}
	m.failed[unit] = failure{byJob: true}
	return append(out, quiesce(unit))
}

// Seen takes the state of a unit, as it was read: its ActiveState and its
// InvocationID. A service that is failed has failed, however that came about and
// whether or not we were there to see it.
func (m *Monitor) Seen(unit, active, invocation string) []Action {
	f, known := m.failed[unit]
	switch {
	case m.kinds[unit] == 0:
	case active == "active" && known && f.invocation != invocation:
		// It came back: the next failure is another one. One that was told by its
		// job alone was over before the unit could be seen failed.
		delete(m.failed, unit)
	case active == "failed" && known && (f.invocation == "" || f.invocation == invocation):
		f.invocation = invocation
		m.failed[unit] = f
	case active == "failed":
		m.failed[unit] = failure{invocation: invocation}
		return []Action{quiesce(unit)}
	}
	return nil
}

func quiesce(unit string) Action {
	return Action{Message: Failure, Unit: unit, Result: "failed", Quiesce: true}
}

// Save returns the failures that are dealt with, for [Monitor.Restore] of a later
// run in the same boot.
func (m *Monitor) Save() map[string]string {
	all := map[string]string{}
	for unit, f := range m.failed {
		all[unit] = f.invocation
	}
	return all
}

// Restore takes what Save returned: those failures are not acted on again.
func (m *Monitor) Restore(saved map[string]string) {
	for unit, invocation := range saved {
		if m.kinds[unit] != 0 {
			m.failed[unit] = failure{byJob: true, invocation: invocation}
		}
	}
}
