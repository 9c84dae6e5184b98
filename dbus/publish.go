package dbus

import (
	"runtime"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
)

// These are what an object shows before anything was published: the defaults
// of the interface definitions.
var (
	unpublishedHost = state.Host{
		Requested:     state.HostOff,
		Allowed:       []state.Operation{state.HostOff, state.HostOn, state.HostReboot, state.HostGracefulWarmReboot, state.HostForceWarmReboot},
		OS:            state.OSStateInactive,
		AttemptsLeft:  3,
		RetryAttempts: 3,
	}
	unpublishedBMC      = state.BMC{Current: state.BMCStateNotReady, LastRebootCause: state.RebootCauseUnknown}
	unpublishedSchedule = state.Schedule{Transition: state.HostOn}
)

// impls returns the interfaces of a state object; the first names its service.
func (s *Server) impls(o state.Object) []props.Impl {
	var ifaces []*props.Interface
	var values []props.Change
	switch o.Kind {
	case state.KindHost:
		ifaces = []*props.Interface{openbmc.Host, openbmc.Progress, openbmc.OSStatus, openbmc.RebootAttempts}
		values = hostChanges(unpublishedHost)
	case state.KindChassis:
		ifaces = []*props.Interface{openbmc.Chassis, openbmc.PowerOnHours}
		values = chassisChanges(state.Chassis{})
	case state.KindSystem:
		ifaces = []*props.Interface{openbmc.SystemChassis}
		values = chassisChanges(state.Chassis{Requested: state.ChassisOn})
	case state.KindBMC:
		ifaces = []*props.Interface{openbmc.BMC}
		values = bmcChanges(unpublishedBMC)
	case state.KindSchedule:
		ifaces = []*props.Interface{openbmc.Schedule}
		values = scheduleChanges(unpublishedSchedule)
	}
	impls := make([]props.Impl, len(ifaces))
	for i, iface := range ifaces {
		impls[i] = props.Impl{Interface: iface, Values: valuesOf(iface, values), Set: s.setter(o)}
	}
	return impls
}

// valuesOf picks the values of an interface out of a list of changes.
func valuesOf(iface *props.Interface, changes []props.Change) []any {
	values := make([]any, len(iface.Properties))
	for i := range iface.Properties {
		for _, c := range changes {
			if c.Interface == iface.Name && c.Property == iface.Properties[i].Name {
				values[i] = c.Value
			}
		}
	}
	return values
}

// hostChanges lists a host's values in the order in which they are signalled:
// pldm reads RestartCause when it sees Running, so it comes first and
// CurrentHostState last (clients.md §6).
func hostChanges(h state.Host) []props.Change {
	allowed := make([]string, len(h.Allowed))
	for i, op := range h.Allowed {
		allowed[i] = openbmc.HostTransition.String(op)
	}
	return []props.Change{
		{Interface: openbmc.IfaceHost, Property: "AllowedHostTransitions", Value: allowed},
		{Interface: openbmc.IfaceHost, Property: "RestartCause", Value: openbmc.RestartCause.String(h.RestartCause)},
		{Interface: openbmc.IfaceBootProgress, Property: "BootProgress", Value: openbmc.BootProgress.String(h.BootProgress)},
		{Interface: openbmc.IfaceBootProgress, Property: "BootProgressLastUpdate", Value: h.BootProgressUpdate},
		{Interface: openbmc.IfaceOSStatus, Property: "OperatingSystemState", Value: openbmc.OSState.String(h.OS)},
		{Interface: openbmc.IfaceRebootAttempts, Property: "AttemptsLeft", Value: h.AttemptsLeft},
		{Interface: openbmc.IfaceRebootAttempts, Property: "RetryAttempts", Value: h.RetryAttempts},
		{Interface: openbmc.IfaceHost, Property: "RequestedHostTransition", Value: openbmc.HostTransition.String(h.Requested)},
		{Interface: openbmc.IfaceHost, Property: "CurrentHostState", Value: openbmc.HostState.String(h.Current)},
	}
}

