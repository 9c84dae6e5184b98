package dbus

import (
	"context"
	"sync"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// settingsServer is the settings daemon's service, while we stand in for it.
type settingsServer struct {
	mu      sync.Mutex
	values  map[int]state.Settings // by host, as last published
	objects []settingObject        // empty while nothing is served
}

// settingObject is one of the four objects of a host.
type settingObject struct {
	host   int
	object *props.Object
	kind   *settingKind
}

// settingKind is one kind of settings object.
type settingKind struct {
	path    func(host int, oneTime bool) godbus.ObjectPath
	oneTime bool
	iface   *props.Interface
	values  func(state.Settings) []any // in the order of the interface's properties
	writes  []engine.Property          // likewise; 0 = cannot be written
}

var settingKinds = [...]settingKind{
	{openbmc.AutoRebootPath, false, openbmc.RebootPolicy,
		func(s state.Settings) []any { return []any{s.AutoReboot} }, []engine.Property{engine.PropAutoReboot}},
	{openbmc.AutoRebootPath, true, openbmc.RebootPolicy,
		func(s state.Settings) []any { return []any{s.AutoRebootOnce} }, []engine.Property{engine.PropAutoRebootOnce}},
	{openbmc.RestorePolicyPath, false, openbmc.RestorePolicy, func(s state.Settings) []any {
		return []any{openbmc.RestorePolicies.String(s.Restore), uint64(s.RestoreDelay.Microseconds())}
	}, []engine.Property{engine.PropRestorePolicy, engine.PropRestoreDelay}},
	{openbmc.RestorePolicyPath, true, openbmc.RestorePolicy, func(s state.Settings) []any {
		return []any{openbmc.RestorePolicies.String(s.RestoreOnce), uint64(0)}
	}, []engine.Property{engine.PropRestorePolicyOnce, 0}},
}

// ServeSettings serves the settings objects of all hosts until the returned
// function is called. The name can be taken over; owner is the unique name that
// has it until then. Call it again only after that function has returned.
func (s *Server) ServeSettings(ctx context.Context) (owner string, end func(), err error) {
	svc := props.New(props.Options{
		Names: []string{openbmc.SettingsService}, Managers: []godbus.ObjectPath{"/"}, Replaceable: true,
		AllowedUIDs: s.opts.AllowedUIDs, Logger: s.log,
	})
	g := &s.settings
	end = func() {
		g.mu.Lock()
		g.objects = nil
		g.mu.Unlock()
		_ = svc.Close()
	}
	if err = s.addSettings(svc); err == nil {
		err = svc.Connect(ctx, s.opts.Address)
	}
	if err == nil {
		err = svc.Own(ctx)
	}
	if err != nil {
		end()
		return "", nil, err
	}
	return svc.UniqueName(), end, nil
}

func (s *Server) addSettings(svc *props.Service) error {
	g := &s.settings
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range s.opts.Hosts {
		for i := range settingKinds {
			k := &settingKinds[i]
			object, err := svc.Add(k.path(h, k.oneTime), props.Impl{
				Interface: k.iface, Values: k.values(g.values[h]), Set: s.settingSetter(h, k),
			})
			if err != nil {
				return err
			}
			g.objects = append(g.objects, settingObject{h, object, k})
		}
	}
	return nil
}

func (s *Server) settingSetter(host int, k *settingKind) func(*props.Call, string, any) {
	return func(c *props.Call, property string, value any) {
		v, ok := settingValue(value)
		if !ok {
			c.Fail(props.Errorf(openbmc.ErrInvalidArgument, "Invalid argument was given: %q is no value of %s.", value, property))
			return
		}
		for i, p := range k.iface.Properties {
			if p.Name == property && k.writes[i] != 0 {
				s.opts.Backend.Post(engine.Set{
					Caller: caller(c), Object: state.Object{Kind: state.KindHost, Index: host}, Prop: k.writes[i], Value: v,
					Reply: func(a engine.Answer) { answerSet(c, state.KindHost, a) },
				})
				return
			}
		}
		c.Fail(props.Errorf(openbmc.ErrNotAllowed, "The one-time policy has no delay of its own: write that of the persistent policy."))
	}
}

func settingValue(value any) (uint64, bool) {
	switch v := value.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case string:
		p, ok := openbmc.RestorePolicies.Parse(v)
		return uint64(p), ok
	default:
		return number(value)
	}
}

// PublishSettings implements engine.Publisher.
func (s *Server) PublishSettings(host int, v state.Settings) {
	g := &s.settings
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values[host] = v
	for _, o := range g.objects {
		if o.host != host {
			continue
		}
		values := o.kind.values(v)
		for i, p := range o.kind.iface.Properties {
			o.object.Update(props.Change{Interface: o.kind.iface.Name, Property: p.Name, Value: values[i]})
		}
	}
}
