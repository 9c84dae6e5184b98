package scenarios

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
)

// patience bounds every wait; nothing here is a measurement.
const patience = 30 * time.Second

// binary is the daemon under test, built once.
var binary = sync.OnceValues(func() (string, error) {
	out := filepath.Join(binaries, "bmcstated")
	build := exec.Command("go", "build", "-race", "-o", out, "github.com/bmcstate/bmcstate/cmd/bmcstated")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the daemon: %w\n%s", err, text)
	}
	return out, nil
})

// binaries is where binary builds.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "bmcstated")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// daemon is a running bmcstated with a virtual chassis.
type daemon struct {
	t        *testing.T
	bus      *dbustest.Bus
	conn     *godbus.Conn
	stateDir string
	runDir   string
	config   string
	args     []string
	names    []string // owned once it serves, and no earlier
	cmd      *exec.Cmd
	log      *syncBuffer
	exited   chan struct{}
	env      []string // in addition
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// prepare returns a daemon that is not started, on a bus of its own. config is
// the content of its configuration file; "" is a virtual chassis without one.
func prepare(t *testing.T, config string) *daemon {
	d := &daemon{t: t, bus: dbustest.Start(t), stateDir: t.TempDir(), runDir: t.TempDir(), args: []string{"--simulate"}, names: []string{queueName, hostName, schedName + "0"}}
	d.conn = d.bus.Connect(t)
	if config != "" {
		d.config = filepath.Join(t.TempDir(), "bmcstate.json")
		require.NoError(t, os.WriteFile(d.config, []byte(config), 0o600))
		if strings.Contains(config, `"monitor"`) {
			d.names = append(d.names, faultName)
		}
	}
	return d
}

// boot starts a daemon and waits until it serves.
func boot(t *testing.T, config string) *daemon {
	d := prepare(t, config)
	d.start()
	return d
}

// launch starts the process.
func (d *daemon) launch() {
	bin, err := binary()
	require.NoError(d.t, err)
	args := append([]string{"--state-dir", d.stateDir, "--run-dir", d.runDir}, d.args...)
	if d.config != "" {
		args = append(args, "--config", d.config)
	}
	d.log, d.exited = &syncBuffer{}, make(chan struct{})
	d.cmd = exec.Command(bin, args...)
	d.cmd.Env = append(append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+d.bus.Address), d.env...)
	d.cmd.Stderr = d.log
	require.NoError(d.t, d.cmd.Start())
	cmd, exited := d.cmd, d.exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		require.NotContains(d.t, d.log.String(), "DATA RACE")
		if d.t.Failed() {
			d.t.Logf("daemon's log:\n%s", d.log.String())
		}
	})
}

// start launches the daemon and waits until it owns its last name.
func (d *daemon) start() {
	signals := d.subscribe("org.freedesktop.DBus", "NameOwnerChanged")
	d.launch()
	d.await(signals, "the daemon's names", func(*godbus.Signal) bool {
		return !slices.ContainsFunc(d.names, func(name string) bool { return !d.owned(name) })
	})
}

// untilLog waits until the daemon has logged a text.
func (d *daemon) untilLog(text string) {
	d.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(d.log.String(), text); time.Sleep(time.Millisecond) {
		require.True(d.t, time.Now().Before(end), "%q is not logged: %s", text, d.log.String())
	}
}

func (d *daemon) owned(name string) bool {
	var yes bool
	require.NoError(d.t, d.conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, name).Store(&yes))
	return yes
}

// stop ends the daemon as systemd does and returns its exit code.
func (d *daemon) stop() int {
	require.NoError(d.t, d.cmd.Process.Signal(syscall.SIGTERM))
	return d.waitExit()
}

func (d *daemon) waitExit() int {
	select {
	case <-d.exited:
	case <-time.After(patience):
		require.FailNow(d.t, "the daemon does not end")
	}
	return d.cmd.ProcessState.ExitCode()
}

// subscribe returns the signals of one kind from now on.
func (d *daemon) subscribe(iface, member string) chan *godbus.Signal {
	ch := make(chan *godbus.Signal, 100_000)
	d.conn.Signal(ch)
	require.NoError(d.t, d.conn.AddMatchSignal(godbus.WithMatchInterface(iface), godbus.WithMatchMember(member)))
	filtered := make(chan *godbus.Signal, 100_000)
	go func() {
		defer close(filtered)
		for s := range ch {
			if s.Name == iface+"."+member {
				filtered <- s
			}
		}
	}()
	return filtered
}

// await reads signals until one, or the state before any, is what is wanted.
func (d *daemon) await(signals <-chan *godbus.Signal, what string, done func(*godbus.Signal) bool) {
	d.t.Helper()
	if done(nil) {
		return
	}
	late := time.After(patience)
	for {
		select {
		case s, ok := <-signals:
			require.True(d.t, ok, "bus lost")
			if done(s) {
				return
			}
		case <-d.exited:
			require.FailNow(d.t, "the daemon ended while waiting for "+what, d.log.String())
		case <-late:
			require.FailNow(d.t, "waited in vain for "+what, d.log.String())
		}
	}
}

