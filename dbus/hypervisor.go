package dbus

import (
	"errors"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// addHypervisor adds the object of the hypervisor of host 0. It shows how far that
// host has booted and keeps what is asked of it; another daemon watches for that
// and acts (openbmc-state-manager.md §2.11).
func (s *Server) addHypervisor() error {
	if !s.opts.Hypervisor {
		return nil
	}
	if s.objects[state.Object{Kind: state.KindHost}] == nil {
		return errors.New("dbus: the hypervisor is that of host 0, and there is no host 0: serve that host, or no hypervisor")
	}
	svc := s.addService(openbmc.IfaceHypervisor, 0, openbmc.StateRoot)
	values := hostChanges(state.Host{Requested: state.HostOff, Allowed: []state.Operation{state.HostOn}})
	object, err := svc.Add(openbmc.HypervisorPath, props.Impl{
		Interface: openbmc.Hypervisor, Values: valuesOf(openbmc.Hypervisor, values), Set: s.setHypervisor,
	})
	s.hypervisor = object
	return err
}

// setHypervisor takes the only request there is.
func (s *Server) setHypervisor(c *props.Call, _ string, value any) {
	text, _ := value.(string)
	if op, ok := openbmc.HostTransition.Parse(text); !ok || op != state.HostOn {
		c.Fail(props.Errorf(openbmc.ErrInvalidArgument, "Invalid argument was given: %q cannot be asked of a hypervisor, only On can.", value))
		return
	}
	host := state.Object{Kind: state.KindHost}
	s.opts.Backend.Post(engine.Set{Caller: caller(c), Object: host, Prop: engine.PropHypervisorOn,
		Reply: func(a engine.Answer) { answerSet(c, host.Kind, a) }})
}

// followHypervisor shows what becomes of host 0's.
func (s *Server) followHypervisor(h state.Host) {
	if s.hypervisor == nil {
		return
	}
	current, requested := state.HostStateOff, state.HostOff
	switch h.BootProgress {
	case state.BootProgressSystemInitComplete:
		current = state.HostStateStandby
	case state.BootProgressOSRunning:
		current = state.HostStateRunning
	}
	if h.Hypervisor {
		requested = state.HostOn
	}
	s.hypervisor.Update(
		props.Change{Interface: openbmc.IfaceHost, Property: "CurrentHostState", Value: openbmc.HostState.String(current)},
		props.Change{Interface: openbmc.IfaceHost, Property: "RequestedHostTransition", Value: openbmc.HostTransition.String(requested)})
}
