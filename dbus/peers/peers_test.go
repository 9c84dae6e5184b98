package peers_test

import (
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/peers"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
)

// The first word on a mark is the mapper's first answer, or that there is none.
func TestFirstWordOnAMark(t *testing.T) {
	marked := object{path: "/software/1234", iface: peers.MarkUpdate}
	other := object{path: "/log/1", iface: peers.MarkError}
	for name, c := range map[string]struct {
		objects []object
		want    bool
	}{
		"no mapper":           {nil, false},
		"nothing has it":      {[]object{other}, false},
		"something has it":    {[]object{marked}, true},
		"and something other": {[]object{other, marked}, true},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan bool, 10)
			m := newWorld(t, c.objects...).link().WatchMark(peers.MarkUpdate, never, func(on bool) { told <- on })
			t.Cleanup(m.Close)
			assert.Equal(t, c.want, next(t, told))
		})
	}
}

// A mapper that has not answered has said nothing.
func TestMarkOfASlowMapper(t *testing.T) {
	w := newWorld(t)
	w.objects, w.hold = []object{{path: "/software/1234", iface: peers.MarkUpdate}}, make(chan struct{})
	w.startMapper()
	told := make(chan bool, 10)
	m := w.link().WatchMark(peers.MarkUpdate, never, func(on bool) { told <- on })
	t.Cleanup(m.Close)
	select {
	case on := <-told:
		require.FailNow(t, "told before the answer", "%v", on)
	default:
	}
	close(w.hold)
	assert.True(t, next(t, told), "the first word")
}

// Signals tell of a mark long before anybody asks the mapper again.
func TestMarkComesAndGoes(t *testing.T) {
	w := newWorld(t)
	told := make(chan bool, 10)
	m := w.link().WatchMark(peers.MarkUpdate, never, func(on bool) { told <- on })
	t.Cleanup(m.Close)
	require.False(t, next(t, told))
	conn := w.bus.Connect(t)
	emit := func(member string, path godbus.ObjectPath, what any) {
		require.NoError(t, conn.Emit("/software", "org.freedesktop.DBus.ObjectManager."+member, path, what))
	}
	added := func(path godbus.ObjectPath, iface string) {
		emit("InterfacesAdded", path, map[string]map[string]godbus.Variant{iface: {}})
	}
	added("/software/0", "another.Interface")
	added("/software/1", peers.MarkUpdate)
	assert.True(t, next(t, told))
	added("/software/2", peers.MarkUpdate)
	emit("InterfacesRemoved", "/software/1", []string{peers.MarkUpdate})
	emit("InterfacesRemoved", "/software/2", []string{"another.Interface", peers.MarkUpdate})
	assert.False(t, next(t, told), "once the last has gone")
}

func TestSupplies(t *testing.T) {
	const (
		inputs = "xyz.openbmc_project.State.Decorator.PowerSystemInputs"
		ups    = "org.freedesktop.UPower.Device"
		chaos  = "/psus/chassis1/psu0"
	)
	supply := func(path, status string) object {
		return object{path, inputs, map[string]any{"Status": inputs + ".Status." + status}}
	}
	battery := func(kind, charge, level uint32, present bool) object {
		return object{"/ups", ups, map[string]any{"Type": kind, "State": charge, "BatteryLevel": level, "IsPresent": present}}
	}
	const good, brown, low = state.PowerStatusGood, state.PowerStatusBrownOut, state.PowerStatusUninterruptiblePowerSupply
	for name, c := range map[string]struct {
		objects []object
		want    [2]state.PowerStatus // of chassis 0 and 1
	}{
		"no mapper":                  {nil, [2]state.PowerStatus{good, good}},
		"good":                       {[]object{supply(chaos, "Good")}, [2]state.PowerStatus{good, good}},
		"of one chassis":             {[]object{supply(chaos, "Fault")}, [2]state.PowerStatus{good, brown}},
		"of all":                     {[]object{supply("/psus/psu0", "Fault")}, [2]state.PowerStatus{brown, brown}},
		"one of two":                 {[]object{supply("/psus/chassis0/a", "Good"), supply("/psus/chassis0/b", "Fault")}, [2]state.PowerStatus{brown, good}},
		"UPS full and charged":       {[]object{battery(3, 4, 8, true)}, [2]state.PowerStatus{good, good}},
		"UPS discharging":            {[]object{battery(3, 2, 8, true)}, [2]state.PowerStatus{low, low}},
		"UPS not full":               {[]object{battery(3, 4, 6, true)}, [2]state.PowerStatus{low, low}},
		"UPS not there":              {[]object{battery(3, 2, 6, false)}, [2]state.PowerStatus{good, good}},
		"a battery that is no UPS":   {[]object{battery(2, 2, 6, true)}, [2]state.PowerStatus{good, good}},
		"UPS beside a broken supply": {[]object{battery(3, 2, 6, true), supply(chaos, "Fault")}, [2]state.PowerStatus{low, low}},
	} {
		t.Run(name, func(t *testing.T) {
			type word struct {
				chassis int
				status  state.PowerStatus
			}
			told := make(chan word, 100)
			watch := newWorld(t, c.objects...).link().WatchSupplies([]int{0, 1}, never, func(n int, s state.PowerStatus) { told <- word{n, s} })
			t.Cleanup(watch.Close)
			for n, want := range c.want {
				assert.Equal(t, word{n, want}, next(t, told))
			}
		})
	}
}

