//go:build bed1 || bed5

package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// bmc is the product under test, seen from its bus and its lines.
type bmc struct {
	board  *board.Player
	timing board.Timing // of the board
	// run has a shell of the BMC carry out an order.
	run func(ctx context.Context, order string) (string, error)
	// record returns what watch has recorded, where that costs less than asking
	// on the bus. It may be nil.
	record func() string
	// old is how much of the record a daemon wrote that has ended.
	old int
}

// property is one property of the bus, and the prefix of its enum strings.
type property struct{ service, path, iface, name, values string }

const (
	state       = "xyz.openbmc_project.State"
	hostName    = state + ".Host"
	chassisName = state + ".Chassis"
	queueName   = state + ".TransitionQueue"
	queuePath   = root + "/queue0"
	requestName = state + ".TransitionRequest"
	causeName   = "xyz.openbmc_project.Control.Host.RestartCause"
	root        = "/xyz/openbmc_project/state"
)

// The properties that the cases look at, by their names in the contract.
var (
	hostRequest    = property{hostName, root + "/host0", hostName, "RequestedHostTransition", hostName + ".Transition."}
	hostState      = property{hostName, root + "/host0", hostName, "CurrentHostState", hostName + ".HostState."}
	restartCause   = property{hostName, root + "/host0", hostName, "RestartCause", hostName + ".RestartCause."}
	privateCause   = property{causeName, "/xyz/openbmc_project/control/host0/restart_cause", causeName, "RestartCause", hostName + ".RestartCause."}
	osState        = property{hostName, root + "/host0", state + ".OperatingSystem.Status", "OperatingSystemState", state + ".OperatingSystem.Status.OSStatus."}
	chassisRequest = property{chassisName, root + "/chassis0", chassisName, "RequestedPowerTransition", chassisName + ".Transition."}
	chassisState   = property{chassisName, root + "/chassis0", chassisName, "CurrentPowerState", chassisName + ".PowerState."}
	powerStatus    = property{chassisName, root + "/chassis0", chassisName, "CurrentPowerStatus", chassisName + ".PowerStatus."}
	launches       = property{queueName, queuePath, queueName, "Launches", ""}
)

func (p property) busctl(verb string) string {
	return strings.Join([]string{"busctl", verb, p.service, p.path, p.iface, p.name}, " ")
}

// sh runs an order that must succeed.
func (b *bmc) sh(t *testing.T, order string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	output, err := b.run(ctx, order)
	require.NoError(t, err)
	return output
}

// try runs an order that may fail.
func (b *bmc) try(t *testing.T, order string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	return b.run(ctx, order)
}

// set writes a property, by the last part of its enum string.
func (b *bmc) set(t *testing.T, p property, value string) {
	t.Helper()
	b.sh(t, p.busctl("set-property")+" s "+p.values+value)
}

// get reads a property: the last part of an enum string, or a number.
func (b *bmc) get(t *testing.T, p property) string {
	t.Helper()
	value, err := b.peek(t, p)
	require.NoError(t, err)
	return value
}

func (b *bmc) peek(t *testing.T, p property) (string, error) {
	t.Helper()
	output, err := b.try(t, p.busctl("get-property"))
	if err != nil {
		return "", err
	}
	_, value, _ := strings.Cut(output, " ")
	return strings.TrimPrefix(strings.Trim(value, `"`), p.values), nil
}

// await waits until a property has a value. A question on the bus costs the
// emulated processor tens of milliseconds, so the record is looked at in between.
func (b *bmc) await(t *testing.T, p property, value string) {
	t.Helper()
	var got string
	var err error
	var asked time.Time
	pause := 10 * time.Millisecond
	if b.record == nil {
		pause = 150 * time.Millisecond
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		if b.record == nil || time.Since(asked) > time.Second {
			got, err = b.peek(t, p)
			asked = time.Now()
		} else if recorded := changesIn(b.record()[b.old:], p.name); len(recorded) > 0 {
			got, err = recorded[len(recorded)-1].value, nil
		}
		if err == nil && got == value {
			return
		}
	}
	require.Failf(t, "a state did not come", "%s is %q (%v), not %q", p.name, got, err, value)
}

