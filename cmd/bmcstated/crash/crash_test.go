package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// trial is an operation and what the wires may show of it at most.
type trial struct {
	op     state.Operation
	on     bool // the host runs before
	power  int  // presses of the power button without a crash
	reset  int
	holds  int // of power: force-off holds, which a crash may repeat once (P3)
	reach  bool
	passes bool
	level  bool // the power button is a level: power counts its rises
}

var trials = []trial{
	{op: state.HostOn, power: 1, reach: true},
	{op: state.HostOff, on: true, power: 1},
	{op: state.HostReboot, on: true, power: 2, reach: true, passes: true},
	{op: state.HostForceWarmReboot, on: true, reset: 1, reach: true, passes: true},
	{op: state.ChassisOff, on: true, power: 1, holds: 1},
	{op: state.ChassisPowerCycle, on: true, power: 2, holds: 1, reach: true, passes: true},
	{op: state.HostOn, power: 1, reach: true, level: true},
	{op: state.ChassisOff, on: true, level: true},
	{op: state.ChassisPowerCycle, on: true, power: 1, reach: true, passes: true, level: true},
}

var submission = client.Submission{Client: "crash", Request: "1"}

// run is one life of an operation: until its end, or until the daemon dies.
type run struct {
	answered bool // with success: the request is promised
	ahead    bool // of the journal: a Chassis Off does not wait for a slow disk
	from     int  // wires before the submission
	fromAt   time.Duration
}

