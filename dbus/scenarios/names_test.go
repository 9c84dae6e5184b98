package scenarios

import (
	"encoding/xml"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

func TestS01Names(t *testing.T) {
	statetest.Covers(t, "S01", "C27")
	d := boot(t, "")
	for _, n := range []string{bmcName, hostName, hostName + "0", chassisName, chassisName + "0", schedName, schedName + "0"} {
		require.Equal(t, "b true", d.bus.Busctl(t, "call", "org.freedesktop.DBus", "/", "org.freedesktop.DBus", "NameHasOwner", "s", n), n)
	}
	for _, n := range []string{hostName + "1", chassisName + "1"} {
		require.Equal(t, "b false", d.bus.Busctl(t, "call", "org.freedesktop.DBus", "/", "org.freedesktop.DBus", "NameHasOwner", "s", n), n)
	}
}

func TestS02SameOwner(t *testing.T) {
	statetest.Covers(t, "S02")
	d := boot(t, "")
	owner := func(n string) string {
		return d.bus.Busctl(t, "call", "org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetNameOwner", "s", n)
	}
	for _, n := range []string{hostName, chassisName, schedName} {
		require.Equal(t, owner(n), owner(n+"0"))
	}
	require.NotEqual(t, owner(hostName), owner(chassisName), "one connection per service")
}

func TestS04Introspect(t *testing.T) {
	statetest.Covers(t, "S04", "C22")
	d := boot(t, "")
	table := d.bus.Busctl(t, "introspect", hostName, hostPath)
	for _, want := range []string{
		".RequestedHostTransition property s", ".AllowedHostTransitions property as", ".CurrentHostState property s",
		".RestartCause property s", ".AttemptsLeft property u 3 emits-change writable",
		".RetryAttempts property u 3 emits-change writable", ".BootProgress property s", ".BootProgressLastUpdate property t",
		".OperatingSystemState property s",
	} {
		row := find(table, strings.Fields(want)[0])
		require.True(t, strings.HasPrefix(row, want), "%q in %q", want, row)
	}
	require.True(t, strings.HasSuffix(find(table, ".AllowedHostTransitions"), " const"))
	for _, p := range []string{".RequestedHostTransition", ".CurrentHostState", ".RestartCause"} {
		require.True(t, strings.HasSuffix(find(table, p), " emits-change writable"), p)
	}
}

// find returns the row of a busctl table, its columns one blank apart.
func find(table, first string) string {
	for _, line := range strings.Split(table, "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] == first {
			return strings.Join(f, " ")
		}
	}
	return ""
}

