package openbmc

import "github.com/bmcstate/bmcstate/dbus/props"

// The interfaces of the state objects. Only AllowedHostTransitions is const;
// everything else is writable, whatever the prose of the interface files says:
// the reference exports it so, and other daemons write it (DESIGN.md P5).
var (
	Host = &props.Interface{Name: IfaceHost, Properties: []props.Property{
		{Name: "RequestedHostTransition", Type: "s", Writable: true},
		{Name: "AllowedHostTransitions", Type: "as", Const: true},
		{Name: "CurrentHostState", Type: "s", Writable: true},
		{Name: "RestartCause", Type: "s", Writable: true},
	}}
	Hypervisor = &props.Interface{Name: IfaceHost, Properties: []props.Property{
		{Name: "RequestedHostTransition", Type: "s", Writable: true},
		{Name: "AllowedHostTransitions", Type: "as", Const: true},
		{Name: "CurrentHostState", Type: "s"}, // follows the host's boot
		{Name: "RestartCause", Type: "s"},
	}}
	Progress = &props.Interface{Name: IfaceBootProgress, Properties: []props.Property{
		{Name: "BootProgress", Type: "s", Writable: true},
		{Name: "BootProgressLastUpdate", Type: "t", Writable: true}, // µs
	}}
	OSStatus = &props.Interface{Name: IfaceOSStatus, Properties: []props.Property{
		{Name: "OperatingSystemState", Type: "s", Writable: true},
	}}
	RebootAttempts = &props.Interface{Name: IfaceRebootAttempts, Properties: []props.Property{
		{Name: "AttemptsLeft", Type: "u", Writable: true},
		{Name: "RetryAttempts", Type: "u", Writable: true},
	}}
	Chassis = &props.Interface{Name: IfaceChassis, Properties: []props.Property{
		{Name: "RequestedPowerTransition", Type: "s", Writable: true},
		{Name: "CurrentPowerState", Type: "s", Writable: true},
		{Name: "CurrentPowerStatus", Type: "s", Writable: true},
		{Name: "LastStateChangeTime", Type: "t", Writable: true}, // ms
	}}
	// SystemChassis is Chassis of a slot or of the whole machine: nobody else
	// tells how that is.
	SystemChassis = &props.Interface{Name: IfaceChassis, Properties: []props.Property{
		{Name: "RequestedPowerTransition", Type: "s", Writable: true},
		{Name: "CurrentPowerState", Type: "s"},
		{Name: "CurrentPowerStatus", Type: "s"},
		{Name: "LastStateChangeTime", Type: "t"}, // ms
	}}
	PowerOnHours = &props.Interface{Name: IfacePowerOnHours, Properties: []props.Property{
		{Name: "POHCounter", Type: "u", Writable: true},
	}}
	BMC = &props.Interface{Name: IfaceBMC, Properties: []props.Property{
		{Name: "RequestedBMCTransition", Type: "s", Writable: true},
		{Name: "CurrentBMCState", Type: "s", Writable: true},
		{Name: "LastRebootTime", Type: "t", Writable: true}, // ms
		{Name: "LastRebootCause", Type: "s", Writable: true},
	}}
	Schedule = &props.Interface{Name: IfaceSchedule, Properties: []props.Property{
		{Name: "ScheduledTime", Type: "t", Writable: true}, // s
		{Name: "ScheduledTransition", Type: "s", Writable: true},
	}}
)

// The interfaces that x86-power-control has of its own.
var (
	Buttons = &props.Interface{Name: IfaceButtons, Properties: []props.Property{
		{Name: "ButtonMasked", Type: "b", Writable: true},
		{Name: "ButtonPressed", Type: "b"},
	}}
	// IDButton is Buttons of the button that cannot be masked.
	IDButton = &props.Interface{Name: IfaceButtons, Properties: []props.Property{
		{Name: "ButtonPressed", Type: "b"},
	}}
	NMI             = &props.Interface{Name: IfaceNMI, Methods: []props.Method{{Name: "NMI"}}}
	OwnRestartCause = &props.Interface{Name: IfaceRestartCause, Properties: []props.Property{
		{Name: "RestartCause", Type: "s"},
		{Name: "RequestedRestartCause", Type: "s", Writable: true},
	}}
)

// The interfaces of the settings objects.
var (
	RebootPolicy = &props.Interface{Name: IfaceRebootPolicy, Properties: []props.Property{
		{Name: "AutoReboot", Type: "b", Writable: true},
	}}
	RestorePolicy = &props.Interface{Name: IfaceRestorePolicy, Properties: []props.Property{
		{Name: "PowerRestorePolicy", Type: "s", Writable: true},
		{Name: "PowerRestoreDelay", Type: "t", Writable: true}, // µs
	}}
)

