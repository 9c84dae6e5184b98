package systemdtest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:dir=%s</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// StartBus runs a dbus-daemon of its own until the test's end and returns its
// address. Tests without a dbus-daemon are skipped.
func StartBus(t testing.TB) string {
	t.Helper()
	address, _ := RunBus(t)
	return address
}

// RunBus is [StartBus] with a function that kills the bus before the test's end.
func RunBus(t testing.TB) (address string, kill func()) {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	// t.TempDir names the test and easily exceeds the length of a socket path.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--nofork", "--nopidfile", "--print-address", "--config-file="+config)
	var complaints bytes.Buffer // said only if it does not start: it complains about limits when not privileged
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		kill()
		t.Fatalf("dbus-daemon told no address: %v\n%s", err, complaints.String())
	}
	return strings.TrimSpace(address), kill
}
