// Package dbustest gives tests a private bus and the clients that live on one:
// connections of any uid, raw connections that misbehave, busctl and dbus-send,
// and a double of OpenBMC's object mapper.
//
// Everything is started by a test and ends with it.
package dbustest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// OtherUID is a uid that is neither root nor ours: nobody.
const OtherUID = 65534

// patience bounds every wait of this package. It is far above what any of them
// needs on a loaded machine.
const patience = 2 * time.Minute

// config lets everybody do everything: what is refused, is refused by us. The
// limits are those of a session bus, so that pipelining tests the service and
// not the bus.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
    <allow user="*"/>
  </policy>
  <limit name="max_incoming_bytes">1000000000</limit>
  <limit name="max_outgoing_bytes">1000000000</limit>
  <limit name="max_message_size">1000000000</limit>
  <limit name="max_connections_per_user">4096</limit>
  <limit name="max_completed_connections">4096</limit>
  <limit name="max_match_rules_per_connection">5000</limit>
  <limit name="max_replies_per_connection">50000</limit>
</busconfig>
`

// Bus is a private bus.
type Bus struct {
	// Address is what clients connect to.
	Address string

	socket string
	cmd    *exec.Cmd
	log    bytes.Buffer
	exited chan struct{}
}

// Start starts a bus whose policy allows everything. Without dbus-daemon the
// test is skipped, or fails where the environment has CI set.
func Start(t testing.TB) *Bus {
	t.Helper()
	Need(t, "dbus-daemon")
	// Not t.TempDir: other uids must get to the socket.
	dir, err := os.MkdirTemp("", "bus")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o711))
	b := &Bus{socket: filepath.Join(dir, "socket"), exited: make(chan struct{})}
	file := filepath.Join(dir, "bus.conf")
	must(t, os.WriteFile(file, fmt.Appendf(nil, config, b.socket), 0o644))

	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	b.cmd = exec.Command("dbus-daemon", "--nofork", "--nosyslog", "--nopidfile", "--print-address=3", "--config-file="+file)
	b.cmd.ExtraFiles = []*os.File{w}
	b.cmd.Stderr = &b.log
	err = b.cmd.Start()
	_ = w.Close()
	must(t, err)
	go func() {
		_ = b.cmd.Wait()
		close(b.exited)
	}()
	t.Cleanup(b.Stop)
	must(t, r.SetReadDeadline(time.Now().Add(patience)))
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		b.Stop()
		t.Fatalf("dbus-daemon printed no address: %v\n%s", err, b.log.String())
	}
	b.Address = strings.TrimSpace(line)
	return b
}

// Need skips the test, or fails it where the environment has CI set, if a
// program is missing.
func Need(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing; install it (make test does)", program)
	}
	t.Skipf("%s is missing; install it (make test does)", program)
}

// NeedRoot skips the test, or fails it where the environment has CI set, unless
// it runs as root: only root can be another uid.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("only root can act as another uid; run the tests as root")
	}
	t.Skip("only root can act as another uid; run the tests as root")
}

// Stop kills the bus and waits for it.
func (b *Bus) Stop() {
	_ = b.cmd.Process.Kill()
	<-b.exited
}

// Pause makes the bus hang until [Bus.Resume].
func (b *Bus) Pause(t testing.TB) {
	t.Helper()
	must(t, b.cmd.Process.Signal(syscall.SIGSTOP))
}

// Resume ends [Bus.Pause].
func (b *Bus) Resume(t testing.TB) {
	t.Helper()
	must(t, b.cmd.Process.Signal(syscall.SIGCONT))
}

// Connect returns a connection that closes with the test.
func (b *Bus) Connect(t testing.TB, opts ...godbus.ConnOption) *godbus.Conn {
	t.Helper()
	conn, err := godbus.Connect(b.Address, opts...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ConnectAs returns a connection that the bus takes for one of uid. It needs
// root.
func (b *Bus) ConnectAs(t testing.TB, uid int, opts ...godbus.ConnOption) *godbus.Conn {
	t.Helper()
	NeedRoot(t)
	socket, err := dialAs(b.socket, uid)
	must(t, err)
	opts = append(opts, godbus.WithAuth(godbus.AuthExternal(strconv.Itoa(uid))))
	conn, err := godbus.NewConn(socket, opts...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(uid))}))
	must(t, conn.Hello())
	return conn
}

// dialAs connects with another effective uid. The bus asks the kernel who was
// at the other end, and the kernel notes the thread's uid.
func dialAs(path string, uid int) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		own := os.Geteuid()
		// The raw call changes this thread alone.
		if err = seteuid(uid); err != nil {
			runtime.UnlockOSThread()
			return
		}
		conn, err = net.Dial("unix", path)
		if back := seteuid(own); back != nil {
			err = back // the goroutine ends locked, and the thread with it
			return
		}
		runtime.UnlockOSThread()
	}()
	<-done
	return conn, err
}

func seteuid(uid int) error {
	const keep = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
		return errno
	}
	return nil
}

// Output is what a command printed and how it ended.
type Output struct {
	Stdout, Stderr string
	Exit           int
}

// ErrorName returns the D-Bus error name that dbus-send printed, "" if none.
func (o Output) ErrorName() string {
	_, rest, ok := strings.Cut(o.Stderr, "Error ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, ":")
	return name
}

// Run runs a program with this bus as its system bus, for example
// Run(t, "busctl", "tree", "xyz.openbmc_project.State.Host").
func (b *Bus) Run(t testing.TB, program string, args ...string) Output {
	t.Helper()
	Need(t, program)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+b.Address)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", program, err)
	}
	return Output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// RunAs is [Bus.Run] as another uid. It needs root.
func (b *Bus) RunAs(t testing.TB, uid int, program string, args ...string) Output {
	t.Helper()
	NeedRoot(t)
	Need(t, "setpriv")
	id := strconv.Itoa(uid)
	return b.Run(t, "setpriv", append([]string{"--reuid", id, "--regid", id, "--clear-groups", program}, args...)...)
}

// Busctl runs busctl and returns its standard output without the last newline.
// The test fails if busctl does.
func (b *Bus) Busctl(t testing.TB, args ...string) string {
	t.Helper()
	out := b.Run(t, "busctl", append([]string{"--system"}, args...)...)
	if out.Exit != 0 {
		t.Fatalf("busctl %s: %s", strings.Join(args, " "), out.Stderr)
	}
	return strings.TrimSuffix(out.Stdout, "\n")
}

// Send runs dbus-send --print-reply; it prints the names of errors.
func (b *Bus) Send(t testing.TB, dest, path, method string, args ...string) Output {
	t.Helper()
	return b.Run(t, "dbus-send", append([]string{"--system", "--print-reply", "--dest=" + dest, path, method}, args...)...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
