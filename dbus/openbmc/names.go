package openbmc

import (
	"fmt"
	"strconv"
	"strings"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/state"
)

// Names of the interfaces. A service is named like its main interface, with
// the instance number where there are several.
const (
	IfaceBMC            = "xyz.openbmc_project.State.BMC"
	IfaceChassis        = "xyz.openbmc_project.State.Chassis"
	IfacePowerOnHours   = "xyz.openbmc_project.State.PowerOnHours"
	IfaceHost           = "xyz.openbmc_project.State.Host"
	IfaceBootProgress   = "xyz.openbmc_project.State.Boot.Progress"
	IfaceOSStatus       = "xyz.openbmc_project.State.OperatingSystem.Status"
	IfaceRebootAttempts = "xyz.openbmc_project.Control.Boot.RebootAttempts"
	IfaceSchedule       = "xyz.openbmc_project.State.ScheduledHostTransition"
	IfaceProgress       = "xyz.openbmc_project.Common.Progress"
	IfaceHypervisor     = "xyz.openbmc_project.State.Hypervisor" // names a service only: its object is a Host
	IfaceDelete         = "xyz.openbmc_project.Object.Delete"

	// Of x86-power-control alone (power-sequencing.md §1.3); OSService names a
	// service only.
	IfaceButtons      = "xyz.openbmc_project.Chassis.Buttons"
	IfaceNMI          = "xyz.openbmc_project.Control.Host.NMI"
	IfaceRestartCause = "xyz.openbmc_project.Control.Host.RestartCause"
	OSService         = "xyz.openbmc_project.State.OperatingSystem"

	// Of the settings daemon, whose objects we serve where there is none.
	IfaceRebootPolicy  = "xyz.openbmc_project.Control.Boot.RebootPolicy"
	IfaceRestorePolicy = "xyz.openbmc_project.Control.Power.RestorePolicy"
	SettingsService    = "xyz.openbmc_project.Settings"

	IfaceQueue   = "xyz.openbmc_project.State.TransitionQueue"   // ours
	IfaceRequest = "xyz.openbmc_project.State.TransitionRequest" // ours
	IfaceFault   = "xyz.openbmc_project.State.FaultMonitor"      // ours
)

// Paths of the object managers.
const (
	StateRoot     godbus.ObjectPath = "/xyz/openbmc_project/state"
	ScheduledRoot godbus.ObjectPath = "/xyz/openbmc_project/scheduled"
	ButtonsRoot   godbus.ObjectPath = "/xyz/openbmc_project/chassis/buttons"
	ControlRoot   godbus.ObjectPath = "/xyz/openbmc_project/control"
)

// OSPath is where the state of the operating system was before it moved to the
// host's object; the service of its own still has it there.
const OSPath = StateRoot + "/os"

// HypervisorPath is the path of the hypervisor of host 0.
const HypervisorPath = StateRoot + "/hypervisor0"

// ButtonPath returns the path of a front panel button. It does not tell hosts
// apart: their bus names do.
func ButtonPath(b state.Button) godbus.ObjectPath {
	return ButtonsRoot + godbus.ObjectPath("/"+b.String())
}

// NMIPath and RestartCausePath return paths of x86-power-control's private
// objects of a host.
func NMIPath(host int) godbus.ObjectPath {
	return ControlRoot + godbus.ObjectPath(fmt.Sprintf("/host%d/nmi", host))
}

// RestartCausePath: see [NMIPath].
func RestartCausePath(host int) godbus.ObjectPath {
	return ControlRoot + godbus.ObjectPath(fmt.Sprintf("/host%d/restart_cause", host))
}

// AutoRebootPath and RestorePolicyPath return paths of a host's settings; the
// one-time ones are below them (openbmc-state-manager.md §1.2).
func AutoRebootPath(host int, oneTime bool) godbus.ObjectPath {
	return settingPath(host, "auto_reboot", oneTime)
}

// RestorePolicyPath: see [AutoRebootPath].
func RestorePolicyPath(host int, oneTime bool) godbus.ObjectPath {
	return settingPath(host, "power_restore_policy", oneTime)
}

func settingPath(host int, name string, oneTime bool) godbus.ObjectPath {
	path := ControlRoot + godbus.ObjectPath(fmt.Sprintf("/host%d/%s", host, name))
	if oneTime {
		path += "/one_time"
	}
	return path
}

// Error names.
const (
	ErrInvalidArgument  = "xyz.openbmc_project.Common.Error.InvalidArgument"
	ErrNotAllowed       = "xyz.openbmc_project.Common.Error.NotAllowed"
	ErrUnavailable      = "xyz.openbmc_project.Common.Error.Unavailable"
	ErrResourceNotFound = "xyz.openbmc_project.Common.Error.ResourceNotFound" // the mapper's
	ErrHostNotReady     = "xyz.openbmc_project.State.Host.Error.BMCNotReady"
	ErrChassisNotReady  = "xyz.openbmc_project.State.Chassis.Error.BMCNotReady"
	ErrInvalidTime      = "xyz.openbmc_project.ScheduledTime.Error.InvalidTime"
	ErrIDConflict       = "xyz.openbmc_project.State.TransitionQueue.Error.IdConflict"     // ours
	ErrBusy             = "xyz.openbmc_project.State.TransitionQueue.Error.Busy"           // ours
	ErrFull             = "xyz.openbmc_project.State.TransitionQueue.Error.Full"           // ours
	ErrUnknownRequest   = "xyz.openbmc_project.State.TransitionQueue.Error.UnknownRequest" // ours
)

// NoObject stands where a path is wanted and there is no object.
const NoObject godbus.ObjectPath = "/"

// ObjectPath returns the path of a state object.
func ObjectPath(o state.Object) godbus.ObjectPath {
	if o.Kind == state.KindSchedule {
		return ScheduledRoot + godbus.ObjectPath("/host"+strconv.Itoa(o.Index))
	}
	return StateRoot + "/" + godbus.ObjectPath(o.String())
}

// QueuePath returns the path of a domain's queue.
func QueuePath(domain int) godbus.ObjectPath {
	return StateRoot + godbus.ObjectPath(fmt.Sprintf("/queue%d", domain))
}

// RequestPath returns the path of a request's object.
func RequestPath(domain int, seq uint64) godbus.ObjectPath {
	return QueuePath(domain) + godbus.ObjectPath("/request/"+strconv.FormatUint(seq, 10))
}

// FaultPath returns the path of a monitored resource's object. Its name is
// escaped as systemd escapes unit names in object paths: what is no letter or
// digit becomes "_" and two hex digits, a digit in front as well.
func FaultPath(resource string) godbus.ObjectPath {
	var b strings.Builder
	for i := range len(resource) {
		c := resource[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if resource == "" {
		b.WriteByte('_')
	}
	return StateRoot + "/fault_monitor/" + godbus.ObjectPath(b.String())
}

// ServiceNames returns the bus names of a service, in the order in which the
// reference owns them: instance 0 has the name without a number, too. The BMC,
// the hypervisor, the queue and the fault monitor never have a number.
func ServiceNames(iface string, index int) []string {
	if iface == IfaceBMC || iface == IfaceHypervisor || iface == IfaceQueue || iface == IfaceFault {
		return []string{iface}
	}
	numbered := iface + strconv.Itoa(index)
	if index == 0 {
		return []string{iface, numbered}
	}
	return []string{numbered}
}
