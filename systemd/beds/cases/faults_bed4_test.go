//go:build bed4

package cases

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

const (
	faultIface = "xyz.openbmc_project.State.FaultMonitor"
	daemonUnit = "bmcstated.service"
	configFile = "/etc/bmcstate/bmcstate.json"
)

// faultBed is the installed daemon with a fault monitor.
type faultBed struct {
	t   *testing.T
	bus *godbus.Conn
}

// faultMonitor starts the daemon with resources, each a JSON object's members.
// Times are quick, and nothing is left to chance.
func faultMonitor(t *testing.T, resources ...string) *faultBed {
	t.Helper()
	const quick = `"startGrace": "0s", "backoff": {"min": "0s", "max": "0s"}, "flap": {"count": 0}, `
	var all []string
	for _, r := range resources {
		all = append(all, "{"+quick+r+"}")
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(configFile), 0o755))
	config := `{"monitor": {"restartsPerMinute": 0, "parallel": 0, "resources": [` + strings.Join(all, ",\n") + `]}}`
	require.NoError(t, os.WriteFile(configFile, []byte(config), 0o644))
	shell(t, "/usr/bin/bmcstated", "--check-config")
	t.Cleanup(func() {
		shell(t, "systemctl", "stop", daemonUnit)
		if t.Failed() {
			t.Log(shell(t, "journalctl", "-b", "--no-pager", "-n", "60", "-u", daemonUnit))
		}
		_ = os.RemoveAll("/run/bmcstate")
		_ = os.Remove(configFile)
	})
	shell(t, "systemctl", "start", daemonUnit)
	bus, err := godbus.ConnectSystemBus()
	require.NoError(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	b := &faultBed{t, bus}
	eventually(t, "the fault monitor's name", func() bool {
		var owned bool
		return bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, faultIface).Store(&owned) == nil && owned
	})
	return b
}

func (b *faultBed) object(resource string) godbus.BusObject {
	return b.bus.Object(faultIface, godbus.ObjectPath("/xyz/openbmc_project/state/fault_monitor/"+systemd.EscapePath(resource)))
}

func (b *faultBed) get(resource, property string) any {
	b.t.Helper()
	v, err := b.object(resource).GetProperty(faultIface + "." + property)
	require.NoError(b.t, err)
	return v.Value()
}

func (b *faultBed) until(resource, property string, want any) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for b.get(resource, property) != want {
		require.True(b.t, time.Now().Before(end), "%s of %s is %v, not %v; %v", property, resource,
			b.get(resource, property), want, b.get(resource, "StatusMessage"))
		time.Sleep(2 * time.Millisecond)
	}
}