func TestHosts(t *testing.T) {
	const iface = "xyz.openbmc_project.Condition.HostFirmware"
	firmware := func(path, condition string) object {
		return object{path, iface, map[string]any{"CurrentFirmwareCondition": iface + ".FirmwareCondition." + condition}}
	}
	for name, c := range map[string]struct {
		objects []object
		want    [2]bool // of hosts 1 and 2
	}{
		"no mapper":            {nil, [2]bool{}},
		"its own":              {[]object{firmware("/Gpios/host2", "Running")}, [2]bool{false, true}},
		"off":                  {[]object{firmware("/Gpios/host2", "Off")}, [2]bool{}},
		"no number: the first": {[]object{firmware("/Gpios/x", "Running")}, [2]bool{true, false}},
		"another's":            {[]object{firmware("/Gpios/host7", "Running")}, [2]bool{}},
		"one of two says so":   {[]object{firmware("/a/host1", "Running"), firmware("/b/host1", "Off")}, [2]bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			type word struct {
				host int
				runs bool
			}
			told := make(chan word, 100)
			watch := newWorld(t, c.objects...).link().WatchHosts([]int{1, 2}, never, func(h int, runs bool) { told <- word{h, runs} })
			t.Cleanup(watch.Close)
			for n, want := range c.want {
				assert.Equal(t, word{n + 1, want}, next(t, told))
			}
		})
	}
}

func TestRole(t *testing.T) {
	const name = "xyz.openbmc_project.State.BMC.Redundancy"
	w := newWorld(t)
	told := make(chan bool, 100)
	watch := w.link().WatchRole(never, func(passive bool) { told <- passive })
	t.Cleanup(watch.Close)
	require.False(t, next(t, told), "nobody says so")
	conn := w.bus.Connect(t)
	role := exportRole(t, conn, name)
	w.own(conn, name)
	for _, r := range []struct {
		name    string
		passive bool
	}{{"Passive", true}, {"Active", false}, {"Passive", true}} {
		role(r.name)
		for next(t, told) != r.passive { // looks that came before
		}
	}
}

// logbook is the event log.
type logbook struct{ entries chan string }

func (l logbook) Create(message, level string, data map[string]string) *godbus.Error {
	l.entries <- message + " " + level[len("xyz.openbmc_project.Logging.Entry.Level."):] + " " + data["WHY"]
	return nil
}

// What a log that is not there does not take is kept, by a later run, too, and
// written in order once it comes.
func TestEventLogWaitsForItsDaemon(t *testing.T) {
	const service = "xyz.openbmc_project.Logging"
	w := newWorld(t)
	kept := make(chan []peers.Entry, 100)
	log := peers.NewEventLog(w.link(), peers.EventLogOptions{
		Retry: never, Log: slog.New(slog.DiscardHandler), Keep: func(e []peers.Entry) { kept <- e },
		Kept: []peers.Entry{{Message: "earlier", Notice: true}},
	})
	t.Cleanup(log.Close)
	log.Add(peers.Entry{Message: "first", Critical: true, Data: map[string]string{"WHY": "a test"}})
	log.Add(peers.Entry{Message: "second", Dump: true})
	for len(next(t, kept)) < 3 {
	}
	l := logbook{make(chan string, 10)}
	conn := w.bus.Connect(t)
	require.NoError(t, conn.Export(l, "/xyz/openbmc_project/logging", service+".Create"))
	w.own(conn, service)
	for _, want := range []string{"earlier Notice ", "first Critical a test", "second Error "} {
		assert.Equal(t, want, next(t, l.entries))
	}
	for len(next(t, kept)) > 0 {
	}
}