// The interfaces of queues and requests. The first two are ours.
var (
	Queue = &props.Interface{
		Name: IfaceQueue,
		Properties: []props.Property{
			{Name: "Policy", Type: "s"},
			{Name: "DepthLimit", Type: "u"},
			{Name: "Depth", Type: "u", Paced: true},
			{Name: "Running", Type: "o", Paced: true},
			{Name: "Launches", Type: "t", Paced: true},
			{Name: "DuplicatesSuppressed", Type: "t", Paced: true},
			{Name: "Refused", Type: "t", Paced: true},
		},
		Methods: []props.Method{
			{Name: "Submit",
				In:  []props.Arg{{Name: "clientId", Type: "s"}, {Name: "requestId", Type: "s"}, {Name: "transition", Type: "s"}, {Name: "options", Type: "a{sv}"}},
				Out: []props.Arg{{Name: "status", Type: "s"}, {Name: "request", Type: "o"}, {Name: "repeated", Type: "b"}}},
			{Name: "Lookup",
				In:  []props.Arg{{Name: "clientId", Type: "s"}, {Name: "requestId", Type: "s"}},
				Out: []props.Arg{{Name: "status", Type: "s"}, {Name: "request", Type: "o"}}},
			{Name: "Cancel",
				In:  []props.Arg{{Name: "clientId", Type: "s"}, {Name: "requestId", Type: "s"}},
				Out: []props.Arg{{Name: "status", Type: "s"}}},
			{Name: "History",
				In:  []props.Arg{{Name: "after", Type: "t"}, {Name: "max", Type: "u"}},
				Out: []props.Arg{{Name: "requests", Type: "aa{sv}"}}},
			{Name: "DriveLines", In: []props.Arg{{Name: "direction", Type: "s"}}},
			{Name: "Deliveries",
				Out: []props.Arg{{Name: "deliveries", Type: "aa{sv}"}}},
		},
	}
	Request = &props.Interface{
		Name: IfaceRequest,
		Properties: []props.Property{
			{Name: "ClientId", Type: "s", Const: true},
			{Name: "RequestId", Type: "s", Const: true},
			{Name: "Uid", Type: "u", Const: true},
			{Name: "Transition", Type: "s", Const: true},
			{Name: "Status", Type: "s"},
			{Name: "Reason", Type: "s"},
			{Name: "Accepted", Type: "t"}, // µs since the epoch, as all three
			{Name: "Started", Type: "t"},
			{Name: "Ended", Type: "t"},
			{Name: "Superseded", Type: "at"},
		},
		Methods: []props.Method{{Name: "Cancel"}},
	}
	OperationProgress = &props.Interface{Name: IfaceProgress, Properties: []props.Property{
		{Name: "Status", Type: "s"},
		{Name: "StartTime", Type: "t"}, // µs
		{Name: "CompletedTime", Type: "t"},
	}}
	Delete = &props.Interface{Name: IfaceDelete, Methods: []props.Method{{Name: "Delete"}}}
)

// Fault is one resource of the fault monitor. It is ours.
var Fault = &props.Interface{
	Name: IfaceFault,
	Properties: []props.Property{
		{Name: "Name", Type: "s", Const: true},
		{Name: "Status", Type: "s"},
		{Name: "StatusMessage", Type: "s"},
		{Name: "NextAction", Type: "s"},
		{Name: "LastDecision", Type: "s"},
		{Name: "FailureSum", Type: "u"},
		{Name: "RestartsInInterval", Type: "u"},
		{Name: "RetryCount", Type: "i", Writable: true},    // −1 = unlimited
		{Name: "RetryInterval", Type: "x", Writable: true}, // s, −1 = never ages
		{Name: "LastFailure", Type: "t"},                   // µs since the epoch, 0 = none
	},
	Methods: []props.Method{
		{Name: "Suspend", In: []props.Arg{{Name: "owner", Type: "s"}, {Name: "microseconds", Type: "t"}}},
		{Name: "Resume", In: []props.Arg{{Name: "owner", Type: "s"}}},
		{Name: "Reset"},
		{Name: "ProbeNow"},
		{Name: "GetHistory", In: []props.Arg{{Name: "max", Type: "u"}}, Out: []props.Arg{{Name: "decisions", Type: "aa{sv}"}}},
	},
}
