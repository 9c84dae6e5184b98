package state

// Column is what a host and its chassis show when a request is judged: one
// column of DESIGN.md §3.2.
type Column uint8

// The columns.
const (
	ColumnRunning     Column = iota // power on, host running
	ColumnOff                       // power off, whatever CurrentHostState shows
	ColumnChassisOnly               // power on, host off
	ColumnQuiesced                  // power on, host quiesced or in diagnostic mode
)

var columnNames = [...]string{
	ColumnRunning: "Running", ColumnOff: "Off", ColumnChassisOnly: "ChassisOn", ColumnQuiesced: "Quiesced",
}

// String returns a short name of the column.
func (c Column) String() string { return name(columnNames[:], c, "Column") }

// ColumnOf returns the column for what is seen now.
func ColumnOf(powerOn, hostRunning, quiesced bool) Column {
	switch {
	case !powerOn:
		return ColumnOff
	case quiesced:
		return ColumnQuiesced
	case hostRunning:
		return ColumnRunning
	default:
		return ColumnChassisOnly
	}
}

// Verdict is what judging a request leads to: nothing to do, a refusal, or the
// kind of transition to launch.
type Verdict uint8

// The verdicts.
const (
	VerdictNoop         Verdict = iota // already so
	VerdictInvalid                     // makes no sense in this state
	VerdictPowerOn                     // apply power, wait for the host
	VerdictStartHost                   // power is on: start the host only
	VerdictGracefulOff                 // ask the OS, wait for power off
	VerdictPowerOff                    // host is off already: take power away
	VerdictCutPower                    // force power off now
	VerdictReboot                      // graceful off, dwell, on
	VerdictPowerCycle                  // cut power, dwell, on
	VerdictGracefulWarm                // the executor's graceful warm reboot
	VerdictReset                       // pulse reset
	VerdictSlotOn                      // supply the slot
	VerdictSlotOff                     // take the slot's supply away, whatever runs on it
	VerdictSlotCycle                   // both
	VerdictTakeBack                    // power is off: take back what a power-on sequence has set
)

var verdictNames = [...]string{
	VerdictNoop: "noop", VerdictInvalid: "invalid", VerdictPowerOn: "power on", VerdictStartHost: "start host",
	VerdictGracefulOff: "graceful off", VerdictPowerOff: "power off", VerdictCutPower: "cut power",
	VerdictReboot: "reboot", VerdictPowerCycle: "power cycle", VerdictGracefulWarm: "graceful warm reboot",
	VerdictReset: "reset", VerdictSlotOn: "slot on", VerdictSlotOff: "slot off", VerdictSlotCycle: "slot cycle",
	VerdictTakeBack: "take back",
}

// String returns a short name of the verdict.
func (v Verdict) String() string { return name(verdictNames[:], v, "Verdict") }

// Launches reports whether the verdict starts a transition.
func (v Verdict) Launches() bool { return v > VerdictInvalid }

// verdicts is DESIGN.md §3.2, row by row: Running, Off, ChassisOn, Quiesced.
var verdicts = [...][4]Verdict{
	HostOn:                 {VerdictNoop, VerdictPowerOn, VerdictStartHost, VerdictReboot},
	HostOff:                {VerdictGracefulOff, VerdictNoop, VerdictPowerOff, VerdictGracefulOff},
	HostReboot:             {VerdictReboot, VerdictInvalid, VerdictPowerCycle, VerdictPowerCycle},
	HostGracefulWarmReboot: {VerdictGracefulWarm, VerdictInvalid, VerdictPowerCycle, VerdictReset},
	HostForceWarmReboot:    {VerdictReset, VerdictInvalid, VerdictReset, VerdictReset},
	ChassisOn:              {VerdictNoop, VerdictPowerOn, VerdictNoop, VerdictNoop},
	ChassisOff:             {VerdictCutPower, VerdictNoop, VerdictCutPower, VerdictCutPower},
	ChassisPowerCycle:      {VerdictPowerCycle, VerdictInvalid, VerdictPowerCycle, VerdictPowerCycle},
}

// JudgeSlot decides what a chassis operation on a host's slot leads to.
func JudgeSlot(op Operation, on, onWhenOff bool) Verdict {
	switch {
	case op == ChassisOff && on:
		return VerdictSlotOff
	case op == ChassisPowerCycle && on:
		return VerdictSlotCycle
	case op == ChassisPowerCycle && !onWhenOff:
		return VerdictInvalid
	case op != ChassisOff && !on:
		return VerdictSlotOn
	default:
		return VerdictNoop
	}
}

// Cuts reports whether the verdict takes power away at once, and nothing else.
func (v Verdict) Cuts() bool {
	return v == VerdictCutPower || v == VerdictSlotOff || v == VerdictTakeBack
}

// Judge decides what a host or chassis operation leads to when it leaves the
// queue (DESIGN.md §3.2). With onWhenOff a passage asked of a host that is off
// powers it on instead of being INVALID (footnote 1).
func Judge(op Operation, seen Column, onWhenOff bool) Verdict {
	v := verdicts[op][seen]
	if v == VerdictInvalid && onWhenOff {
		return VerdictPowerOn
	}
	return v
}
