package dbus

import (
	"errors"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// Panel says what x86-power-control would serve for a host beside the standard
// objects: its front panel, and its NMI output. The cause of the last restart
// and the service of the operating system are there with every Panel.
type Panel struct {
	Host    int
	Buttons []state.Button
	NMI     bool
}

// panelObject is one object that a panel's values show on.
type panelObject struct {
	object *props.Object
	values func(state.Panel) []props.Change
}

// addPanels makes the services of power-sequencing.md §1.2, each with a
// connection of its own.
func (s *Server) addPanels() error {
	var errs []error
	for _, p := range s.opts.Panels {
		if len(p.Buttons) > 0 {
			svc := s.addService(openbmc.IfaceButtons, p.Host, openbmc.ButtonsRoot)
			for _, b := range p.Buttons {
				errs = append(errs, s.addPanel(svc, p.Host, openbmc.ButtonPath(b), buttonValues(b), s.buttonImpl(p.Host, b)))
			}
		}
		if p.NMI {
			svc := s.addService(openbmc.IfaceNMI, p.Host, openbmc.ControlRoot)
			_, err := svc.Add(openbmc.NMIPath(p.Host), s.nmiImpl(p.Host))
			errs = append(errs, err)
		}
		svc := s.addService(openbmc.IfaceRestartCause, p.Host, openbmc.ControlRoot)
		errs = append(errs, s.addPanel(svc, p.Host, openbmc.RestartCausePath(p.Host), causeValues, s.causeImpl(p.Host)))
		svc = s.addService(openbmc.OSService, p.Host, openbmc.StateRoot)
		errs = append(errs, s.addPanel(svc, p.Host, openbmc.OSPath, osValues, props.Impl{
			Interface: openbmc.OSStatus, Values: valuesOf(openbmc.OSStatus, osValues(state.Panel{OS: state.OSStateInactive})),
			Set: s.setter(state.Object{Kind: state.KindHost, Index: p.Host}),
		}))
	}
	return errors.Join(errs...)
}

func (s *Server) addPanel(svc *props.Service, host int, path godbus.ObjectPath, values func(state.Panel) []props.Change, impl props.Impl) error {
	object, err := svc.Add(path, impl)
	if err != nil {
		return err
	}
	s.panels[host] = append(s.panels[host], panelObject{object, values})
	return nil
}

func buttonValues(b state.Button) func(state.Panel) []props.Change {
	return func(p state.Panel) []props.Change {
		pressed := props.Change{Interface: openbmc.IfaceButtons, Property: "ButtonPressed", Value: p.Pressed[b]}
		if b == state.ButtonID {
			return []props.Change{pressed}
		}
		return []props.Change{{Interface: openbmc.IfaceButtons, Property: "ButtonMasked", Value: p.Masked[b]}, pressed}
	}
}

func (s *Server) buttonImpl(host int, b state.Button) props.Impl {
	iface := openbmc.Buttons
	if b == state.ButtonID {
		iface = openbmc.IDButton
	}
	return props.Impl{
		Interface: iface, Values: valuesOf(iface, buttonValues(b)(state.Panel{})),
		Set: func(c *props.Call, _ string, value any) {
			on, _ := value.(bool)
			s.opts.Backend.Post(engine.Mask{Caller: caller(c), Host: host, Button: b, On: on,
				Reply: func(a engine.Answer) { answerSet(c, state.KindHost, a) }})
		},
	}
}

func (s *Server) nmiImpl(host int) props.Impl {
	return props.Impl{Interface: openbmc.NMI, Methods: map[string]func(*props.Call){
		"NMI": func(c *props.Call) {
			s.opts.Backend.Post(engine.NMI{Caller: caller(c), Host: host,
				Reply: func(a engine.Answer) { answerSet(c, state.KindHost, a) }})
		},
	}}
}

func causeValues(p state.Panel) []props.Change {
	return []props.Change{
		{Interface: openbmc.IfaceRestartCause, Property: "RequestedRestartCause", Value: openbmc.PrivateRestartCause.String(p.RequestedCause)},
		{Interface: openbmc.IfaceRestartCause, Property: "RestartCause", Value: openbmc.PrivateRestartCause.String(p.RestartCause)},
	}
}

func (s *Server) causeImpl(host int) props.Impl {
	return props.Impl{
		Interface: openbmc.OwnRestartCause, Values: valuesOf(openbmc.OwnRestartCause, causeValues(state.Panel{})),
		Set: s.setter(state.Object{Kind: state.KindHost, Index: host}),
	}
}

func osValues(p state.Panel) []props.Change {
	return []props.Change{{Interface: openbmc.IfaceOSStatus, Property: "OperatingSystemState", Value: openbmc.OSState.String(p.OS)}}
}

// PublishPanel implements engine.Publisher.
func (s *Server) PublishPanel(host int, p state.Panel) {
	for _, o := range s.panels[host] {
		o.object.Update(o.values(p)...)
	}
}