// awaitStarted waits until a daemon other than old is ready. What is awaited after
// that is asked of that one.
func (b *bmc) awaitStarted(t *testing.T, old string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ready, err := b.try(t, "systemctl is-active bmcstated")
		return err == nil && ready == "active" && b.daemonPID(t) != old
	}, patience, 200*time.Millisecond, "the daemon does not come back")
	if b.record != nil {
		b.old = len(b.record())
	}
}

// awaitLine waits until the board sees a line asserted, or not.
func (b *bmc) awaitLine(t *testing.T, line string, asserted bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b.board.Asserted(line) == asserted {
			return
		}
	}
	require.Failf(t, "a level did not come", "%s asserted = %t", line, !asserted)
}

// awaitPulses waits until a line has been asserted and let go so often since a
// mark, and returns how long each time.
func (b *bmc) awaitPulses(t *testing.T, mark int, line string, count int) []board.Pulse {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if widths := b.board.Pulses(mark, line); len(widths) >= count && !b.board.Asserted(line) {
			return widths
		}
	}
	require.Failf(t, "too few pulses", "%s: %v, not %d", line, b.board.Pulses(mark, line), count)
	return nil
}

// watched is the file into which the BMC's bus is watched.
const watched = "/run/bed-changes"

// watch is the order that records every PropertiesChanged below the state objects
// from now on; unwatch ends it.
const (
	watch = `busctl --json=short --match "type='signal',member='PropertiesChanged',path_namespace='` + root + `'" monitor >` +
		watched + ` 2>&1 </dev/null & echo $! >` + watched + `.pid
n=0; until grep -q Monitoring ` + watched + ` || [ $n -gt 300 ]; do sleep 0.1; n=$((n+1)); done
`
	unwatch = "kill $(cat " + watched + ".pid) 2>/dev/null; rm -f " + watched + "*\n"
)

// change is one property that a signal carried.
type change struct{ property, value string }

// changesIn returns what a record holds of some properties, in order.
func changesIn(record string, names ...string) []change {
	var all []change
	for line := range strings.Lines(record) {
		var message struct {
			Payload struct {
				Data []json.RawMessage `json:"data"`
			} `json:"payload"`
		}
		if json.Unmarshal([]byte(line), &message) != nil || len(message.Payload.Data) != 3 {
			continue
		}
		var values map[string]struct {
			Data any `json:"data"`
		}
		if json.Unmarshal(message.Payload.Data[1], &values) != nil {
			continue
		}
		for name, v := range values {
			if slices.Contains(names, name) {
				text := fmt.Sprint(v.Data)
				all = append(all, change{name, text[strings.LastIndex(text, ".")+1:]})
			}
		}
	}
	return all
}

// valuesOf returns the values that one property took.
func (b *bmc) valuesOf(t *testing.T, p property) []string {
	t.Helper()
	var values []string
	for _, c := range changesIn(b.sh(t, "cat "+watched), p.name) {
		values = append(values, c.value)
	}
	return values
}

// log prints what the daemon has logged since its case was installed, or since
// logFromNow, to the second.
const (
	log        = "journalctl -b --no-pager -o cat -u bmcstated --since=@$(cat /run/bed-began)"
	logFromNow = "date +%s >/run/bed-began"
)

// awaitLog waits until the daemon's log holds a text.
func (b *bmc) awaitLog(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := b.try(t, log+" | grep -q '"+text+"'")
		return err == nil
	}, patience, 100*time.Millisecond, "nothing in the log about %s", text)
}

// daemonPID returns the daemon's process id.
func (b *bmc) daemonPID(t *testing.T) string {
	t.Helper()
	return b.sh(t, "systemctl show -P MainPID bmcstated")
}
