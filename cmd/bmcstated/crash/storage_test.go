package crash

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

func (w *world) hangStorage() { require.NoError(w.t, os.WriteFile(w.hang, nil, 0o600)) }
func (w *world) freeStorage() { require.NoError(w.t, os.Remove(w.hang)) }

// TestAHungDisk: while fsync does not return, reads are answered, a request is
// refused after commitTimeout, a Chassis Off reaches the line all the same, and
// a restart finds each of them as it was told.
func TestAHungDisk(t *testing.T) {
	statetest.PlainOnly(t)
	bin, err := soundBinary()
	require.NoError(t, err)
	w := newWorld(t, bin, true)
	w.start(0)
	w.settleOn(trial{on: true})
	w.hangStorage()

	ctx := context.Background()
	refused := make(chan error, 1)
	go func() {
		_, err := w.client.Submit(ctx, client.Submission{Client: "hung", Request: "1", Op: state.HostReboot})
		refused <- err
	}()
	for reads := 0; ; reads++ {
		select {
		case err := <-refused:
			var e *client.Error
			require.True(t, errors.As(err, &e), "%v", err)
			require.Equal(t, "xyz.openbmc_project.Common.Error.Unavailable", e.Name)
			require.Contains(t, e.Text, "storage did not answer; the request may be on disk")
			require.Greater(t, reads, 5, "reads were answered meanwhile: one that waited would have taken all of the time")
		default:
			require.Equal(t, "Running", w.published("host0", "CurrentHostState"))
			continue
		}
		break
	}

	before := len(w.wires())
	off, err := w.client.Submit(ctx, client.Submission{Client: "hung", Request: "2", Op: state.ChassisOff})
	require.NoError(t, err)
	require.False(t, off.Status.Final() && off.Status != state.Success)
	w.until("the power is off", func() bool { return !w.powered() })
	require.Equal(t, gpio.PowerOut, w.wires()[before].Signal)
	_, err = w.client.Submit(ctx, client.Submission{Client: "hung", Request: "3", Op: state.HostOn})
	require.Error(t, err, "raising is refused until the record is in")

	// The daemon dies before the disk answers. ExecStopPost and the barrier
	// are what is left.
	w.kill()
	w.freeStorage()
	w.execStopPost()
	w.start(0)
	o, err := w.client.Lookup(ctx, 0, "hung", "1")
	if err == nil { // it reached the disk, and was voided
		require.Equal(t, state.Interrupted, o.Status)
	}
	require.False(t, w.powered())
	w.until("the host is shown off", func() bool { return w.published("host0", "CurrentHostState") == "Off" })
	_, err = w.client.Submit(ctx, client.Submission{Client: "hung", Request: "4", Op: state.HostOn})
	require.NoError(t, err)
	w.until("the host runs", func() bool { return w.published("host0", "CurrentHostState") == "Running" })
}

// TestOffOutlivesItsBarrier: what was queued before a Chassis Off that went
// ahead of the journal does not come back to life.
func TestOffOutlivesItsBarrier(t *testing.T) {
	statetest.PlainOnly(t)
	bin, err := soundBinary()
	require.NoError(t, err)
	require.NoError(t, offOutlivesItsBarrier(t, bin))
}

func offOutlivesItsBarrier(t *testing.T, bin string) error {
	w := newWorld(t, bin, true)
	w.start(0)
	w.settleOn(trial{on: true})
	ctx := context.Background()
	// The guest hangs, so that the soft off waits and the power on stays queued.
	require.NoError(t, gpio.Stimulate(w.runDir, 0, gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{GuestHangsOnShutdown: true}}))
	_, err := w.client.Submit(ctx, client.Submission{Client: "b", Request: "1", Op: state.HostOff})
	require.NoError(t, err)
	_, err = w.client.Submit(ctx, client.Submission{Client: "b", Request: "2", Op: state.HostOn})
	require.NoError(t, err)
	w.hangStorage()
	// The journal hangs with this one in its hands. What comes after it is not even
	// written, so that nothing but the barrier knows of the power off.
	_, err = w.client.Submit(ctx, client.Submission{Client: "b", Request: "hung", Op: state.HostReboot})
	require.ErrorContains(t, err, "storage did not answer")
	_, err = w.client.Submit(ctx, client.Submission{Client: "b", Request: "3", Op: state.ChassisOff})
	require.NoError(t, err)
	w.until("the power is off", func() bool { return !w.powered() })
	w.kill()
	w.freeStorage()
	w.execStopPost()
	w.start(0)
	for _, request := range []string{"1", "2"} {
		o, err := w.client.Lookup(ctx, 0, "b", request)
		if err != nil {
			return err
		}
		if o.Status != state.Superseded {
			return errors.New("request " + request + " is " + o.Status.String() + " after a power off that went ahead of the journal")
		}
	}
	if w.powered() {
		return errors.New("the power came back")
	}
	return nil
}

// TestNoEffectWithoutTheJournal: while the disk takes nothing, no line moves for
// anything but a Chassis Off.
func TestNoEffectWithoutTheJournal(t *testing.T) {
	statetest.PlainOnly(t)
	bin, err := soundBinary()
	require.NoError(t, err)
	require.NoError(t, noEffectWithoutTheJournal(t, bin))
}

// noEffectWithoutTheJournal hangs the disk while a reboot waits for the guest,
// so that the press that should follow cannot be journalled. The guest hangs for
// as long as that takes.
func noEffectWithoutTheJournal(t *testing.T, bin string) error {
	w := newWorld(t, bin, true)
	w.start(0)
	w.settleOn(trial{on: true})
	require.NoError(t, gpio.Stimulate(w.runDir, 0, gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{GuestHangsOnShutdown: true}}))
	before := len(w.wires())
	ctx := context.Background()
	_, err := w.client.Submit(ctx, client.Submission{Client: "t", Request: "1", Op: state.HostReboot})
	require.NoError(t, err)
	w.until("the OS was asked", func() bool { return len(w.wires()) >= before+2 })
	w.hangStorage()
	require.NoError(t, gpio.Stimulate(w.runDir, 0, gpio.Stimulus{Do: gpio.DoDropPower}))
	w.until("the request ends, or power comes", func() bool {
		o, err := w.client.Lookup(ctx, 0, "t", "1")
		return err == nil && o.Status.Final()
	})
	presses := 0
	for _, x := range w.wires()[before:] {
		if x.Signal == gpio.PowerOut && x.Asserted {
			presses++
		}
	}
	w.freeStorage()
	if presses > 1 {
		return errors.New("P2: power was pressed while nothing could be journalled")
	}
	return nil
}
