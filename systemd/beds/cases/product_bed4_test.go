//go:build bed4

package cases

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	unit      = "bmcstated.service"
	statePath = "/xyz/openbmc_project/state/"
	ours      = "xyz.openbmc_project.State."
	queueName = ours + "TransitionQueue"

	// What a build with the tag inject looks for.
	hangSync   = "/run/bed-hang-sync"
	hangEngine = "/run/bed-hang-engine"
)

// product is bmcstated as it is installed, its own unit and all its hardening,
// on a board whose targets carry the transitions out. Cases speak to it through
// busctl, as an operator does.
type product struct {
	*board
	bus *godbus.Conn
}

const productConfig = `{"executor": "systemd", "confirmTimeout": "5s", "reconcileTimeout": "2s", "jobTimeout": "10s",
	"gracefulTimeout": "15s", "offGuard": "2s"}`

// newProduct starts the daemon on an empty history. The host is off. more are
// further units, or other texts for those of the board; keys are further keys of
// the configuration.
func newProduct(t *testing.T, dwell int, more map[string]string, keys ...string) *product {
	t.Helper()
	units := map[string]string{unit + ".d/bed.conf": "[Service]\nEnvironment=BMCSTATE_SYNC_HANG=" + hangSync + "\n"}
	for name, text := range more {
		units[name] = text
	}
	shell(t, "systemctl", "stop", unit)
	for _, dir := range []string{"/var/lib/bmcstate", "/run/bmcstate"} {
		require.NoError(t, os.RemoveAll(dir))
	}
	require.NoError(t, os.MkdirAll("/etc/bmcstate", 0o755))
	require.NoError(t, os.WriteFile("/etc/bmcstate/bmcstate.json", []byte("{"+strings.Join(append(keys, productConfig[1:]), ", ")), 0o644))
	p := &product{board: newBoard(t, dwell, units)}
	var err error
	p.bus, err = godbus.ConnectSystemBus()
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.bus.Close() })
	t.Cleanup(func() {
		for _, f := range []string{hangSync, hangEngine} {
			_ = os.Remove(f)
		}
		shell(t, "systemctl", "stop", unit)
		if t.Failed() {
			out, _ := exec.Command("journalctl", "-b", "-u", unit, "-n", "60", "--no-pager", "-o", "short-monotonic").Output()
			t.Logf("%s", out)
			out, _ = exec.Command("systemctl", "list-units", "--all", "--no-pager", "--plain", "obmc-*", "bmcstate*", "t-*").Output()
			t.Logf("%s", out)
		}
	})
	shell(t, "systemctl", "start", unit)
	p.untilIs("chassis0", "CurrentPowerState", "Off")
	p.untilIs("host0", "CurrentHostState", "Off")
	p.untilIs("bmc0", "CurrentBMCState", "Ready")
	return p
}

// kinds are the interfaces of the objects, without what all begin with.
var kinds = map[string]string{"host0": "Host", "chassis0": "Chassis", "bmc0": "BMC"}