const (
	hostName    = "xyz.openbmc_project.State.Host"
	hostPath    = "/xyz/openbmc_project/state/host0"
	chassisName = "xyz.openbmc_project.State.Chassis"
	chassisPath = "/xyz/openbmc_project/state/chassis0"
	bmcName     = "xyz.openbmc_project.State.BMC"
	bmcPath     = "/xyz/openbmc_project/state/bmc0"
	schedName   = "xyz.openbmc_project.State.ScheduledHostTransition"
	schedPath   = "/xyz/openbmc_project/scheduled/host0"
	faultName   = "xyz.openbmc_project.State.FaultMonitor"
	queueName   = "xyz.openbmc_project.State.TransitionQueue"
	queuePath   = "/xyz/openbmc_project/state/queue0"

	progressIface = "xyz.openbmc_project.State.Boot.Progress"
	attemptsIface = "xyz.openbmc_project.Control.Boot.RebootAttempts"
	osIface       = "xyz.openbmc_project.State.OperatingSystem.Status"
	propsIface    = "org.freedesktop.DBus.Properties"
)

// short expands HS.Running and its like.
var shorts = strings.NewReplacer(
	"HS.", hostName+".HostState.", "HT.", hostName+".Transition.", "RC.", hostName+".RestartCause.",
	"PS.", chassisName+".PowerState.", "CT.", chassisName+".Transition.",
	"BS.", bmcName+".BMCState.", "BT.", bmcName+".Transition.", "PG.", progressIface+".ProgressStages.", "OSS.", osIface+".OSStatus.",
)

func (d *daemon) get(dest, path, iface, prop string) any {
	d.t.Helper()
	v, err := d.conn.Object(dest, godbus.ObjectPath(path)).GetProperty(iface + "." + prop)
	require.NoError(d.t, err)
	return v.Value()
}

func (d *daemon) set(dest, path, iface, prop string, value any) error {
	return d.conn.Object(dest, godbus.ObjectPath(path)).SetProperty(iface+"."+prop, godbus.MakeVariant(value))
}

func (d *daemon) host() string {
	return d.get(hostName, hostPath, hostName, "CurrentHostState").(string)
}
func (d *daemon) chassis() string {
	return d.get(chassisName, chassisPath, chassisName, "CurrentPowerState").(string)
}
func (d *daemon) launches() uint64 {
	return d.get(queueName, queuePath, queueName, "Launches").(uint64)
}

func (d *daemon) hset(v string) error {
	return d.set(hostName, hostPath, hostName, "RequestedHostTransition", shorts.Replace("HT."+v))
}

func (d *daemon) cset(v string) error {
	return d.set(chassisName, chassisPath, chassisName, "RequestedPowerTransition", shorts.Replace("CT."+v))
}

// until waits until a property reads a value.
func (d *daemon) until(dest, path, iface, prop, want string) {
	d.t.Helper()
	want = shorts.Replace(want)
	signals := d.subscribe(propsIface, "PropertiesChanged")
	d.await(signals, prop+" = "+want, func(*godbus.Signal) bool { return d.get(dest, path, iface, prop) == want })
}

func (d *daemon) untilHost(state string) {
	d.until(hostName, hostPath, hostName, "CurrentHostState", "HS."+state)
}
func (d *daemon) untilChassis(state string) {
	d.until(chassisName, chassisPath, chassisName, "CurrentPowerState", "PS."+state)
}

// idle waits until nothing runs and nothing waits.
func (d *daemon) idle() {
	signals := d.subscribe(propsIface, "PropertiesChanged")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for d.get(queueName, queuePath, queueName, "Running") != godbus.ObjectPath("/") || d.get(queueName, queuePath, queueName, "Depth") != uint32(0) {
		select {
		case <-signals:
		case <-tick.C:
		case <-late:
			require.FailNow(d.t, "the queue does not come to rest")
		}
	}
}

// change is one property that a PropertiesChanged carried.
type change struct {
	path, iface, prop string
	value             any
	invalidated       int
}

func changeOf(s *godbus.Signal) []change {
	var all []change
	for prop, v := range s.Body[1].(map[string]godbus.Variant) {
		all = append(all, change{string(s.Path), s.Body[0].(string), prop, v.Value(), len(s.Body[2].([]string))})
	}
	return all
}

// drain returns the changes that have arrived, after a round trip on the
// service's connection, so that none is on its way.
func (d *daemon) drain(signals chan *godbus.Signal, dest string) []change {
	_ = d.conn.Object(dest, "/").Call("org.freedesktop.DBus.Peer.Ping", 0).Err
	_ = d.conn.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err
	var all []change
	for {
		select {
		case s := <-signals:
			all = append(all, changeOf(s)...)
		case <-time.After(50 * time.Millisecond):
			return all
		}
	}
}