// probe has a resource probed until that shows a status. One that began before
// the watch saw the unit is given up.
func (b *faultBed) probe(resource, status string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for b.get(resource, "Status") != status {
		require.True(b.t, time.Now().Before(end), "%s: %v, not %s", resource, b.get(resource, "StatusMessage"), status)
		err := b.object(resource).Call(faultIface+".ProbeNow", 0).Err // refused while one has not returned
		before := b.get(resource, "StatusMessage")
		for until := time.Now().Add(time.Second); err == nil && b.get(resource, "StatusMessage") == before && time.Now().Before(until); {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// decision is a row of GetHistory.
type decision struct {
	At       time.Time
	What     string
	Status   int32
	Text     string
	Restarts uint32
}

func (b *faultBed) history(resource string) (all []decision) {
	b.t.Helper()
	var rows []map[string]godbus.Variant
	require.NoError(b.t, b.object(resource).Call(faultIface+".GetHistory", 0, uint32(0)).Store(&rows))
	for _, r := range rows {
		all = append(all, decision{time.UnixMicro(int64(r["Time"].Value().(uint64))), r["Decision"].Value().(string),
			r["Status"].Value().(int32), r["Text"].Value().(string), r["RestartsInInterval"].Value().(uint32)})
	}
	return all
}

func (b *faultBed) decisions(resource string) (all []string) {
	for _, d := range b.history(resource) {
		all = append(all, d.What)
	}
	return all
}

// last returns the newest decision of that kind.
func (b *faultBed) last(resource, what string) (last decision, found bool) {
	for _, d := range b.history(resource) {
		if d.What == what {
			last, found = d, true
		}
	}
	return last, found
}

// often has a resource probed so often that no test waits for it.
const often = `"thoroughProbe": "100ms", "probeTimeout": "50ms"`

const unlimited = "[Unit]\nStartLimitIntervalSec=0\n" + sleeper

// A service that is killed is noticed and restarted at once. What it takes from
// the signal to the decision is printed.
func TestFaultsKilledServiceIsRestarted(t *testing.T) {
	const unit = "t-killed.service"
	install(t, map[string]string{unit: unlimited})
	shell(t, "systemctl", "start", unit)
	b := faultMonitor(t, `"name": "killed", "unit": "`+unit+`", "retryCount": -1, `+often)
	u := open(t)
	b.until("killed", "Status", "OK")
	const rounds = 60
	var took []time.Duration
	for range rounds {
		before := read(t, u, unit)
		killed := time.Now()
		require.NoError(t, syscall.Kill(int(before.MainPID), syscall.SIGKILL))
		after := restarted(t, u, unit, before)
		require.NotEqual(t, before.MainPID, after.MainPID)
		b.until("killed", "LastDecision", "RESTARTED")
		d, ok := b.last("killed", "RESTART")
		require.True(t, ok)
		require.True(t, d.At.After(killed), "the decision is of this kill")
		took = append(took, d.At.Sub(killed))
	}
	slices.Sort(took)
	median, p95 := took[rounds/2], took[rounds*95/100]
	t.Logf("%d kills: SIGKILL to decision median %v, p95 %v, longest %v", rounds, median, p95, took[rounds-1])
	assert.Less(t, median, 500*time.Millisecond, "ten times the aim of 50 ms")
}

// A service whose start succeeds and which then dies escalates after exactly
// retryCount restarts, and after the accepted escalation nothing is restarted.
func TestFaultsDyingServiceEscalatesAfterItsRestarts(t *testing.T) {
	const unit, rescue, starts = "t-dies.service", "t-rescue.target", "/run/t-dies"
	install(t, map[string]string{
		unit:   "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c 'echo x >>" + starts + "; sleep 0.3; exit 1'\n",
		rescue: "[Unit]\nDescription=rescue\n",
	})
	t.Cleanup(func() { _ = os.Remove(starts) })
	b := faultMonitor(t, `"name": "dies", "unit": "`+unit+`", "retryCount": 2, "retryInterval": "1h", `+often+`,
		"escalation": "unit", "target": "`+rescue+`"`)
	shell(t, "systemctl", "start", unit)
	b.until("dies", "LastDecision", "GAVE_OVER")
	count := func() int { data, _ := os.ReadFile(starts); return strings.Count(string(data), "x") }
	assert.Equal(t, 3, count(), "the first start and two restarts")
	assert.Equal(t, "active", shell(t, "systemctl", "is-active", rescue))
	all := b.decisions("dies")
	assert.Equal(t, 2, countOf(all, "RESTART"))
	assert.Equal(t, 1, countOf(all, "ESCALATE"))
	assert.Equal(t, "NONE", b.get("dies", "NextAction"))
	// Ten probe intervals more, with nothing to wait for.
	time.Sleep(time.Second)
	assert.Equal(t, 3, count())
	assert.Equal(t, all, b.decisions("dies"))
}

func countOf(all []string, what string) (n int) {
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// A service whose start job fails escalates at once.
func TestFaultsFailedStartEscalatesAtOnce(t *testing.T) {
	const unit, rescue, broken = "t-broken.service", "t-rescue.target", "/run/t-broken"
	install(t, map[string]string{
		unit:   "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStartPre=/usr/bin/test ! -e " + broken + "\nExecStart=/usr/bin/sleep infinity\n",
		rescue: "[Unit]\nDescription=rescue\n",
	})
	t.Cleanup(func() { _ = os.Remove(broken) })
	shell(t, "systemctl", "start", unit)
	b := faultMonitor(t, `"name": "broken", "unit": "`+unit+`", "retryCount": 5, "escalation": "unit", "target": "`+rescue+`", `+often)
	b.until("broken", "Status", "OK")
	require.NoError(t, os.WriteFile(broken, nil, 0o644))
	require.NoError(t, syscall.Kill(int(read(t, open(t), unit).MainPID), syscall.SIGKILL))
	b.until("broken", "LastDecision", "GAVE_OVER")
	all := b.decisions("broken")
	assert.Equal(t, 1, countOf(all, "RESTART"), "one restart, which failed")
	assert.Equal(t, 1, countOf(all, "ESCALATE"))
	assert.Equal(t, "active", shell(t, "systemctl", "is-active", rescue))
}

// A unit that systemd itself restarts has one owner of restarts: the monitor
// counts and does not restart as well.
func TestFaultsSystemdsOwnRestartsAreCountedOnly(t *testing.T) {
	const unit = "t-own.service"
	install(t, map[string]string{unit: unlimited + "Restart=always\nRestartSec=50ms\n"})
	shell(t, "systemctl", "start", unit)
	b := faultMonitor(t, `"name": "own", "unit": "`+unit+`", "retryCount": 5, "retryInterval": "1h", `+often)
	u := open(t)
	b.until("own", "Status", "OK")
	before := read(t, u, unit)
	require.NoError(t, syscall.Kill(int(before.MainPID), syscall.SIGKILL))
	restarted(t, u, unit, before)
	b.until("own", "LastDecision", "RESTARTED_BY_OTHERS")
	assert.Equal(t, uint32(1), b.get("own", "RestartsInInterval"))
	assert.Zero(t, countOf(b.decisions("own"), "RESTARTED"))
	assert.EqualValues(t, 1, read(t, u, unit).NRestarts, "by systemd, and by nobody else")
}

// Maintenance by systemctl is not repaired: case 34.
func TestFaultsCase34SystemctlIsNotFought(t *testing.T) {
	const unit = "t-maintained.service"
	install(t, map[string]string{unit: unlimited})
	shell(t, "systemctl", "start", unit)
	b := faultMonitor(t, `"name": "kept", "unit": "`+unit+`", "retryCount": -1, `+often)
	b.until("kept", "Status", "OK")
	for range 5 {
		shell(t, "systemctl", "stop", unit)
		b.until("kept", "Status", "OFFLINE")
		shell(t, "systemctl", "start", unit)
		b.until("kept", "Status", "OK")
		shell(t, "systemctl", "restart", unit)
		b.until("kept", "Status", "OK")
	}
	shell(t, "systemctl", "stop", unit)
	b.until("kept", "Status", "OFFLINE")
	assert.Zero(t, countOf(b.decisions("kept"), "RESTART"))
	out, _ := exec.Command("systemctl", "is-active", unit).CombinedOutput()
	assert.Equal(t, "inactive", strings.TrimSpace(string(out)))
}

// A service that ends with an error when it is stopped, and at once, so that its
// job is over before the job's type can be read, is stopped all the same.
func TestFaultsCase34StopWithAnError(t *testing.T) {
	const unit = "t-rough.service"
	install(t, map[string]string{unit: "[Unit]\nStartLimitIntervalSec=0\n[Service]\n" +
		"ExecStart=/bin/sh -c 'trap \"exit 3\" TERM; sleep infinity & wait'\n"})
	shell(t, "systemctl", "start", unit)
	b := faultMonitor(t, `"name": "kept", "unit": "`+unit+`", "retryCount": -1, `+often)
	for range 10 {
		b.until("kept", "Status", "OK")
		shell(t, "systemctl", "stop", unit)
		b.until("kept", "Status", "OFFLINE")
		shell(t, "systemctl", "start", unit)
	}
	assert.Zero(t, countOf(b.decisions("kept"), "RESTART"))
}

const (
	hungRole = "BMCSTATE_BED_HUNG"
	hungPort = "4711"
)

// TestHungRole is a service that listens and says nothing, not a case.
func TestHungRole(t *testing.T) {
	if os.Getenv(hungRole) == "" {
		t.Skip("only as a service")
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+hungPort)
	require.NoError(t, err)
	require.NoError(t, systemd.NewNotifier().Ready("listening"))
	for {
		c, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() }) // held until then
	}
}

// withNetwork installs the drop-in that the network's probes need.
func withNetwork(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/usr/share/doc/bmcstate/examples/probes-net.conf")
	require.NoError(t, err)
	install(t, map[string]string{daemonUnit + ".d/probes-net.conf": string(text)})
}

// A hung TCP service is caught at its probe's deadline: case 37, and the drop-in
// lets the probes out of the sandbox.
func TestFaultsCase37HungServiceIsCaughtAtItsDeadline(t *testing.T) {
	const unit = "t-hung.service"
	install(t, map[string]string{unit: "[Service]\nType=notify\nNotifyAccess=main\nExecStart=/bed/cases -test.run=^TestHungRole$\nEnvironment=" + hungRole + "=1\n"})
	withNetwork(t)
	shell(t, "systemctl", "start", unit)
	u := open(t)
	first := read(t, u, unit)
	const timeout = 500 * time.Millisecond
	began := time.Now()
	b := faultMonitor(t, `"name": "hung", "unit": "`+unit+`", "retryCount": 1, "thoroughProbe": "600ms", "probeTimeout": "500ms",
		"net": {"host": "127.0.0.1", "port": `+hungPort+`, "expect": "220"}`)
	restarted(t, u, unit, first)
	var partial, restart decision
	for _, d := range b.history("hung") {
		switch {
		case d.What == "PARTIAL" && partial.What == "":
			partial = d
		case d.What == "RESTART" && restart.What == "":
			restart = d
		}
	}
	require.Equal(t, "PARTIAL", partial.What, "%v", b.history("hung"))
	assert.EqualValues(t, 50, partial.Status, "it accepts and says nothing")
	assert.Contains(t, partial.Text, "no answer in time")
	assert.GreaterOrEqual(t, partial.At.Sub(began), timeout)
	apart := restart.At.Sub(partial.At)
	assert.GreaterOrEqual(t, apart, timeout, "each probe waits for its deadline")
	assert.Less(t, apart, 10*timeout)
	t.Logf("second deadline and restart %v after the first", apart)
}

// A command's exit status is the probe's, and one that hangs is stopped at its
// deadline.
func TestFaultsCommandProbe(t *testing.T) {
	const says = "/run/t-says"
	t.Cleanup(func() { _ = os.Remove(says) })
	write := func(s string) { require.NoError(t, os.WriteFile(says, []byte(s), 0o644)) }
	write("exit 0")
	b := faultMonitor(t, `"name": "cmd", "mode": "LOG_ONLY", "retryInterval": "1h", "thoroughProbe": "1h", "probeTimeout": "500ms",
		"command": ["/bin/sh", "`+says+`"]`)
	b.probe("cmd", "OK")
	write("exit 30")
	b.probe("cmd", "DEGRADED")
	assert.Equal(t, uint32(30), b.get("cmd", "FailureSum"))
	write("exit 0")
	b.probe("cmd", "OK")
	write("sleep 30; exit 0")
	b.probe("cmd", "FAULTED")
	// Said by the probe, or on a busy machine by the loop.
	assert.Regexp(t, "did not end in time|no answer within 500ms", b.get("cmd", "StatusMessage"))
	write("exit 0")
	b.probe("cmd", "OK")
	eventually(t, "nothing is left of the one that hung", func() bool {
		out, _ := exec.Command("pgrep", "-f", "sleep 30").CombinedOutput()
		return len(out) == 0
	})
	out := shell(t, "systemctl", "list-units", "--all", "--no-legend", "--plain", "bmcstate-probe-*")
	assert.LessOrEqual(t, strings.Count(out, "\n"), 1, "transient units go when they were read: %s", out)
}

// History survives the daemon's death within a boot.
func TestFaultsHistorySurvivesTheDaemon(t *testing.T) {
	const unit = "t-history.service"
	install(t, map[string]string{unit: unlimited})
	shell(t, "systemctl", "start", unit)
	b := faultMonitor(t, `"name": "past", "unit": "`+unit+`", "retryInterval": "1h", `+often)
	b.until("past", "Status", "OK")
	u := open(t)
	before := read(t, u, unit)
	require.NoError(t, syscall.Kill(int(before.MainPID), syscall.SIGKILL))
	after := restarted(t, u, unit, before)
	b.until("past", "LastDecision", "RESTARTED")
	require.NoError(t, syscall.Kill(int(read(t, u, daemonUnit).MainPID), syscall.SIGKILL))
	eventually(t, "the daemon again", func() bool {
		v, err := b.object("past").GetProperty(faultIface + ".RestartsInInterval")
		return err == nil && v.Value() == uint32(1)
	})
	b.until("past", "Status", "OK")
	assert.Equal(t, after.MainPID, read(t, u, unit).MainPID, "nothing is restarted anew")
}

// 200 units that are well cost their own timers and nothing else. What the daemon
// uses meanwhile is printed.
func TestFaults200UnitsAtRest(t *testing.T) {
	const units = 200
	install(t, map[string]string{"t-idle@.service": unlimited})
	var names, resources []string
	for i := range units {
		name := fmt.Sprintf("t-idle@%d.service", i)
		names = append(names, name)
		resources = append(resources, `"name": "idle`+strconv.Itoa(i)+`", "unit": "`+name+`"`)
	}
	shell(t, "systemctl", append([]string{"start"}, names...)...)
	t.Cleanup(func() { shell(t, "systemctl", append([]string{"stop"}, names...)...) })
	const window = 60 * time.Second // in which each unit is probed once

	faultMonitor(t, `"name": "idle0", "unit": "`+names[0]+`"`)
	bare := measure(t, window)
	shell(t, "systemctl", "stop", daemonUnit)
	b := faultMonitor(t, resources...)
	for i := range units {
		b.probe("idle"+strconv.Itoa(i), "OK")
	}
	full := measure(t, window)
	t.Logf("1 unit: %v; %d units: %v", bare, units, full)
	// A unit's timer, its reading's answers and what systemd does about them.
	perProbe := float64(full.wakes-bare.wakes) / units
	t.Logf("%.1f wake-ups for each unit's probe", perProbe)
	assert.Less(t, perProbe, 60.0)
}

// load is what a process used in a window.
type load struct {
	cpu   time.Duration
	wakes int // voluntary context switches of all its threads
	rss   int // kB
	per   time.Duration
}

func (l load) String() string {
	return fmt.Sprintf("%v of CPU and %d wake-ups in %v (%.3f %%, %.1f/s), %d kB resident",
		l.cpu, l.wakes, l.per, 100*l.cpu.Seconds()/l.per.Seconds(), float64(l.wakes)/l.per.Seconds(), l.rss)
}

func measure(t *testing.T, window time.Duration) load {
	t.Helper()
	pid := shell(t, "systemctl", "show", "-P", "MainPID", daemonUnit)
	cpu, wakes, _ := usageOf(t, pid)
	time.Sleep(window)
	cpu2, wakes2, rss := usageOf(t, pid)
	return load{cpu2 - cpu, wakes2 - wakes, rss, window}
}

func usageOf(t *testing.T, pid string) (cpu time.Duration, wakes, rss int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*")
	require.NoError(t, err)
	for _, task := range tasks {
		sched, err := os.ReadFile(task + "/schedstat") // ns on the CPU, ns waiting, slices
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(sched))[0], 10, 64)
		require.NoError(t, err)
		cpu += time.Duration(ns)
		status, _ := os.ReadFile(task + "/status")
		wakes += field(string(status), "voluntary_ctxt_switches:")
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(t, err)
	return cpu, wakes, field(string(status), "VmRSS:")
}

func field(status, name string) int {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}
