//go:build bed4

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

// patience is how long a case waits for what must come.
const patience = 2 * time.Minute

const unitDir = "/run/systemd/system"

// install writes units and has systemd read them; they go with the case.
func install(t *testing.T, units map[string]string) {
	t.Helper()
	for name, text := range units {
		path := filepath.Join(unitDir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Cleanup(func() {
		for name := range units {
			if !strings.Contains(name, "@") && !strings.Contains(name, "/") {
				_ = exec.Command("systemctl", "stop", name).Run()
				_ = exec.Command("systemctl", "reset-failed", name).Run()
			}
			_ = os.Remove(filepath.Join(unitDir, name))
		}
		shell(t, "systemctl", "daemon-reload")
	})
	shell(t, "systemctl", "daemon-reload")
}

func shell(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return strings.TrimSpace(string(out))
}

func open(t *testing.T) *systemd.Units {
	t.Helper()
	u := systemd.Open(systemd.Options{})
	t.Cleanup(u.Close)
	return u
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await takes events until one fits.
func await[E systemd.Event](t *testing.T, u *systemd.Units, what string, fits func(E) bool) E {
	t.Helper()
	late := time.After(patience)
	var seen []string
	for {
		select {
		case e := <-u.Events():
			seen = append(seen, fmt.Sprintf("%T%+v", e, e))
			if x, ok := e.(E); ok && fits(x) {
				return x
			}
		case <-late:
			require.FailNow(t, "no event", "%s; saw\n%s", what, strings.Join(seen, "\n"))
		}
	}
}

func awaitState(t *testing.T, u *systemd.Units, unit, active string) systemd.UnitState {
	t.Helper()
	return await(t, u, unit+" "+active, func(c systemd.UnitChanged) bool {
		return c.State.Name == unit && c.State.Active == active
	}).State
}

func result(t *testing.T, j systemd.Job) string {
	t.Helper()
	select {
	case r := <-j.Result:
		return r
	case <-time.After(patience):
		require.FailNow(t, "no result", "%+v", j)
		return ""
	}
}

func start(t *testing.T, u *systemd.Units, unit string) systemd.Job {
	t.Helper()
	j, err := u.Start(within(t), unit, systemd.ModeReplace)
	require.NoError(t, err)
	return j
}

func read(t *testing.T, u *systemd.Units, unit string) systemd.UnitState {
	t.Helper()
	s, err := u.Read(within(t), unit)
	require.NoError(t, err)
	return s
}

// eventually polls for what no event tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}
