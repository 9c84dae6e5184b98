package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/gpio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// machine is a real daemon with a virtual chassis on a private bus.
type machine struct {
	t       *testing.T
	program string
	dir     string
	run     string
	cmd     *exec.Cmd
}

// unhurried is a board with times that a busy machine keeps: a press that takes
// 0.4 s instead of 50 ms would be a forced off on the quick one.
const unhurried = `{"simulate": {"timings": {"overrideHold": "2s", "forceOffPulse": "10s", "powerOKWatchdog": "60s"}}}`

// runDir returns a directory in memory, as /run is, so that a busy disk stretches
// no press.
func runDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "bmcstatectl") // shm_overview(7): a tmpfs
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startMachine starts one, configured as given, and points this process's
// system bus at it.
func startMachine(t *testing.T, configuration string) *machine {
	bus := dbustest.Start(t)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
	m := &machine{t: t, dir: t.TempDir(), run: runDir(t)}
	m.program = filepath.Join(m.dir, "bmcstated")
	out, err := exec.Command("go", "build", "-o", m.program, "../bmcstated").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "config.json"), []byte(configuration), 0o600))
	m.start()
	t.Cleanup(m.kill)
	return m
}

func (m *machine) start() {
	var log bytes.Buffer
	m.cmd = exec.Command(m.program, "--simulate", "--config", filepath.Join(m.dir, "config.json"),
		"--state-dir", filepath.Join(m.dir, "state"), "--run-dir", m.run)
	m.cmd.Stderr = &log
	require.NoError(m.t, m.cmd.Start())
	require.Eventually(m.t, func() bool {
		code, _, _ := m.ctl("history")
		return code == exitOK
	}, patience, 20*time.Millisecond, "the daemon does not answer")
}

// pressed reports whether the power button was pressed and let go.
func (m *machine) pressed() bool {
	wires, err := gpio.ReadWires(m.run, 0)
	if err != nil {
		return false
	}
	moves := 0
	for _, w := range wires {
		if w.Signal == gpio.PowerOut {
			moves++
		}
	}
	return moves > 1
}

func (m *machine) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// ctl runs one command line.
func (m *machine) ctl(args ...string) (code int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	code = Run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func (m *machine) expect(code int, args ...string) (stdout string) {
	m.t.Helper()
	got, stdout, stderr := m.ctl(args...)
	require.Equal(m.t, code, got, "bmcstatectl %s\n%s%s", strings.Join(args, " "), stdout, stderr)
	return stdout + stderr
}

// on switches the host on. A Chassis Off that a slow disk has not taken yet keeps
// it back.
func (m *machine) on() (stdout string) {
	m.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		code, stdout, stderr := m.ctl("on", "--wait")
		if !strings.Contains(stderr, "must be written first") {
			require.Equal(m.t, exitOK, code, stdout+stderr)
			return stdout
		}
		require.True(m.t, time.Now().Before(end), stderr)
	}
}

// shows waits until the status has all that is wanted: the end of a request is
// told before what it has led to.
func (m *machine) shows(patterns ...string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		status := m.expect(exitOK, "status")
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(status) {
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond, "%q", patterns)
}

func TestTransitions(t *testing.T) {
	m := startMachine(t, unhurried)

	assert.Contains(t, m.expect(exitInvalid, "reboot", "--wait"), "reboot: Invalid")
	assert.Regexp(t, `(?m)^on: Success \(request \d+\)$`, m.on())
	assert.Contains(t, m.expect(exitNoop, "on", "--wait"), "on: Noop")

	m.shows(`(?m)^host0 +Running, requested On`, `(?m)^chassis0 +On, power Good`,
		`(?m)^queue0 +(FIFO_DEDUP|FifoDedup), depth 0, limit 32, running none, launches 1`, `(?m)^scheduled/host0 +nothing scheduled$`)
	assert.True(t, json.Valid([]byte(m.expect(exitOK, "status", "--json"))))

	first := m.expect(exitOK, "reboot", "--wait", "--request-id", "ticket 42", "--cause", "update")
	again := m.expect(exitOK, "reboot", "--wait", "--request-id", "ticket 42")
	assert.Contains(t, again, "reboot: Success, repeated")
	seq := regexp.MustCompile(`request (\d+)`).FindStringSubmatch(first)[1]
	assert.Contains(t, m.expect(exitRefused, "off", "--request-id", "ticket 42"), "IdConflict")

	var shown row
	require.NoError(t, json.Unmarshal([]byte(m.expect(exitOK, "request", "show", seq)), &shown))
	assert.Equal(t, []string{"ticket 42", "bmcstatectl", "Success"}, []string{shown.RequestID, shown.ClientID, shown.Status})
	assert.Contains(t, m.expect(exitOK, "request", "list", "--all"), "ticket 42")
	assert.NotContains(t, m.expect(exitOK, "request", "list"), "ticket 42", "it has ended")
	assert.Contains(t, m.expect(exitRefused, "request", "show", "99999"), "has no request 99999")
	m.expect(exitRefused, "request", "cancel", "--client-id", "bmcstatectl", "--request-id", "ticket 42")
	assert.Contains(t, m.expect(exitRefused, "lines", "on", "0"), "Error.")

	m.expect(exitOK, "chassis-off", "--wait")
	lines := strings.Split(strings.TrimSpace(m.expect(exitOK, "history", "--json", "--after", seq)), "\n")
	last := row{}
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	assert.Equal(t, "xyz.openbmc_project.State.Chassis.Transition.Off", last.Transition)
	assert.Regexp(t, `(?m)^`+seq+` .* Host Reboot +Success `, m.expect(exitOK, "history"))

	trace := strings.Split(strings.TrimSpace(m.expect(exitOK, "history", "--csv")), "\n")
	assert.Equal(t, "arrival_u,client_id,request_id,op,is_repeat,delayed", trace[0])
	assert.Regexp(t, `^\d+\.\d+,\S*bmcstatectl,ticket 42,\S.*,1,0$`, trace[5], "the repeat is in the trace")
}