func (w *world) submit(tr trial) run {
	s := submission
	s.Op = tr.op
	r := run{from: len(w.wires()), fromAt: gpio.BootTime()}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := w.exited
	go func() { // a call to a dead daemon is not always answered
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := w.client.Submit(ctx, s)
	r.answered = err == nil
	w.until("the request ends or the daemon dies", func() bool {
		if w.dead() {
			return true
		}
		o, err := w.client.Lookup(context.Background(), 0, s.Client, s.Request)
		return err == nil && o.Status.Final()
	})
	return r
}

// count runs an operation without a crash and returns how many points it
// passes.
func count(t *testing.T, bin string, tr trial) []string {
	w := newWorld(t, bin, tr.on)
	w.setLevel(tr.level)
	w.start(0)
	w.settleOn(tr)
	w.armNow()
	w.submit(tr)
	names := w.passed()
	w.kill()
	return names
}

// setLevel makes the power button a level, before the daemon starts.
func (w *world) setLevel(level bool) {
	text, err := os.ReadFile(w.config)
	require.NoError(w.t, err)
	text = bytes.Replace(text, []byte(`"startOn"`), fmt.Appendf(nil, `"powerLevel": %v, "startOn"`, level), 1)
	require.NoError(w.t, os.WriteFile(w.config, text, 0o600))
}

// wentAhead reports whether a power off was driven before the disk had its record:
// that one alone may be forgotten (DESIGN.md §3.6). On a busy machine a disk takes
// longer than it waits.
func (w *world) wentAhead() bool {
	barriers, err := filepath.Glob(filepath.Join(w.runDir, "barrier-*"))
	require.NoError(w.t, err)
	return len(barriers) > 0
}

// settleOn waits until a board that starts on shows it.
func (w *world) settleOn(tr trial) {
	if tr.on {
		w.until("the host runs", func() bool { return w.published("host0", "CurrentHostState") == "Running" })
	}
}

// violation runs an operation, kills the daemon at a point, brings it back, and
// returns what it finds broken, "" for nothing.
func violation(t *testing.T, bin string, tr trial, at int, sameBoot bool) error {
	w := newWorld(t, bin, tr.on)
	w.setLevel(tr.level)
	w.start(at)
	w.settleOn(tr)
	w.armNow()
	r := w.submit(tr)
	w.disarm()
	if !w.dead() {
		w.kill() // fewer points than counted: dies after the end
	}
	r.ahead = w.wentAhead()
	w.execStopPost()
	if !sameBoot {
		w.rebootBMC()
	}
	w.start(0)
	return w.check(tr, r, sameBoot)
}

// check looks for broken promises from outside.
func (w *world) check(tr trial, r run, sameBoot bool) error {
	var last client.Outcome
	var err error
	w.until("the request is final", func() bool {
		last, err = w.client.Lookup(context.Background(), 0, submission.Client, submission.Request)
		return err != nil || last.Status.Final()
	})
	var refused *client.Error
	if errors.As(err, &refused) {
		if r.answered && !r.ahead {
			return fmt.Errorf("P2: answered with success, and forgotten: %w", err)
		}
		return w.checkWires(tr, r, false)
	}
	if err != nil {
		return err
	}
	if err := w.checkWires(tr, r, last.Status == state.Success); err != nil {
		return err
	}
	if err := w.checkRepeat(tr, last.Status); err != nil {
		return err
	}
	if last.Status == state.Success && w.powered() != tr.reach {
		return fmt.Errorf("SUCCESS of %s with power on = %v", tr.op, w.powered())
	}
	return w.checkPublished(sameBoot)
}

// checkWires judges the wire log: no press too many, none too long, and a
// passage where SUCCESS claims one.
func (w *world) checkWires(tr trial, r run, success bool) error {
	presses, up := map[string]int{}, map[string]time.Duration{}
	passage := false
	for _, x := range w.wires()[r.from:] {
		switch {
		case x.Signal == gpio.PowerOk && !x.Asserted, x.Signal == gpio.PostComplete && !x.Asserted:
			passage = true
		case x.Signal != gpio.PowerOut && x.Signal != gpio.ResetOut:
		case x.Signal == gpio.PowerOut && tr.level:
			if x.Asserted {
				presses[x.Signal]++
			}
		case x.Asserted:
			presses[x.Signal]++
			passage = passage || x.Signal == gpio.ResetOut // its only sign where it meets POST
			up[x.Signal] = x.At
		default:
			// The longest width that a line may have, plus the second that P6
			// gives the release after a death.
			if long := x.At - up[x.Signal]; long > holdPulse+time.Second+slack {
				return fmt.Errorf("P6: %s was asserted for %s", x.Signal, long)
			}
			delete(up, x.Signal)
		}
	}
	if len(up) > 0 {
		return fmt.Errorf("P6: lines stay asserted: %v", up)
	}
	if n := presses[gpio.PowerOut]; n > tr.power+tr.holds {
		return fmt.Errorf("P3: %d presses of power for %s", n, tr.op)
	}
	if n := presses[gpio.ResetOut]; n > tr.reset {
		return fmt.Errorf("P3: %d presses of reset for %s", n, tr.op)
	}
	if success && tr.passes && !passage {
		return fmt.Errorf("SUCCESS of %s whose chassis saw neither off nor reset", tr.op)
	}
	return nil
}

// slack is what a loaded machine may add to a width; a line that nobody
// releases stays asserted for ever.
const slack = 5 * time.Second

// checkRepeat sends the key again: the stored status, and nothing moves.
func (w *world) checkRepeat(tr trial, stored state.Status) error {
	before := len(w.wires())
	s := submission
	s.Op = tr.op
	o, err := w.client.Submit(context.Background(), s)
	switch {
	case err != nil:
		return err
	case o.Status != stored || !o.Repeated:
		return fmt.Errorf("P3: a repeat of a request that is %s was answered %s (repeated %v)", stored, o.Status, o.Repeated)
	}
	for _, x := range w.wires()[before:] {
		if x.Signal == gpio.PowerOut || x.Signal == gpio.ResetOut {
			return fmt.Errorf("P3: a repeat moved %s", x.Signal)
		}
	}
	return nil
}

// checkPublished compares what is shown with what is, once it has settled.
func (w *world) checkPublished(bool) error {
	w.until("the published states are the observed ones", func() bool {
		host, chassis := w.published("host0", "CurrentHostState"), w.published("chassis0", "CurrentPowerState")
		if w.powered() {
			return host == "Running" && chassis == "On"
		}
		return host == "Off" && chassis == "Off"
	})
	return nil
}

// TestEveryCrashPoint kills the daemon at every point of every operation, in
// the same boot and in another.
func TestEveryCrashPoint(t *testing.T) {
	statetest.PlainOnly(t)
	bin, err := soundBinary()
	require.NoError(t, err)
	var tried atomic.Int64
	t.Run("points", func(t *testing.T) {
		for _, tr := range trials {
			names := count(t, bin, tr)
			require.Greater(t, len(names), 10, "the daemon passes points")
			for at := range names {
				for _, sameBoot := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s level=%v/%d-%s/same=%v", tr.op, tr.level, at+1, names[at], sameBoot), func(t *testing.T) {
						t.Parallel()
						require.NoError(t, violation(t, bin, tr, at+1, sameBoot))
						tried.Add(1)
					})
				}
			}
		}
	})
	fmt.Printf("crash points tried: %d\n", tried.Load())
}
