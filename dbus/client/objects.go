package client

import (
	"context"
	"maps"
	"slices"
	"strings"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
)

// Object is one object on the bus with all its properties.
type Object struct {
	Path       string
	Interfaces map[string]map[string]any // interface → property → value
}

// Get returns a property of whichever interface has it, nil if none has.
func (o Object) Get(property string) any {
	for _, properties := range o.Interfaces {
		if v, ok := properties[property]; ok {
			return v
		}
	}
	return nil
}

const (
	busName            = "org.freedesktop.DBus"
	busPath            = "/org/freedesktop/DBus"
	propertiesIface    = "org.freedesktop.DBus.Properties"
	objectManagerIface = "org.freedesktop.DBus.ObjectManager"
)

// services are the stems of the services that have state objects, and where
// their object manager is.
var services = map[string]godbus.ObjectPath{
	openbmc.IfaceBMC:      openbmc.StateRoot,
	openbmc.IfaceChassis:  openbmc.StateRoot,
	openbmc.IfaceHost:     openbmc.StateRoot,
	openbmc.IfaceQueue:    openbmc.StateRoot,
	openbmc.IfaceFault:    openbmc.StateRoot,
	openbmc.IfaceSchedule: openbmc.ScheduledRoot,
}

// managerOf returns the object manager's path of a service by its bus name.
func managerOf(name string) (godbus.ObjectPath, bool) {
	path, ok := services[strings.TrimRight(name, "0123456789")]
	return path, ok
}

// Objects returns every state object on the bus, by path. A service that does
// not answer is left out, and its error joined to the result's.
func (c *Client) Objects(ctx context.Context) ([]Object, error) {
	var names []string
	if err := c.call(ctx, busName, busPath, busName+".ListNames", []any{&names}); err != nil {
		return nil, err
	}
	slices.Sort(names)
	found, asked := map[string]Object{}, map[string]bool{}
	for _, name := range names {
		root, ok := managerOf(name)
		if !ok {
			continue
		}
		var owner string
		if err := c.call(ctx, busName, busPath, busName+".GetNameOwner", []any{&owner}, name); err != nil {
			continue // it left since ListNames
		}
		if asked[owner] {
			continue // the same service by its other name
		}
		asked[owner] = true
		objects, err := c.managed(ctx, name, root)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			found[o.Path] = o
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Object) int { return strings.Compare(a.Path, b.Path) }), nil
}

// managed returns the objects of one service.
func (c *Client) managed(ctx context.Context, service string, root godbus.ObjectPath) ([]Object, error) {
	var tree map[godbus.ObjectPath]map[string]map[string]godbus.Variant
	err := c.call(ctx, service, root, objectManagerIface+".GetManagedObjects", []any{&tree})
	if err != nil {
		return nil, err
	}
	var objects []Object
	for path, interfaces := range tree {
		o := Object{Path: string(path), Interfaces: make(map[string]map[string]any, len(interfaces))}
		for name, properties := range interfaces {
			o.Interfaces[name] = plain(properties)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// plain takes the values out of their variants.
func plain(properties map[string]godbus.Variant) map[string]any {
	values := make(map[string]any, len(properties))
	for name, v := range properties {
		values[name] = v.Value()
	}
	return values
}