func TestS05ObjectManager(t *testing.T) {
	statetest.Covers(t, "S05", "C22")
	d := boot(t, "")
	d.untilPowerGood()
	out := d.bus.Busctl(t, "call", hostName, "/xyz/openbmc_project/state", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
	require.True(t, strings.HasPrefix(out, `a{oa{sa{sv}}} 1 "/xyz/openbmc_project/state/host0"`), out)
	for _, o := range standardObjects {
		var all map[godbus.ObjectPath]map[string]map[string]godbus.Variant
		require.NoError(t, d.call(o.name, path.Dir(o.path), "org.freedesktop.DBus.ObjectManager.GetManagedObjects").Store(&all))
		require.Len(t, all, 1, o.path)
		require.ElementsMatch(t, keys(o.properties), keys(all[godbus.ObjectPath(o.path)]), o.path)
		for iface, properties := range all[godbus.ObjectPath(o.path)] {
			require.ElementsMatch(t, strings.Fields(o.properties[iface]), keys(properties), iface)
			var values map[string]godbus.Variant
			require.NoError(t, d.call(o.name, o.path, propsIface+".GetAll", iface).Store(&values))
			require.Equal(t, values, properties, iface)
		}
	}
}

// standardObjects are the objects that clients know, with their interfaces'
// properties (clients.md §0.2).
var standardObjects = []struct {
	name, path string
	properties map[string]string
}{
	{hostName, hostPath, map[string]string{
		hostName:      "RequestedHostTransition AllowedHostTransitions CurrentHostState RestartCause",
		progressIface: "BootProgress BootProgressLastUpdate", osIface: "OperatingSystemState", attemptsIface: "AttemptsLeft RetryAttempts",
	}},
	{chassisName, chassisPath, map[string]string{
		chassisName: "RequestedPowerTransition CurrentPowerState CurrentPowerStatus LastStateChangeTime", "xyz.openbmc_project.State.PowerOnHours": "POHCounter",
	}},
	{bmcName, bmcPath, map[string]string{bmcName: "RequestedBMCTransition CurrentBMCState LastRebootTime LastRebootCause"}},
	{schedName, schedPath, map[string]string{schedName: "ScheduledTime ScheduledTransition"}},
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

func TestS07InterfacesAddedComesBeforeTheName(t *testing.T) {
	statetest.Covers(t, "S07", "B37")
	d := prepare(t, "")
	added := d.subscribe("org.freedesktop.DBus.ObjectManager", "InterfacesAdded")
	both := make(chan *godbus.Signal, 100_000) // in the order in which the bus delivers them
	d.conn.Signal(both)
	d.start()
	seen := map[string]map[string]map[string]godbus.Variant{}
	d.await(added, "InterfacesAdded of every object", func(s *godbus.Signal) bool {
		if s != nil {
			path := string(s.Body[0].(godbus.ObjectPath))
			require.NotContains(t, seen, path, "one per object")
			seen[path] = s.Body[1].(map[string]map[string]godbus.Variant)
		}
		for _, p := range []string{hostPath, chassisPath, bmcPath, schedPath, queuePath} {
			if seen[p] == nil {
				return false
			}
		}
		return true
	})
	require.Contains(t, seen[hostPath], hostName)
	require.Contains(t, seen[hostPath], progressIface)
	require.Contains(t, seen[hostPath], attemptsIface)
	require.Contains(t, seen[hostPath], osIface)
	require.Equal(t, d.host(), seen[hostPath][hostName]["CurrentHostState"].Value())

	d.conn.RemoveSignal(both)
	close(both)
	shown, owned := map[string]bool{}, 0
	for s := range both {
		switch s.Name {
		case "org.freedesktop.DBus.ObjectManager.InterfacesAdded":
			shown[s.Sender] = true
		case "org.freedesktop.DBus.NameOwnerChanged":
			name, owner := s.Body[0].(string), s.Body[2].(string)
			if owner != "" && slices.Contains(d.names, name) {
				require.True(t, shown[owner], "%s is owned before its objects are shown", name)
				owned++
			}
		}
	}
	require.Equal(t, len(d.names), owned)
}

func TestS08Mapper(t *testing.T) {
	statetest.Covers(t, "S08")
	d := prepare(t, "")
	m := d.bus.StartMapper(t)
	d.start()
	learned := func() { // it asks the names one after the other
		m.WaitFor(t, hostName, hostPath, hostName)
		m.WaitFor(t, hostName+"0", hostPath, hostName)
	}
	learned()
	get := func() string {
		return d.bus.Busctl(t, "call", "xyz.openbmc_project.ObjectMapper", "/xyz/openbmc_project/object_mapper",
			"xyz.openbmc_project.ObjectMapper", "GetObject", "sas", hostPath, "1", hostName)
	}
	check := func() {
		out := get()
		// The real mapper prints a sorted map, so the name without a digit comes
		// first; the double's order is godbus's, which is none.
		require.Contains(t, out, `"`+hostName+`"`)
		require.Contains(t, out, `"`+hostName+`0"`)
		for _, i := range []string{progressIface, attemptsIface, osIface} {
			require.Contains(t, out, i)
		}
	}
	check()
	require.Zero(t, d.stop())
	m.WaitGone(t, hostPath)
	d.start()
	learned()
	check()
}

// TestIntrospectFromTheRoot walks every service as the mapper does.
func TestIntrospectFromTheRoot(t *testing.T) {
	d := boot(t, "")
	for name, leaf := range map[string]string{hostName: hostPath, chassisName: chassisPath, bmcName: bmcPath, schedName: schedPath, queueName: queuePath} {
		require.Contains(t, d.walk(name, "/"), leaf)
	}
}

type node struct {
	Nodes []struct {
		Name string `xml:"name,attr"`
	} `xml:"node"`
	Interfaces []struct {
		Name string `xml:"name,attr"`
	} `xml:"interface"`
}

func (d *daemon) walk(name, path string) []string {
	var text string
	require.NoError(d.t, d.conn.Object(name, godbus.ObjectPath(path)).Call("org.freedesktop.DBus.Introspectable.Introspect", 0).Store(&text))
	var n node
	require.NoError(d.t, xml.Unmarshal([]byte(text), &n), text)
	all := []string{path}
	for _, c := range n.Nodes {
		all = append(all, d.walk(name, strings.TrimSuffix(path, "/")+"/"+c.Name)...)
	}
	return all
}

func TestASecondDaemonGivesUpAndTheFirstKeepsItsNames(t *testing.T) {
	statetest.Covers(t, "B38")
	d := boot(t, "")
	second := &daemon{t: t, bus: d.bus, conn: d.conn, stateDir: t.TempDir(), runDir: memoryDir(t), args: []string{"--simulate"}}
	owners := d.owners()
	second.launch()
	require.NotZero(t, second.waitExit())
	require.Contains(t, second.log.String(), bmcName)
	require.Equal(t, owners, d.owners(), "the first keeps every name")
	require.Equal(t, shorts.Replace("HS.Off"), d.host())

	same := &daemon{t: t, bus: d.bus, conn: d.conn, stateDir: d.stateDir, runDir: memoryDir(t), args: []string{"--simulate"}}
	same.launch()
	require.NotZero(t, same.waitExit())
	require.Contains(t, same.log.String(), d.stateDir, "the log names the directory that is in use")

	// Any one name is enough to give up, and who has it is told.
	for _, name := range []string{hostName + "0", chassisName, schedName} {
		d := prepare(t, "")
		conn := d.bus.Connect(t)
		_, err := conn.RequestName(name, godbus.NameFlagDoNotQueue)
		require.NoError(t, err)
		d.launch()
		require.NotZero(t, d.waitExit(), name)
		require.Contains(t, d.log.String(), name+" is owned by "+conn.Names()[0])
		require.Equal(t, map[string]string{name: conn.Names()[0]}, d.owners(), "and none is kept")
	}
}

// owners returns who owns our names.
func (d *daemon) owners() map[string]string {
	d.t.Helper()
	var names []string
	require.NoError(d.t, d.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus.ListNames").Store(&names))
	all := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(name, "xyz.openbmc_project.") {
			var owner string
			require.NoError(d.t, d.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus.GetNameOwner", name).Store(&owner))
			all[name] = owner
		}
	}
	return all
}

func TestADeadBusEndsTheDaemon(t *testing.T) {
	d := boot(t, "")
	d.bus.Stop()
	require.NotZero(t, d.waitExit())
	require.Contains(t, d.log.String(), "the bus is lost")

	gone := prepare(t, "")
	gone.bus.Stop()
	gone.launch()
	require.NotZero(t, gone.waitExit())
	require.Contains(t, gone.log.String(), "dbus")
}

func TestCommandLine(t *testing.T) {
	bin, err := binary()
	require.NoError(t, err)
	d := prepare(t, "")
	for _, c := range []struct {
		args string
		exit int
		text string
	}{
		{"--no-such-flag", 2, "no-such-flag"},
		{"extra", 2, `unexpected argument "extra"`},
		{"--version", 0, "bmcstated "},
		{"--help", 0, "--state-dir"},
	} {
		out := d.bus.Run(t, bin, strings.Fields(c.args)...)
		require.Equal(t, c.exit, out.Exit, c.args)
		require.Contains(t, strings.ReplaceAll(out.Stdout+out.Stderr, "  -", "  --"), c.text, fmt.Sprint(c.args))
	}
}