// systemChanges begins with what clients wait for, as phosphor-state-manager
// does. Whoever reads the rest at that signal finds it changed already.
func systemChanges(c state.Chassis) []props.Change {
	return []props.Change{
		{Interface: openbmc.IfaceChassis, Property: "CurrentPowerState", Value: openbmc.PowerState.String(c.Current)},
		{Interface: openbmc.IfaceChassis, Property: "CurrentPowerStatus", Value: openbmc.PowerStatus.String(c.Status)},
		{Interface: openbmc.IfaceChassis, Property: "LastStateChangeTime", Value: c.LastStateChange},
		{Interface: openbmc.IfaceChassis, Property: "RequestedPowerTransition", Value: openbmc.ChassisTransition.String(c.Requested)},
	}
}

func chassisChanges(c state.Chassis) []props.Change {
	return append(systemChanges(c), props.Change{Interface: openbmc.IfacePowerOnHours, Property: "POHCounter", Value: c.POHCounter})
}

func bmcChanges(b state.BMC) []props.Change {
	return []props.Change{
		{Interface: openbmc.IfaceBMC, Property: "LastRebootTime", Value: b.LastRebootTime},
		{Interface: openbmc.IfaceBMC, Property: "LastRebootCause", Value: openbmc.RebootCause.String(b.LastRebootCause)},
		{Interface: openbmc.IfaceBMC, Property: "RequestedBMCTransition", Value: openbmc.BMCTransition.String(b.Requested)},
		{Interface: openbmc.IfaceBMC, Property: "CurrentBMCState", Value: openbmc.BMCState.String(b.Current)},
	}
}

func scheduleChanges(sc state.Schedule) []props.Change {
	return []props.Change{
		{Interface: openbmc.IfaceSchedule, Property: "ScheduledTransition", Value: openbmc.HostTransition.String(sc.Transition)},
		{Interface: openbmc.IfaceSchedule, Property: "ScheduledTime", Value: sc.Time},
	}
}

func queueChanges(domain int, q state.Queue) []props.Change {
	running := openbmc.NoObject
	if q.Running != 0 {
		running = openbmc.RequestPath(domain, q.Running)
	}
	return []props.Change{
		{Interface: openbmc.IfaceQueue, Property: "Policy", Value: openbmc.Policy.String(q.Policy)},
		{Interface: openbmc.IfaceQueue, Property: "DepthLimit", Value: q.DepthLimit},
		{Interface: openbmc.IfaceQueue, Property: "Depth", Value: q.Depth},
		{Interface: openbmc.IfaceQueue, Property: "Running", Value: running},
		{Interface: openbmc.IfaceQueue, Property: "Launches", Value: q.Launches},
		{Interface: openbmc.IfaceQueue, Property: "DuplicatesSuppressed", Value: q.DuplicatesSuppressed},
		{Interface: openbmc.IfaceQueue, Property: "Refused", Value: q.Refused},
	}
}

// PublishHost implements engine.Publisher. AllowedHostTransitions is const: of
// it only what comes before [Server.Start] counts.
func (s *Server) PublishHost(index int, h state.Host) {
	s.publish(state.Object{Kind: state.KindHost, Index: index}, hostChanges(h))
	if index == 0 {
		s.followHypervisor(h)
	}
}

// PublishChassis implements engine.Publisher. Where there is one core, the
// connections of all else that is published with it would be written first: it
// lets the chassis's go ahead.
func (s *Server) PublishChassis(index int, c state.Chassis) {
	s.publish(state.Object{Kind: state.KindChassis, Index: index}, chassisChanges(c))
	runtime.Gosched()
}

// PublishSystem implements engine.Publisher.
func (s *Server) PublishSystem(index int, c state.Chassis) {
	s.publish(state.Object{Kind: state.KindSystem, Index: index}, systemChanges(c))
}

// PublishBMC implements engine.Publisher.
func (s *Server) PublishBMC(b state.BMC) {
	s.publish(state.Object{Kind: state.KindBMC}, bmcChanges(b))
}

// PublishSchedule implements engine.Publisher.
func (s *Server) PublishSchedule(index int, sc state.Schedule) {
	s.publish(state.Object{Kind: state.KindSchedule, Index: index}, scheduleChanges(sc))
}

// PublishQueue implements engine.Publisher.
func (s *Server) PublishQueue(domain int, q state.Queue) {
	if o := s.queues[domain]; o != nil {
		o.Update(queueChanges(domain, q)...)
		return
	}
	s.log.Error("nothing shows this queue", "domain", domain)
}

func (s *Server) publish(at state.Object, changes []props.Change) {
	if o := s.objects[at]; o != nil {
		o.Update(changes...)
		return
	}
	s.log.Error("nothing shows this object", "object", at.String())
}
