package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/gpio"
)

// patience bounds every wait; nothing here is a measurement.
const patience = 3 * time.Minute

// The virtual chassis of the tests. Pulses are short beside the time after
// which a held button cuts the power, so that a slow machine does not turn one
// into the other.
const (
	holdPulse  = 2 * time.Second
	configText = `{
  "gracefulTimeout": "20s", "confirmTimeout": "10s", "reconcileTimeout": "1s", "knownTimeout": "20s",
  "simulate": {"startOn": %v, "timings": {
    "powerPulse": "20ms", "resetPulse": "20ms", "forceOffPulse": "2s", "powerCycle": "100ms", "powerOKWatchdog": "5s",
    "powerGoodDelay": "60ms", "postDelay": "80ms", "guestShutdown": "120ms", "overrideHold": "600ms"
  }}
}`
)

// daemonBinary is the daemon with injection points, built once; overlay names a
// file for go build -overlay, "" for none.
func buildDaemon(dir, overlay string) (string, error) {
	out := filepath.Join(dir, "bmcstated")
	args := []string{"build", "-tags", "inject", "-o", out}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	build := exec.Command("go", append(args, "github.com/bmcstate/bmcstate/cmd/bmcstated")...)
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the daemon: %w\n%s", err, text)
	}
	return out, nil
}

var soundBinary = sync.OnceValues(func() (string, error) { return buildDaemon(binaries, "") })

// binaries is where soundBinary builds.
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

// world is one BMC: its directories, its bus, and the daemons that live on it
// one after the other.
type world struct {
	t        *testing.T
	bin      string
	bus      *dbustest.Bus
	client   *client.Client
	stateDir string
	runDir   string
	config   string
	arm      string // while this file exists points count
	points   string // names of the points passed
	hang     string // while this file exists fsync hangs
	cmd      *exec.Cmd
	log      bytes.Buffer
	exited   chan struct{}
}

// memoryDir returns a directory in memory, as /run is: what a busy disk holds up
// there would stretch every pulse of the virtual chassis.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "crash") // shm_overview(7): a tmpfs
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newWorld(t *testing.T, bin string, on bool) *world {
	dir, err := os.MkdirTemp("", "crash")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{
		t: t, bin: bin, bus: dbustest.Start(t), stateDir: filepath.Join(dir, "state"), runDir: filepath.Join(memoryDir(t), "run"),
		config: filepath.Join(dir, "config"), arm: filepath.Join(dir, "arm"), points: filepath.Join(dir, "points"), hang: filepath.Join(dir, "hang"),
	}
	require.NoError(t, os.WriteFile(w.config, fmt.Appendf(nil, configText, on), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	w.client, err = client.Dial(ctx, w.bus.Address)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.kill()
		_ = w.client.Close()
		cancel()
		if t.Failed() {
			t.Logf("daemon's log:\n%s", w.log.String())
		}
	})
	return w
}

// start runs a daemon that dies at the n-th point after the arming, 0 for
// never, and waits until it serves.
func (w *world) start(killAt int) {
	w.cmd = exec.Command(w.bin, "--simulate", "--config", w.config, "--state-dir", w.stateDir, "--run-dir", w.runDir)
	w.cmd.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+w.bus.Address, "BMCSTATE_ARM="+w.arm, "BMCSTATE_SYNC_HANG="+w.hang,
		"BMCSTATE_POINTS="+w.points, fmt.Sprintf("BMCSTATE_KILL_AT=%d", killAt))
	w.cmd.Stderr = &w.log
	require.NoError(w.t, w.cmd.Start())
	w.exited = make(chan struct{})
	cmd, exited := w.cmd, w.exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	w.until("the daemon serves", func() bool {
		_, err := w.client.History(context.Background(), 0, 0, 1)
		return err == nil
	})
}

// until polls for what has no event to wait for across a restart.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	late := time.Now().Add(patience)
	for !done() {
		if time.Now().After(late) {
			require.FailNow(w.t, "waited in vain until "+what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *world) dead() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}

func (w *world) kill() {
	if w.cmd != nil {
		_ = w.cmd.Process.Signal(syscall.SIGKILL)
		<-w.exited
	}
}

// execStopPost is what systemd runs after a daemon's death.
func (w *world) execStopPost() {
	out, err := exec.Command(w.bin, "--release-lines", "--run-dir", w.runDir).CombinedOutput()
	require.NoError(w.t, err, string(out))
}

// rebootBMC makes the next start one of another boot.
func (w *world) rebootBMC() { require.NoError(w.t, os.Remove(filepath.Join(w.runDir, "boot"))) }

func (w *world) armNow() {
	require.NoError(w.t, os.WriteFile(w.points, nil, 0o600))
	require.NoError(w.t, os.WriteFile(w.arm, nil, 0o600))
}

func (w *world) disarm() { require.NoError(w.t, os.Remove(w.arm)) }

// passed returns the names of the points passed since the arming.
func (w *world) passed() []string {
	text, err := os.ReadFile(w.points)
	require.NoError(w.t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (w *world) wires() []gpio.Wire {
	wires, err := gpio.ReadWires(w.runDir, 0)
	require.NoError(w.t, err)
	return wires
}

func (w *world) powered() bool {
	c, err := gpio.ReadChassis(w.runDir, 0)
	require.NoError(w.t, err)
	return c.Wires[gpio.PowerOk]
}

// published returns a property of host0 or chassis0.
func (w *world) published(object, property string) string {
	objects, err := w.client.Objects(context.Background())
	require.NoError(w.t, err)
	for _, o := range objects {
		if o.Path == "/xyz/openbmc_project/state/"+object {
			v, _ := o.Get(property).(string)
			return v[strings.LastIndexByte(v, '.')+1:]
		}
	}
	require.FailNow(w.t, "no object "+object)
	return ""
}
