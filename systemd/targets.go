package systemd

import (
	"strconv"
	"strings"
)

// Target is what carries an operation out.
type Target struct {
	Unit string // "" = no unit: [Units.Reboot]
	Mode string
}

// Selection is what decides about an operation's target besides its name.
type Selection struct {
	// Verdict is the kind of transition that judging led to (DESIGN.md §3.2,
	// state.Verdict's names); "" = what the operation's name says.
	Verdict string
	// NoWarmReboot maps both warm reboots to a reboot through power off, for
	// platforms without one.
	NoWarmReboot bool
}

// unitOf is the table of openbmc-state-manager.md §2.2 to §2.4: operation →
// unit without its instance.
var unitOf = map[string]string{
	"Host On":                 "obmc-host-start@",
	"Host Off":                "obmc-host-shutdown@",
	"Host Reboot":             "obmc-host-reboot@",
	"Host GracefulWarmReboot": "obmc-host-warm-reboot@",
	"Host ForceWarmReboot":    "obmc-host-force-warm-reboot@",
	"Chassis On":              "obmc-chassis-poweron@",
	"Chassis Off":             "obmc-chassis-hard-poweroff@",
	"Chassis PowerCycle":      "obmc-chassis-powercycle@",
}

// asJudged replaces an operation by the one that its verdict amounts to: a row
// of DESIGN.md §3.2 asks for a power-on, a reboot or a reset under the name of
// another operation where the host is off, quiesced or without power.
var asJudged = map[[2]string]string{
	{"Host On", "reboot"}:                      "Host Reboot",
	{"Host Reboot", "power on"}:                "Host On",
	{"Host GracefulWarmReboot", "power on"}:    "Host On",
	{"Host GracefulWarmReboot", "power cycle"}: "Host Reboot",
	{"Host GracefulWarmReboot", "reset"}:       "Host ForceWarmReboot",
	{"Host ForceWarmReboot", "power on"}:       "Host On",
	{"Chassis PowerCycle", "power on"}:         "Chassis On",
}

// TargetFor returns what to start for an operation (state.Operation's names, for
// example "Host On") of one instance; false for a name that starts nothing.
func TargetFor(op string, instance int, sel Selection) (Target, bool) {
	switch op {
	case "BMC Reboot":
		// Irreversibly: a later job must not take the reboot away.
		return Target{"reboot.target", ModeReplaceIrreversibly}, true
	case "BMC HardReboot":
		return Target{}, true
	}
	if other, ok := asJudged[[2]string{op, sel.Verdict}]; ok {
		op = other
	}
	if sel.NoWarmReboot && (op == "Host GracefulWarmReboot" || op == "Host ForceWarmReboot") {
		op = "Host Reboot"
	}
	unit, ok := unitOf[op]
	if !ok {
		return Target{}, false
	}
	return Target{unit + strconv.Itoa(instance) + ".target", ModeReplace}, true
}

// Role says what a target means for the state of its host, chassis or BMC.
type Role uint8

// The roles. A state is reached when the job is done and the unit is up; for
// [RoleHostDiag] and [RoleHostCrash] a start job alone is the news
// (openbmc-state-manager.md §2.3).
const (
	RoleNone Role = iota // tells no state by itself
	RoleHostRunning
	RoleHostOff
	RoleHostQuiesced
	RoleHostDiag
	RoleHostCrash
	RoleChassisOn
	RoleChassisOff
	RoleBMCReady
	RoleBMCQuiesced
)

// Fact is what a watched target stands for.
type Fact struct {
	// Op is the operation that a start job on the target amounts to when
	// somebody else queued it; "" = none.
	Op   string
	Role Role
}

type targetFact struct {
	stem string // with "@" at the end: one per instance
	fact Fact
}

var hostFacts = []targetFact{
	{"obmc-host-start@", Fact{"Host On", RoleNone}},
	{"obmc-host-startmin@", Fact{"Host On", RoleHostRunning}},
	{"obmc-host-shutdown@", Fact{"Host Off", RoleNone}},
	{"obmc-host-stop@", Fact{"Host Off", RoleHostOff}},
	{"obmc-host-reboot@", Fact{"Host Reboot", RoleNone}},
	{"obmc-host-warm-reboot@", Fact{"Host GracefulWarmReboot", RoleNone}},
	{"obmc-host-force-warm-reboot@", Fact{"Host ForceWarmReboot", RoleNone}},
	{"obmc-host-quiesce@", Fact{"", RoleHostQuiesced}},
	{"obmc-host-diagnostic-mode@", Fact{"", RoleHostDiag}},
	{"obmc-host-crash@", Fact{"", RoleHostCrash}},
}

