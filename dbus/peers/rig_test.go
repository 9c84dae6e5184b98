package peers_test

import (
	"sort"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/peers"
	"github.com/bmcstate/bmcstate/state/slog"
)

const (
	mapperName = "xyz.openbmc_project.ObjectMapper"
	mapperPath = "/xyz/openbmc_project/object_mapper"

	// patience bounds every wait, and never is between two looks that only
	// signals may bring about.
	patience = 30 * time.Second
	never    = time.Hour
)

// object is one of another daemon.
type object struct {
	path, iface string
	values      map[string]any
}

// world is a bus with daemons on it, and a mapper that knows their objects.
type world struct {
	t       *testing.T
	bus     *dbustest.Bus
	objects []object
	hold    chan struct{} // the mapper answers once it is closed; nil = at once
}

const peerName = "xyz.openbmc_project.Test.Peer"

// newWorld serves objects. Without any there is no mapper either.
func newWorld(t *testing.T, objects ...object) *world {
	t.Helper()
	w := &world{t: t, bus: dbustest.Start(t), objects: objects}
	if len(objects) > 0 {
		w.serve()
		w.startMapper()
	}
	return w
}

func (w *world) serve() {
	conn := w.bus.Connect(w.t)
	for _, o := range w.objects {
		all := map[string]*prop.Prop{}
		for n, v := range o.values {
			all[n] = &prop.Prop{Value: v, Emit: prop.EmitTrue}
		}
		_, err := prop.Export(conn, godbus.ObjectPath(o.path), prop.Map{o.iface: all})
		require.NoError(w.t, err)
	}
	w.own(conn, peerName)
}

func (w *world) startMapper() {
	conn := w.bus.Connect(w.t)
	require.NoError(w.t, conn.Export(w, mapperPath, mapperName))
	w.own(conn, mapperName)
}

func (w *world) own(conn *godbus.Conn, name string) {
	w.t.Helper()
	_, err := conn.RequestName(name, godbus.NameFlagDoNotQueue)
	require.NoError(w.t, err)
}

// link returns a link that ends with the test.
func (w *world) link() *peers.Link {
	l := peers.Open(w.bus.Address, slog.New(slog.DiscardHandler))
	w.t.Cleanup(l.Close)
	return l
}

// GetSubTree is the mapper's.
func (w *world) GetSubTree(_ string, _ int32, ifaces []string) (map[string]map[string][]string, *godbus.Error) {
	found := map[string]map[string][]string{}
	paths, err := w.GetSubTreePaths("/", 0, ifaces)
	for _, p := range paths {
		found[p] = map[string][]string{peerName: ifaces}
	}
	return found, err
}

// GetSubTreePaths is the mapper's.
func (w *world) GetSubTreePaths(_ string, _ int32, ifaces []string) (paths []string, _ *godbus.Error) {
	if w.hold != nil {
		<-w.hold
	}
	for _, o := range w.objects {
		if o.iface == ifaces[0] {
			paths = append(paths, o.path)
		}
	}
	sort.Strings(paths)
	if len(paths) == 0 {
		return nil, godbus.NewError("xyz.openbmc_project.Common.Error.ResourceNotFound", nil)
	}
	return paths, nil
}

// next returns what is told next.
func next[T any](t *testing.T, told <-chan T) T {
	t.Helper()
	select {
	case v := <-told:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing is told")
		panic("not reached")
	}
}

// exportRole serves the role of a pair's BMC and returns what changes it.
func exportRole(t *testing.T, conn *godbus.Conn, iface string) func(role string) {
	t.Helper()
	p, err := prop.Export(conn, "/xyz/openbmc_project/state/bmc0", prop.Map{iface: {"Role": {Value: "", Emit: prop.EmitTrue}}})
	require.NoError(t, err)
	return func(role string) { p.SetMust(iface, "Role", iface+".Role."+role) }
}
