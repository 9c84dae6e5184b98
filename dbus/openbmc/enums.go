package openbmc

import (
	"strings"

	"github.com/bmcstate/bmcstate/state"
)

// Enum translates between the values of a D-Bus enum and ours. On the bus a
// value is always the full string, for example
// "xyz.openbmc_project.State.Host.HostState.Running".
type Enum[T ~uint8] struct {
	prefix   string
	fallback T        // the interface's default
	names    []string // by value; "" is no member
}

// String returns the full string of a value, and that of the default for what is
// no member: strict clients throw at a string outside their enum.
func (e Enum[T]) String(v T) string {
	if int(v) >= len(e.names) || e.names[v] == "" {
		v = e.fallback
	}
	return e.prefix + e.names[v]
}

// Parse returns the value of a full string. Short names, names of other enums
// and the empty string are refused.
func (e Enum[T]) Parse(s string) (v T, ok bool) {
	short, ok := strings.CutPrefix(s, e.prefix)
	if !ok || short == "" {
		return 0, false
	}
	i := state.Index(e.names, short)
	if i < 0 {
		return 0, false
	}
	return T(i), true
}

// Values returns the full strings of all members.
func (e Enum[T]) Values() []string {
	var all []string
	for _, n := range e.names {
		if n != "" {
			all = append(all, e.prefix+n)
		}
	}
	return all
}

// HostState is Host.HostState.
var HostState = Enum[state.HostState]{IfaceHost + ".HostState.", state.HostStateOff, []string{
	state.HostStateOff:                    "Off",
	state.HostStateTransitioningToOff:     "TransitioningToOff",
	state.HostStateStandby:                "Standby",
	state.HostStateRunning:                "Running",
	state.HostStateTransitioningToRunning: "TransitioningToRunning",
	state.HostStateQuiesced:               "Quiesced",
	state.HostStateDiagnosticMode:         "DiagnosticMode",
}}

// PrivateRestartCause is what the private interface shows: x86-power-control's
// name of a command, which its clients compare with, in place of
// RemoteCommand.
var PrivateRestartCause = func() Enum[state.RestartCause] {
	e := RestartCause
	e.names = append([]string(nil), e.names...)
	e.names[state.RestartCauseRemoteCommand] = "IpmiCommand"
	return e
}()

// RestartCause is Host.RestartCause.
var RestartCause = Enum[state.RestartCause]{IfaceHost + ".RestartCause.", state.RestartCauseUnknown, []string{
	state.RestartCauseUnknown:                  "Unknown",
	state.RestartCauseRemoteCommand:            "RemoteCommand",
	state.RestartCauseResetButton:              "ResetButton",
	state.RestartCausePowerButton:              "PowerButton",
	state.RestartCauseWatchdogTimer:            "WatchdogTimer",
	state.RestartCausePowerPolicyAlwaysOn:      "PowerPolicyAlwaysOn",
	state.RestartCausePowerPolicyPreviousState: "PowerPolicyPreviousState",
	state.RestartCauseSoftReset:                "SoftReset",
	state.RestartCauseScheduledPowerOn:         "ScheduledPowerOn",
	state.RestartCauseHostCrash:                "HostCrash",
}}

// BootProgress is Boot.Progress.ProgressStages.
var BootProgress = Enum[state.BootProgress]{IfaceBootProgress + ".ProgressStages.", state.BootProgressUnspecified, []string{
	state.BootProgressUnspecified:        "Unspecified",
	state.BootProgressPrimaryProcInit:    "PrimaryProcInit",
	state.BootProgressBusInit:            "BusInit",
	state.BootProgressMemoryInit:         "MemoryInit",
	state.BootProgressSecondaryProcInit:  "SecondaryProcInit",
	state.BootProgressPCIInit:            "PCIInit",
	state.BootProgressSystemInitComplete: "SystemInitComplete",
	state.BootProgressOSStart:            "OSStart",
	state.BootProgressOSRunning:          "OSRunning",
	state.BootProgressSystemSetup:        "SystemSetup",
	state.BootProgressMotherboardInit:    "MotherboardInit",
	state.BootProgressOEM:                "OEM",
}}

// OSState is OperatingSystem.Status.OSStatus.
var OSState = Enum[state.OSState]{IfaceOSStatus + ".OSStatus.", state.OSStateInactive, []string{
	state.OSStateCBoot:        "CBoot",
	state.OSStatePXEBoot:      "PXEBoot",
	state.OSStateDiagBoot:     "DiagBoot",
	state.OSStateCDROMBoot:    "CDROMBoot",
	state.OSStateROMBoot:      "ROMBoot",
	state.OSStateBootComplete: "BootComplete",
	state.OSStateInactive:     "Inactive",
	state.OSStateStandby:      "Standby",
}}

// PowerState is Chassis.PowerState.
var PowerState = Enum[state.PowerState]{IfaceChassis + ".PowerState.", state.PowerStateOff, []string{
	state.PowerStateOff:                "Off",
	state.PowerStateTransitioningToOff: "TransitioningToOff",
	state.PowerStateOn:                 "On",
	state.PowerStateTransitioningToOn:  "TransitioningToOn",
}}

