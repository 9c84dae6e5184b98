package failover_test

import (
	"fmt"
	"sync"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/dbus/failover"
)

// pair is the daemon of BMC redundancy.
type pair struct {
	mu     sync.Mutex
	refuse *godbus.Error
	calls  []string
	forced bool
}

// asked returns who has asked since the last look; the next is refused.
func (p *pair) asked(refuse *godbus.Error) (calls []string, forced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, p.calls, p.refuse = p.calls, nil, refuse
	return calls, p.forced
}

// StartFailover is Control.Failover's.
func (p *pair) StartFailover(requester string, options map[string]godbus.Variant) *godbus.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, requester)
	p.forced = p.forced || len(options) > 0
	return p.refuse
}

const (
	failoverIface  = "xyz.openbmc_project.Control.Failover"
	introspectable = "org.freedesktop.DBus.Introspectable"
)

// serve brings the daemon to the bus, with StartFailover where it has it.
func serve(t *testing.T, bus *dbustest.Bus, change map[string]any) *pair {
	p := &pair{}
	conn := redundancy(t, bus, change)
	require.NoError(t, conn.Export(p, failover.Path, failoverIface))
	_, err := conn.RequestName(failover.Service, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	return p
}

// elsewhere has StartFailover at an object of another service, as a mapper finds
// it.
func elsewhere(t *testing.T, bus *dbustest.Bus, m *dbustest.Mapper, service, path string) *pair {
	p, conn := &pair{}, bus.Connect(t)
	require.NoError(t, conn.Export(p, godbus.ObjectPath(path), failoverIface))
	node := introspect.Introspectable(fmt.Sprintf(`<node><node name=%q/></node>`, path[1:]))
	require.NoError(t, conn.Export(node, "/", introspectable))
	node = introspect.Introspectable(fmt.Sprintf(`<node><interface name=%q/></node>`, failoverIface))
	require.NoError(t, conn.Export(node, godbus.ObjectPath(path), introspectable))
	_, err := conn.RequestName(service, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	m.WaitFor(t, service, path, failoverIface)
	return p
}

// redundancy has the state of the pair, without the name.
func redundancy(t *testing.T, bus *dbustest.Bus, change map[string]any) *godbus.Conn {
	conn := bus.Connect(t)
	values := map[string]any{
		"Role": failover.Interface + ".Role.Active", "RedundancyEnabled": true, "FailoversAllowed": true,
		"FailoverInProgress": false, "FailoverImminent": false,
		"FailoversNotAllowedReason": failover.Interface + ".FailoversNotAllowedReason.None",
	}
	for name, v := range change {
		values[name] = v
	}
	all := map[string]*prop.Prop{}
	for name, v := range values {
		all[name] = &prop.Prop{Value: v}
	}
	_, err := prop.Export(conn, failover.Path, prop.Map{failover.Interface: all})
	require.NoError(t, err)
	return conn
}

// The interface leaves open which object has StartFailover: the mapper knows.
func TestStartWhereTheMapperFindsIt(t *testing.T) {
	const other = "xyz.openbmc_project.Test.Failover"
	bus := dbustest.Start(t)
	m := bus.StartMapper(t)
	conn := redundancy(t, bus, nil)
	_, err := conn.RequestName(failover.Service, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	there := elsewhere(t, bus, m, other, "/sibling")
	require.Empty(t, failover.Start(t.Context(), bus.Address))
	calls, _ := there.asked(nil)
	require.Len(t, calls, 1)

	another := elsewhere(t, bus, m, other+"2", "/another")
	require.Contains(t, failover.Start(t.Context(), bus.Address), "more than one object")
	for _, p := range []*pair{there, another} {
		calls, _ = p.asked(nil)
		require.Empty(t, calls)
	}
}

func TestStart(t *testing.T) {
	bus := dbustest.Start(t)
	assert.Contains(t, failover.Start(t.Context(), bus.Address), "no redundancy is shown")
	p := serve(t, bus, nil)
	assert.Empty(t, failover.Start(t.Context(), bus.Address))
	calls, forced := p.asked(godbus.NewError("xyz.openbmc_project.Common.Error.Unavailable", []any{"sibling is busy"}))
	assert.Equal(t, []string{"xyz.openbmc_project.Control.Failover.Requester.SystemConfig"}, calls)
	assert.False(t, forced)
	assert.Contains(t, failover.Start(t.Context(), bus.Address), "sibling is busy")
}

// Case 62: what would be refused is not asked for.
func TestCase62Precheck(t *testing.T) {
	for want, change := range map[string]map[string]any{
		"failovers are not allowed: FullSyncNotComplete": {"FailoversAllowed": false,
			"FailoversNotAllowedReason": failover.Interface + ".FailoversNotAllowedReason.FullSyncNotComplete"},
		"this BMC's role is Passive, not Active": {"Role": failover.Interface + ".Role.Passive"},
		"a failover is under way already":        {"FailoverInProgress": true},
		"redundancy is not enabled":              {"RedundancyEnabled": false},
	} {
		t.Run(want, func(t *testing.T) {
			bus := dbustest.Start(t)
			p := serve(t, bus, change)
			assert.Equal(t, want, failover.Start(t.Context(), bus.Address))
			calls, _ := p.asked(nil)
			assert.Empty(t, calls)
		})
	}
}