// busctl runs it on the system bus and returns what it prints.
func busctl(args ...string) (string, error) {
	out, err := exec.Command("busctl", append([]string{"--system", "--no-pager"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// set writes a Requested…Transition.
func (p *product) set(object, prop, value string) (string, error) {
	iface := ours + kinds[object]
	return busctl("set-property", iface, statePath+object, iface, prop, "s", iface+".Transition."+value)
}

func (p *product) request(object, value string) {
	p.t.Helper()
	props := map[string]string{"host0": "RequestedHostTransition", "chassis0": "RequestedPowerTransition", "bmc0": "RequestedBMCTransition"}
	out, err := p.set(object, props[object], value)
	require.NoError(p.t, err, out)
	require.Empty(p.t, out)
}

// get returns the last word of an enum property.
func (p *product) get(object, prop string) string {
	iface := ours + kinds[object]
	out, _ := busctl("get-property", iface, statePath+object, iface, prop)
	return strings.TrimSuffix(out[strings.LastIndexByte(out, '.')+1:], `"`)
}

const look = 50 * time.Millisecond // between two looks at what no signal is waited for

func (p *product) untilIs(object, prop, value string) {
	p.t.Helper()
	var last string
	for end := time.Now().Add(patience); ; time.Sleep(look) {
		if last = p.get(object, prop); last == value {
			return
		}
		require.True(p.t, time.Now().Before(end), "%s of %s is %q, not %q", prop, object, last, value)
	}
}

func (p *product) untilHost(state string) {
	p.t.Helper()
	p.untilIs("host0", "CurrentHostState", state)
}
func (p *product) untilPower(state string) {
	p.t.Helper()
	p.untilIs("chassis0", "CurrentPowerState", state)
}

// record is a request's entry in the history.
type record struct{ client, transition, status, reason string }

func (p *product) records() (all []record) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	var raw []map[string]godbus.Variant
	err := p.bus.Object(queueName, statePath+"queue0").CallWithContext(ctx, queueName+".History", 0, uint64(0), uint32(100)).Store(&raw)
	require.NoError(p.t, err)
	word := func(v godbus.Variant) string { s := v.Value().(string); return s[strings.LastIndexByte(s, '.')+1:] }
	for _, r := range raw {
		all = append(all, record{r["ClientId"].Value().(string), word(r["Transition"]), word(r["Status"]), r["Reason"].Value().(string)})
	}
	return all
}

var unfinished = []string{"Pending", "Running", "Unknown"}

// end waits until the n-th request of the history (from 1) has ended.
func (p *product) end(n int) record {
	p.t.Helper()
	var all []record
	for end := time.Now().Add(2 * patience); ; time.Sleep(look) {
		all = p.records()
		if len(all) >= n && !slices.Contains(unfinished, all[n-1].status) {
			return all[n-1]
		}
		require.True(p.t, time.Now().Before(end), "request %d does not end: %+v", n, all)
	}
}

func (p *product) success(n int) {
	p.t.Helper()
	r := p.end(n)
	require.Equal(p.t, "Success", r.status, r.reason)
}

// on brings the host up as request n.
func (p *product) on(n int) {
	p.t.Helper()
	p.request("host0", "On")
	p.success(n)
	p.untilHost("Running")
	p.ran()
}

// invocations are the start-ups of every unit that a transition could touch.
func (p *product) invocations() string {
	out := shell(p.t, "systemctl", "show", "--property=Id,InvocationID,ActiveState", "obmc-*", "bmcstate-*", "t-*")
	blocks := strings.Split(out, "\n\n")
	slices.Sort(blocks)
	return strings.Join(blocks, "\n\n")
}

// values are all properties of the standard objects.
func (p *product) values() string {
	var all []string
	for _, object := range []string{"bmc0", "chassis0", "host0"} {
		iface := ours + kinds[object]
		out, err := busctl("introspect", iface, statePath+object)
		require.NoError(p.t, err, out)
		all = append(all, object)
		for line := range strings.SplitSeq(out, "\n") {
			// Reckoned from two clocks, it differs by the time between looking at them.
			if !strings.HasPrefix(line, ".LastRebootTime ") {
				all = append(all, line)
			}
		}
	}
	return strings.Join(all, "\n")
}

// show is a property of the daemon's unit.
func (p *product) show(property string) string {
	return shell(p.t, "systemctl", "show", "-P", property, unit)
}

// hostUp is a text for the service that starts the host.
func hostUp(exec string) map[string]string {
	return map[string]string{"t-host-up.service": "[Unit]\nAfter=obmc-host-starting@0.target\nBefore=obmc-host-started@0.target\n" +
		"Conflicts=obmc-host-stop@0.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=" + exec +
		"\nTimeoutStartSec=infinity\nTimeoutStopSec=1\n"}
}

// powerOnBy is a text for the service that applies power.
func powerOnBy(exec string) map[string]string {
	return map[string]string{"t-power-on.service": "[Unit]\nAfter=obmc-power-start@0.target\nBefore=obmc-power-on@0.target\n" +
		"Conflicts=obmc-chassis-poweroff@0.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=" + exec + "\n"}
}

func TestTheUnitIsTheInstalledOne(t *testing.T) {
	newProduct(t, 0, nil)
	assert.Contains(t, shell(t, "systemctl", "show", "-P", "FragmentPath", unit), "/lib/systemd/system/bmcstated.service")
	assert.Equal(t, "strict", shell(t, "systemctl", "show", "-P", "ProtectSystem", unit))
	assert.Equal(t, "yes", shell(t, "systemctl", "show", "-P", "NoNewPrivileges", unit))
	for _, dir := range []string{"/run/bmcstate", "/run/openbmc", "/var/lib/bmcstate"} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.True(t, info.IsDir(), dir)
	}
	links, err := filepath.Glob("/var/lib/bmcstate/*")
	require.NoError(t, err)
	assert.NotEmpty(t, links, "the journal is there")
}
