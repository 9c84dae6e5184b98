package state

// HostState is xyz.openbmc_project.State.Host.HostState.
type HostState uint8

// The host states, in the order of the interface definition.
const (
	HostStateOff HostState = iota
	HostStateTransitioningToOff
	HostStateStandby
	HostStateRunning
	HostStateTransitioningToRunning
	HostStateQuiesced
	HostStateDiagnosticMode
)

// Transitional reports whether another daemon may show the value for a while
// (DESIGN.md P5); stable values are always the observed ones.
func (h HostState) Transitional() bool {
	switch h {
	case HostStateTransitioningToOff, HostStateTransitioningToRunning, HostStateStandby, HostStateDiagnosticMode:
		return true
	default:
		return false
	}
}

// PowerState is xyz.openbmc_project.State.Chassis.PowerState.
type PowerState uint8

// The power states, in the order of the interface definition.
const (
	PowerStateOff PowerState = iota
	PowerStateTransitioningToOff
	PowerStateOn
	PowerStateTransitioningToOn
)

// Transitional reports whether another daemon may show the value for a while
// (DESIGN.md P5).
func (p PowerState) Transitional() bool {
	return p == PowerStateTransitioningToOff || p == PowerStateTransitioningToOn
}

// PowerStatus is xyz.openbmc_project.State.Chassis.PowerStatus.
type PowerStatus uint8

// The power statuses, in the order of the interface definition.
const (
	PowerStatusUndefined PowerStatus = iota
	PowerStatusBrownOut
	PowerStatusUninterruptiblePowerSupply
	PowerStatusGood
)

// BMCState is xyz.openbmc_project.State.BMC.BMCState.
type BMCState uint8

// The BMC states, in the order of the interface definition.
const (
	BMCStateReady BMCState = iota
	BMCStateNotReady
	BMCStateUpdateInProgress
	BMCStateQuiesced
)

// RebootCause is xyz.openbmc_project.State.BMC.RebootCause.
type RebootCause uint8

// The causes of the last BMC reboot, in the order of the interface definition.
const (
	RebootCausePOR RebootCause = iota
	RebootCausePinholeReset
	RebootCauseWatchdog
	RebootCauseSoftware
	RebootCauseUnknown

	RebootCauses = iota // how many there are
)

// RestartCause is xyz.openbmc_project.State.Host.RestartCause.
type RestartCause uint8

// The restart causes, in the order of the interface definition.
const (
	RestartCauseUnknown RestartCause = iota
	RestartCauseRemoteCommand
	RestartCauseResetButton
	RestartCausePowerButton
	RestartCauseWatchdogTimer
	RestartCausePowerPolicyAlwaysOn
	RestartCausePowerPolicyPreviousState
	RestartCauseSoftReset
	RestartCauseScheduledPowerOn
	RestartCauseHostCrash
)

// BootProgress is xyz.openbmc_project.State.Boot.Progress.ProgressStages.
type BootProgress uint8

// The boot stages, in the order of the interface definition.
const (
	BootProgressUnspecified BootProgress = iota
	BootProgressPrimaryProcInit
	BootProgressBusInit
	BootProgressMemoryInit
	BootProgressSecondaryProcInit
	BootProgressPCIInit
	BootProgressSystemInitComplete
	BootProgressOSStart
	BootProgressOSRunning
	BootProgressSystemSetup
	BootProgressMotherboardInit
	BootProgressOEM
)

// OSState is xyz.openbmc_project.State.OperatingSystem.Status.OSStatus.
type OSState uint8

// The states of the operating system, in the order of the interface definition.
const (
	OSStateCBoot OSState = iota
	OSStatePXEBoot
	OSStateDiagBoot
	OSStateCDROMBoot
	OSStateROMBoot
	OSStateBootComplete
	OSStateInactive
	OSStateStandby
)

// Host is everything that one host object publishes.
type Host struct {
	Requested          Operation
	Current            HostState
	RestartCause       RestartCause
	Allowed            []Operation // const after start
	BootProgress       BootProgress
	BootProgressUpdate uint64 // µs since the epoch
	OS                 OSState
	AttemptsLeft       uint32
	RetryAttempts      uint32
	Hypervisor         bool // On is asked of the host's hypervisor
}

// Chassis is everything that one chassis object publishes.
type Chassis struct {
	Requested       Operation
	Current         PowerState
	Status          PowerStatus
	LastStateChange uint64 // ms since the epoch
	POHCounter      uint32 // hours
}

// BMC is everything that the BMC object publishes.
type BMC struct {
	Requested       Operation
	Current         BMCState
	LastRebootTime  uint64 // ms since the epoch
	LastRebootCause RebootCause
}

// Schedule is everything that one scheduled-transition object publishes.
type Schedule struct {
	Time       uint64 // s since the epoch, 0 = none
	Transition Operation
}

// Queue is everything that one transition queue publishes.
type Queue struct {
	Policy               Policy
	DepthLimit           uint32
	Depth                uint32
	Running              uint64 // sequence of the running request, 0 = none
	Launches             uint64
	DuplicatesSuppressed uint64
	Refused              uint64
}
