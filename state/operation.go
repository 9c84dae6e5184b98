package state

import "fmt"

// Kind is the kind of object that a request names.
type Kind uint8

// The kinds of objects.
const (
	KindHost Kind = iota + 1
	KindChassis
	KindBMC
	KindSchedule
	KindSystem // 0 is the whole machine; another number the slot of that host
)

var kindNames = [...]string{KindHost: "host", KindChassis: "chassis", KindBMC: "bmc", KindSchedule: "schedule", KindSystem: "chassis_system"}

// String returns the object path's stem: "host", "chassis", "bmc",
// "schedule" or "chassis_system".
func (k Kind) String() string { return name(kindNames[:], k, "Kind") }

// Object is one state object, for example host 0.
type Object struct {
	Kind  Kind
	Index int
}

// String returns the last element of the object's path, for example "host0".
func (o Object) String() string { return fmt.Sprintf("%s%d", o.Kind, o.Index) }

// Operation is what a request asks for: one row of DESIGN.md §3.2, or one of
// the BMC's own.
type Operation uint8

// The operations. The zero value is none of them.
const (
	HostOn Operation = iota + 1
	HostOff
	HostReboot
	HostGracefulWarmReboot
	HostForceWarmReboot
	ChassisOn
	ChassisOff
	ChassisPowerCycle
	BMCNone
	BMCReboot
	BMCHardReboot
)

var operationNames = [...]string{
	HostOn: "Host On", HostOff: "Host Off", HostReboot: "Host Reboot",
	HostGracefulWarmReboot: "Host GracefulWarmReboot", HostForceWarmReboot: "Host ForceWarmReboot",
	ChassisOn: "Chassis On", ChassisOff: "Chassis Off", ChassisPowerCycle: "Chassis PowerCycle",
	BMCNone: "BMC None", BMCReboot: "BMC Reboot", BMCHardReboot: "BMC HardReboot",
}

// String returns the operation as DESIGN.md §3.2 spells it, for example
// "Host On".
func (o Operation) String() string { return name(operationNames[:], o, "Operation") }

// ParseOperation is the inverse of [Operation.String].
func ParseOperation(s string) (Operation, error) {
	return parse[Operation](operationNames[:], s, "operation")
}

// Valid reports whether o is one of the operations.
func (o Operation) Valid() bool { return o >= HostOn && o <= BMCHardReboot }

// Kind returns the kind of object that o is written to.
func (o Operation) Kind() Kind {
	switch {
	case o >= BMCNone:
		return KindBMC
	case o >= ChassisOn:
		return KindChassis
	default:
		return KindHost
	}
}

// Class says how urgent an operation is; it decides about overtaking
// (DESIGN.md §3.5).
type Class uint8

// The classes.
const (
	Normal Class = iota
	Graceful
	Forced
	Emergency
)

var classNames = [...]string{Normal: "normal", Graceful: "graceful", Forced: "forced", Emergency: "emergency"}

// String returns the class's name in DESIGN.md §3.2.
func (c Class) String() string { return name(classNames[:], c, "Class") }

type operationFacts struct {
	class   Class
	raising bool // able to apply power
	passes  bool // succeeds only after power off or a reset was seen
}

var facts = [...]operationFacts{
	HostOn:                 {Normal, true, false},
	HostOff:                {Graceful, false, false},
	HostReboot:             {Normal, true, true},
	HostGracefulWarmReboot: {Graceful, true, true},
	HostForceWarmReboot:    {Forced, true, true},
	ChassisOn:              {Normal, true, false},
	ChassisOff:             {Emergency, false, false},
	ChassisPowerCycle:      {Forced, true, true},
	BMCNone:                {Normal, false, false},
	BMCReboot:              {Normal, false, true},
	BMCHardReboot:          {Emergency, false, true},
}

// Class returns o's class.
func (o Operation) Class() Class { return facts[o].class }

// Raising reports whether o can apply power.
func (o Operation) Raising() bool { return facts[o].raising }

// Passes reports whether o is confirmed by a passage (power off or a reset
// seen, then on), not by a level alone.
func (o Operation) Passes() bool { return facts[o].passes }

func name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

func parse[T ~uint8](names []string, s, what string) (T, error) {
	for i, n := range names {
		if n == s && s != "" {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q", what, s)
}
