package dbus

import (
	"errors"
	"sync"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
)

// hypervisor is the object of the hypervisor of host 0. It shows how far that host
// has booted and keeps what is asked of it; another daemon watches for that and
// acts (openbmc-state-manager.md §2.11).
type hypervisor struct {
	object *props.Object // nil where none is served

	mu       sync.Mutex
	progress state.BootProgress // as last published
}

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
		Interface: openbmc.Hypervisor, Values: valuesOf(openbmc.Hypervisor, values), Set: s.hypervisor.set,
	})
	s.hypervisor.object = object
	return err
}

// set takes the only request there is.
func (h *hypervisor) set(c *props.Call, property string, value any) {
	text, _ := value.(string)
	if op, ok := openbmc.HostTransition.Parse(text); !ok || op != state.HostOn {
		c.Fail(props.Errorf(openbmc.ErrInvalidArgument, "Invalid argument was given: %q cannot be asked of a hypervisor, only On can.", value))
		return
	}
	h.object.Update(props.Change{Interface: openbmc.IfaceHost, Property: property, Value: text})
	c.Return()
}

// follow takes how far host 0 has booted. When it has gone, so has what was asked
// of its hypervisor.
func (h *hypervisor) follow(p state.BootProgress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.object == nil || p == h.progress {
		return
	}
	h.progress = p
	current := state.HostStateOff
	switch p {
	case state.BootProgressSystemInitComplete:
		current = state.HostStateStandby
	case state.BootProgressOSRunning:
		current = state.HostStateRunning
	}
	h.object.Update(props.Change{Interface: openbmc.IfaceHost, Property: "CurrentHostState", Value: openbmc.HostState.String(current)})
	if p == state.BootProgressUnspecified {
		h.object.Update(props.Change{Interface: openbmc.IfaceHost, Property: "RequestedHostTransition", Value: openbmc.HostTransition.String(state.HostOff)})
	}
}
