package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
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
const patience = 2 * time.Minute

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
	fences   int      // see drain
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
	d := &daemon{t: t, bus: dbustest.Start(t), stateDir: t.TempDir(), runDir: memoryDir(t), args: []string{"--simulate"}, names: []string{queueName, hostName, schedName + "0"}, log: &syncBuffer{}}
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

// memoryDir returns a directory in memory, as /run is: what a busy disk holds up
// there would stretch every pulse of the virtual chassis.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "bmcstate") // shm_overview(7): a tmpfs
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// unhurried gives the virtual chassis, and the journal, times that a busy machine
// keeps: a press that takes 0.4 s instead of 50 ms would be a forced off already.
func unhurried(config string) string {
	var all map[string]any
	if json.Unmarshal([]byte(config), &all) != nil {
		return config // wrong on purpose
	}
	block := func(of map[string]any, key string) map[string]any {
		if of[key] == nil {
			of[key] = map[string]any{}
		}
		return of[key].(map[string]any)
	}
	preset := func(of map[string]any, key, value string) {
		if of[key] == nil {
			of[key] = value
		}
	}
	timings := block(block(all, "simulate"), "timings")
	preset(timings, "overrideHold", "2s")
	preset(timings, "forceOffPulse", "10s")
	preset(timings, "powerOKWatchdog", "60s")
	preset(timings, "sioPowerGoodWatchdog", "60s")
	preset(all, "commitTimeout", "60s")
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
}

// boot starts a daemon and waits until it serves.
func boot(t *testing.T, config string) *daemon {
	d := prepare(t, config)
	d.start()
	return d
}

// configFile is the file that the daemon is given, "" for none.
func (d *daemon) configFile() string {
	if !slices.Contains(d.args, "--simulate") {
		return d.config
	}
	text := []byte("{}")
	if d.config != "" {
		var err error
		text, err = os.ReadFile(d.config)
		require.NoError(d.t, err)
	}
	file := filepath.Join(d.t.TempDir(), "bmcstate.json")
	require.NoError(d.t, os.WriteFile(file, []byte(unhurried(string(text))), 0o600))
	return file
}

// launch starts the process.
func (d *daemon) launch() {
	bin, err := binary()
	require.NoError(d.t, err)
	args := append([]string{"--state-dir", d.stateDir, "--run-dir", d.runDir}, d.args...)
	if config := d.configFile(); config != "" {
		args = append(args, "--config", config)
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
	d.launch()
	d.untilOwner("the daemon's names", func() bool {
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

// untilOwner waits for a condition on the owners of names.
func (d *daemon) untilOwner(what string, done func() bool) {
	d.t.Helper()
	d.untilSignalled("org.freedesktop.DBus", "NameOwnerChanged", what, done)
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

// untilSignalled waits for a condition that may change at a signal, whichever.
func (d *daemon) untilSignalled(iface, member, what string, done func() bool) {
	d.t.Helper()
	signals := d.listen(iface, member, 1000)
	defer d.conn.RemoveSignal(signals.ch)
	d.await(signals, what, func(*godbus.Signal) bool { return done() })
}

// untilChanged waits for a condition on properties.
func (d *daemon) untilChanged(what string, done func() bool) {
	d.t.Helper()
	d.untilSignalled(propsIface, "PropertiesChanged", what, done)
}

// await reads signals until one, or the state before any, is what is wanted.
func (d *daemon) await(signals subscription, what string, done func(*godbus.Signal) bool) {
	d.t.Helper()
	if done(nil) {
		return
	}
	late := time.After(patience)
	for {
		select {
		case s, ok := <-signals.ch:
			require.True(d.t, ok, "bus lost")
			if s.Name == signals.name && done(s) {
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

// call makes a call that has to be answered.
func (d *daemon) call(dest, path, method string, args ...any) *godbus.Call {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return d.conn.Object(dest, godbus.ObjectPath(path)).CallWithContext(ctx, method, 0, args...)
}

func (d *daemon) get(dest, path, iface, prop string) any {
	d.t.Helper()
	var v godbus.Variant
	require.NoError(d.t, d.call(dest, path, propsIface+".Get", iface, prop).Store(&v), prop)
	return v.Value()
}

func (d *daemon) set(dest, path, iface, prop string, value any) error {
	return d.call(dest, path, propsIface+".Set", iface, prop, godbus.MakeVariant(value)).Err
}

// next is what a double was told next.
func next[T any](t *testing.T, told <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-told:
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for "+what)
	}
	return v
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

// request repeats a request for power while an earlier Chassis Off, which went
// ahead of the journal, is not written yet: a slow disk keeps it back.
func (d *daemon) request(dest, path, property, value string) error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := d.set(dest, path, dest, property, shorts.Replace(value))
		if err == nil || !strings.Contains(err.Error(), "must be written first") || time.Now().After(end) {
			return err
		}
	}
}

func (d *daemon) hset(v string) error {
	return d.request(hostName, hostPath, "RequestedHostTransition", "HT."+v)
}

func (d *daemon) cset(v string) error {
	return d.request(chassisName, chassisPath, "RequestedPowerTransition", "CT."+v)
}

// until waits until a property reads a value.
func (d *daemon) until(dest, path, iface, prop, want string) {
	d.t.Helper()
	want = shorts.Replace(want)
	d.untilChanged(prop+" = "+want, func() bool { return d.get(dest, path, iface, prop) == want })
}

func (d *daemon) untilHost(state string) {
	d.until(hostName, hostPath, hostName, "CurrentHostState", "HS."+state)
}
func (d *daemon) untilChassis(state string) {
	d.until(chassisName, chassisPath, chassisName, "CurrentPowerState", "PS."+state)
}

// eventually waits for what no signal tells, or only a paced one.
func (d *daemon) eventually(what string, done func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		require.True(d.t, time.Now().Before(end), "waited in vain for %s: %s", what, d.log.String())
	}
}

// rests reports whether a queue runs nothing and has nothing waiting. One call
// tells both: between two a request may go from one to the other.
func (d *daemon) rests(path godbus.ObjectPath) bool {
	d.t.Helper()
	var all map[string]godbus.Variant
	require.NoError(d.t, d.conn.Object(queueName, path).Call(propsIface+".GetAll", 0, queueName).Store(&all))
	return all["Running"].Value() == godbus.ObjectPath("/") && all["Depth"].Value() == uint32(0)
}

// idle waits until nothing runs and nothing waits.
func (d *daemon) idle() {
	d.t.Helper()
	d.eventually("the queue's rest", func() bool { return d.rests(queuePath) })
}