var chassisFacts = []targetFact{
	{"obmc-chassis-poweron@", Fact{"Chassis On", RoleChassisOn}},
	{"obmc-chassis-poweroff@", Fact{"Chassis Off", RoleChassisOff}},
	{"obmc-chassis-hard-poweroff@", Fact{"Chassis Off", RoleNone}},
	{"obmc-chassis-powercycle@", Fact{"Chassis PowerCycle", RoleNone}},
}

var bmcFacts = map[string]Fact{
	"multi-user.target":                 {"", RoleBMCReady},
	"obmc-bmc-service-quiesce@0.target": {"", RoleBMCQuiesced},
	"reboot.target":                     {"BMC Reboot", RoleNone},
}

// HostTargets lists the targets to watch for one host.
func HostTargets(instance int) []string { return instances(hostFacts, instance) }

// ChassisTargets lists the targets to watch for one chassis.
func ChassisTargets(instance int) []string { return instances(chassisFacts, instance) }

// LineUnits lists the services that have the lines of a chassis driven, where
// that is what its targets do: a job on one is watched like one on a target. One
// that waits when its operation is over must not act any more; one that is
// active has acted, and says so to the targets that require it.
func LineUnits(chassis int) []string {
	return []string{linesOn + strconv.Itoa(chassis) + ".service", linesOff + strconv.Itoa(chassis) + ".service"}
}

const (
	linesOn  = "bmcstate-lines-on@"
	linesOff = "bmcstate-lines-off@"
)

var lineFacts = map[string]Fact{linesOn: {Op: "Chassis On"}, linesOff: {Op: "Chassis Off"}}

// BMCTargets lists the units to watch for the BMC.
func BMCTargets() []string {
	return []string{"multi-user.target", "obmc-bmc-service-quiesce@0.target", "reboot.target"}
}

func instances(facts []targetFact, instance int) []string {
	out := make([]string, len(facts))
	for i, f := range facts {
		out[i] = f.stem + strconv.Itoa(instance) + ".target"
	}
	return out
}

// FactOf is the way back from a unit of [HostTargets], [ChassisTargets],
// [LineUnits] or [BMCTargets] to what it stands for.
func FactOf(unit string) (f Fact, instance int, ok bool) {
	if f, ok := bmcFacts[unit]; ok {
		return f, 0, true
	}
	at := strings.IndexByte(unit, '@')
	number, suffix, _ := strings.Cut(unit[at+1:], ".")
	instance, err := strconv.Atoi(number)
	if at < 0 || err != nil {
		return Fact{}, 0, false
	}
	if f, ok := lineFacts[unit[:at+1]]; ok && suffix == "service" {
		return f, instance, true
	}
	if suffix != "target" {
		return Fact{}, 0, false
	}
	for _, list := range [][]targetFact{hostFacts, chassisFacts} {
		for _, tf := range list {
			if tf.stem == unit[:at+1] {
				return tf.fact, instance, true
			}
		}
	}
	return Fact{}, 0, false
}

// HelperUnits lists the services that may still act for an operation of the
// host and chassis after its target's job has ended: reboot helpers that sleep
// before they start the host, and services that wait for the operating system.
// They are stopped before another operation may raise power (DESIGN.md §4);
// stopping one that is not installed fails with NameNoSuchUnit.
func HelperUnits(instance int) []string {
	n := "@" + strconv.Itoa(instance) + ".service"
	units := []string{
		"bmcstate-reboot-host" + n,
		"bmcstate-warm-reboot-host" + n,
		"bmcstate-power-cycle" + n,
		"phosphor-reboot-host" + n,
	}
	if instance == 0 { // these two exist once and serve host 0
		units = append(units, "xyz.openbmc_project.Ipmi.Internal.SoftPowerOff.service", "pldmSoftPowerOff.service")
	}
	return units
}

// ranks say which of several jobs of one transaction was asked for: the one that
// pulls the others in.
var ranks = map[string]int{
	"obmc-host-reboot@": 10, "obmc-host-warm-reboot@": 10, "obmc-host-force-warm-reboot@": 9, "obmc-chassis-powercycle@": 8,
	"obmc-host-start@": 7, "obmc-host-startmin@": 6, "obmc-host-shutdown@": 5, "obmc-chassis-hard-poweroff@": 5,
	"obmc-chassis-poweron@": 4, "obmc-chassis-poweroff@": 3, "obmc-host-stop@": 2,
	linesOn: 1, linesOff: 1,
}

// Rank orders the targets that one transaction may start together.
func Rank(unit string) int { return ranks[unit[:strings.IndexByte(unit, '@')+1]] }

// Passing reports whether a target is taken away again by what it leads to, so
// that it says nothing by being inactive after its job: the second half of a
// reboot or cycle starts the host, which conflicts with it.
func Passing(unit string) bool { return Rank(unit) >= 8 }
