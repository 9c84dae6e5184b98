package peers

import (
	"errors"
	"strconv"
	"strings"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
)

const (
	mapperService = "xyz.openbmc_project.ObjectMapper"
	mapperPath    = "/xyz/openbmc_project/object_mapper"
	ifaceInputs   = "xyz.openbmc_project.State.Decorator.PowerSystemInputs"
	ifaceUPS      = "org.freedesktop.UPower.Device"
	ifaceFirmware = "xyz.openbmc_project.Condition.HostFirmware"
	ifaceItem     = "xyz.openbmc_project.Inventory.Item"
)

// found is one object that the mapper knows.
type found struct{ path, service string }

// find asks the mapper for every object with an interface. Without a mapper on
// the bus nothing is there.
func (l *Link) find(iface string) ([]found, error) { return l.findBelow("/", 0, iface) }

// findBelow is find for what is at most depth levels below root; 0 = any.
func (l *Link) findBelow(root string, depth int32, iface string) ([]found, error) {
	var tree map[string]map[string][]string
	err := l.Call(mapperService, mapperPath, mapperService+".GetSubTree", &tree, root, depth, []string{iface})
	var e godbus.Error
	if errors.As(err, &e) && (e.Name == openbmc.ErrResourceNotFound || e.Name == busDriver+".Error.ServiceUnknown" || e.Name == busDriver+".Error.NameHasNoOwner") {
		return nil, nil
	}
	var all []found
	for path, services := range tree {
		for service := range services {
			all = append(all, found{path, service})
			break // one that serves it is enough
		}
	}
	return all, err
}

// Watcher looks again and again at what other daemons show.
type Watcher struct {
	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}
}

// watch calls look at once, when one of the interfaces' properties or the mapper
// changes, and every so often: an object that comes is told by no signal that
// names its interface.
func (l *Link) watch(every time.Duration, look func(), ifaces ...string) *Watcher {
	w := &Watcher{wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	rules := [][]godbus.MatchOption{comings(mapperService)}
	for _, i := range ifaces {
		rules = append(rules, changesOf(godbus.WithMatchArg(0, i)))
	}
	l.Watch(func(*godbus.Signal) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}, rules...)
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			look()
			select {
			case <-w.stop:
				return
			case <-w.wake:
			case <-tick.C:
			}
		}
	}()
	return w
}

// Close stops looking.
func (w *Watcher) Close() {
	close(w.stop)
	<-w.ended
}

// WatchSupplies tells what the power supplies of each chassis and the UPSs show
// (openbmc-state-manager.md §2.5). What cannot be asked for is not told: the last
// word stands.
func (l *Link) WatchSupplies(chassis []int, every time.Duration, tell func(chassis int, s state.PowerStatus)) *Watcher {
	return l.watch(every, func() {
		ups, err := l.upsStatus()
		if err != nil {
			return
		}
		for _, c := range chassis {
			status, err := l.inputStatus(c)
			if err != nil {
				return
			}
			if ups != state.PowerStatusGood {
				status = ups
			}
			tell(c, status)
		}
	}, ifaceInputs, ifaceUPS)
}

// The numbers of UPower's interface.
const (
	upsType      = 3
	upsCharged   = 4
	upsLevelFull = 8
)

// upsStatus is bad while a UPS that is there is neither full nor charged.
func (l *Link) upsStatus() (state.PowerStatus, error) {
	all, err := l.find(ifaceUPS)
	for _, o := range all {
		values := map[string]godbus.Variant{}
		if err := l.Call(o.service, o.path, properties+".GetAll", &values, ifaceUPS); err != nil {
			return 0, err
		}
		present, _ := values["IsPresent"].Value().(bool)
		number := func(name string) uint32 { n, _ := values[name].Value().(uint32); return n }
		if number("Type") != upsType || !present {
			continue
		}
		if number("State") != upsCharged || number("BatteryLevel") != upsLevelFull {
			return state.PowerStatusUninterruptiblePowerSupply, nil
		}
	}
	return state.PowerStatusGood, err
}

// inputStatus is bad while an input of the chassis' supplies is. A supply whose
// path names no chassis feeds all.
func (l *Link) inputStatus(chassis int) (state.PowerStatus, error) {
	all, err := l.find(ifaceInputs)
	for _, o := range all {
		if n, named := instanceIn(o.path, "chassis"); named && n != chassis {
			continue
		}
		v, err := l.Get(o.service, o.path, ifaceInputs, "Status")
		if err != nil {
			return 0, err
		}
		if v == ifaceInputs+".Status.Fault" {
			return state.PowerStatusBrownOut, nil
		}
	}
	return state.PowerStatusGood, err
}

// WatchPresence tells which chassis the inventory says are not there
// (openbmc-state-manager.md §2.12). One that it does not know is.
func (l *Link) WatchPresence(chassis []int, every time.Duration, tell func(chassis int, absent bool)) *Watcher {
	return l.watch(every, func() {
		all, err := l.findBelow("/xyz/openbmc_project/inventory/system", 1, ifaceItem)
		if err != nil {
			return
		}
		absent := map[int]bool{}
		for _, o := range all {
			n, named := instanceIn(o.path, "chassis")
			if !named {
				continue
			}
			v, err := l.Get(o.service, o.path, ifaceItem, "Present")
			if err != nil {
				return
			}
			absent[n] = v == false
		}
		for _, c := range chassis {
			tell(c, absent[c])
		}
	}, ifaceItem)
}

// instanceIn returns the number of the path's element that begins with a stem.
func instanceIn(path, stem string) (n int, ok bool) {
	for _, element := range strings.Split(path, "/") {
		number, is := strings.CutPrefix(element, stem)
		if n, err := strconv.Atoi(number); is && err == nil {
			return n, true
		}
	}
	return 0, false
}

// WatchHosts tells which hosts' firmware runs (openbmc-state-manager.md §2.7).
// An object whose path names no host is the first one's.
func (l *Link) WatchHosts(hosts []int, every time.Duration, tell func(host int, running bool)) *Watcher {
	return l.watch(every, func() {
		all, err := l.find(ifaceFirmware)
		if err != nil {
			return
		}
		running := map[int]bool{}
		for _, o := range all {
			n, named := instanceIn(o.path, "host")
			if !named {
				n = hosts[0]
			}
			v, err := l.Get(o.service, o.path, ifaceFirmware, "CurrentFirmwareCondition")
			running[n] = running[n] || err == nil && v == ifaceFirmware+".FirmwareCondition.Running"
		}
		for _, h := range hosts {
			tell(h, running[h])
		}
	}, ifaceFirmware)
}

// WatchRole tells whether this BMC is the passive one of two. Where nobody says,
// it is the only one.
func (l *Link) WatchRole(every time.Duration, tell func(passive bool)) *Watcher {
	const iface = "xyz.openbmc_project.State.BMC.Redundancy"
	return l.watch(every, func() {
		role, err := l.Get(iface, string(openbmc.ObjectPath(state.Object{Kind: state.KindBMC})), iface, "Role")
		tell(err == nil && role == iface+".Role.Passive")
	}, iface)
}