// PowerStatus is Chassis.PowerStatus.
var PowerStatus = Enum[state.PowerStatus]{IfaceChassis + ".PowerStatus.", state.PowerStatusUndefined, []string{
	state.PowerStatusUndefined:                  "Undefined",
	state.PowerStatusBrownOut:                   "BrownOut",
	state.PowerStatusUninterruptiblePowerSupply: "UninterruptiblePowerSupply",
	state.PowerStatusGood:                       "Good",
}}

// BMCState is BMC.BMCState.
var BMCState = Enum[state.BMCState]{IfaceBMC + ".BMCState.", state.BMCStateNotReady, []string{
	state.BMCStateReady:            "Ready",
	state.BMCStateNotReady:         "NotReady",
	state.BMCStateUpdateInProgress: "UpdateInProgress",
	state.BMCStateQuiesced:         "Quiesced",
}}

// RebootCause is BMC.RebootCause.
var RebootCause = Enum[state.RebootCause]{IfaceBMC + ".RebootCause.", state.RebootCauseUnknown, []string{
	state.RebootCausePOR:          "POR",
	state.RebootCausePinholeReset: "PinholeReset",
	state.RebootCauseWatchdog:     "Watchdog",
	state.RebootCauseSoftware:     "Software",
	state.RebootCauseUnknown:      "Unknown",
}}

// RestorePolicies is Control.Power.RestorePolicy.Policy.
var RestorePolicies = Enum[state.RestorePolicy]{IfaceRestorePolicy + ".Policy.", state.RestoreNone, []string{
	state.RestoreNone:      "None",
	state.RestoreAlwaysOn:  "AlwaysOn",
	state.RestoreAlwaysOff: "AlwaysOff",
	state.RestorePrevious:  "Restore",
}}

// HostTransition is Host.Transition.
var HostTransition = Enum[state.Operation]{IfaceHost + ".Transition.", state.HostOff, []string{
	state.HostOff:                "Off",
	state.HostOn:                 "On",
	state.HostReboot:             "Reboot",
	state.HostGracefulWarmReboot: "GracefulWarmReboot",
	state.HostForceWarmReboot:    "ForceWarmReboot",
}}

// ChassisTransition is Chassis.Transition.
var ChassisTransition = Enum[state.Operation]{IfaceChassis + ".Transition.", state.ChassisOff, []string{
	state.ChassisOff:        "Off",
	state.ChassisOn:         "On",
	state.ChassisPowerCycle: "PowerCycle",
}}

// BMCTransition is BMC.Transition.
var BMCTransition = Enum[state.Operation]{IfaceBMC + ".Transition.", state.BMCNone, []string{
	state.BMCNone:       "None",
	state.BMCReboot:     "Reboot",
	state.BMCHardReboot: "HardReboot",
}}

// Policy is TransitionQueue.Policy (ours).
var Policy = Enum[state.Policy]{IfaceQueue + ".Policy.", state.FIFODedup, []string{
	state.Check:     "Check",
	state.Dedup:     "Dedup",
	state.FIFO:      "Fifo",
	state.FIFODedup: "FifoDedup",
}}

// Status is TransitionRequest.Status (ours).
var Status = Enum[state.Status]{IfaceRequest + ".Status.", state.Pending, []string{
	state.Pending:     "Pending",
	state.Running:     "Running",
	state.Unknown:     "Unknown",
	state.Success:     "Success",
	state.Noop:        "Noop",
	state.Invalid:     "Invalid",
	state.Failed:      "Failed",
	state.Cancelled:   "Cancelled",
	state.Superseded:  "Superseded",
	state.Expired:     "Expired",
	state.Interrupted: "Interrupted",
}}

// operationStatus is Common.Progress.OperationStatus, by our status.
var operationStatus = [...]string{
	state.Pending:     "NotStarted",
	state.Running:     "InProgress",
	state.Unknown:     "InProgress",
	state.Success:     "Completed",
	state.Noop:        "Completed",
	state.Invalid:     "Failed",
	state.Failed:      "Failed",
	state.Cancelled:   "Aborted",
	state.Superseded:  "Aborted",
	state.Expired:     "Aborted",
	state.Interrupted: "Failed",
}

// OperationStatus returns the Common.Progress status string for a status.
func OperationStatus(s state.Status) string {
	if !s.Valid() {
		s = state.Failed
	}
	return IfaceProgress + ".OperationStatus." + operationStatus[s]
}

// Transition returns the string of an operation in the enum of its own kind of
// object.
func Transition(op state.Operation) string {
	switch op.Kind() {
	case state.KindChassis:
		return ChassisTransition.String(op)
	case state.KindBMC:
		return BMCTransition.String(op)
	default:
		return HostTransition.String(op)
	}
}

// ParseTransition reads a Host or Chassis transition, as Submit takes them.
func ParseTransition(s string) (state.Operation, bool) {
	if op, ok := HostTransition.Parse(s); ok {
		return op, true
	}
	return ChassisTransition.Parse(s)
}