func TestWaitEnds(t *testing.T) {
	m := startMachine(t, `{"simulate": {"timings": {"powerOKWatchdog": "10s"}, "faults": {"neverPowerGood": true}}}`)
	assert.Contains(t, m.expect(exitTimeout, "on", "--wait", "--timeout", "5s", "--request-id", "a"), "the request goes on")
	assert.Contains(t, m.expect(exitFailed, "on", "--wait", "--request-id", "a"), "on: Failed")
}

func TestWaitOutlivesTheDaemon(t *testing.T) {
	m := startMachine(t, `{"simulate": {"timings": {"powerGoodDelay": "3s", "overrideHold": "10s", "powerOKWatchdog": "60s"}}}`)
	m.expect(exitOK, "on", "--request-id", "a")
	lines := make(lineWriter, 100)
	ended := make(chan int, 1)
	go func() { ended <- Run(t.Context(), []string{"on", "--wait", "--request-id", "a"}, lines, lines) }()
	assert.Contains(t, <-lines, "repeated", "it is accepted and waits")
	require.Eventually(t, m.pressed, patience, 20*time.Millisecond) // a press that was marked and not made is not made again
	m.kill()
	m.start()
	select {
	case code := <-ended:
		assert.Equal(t, exitOK, code)
		assert.Contains(t, <-lines, "on: Success")
	case <-time.After(patience):
		t.Fatal("the wait did not end")
	}
}

func TestWatch(t *testing.T) {
	m := startMachine(t, unhurried)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := make(lineWriter, 1000)
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, []string{"watch"}, lines, lines) }()
	// There is no way to see from here that the watch has begun, so something
	// happens until it is seen.
	for seen := false; !seen; {
		m.on()
		m.expect(exitOK, "chassis-off", "--wait")
		for len(lines) > 0 {
			seen = strings.HasSuffix(<-lines, "host0 CurrentHostState Running\n") || seen
		}
	}
	cancel()
	assert.Equal(t, exitOK, <-ended, "interrupting is how a watch ends")
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default: // nobody reads
	}
	return len(p), nil
}

func TestUsage(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
	m := &machine{t: t}
	help := m.expect(exitOK, "--help")
	for _, want := range []string{"force-warm-reboot", "history", "Exit codes:", "3  no-op"} {
		assert.Contains(t, help, want)
	}
	for _, c := range commands() {
		assert.Contains(t, m.expect(exitOK, c.name, "--help"), "Usage: bmcstatectl "+c.name)
	}
	tests := map[string]string{
		"":                               "Usage: bmcstatectl COMMAND",
		"reset":                          `unknown command "reset"`,
		"on --now":                       "flag provided but not defined: -now",
		"on 1":                           "on takes 0 operands, not 1",
		"on --host -1":                   "must not be negative",
		"on --wait --timeout 0s":         "must be positive",
		"on --wait --timeout soon":       "invalid value",
		"request":                        "request needs one of",
		"request delete":                 "request needs one of",
		"request show":                   "request show takes 1 operands, not 0",
		"request show x":                 `"x" is no sequence`,
		"request cancel 0":               `"0" is no sequence`,
		"history --json --csv":           "exclude each other",
		"request cancel 1 --client-id x": "takes 0 operands, not 1",
		"lines on":                       "lines takes 2 operands, not 1",
		"lines up 0":                     `not "up" "0"`,
		"lines on x":                     `not "on" "x"`,
	}
	for line, want := range tests {
		assert.Contains(t, m.expect(exitUsage, strings.Fields(line)...), want, line)
	}
	for _, line := range []string{"status", "watch", "on", "on --wait", "history", "history --csv", "request list", "request show 1", "request cancel 1", "lines on 0"} {
		assert.Contains(t, m.expect(exitError, strings.Fields(line)...), "cannot connect to unix:path=/nonexistent/bus", line)
	}
}

func TestNoDaemon(t *testing.T) {
	bus := dbustest.Start(t)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
	m := &machine{t: t}
	assert.Contains(t, m.expect(exitError, "status"), "no state objects on the bus")
	assert.Contains(t, m.expect(exitError, "on", "--wait"), "is bmcstated running")
}

func TestIDs(t *testing.T) {
	c1, r1 := ids("", "")
	c2, _ := ids("", "")
	assert.NotEqual(t, c1, c2, "a fresh client id for each run")
	assert.NotEmpty(t, r1)
	c, r := ids("", "x")
	assert.Equal(t, []string{"bmcstatectl", "x"}, []string{c, r})
	c, r = ids("mine", "x")
	assert.Equal(t, []string{"mine", "x"}, []string{c, r})
	_, r2 := ids("mine", "")
	_, r3 := ids("mine", "")
	assert.NotEqual(t, r2, r3)
}
