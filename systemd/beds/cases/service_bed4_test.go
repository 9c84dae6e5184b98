//go:build bed4

package cases

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

const (
	roleVariable = "BMCSTATE_BED_ROLE"
	starveFile   = "/run/bed-starve"
)

// TestServiceRole is the service under test, not a case: it keeps a descriptor
// with systemd, logs what it found there and gives signs of life.
func TestServiceRole(t *testing.T) {
	if os.Getenv(roleVariable) == "" {
		t.Skip("only as a service")
	}
	n := systemd.NewNotifier()
	h := systemd.NewLogHandler(systemd.LogOptions{})
	log := slog.New(h)
	kept := "nothing"
	if files := n.Files()["bed"]; len(files) > 0 {
		content, err := io.ReadAll(io.NewSectionReader(files[0], 0, 100))
		require.NoError(t, err)
		kept = string(content)
	} else {
		f, err := os.Create(filepath.Join(t.TempDir(), "kept"))
		require.NoError(t, err)
		_, err = f.WriteString("a level")
		require.NoError(t, err)
		require.NoError(t, n.StoreFile("bed", f))
	}
	log.Info("found", systemd.LogMessageID, systemd.MsgLinesReleased, systemd.LogDomain, 3, "kept", kept)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	require.NoError(t, h.Close(ctx))
	cancel()
	require.NoError(t, n.Ready("kept "+kept))

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	tick := time.NewTicker(n.WatchdogInterval() / 4)
	for {
		select {
		case <-stop:
			require.NoError(t, n.Stopping(""))
			return
		case <-tick.C:
			if _, err := os.Stat(starveFile); err != nil {
				require.NoError(t, n.Watchdog())
			}
		}
	}
}

func TestServiceKeepsDescriptorsLogsAndIsWatched(t *testing.T) {
	const unit = "t-role.service"
	install(t, map[string]string{unit: "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=notify\nNotifyAccess=main\n" +
		"ExecStart=/bed/cases -test.run=^TestServiceRole$\nEnvironment=" + roleVariable + "=1\nFileDescriptorStoreMax=4\n" +
		"WatchdogSec=6\nRestart=always\nRestartSec=10ms\n"})
	u := open(t)
	u.Watch(unit)
	require.Equal(t, systemd.ResultDone, result(t, start(t, u, unit)))
	assert.Equal(t, "kept nothing", shell(t, "systemctl", "show", "-P", "StatusText", unit))

	first := read(t, u, unit)
	require.NoError(t, syscall.Kill(int(first.MainPID), syscall.SIGKILL))
	again := restarted(t, u, unit, first)
	assert.Equal(t, "kept a level", shell(t, "systemctl", "show", "-P", "StatusText", unit))
	var records []map[string]any
	eventually(t, "two log records", func() bool {
		records = journal(t, systemd.MsgLinesReleased)
		return len(records) >= 2
	})
	last := records[len(records)-1]
	assert.Equal(t, "found domain=3 kept=\"a level\"", last["MESSAGE"])
	assert.Equal(t, "3", last["BMCSTATE_DOMAIN"])
	assert.Equal(t, "a level", last["BMCSTATE_KEPT"])
	assert.Equal(t, unit, last["_SYSTEMD_UNIT"])

	require.NoError(t, os.WriteFile(starveFile, nil, 0o644))
	await(t, u, "watchdog", func(c systemd.UnitChanged) bool { return c.State.Name == unit && c.State.Result == "watchdog" })
	require.NoError(t, os.Remove(starveFile))
	restarted(t, u, unit, again)
}

func restarted(t *testing.T, u *systemd.Units, unit string, old systemd.UnitState) (s systemd.UnitState) {
	t.Helper()
	eventually(t, unit+" restarted", func() bool {
		s = read(t, u, unit)
		return s.Active == "active" && s.InvocationID != old.InvocationID
	})
	return s
}

func journal(t *testing.T, id string) []map[string]any {
	t.Helper()
	out, err := exec.Command("journalctl", "-b", "-o", "json", "MESSAGE_ID="+id).Output()
	require.NoError(t, err)
	var records []map[string]any
	for line := range strings.Lines(string(out)) {
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		records = append(records, r)
	}
	return records
}

// echo answers one method to everybody.
type echo struct{}

func (echo) Ask() (string, *godbus.Error) { return "answer", nil }

func TestBusPolicy(t *testing.T) {
	const name = "xyz.openbmc_project.State.Host1"
	bus, err := godbus.ConnectSystemBus()
	require.NoError(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	require.NoError(t, bus.Export(echo{}, "/bed", "bed.Echo"))
	for _, n := range []string{name, "xyz.openbmc_project.State.BMC", "xyz.openbmc_project.State.TransitionQueue", "xyz.openbmc_project.State.FaultMonitor"} {
		reply, err := bus.RequestName(n, godbus.NameFlagDoNotQueue)
		require.NoError(t, err, n)
		require.Equal(t, godbus.RequestNameReplyPrimaryOwner, reply, n)
	}
	asNobody := func(args ...string) (string, error) {
		out, err := exec.Command("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", "busctl", "--system"}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := asNobody("call", name, "/bed", "bed.Echo", "Ask")
	require.NoError(t, err, out)
	assert.Contains(t, out, "answer")
	out, err = asNobody("call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName", "su", "xyz.openbmc_project.State.Host2", "4")
	require.Error(t, err, out)
	assert.Contains(t, out, "denied")
}

// A machine with many monitored units must not pay for them while nothing
// happens.
func TestManyUnitsIdle(t *testing.T) {
	const units, idle = 200, 20 * time.Second
	install(t, map[string]string{"t-many@.service": sleeper})
	u := open(t)
	names := make([]string, units)
	for i := range names {
		names[i] = "t-many@" + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + ".service"
	}
	u.Watch(names...)
	known := map[string]bool{}
	await(t, u, "first states", func(c systemd.UnitChanged) bool {
		known[c.State.Name] = true
		return len(known) == units
	})
	before := usage(t)
	time.Sleep(idle)
	after := usage(t)
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	wakeUps := after.Nvcsw - before.Nvcsw
	t.Logf("BED %d units idle for %v: %v of CPU, %d voluntary context switches", units, idle, cpu, wakeUps)
	assert.Less(t, cpu, idle/20)
}

func usage(t *testing.T) (r syscall.Rusage) {
	t.Helper()
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return r
}
