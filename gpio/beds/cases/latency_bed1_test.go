//go:build bed1

package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
	"github.com/warthog618/go-gpiocdev"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// samples is how many edges and pulses each figure is made of.
const samples = 200

// apart is how far apart edges are: each finds everything at rest.
const apart = 50 * time.Millisecond

// pulseWidth is short, so that the error is easy to see and the run is short.
const pulseWidth = 20 * time.Millisecond

// TestLatency prints how exact pulses are, and how long it takes from an edge to
// the signal on the bus: of the daemon, and of the least that one could write
// with the same libraries. It asserts only that the figures could be taken; the
// emulated machine shares its processor with whoever else is there.
func TestLatency(t *testing.T) {
	if dev := os.Getenv("BED_BARE_CHIP"); dev != "" {
		runBareLoop(t, dev)
		return
	}
	b, c := localBMC(t, on())
	t.Run("bare", func(t *testing.T) {
		bare := exec.Command(os.Args[0], "-test.run=^TestLatency$")
		bare.Env = append(os.Environ(), "BED_BARE_CHIP="+c.dev)
		require.NoError(t, bare.Start())
		t.Cleanup(func() {
			_ = bare.Process.Kill()
			_ = bare.Wait() // it was killed
		})
		bus := listen(t, "type='signal',interface='"+bareName+"'")
		require.Eventually(t, func() bool {
			return bus.BusObject().CallWithContext(t.Context(), "org.freedesktop.DBus.GetNameOwner", 0, bareName).Err == nil
		}, patience, 50*time.Millisecond)
		report(t, "edge to signal, bare loop", toggle(t, bus, c, "PS_PWROK", func(s *godbus.Signal) bool { return s.Name == bareName+".Edge" }))

		trace := traced(t, c, "RESET_OUT")
		for range samples {
			require.NoError(t, bus.Object(bareName, "/").CallWithContext(t.Context(), bareName+".Pulse", 0).Err)
		}
		report(t, "error of a pulse, bare loop", trace())
	})
	require.NoError(t, c.Drive("PS_PWROK", true))

	t.Run("daemon", func(t *testing.T) {
		s := on()
		s.timings["ResetPulseMs"] = int(pulseWidth.Milliseconds())
		b.board.Do(func(x *board.Board) { x.Timing.Debounce, x.Timing.Post = 0, 10*time.Millisecond })
		b.start(t, s)
		b.sh(t, unwatch)
		bus := listen(t, "type='signal',member='PropertiesChanged',path='"+chassisState.path+"'")
		b.board.Unplug(true)
		report(t, "edge to PropertiesChanged", toggle(t, bus, c, "PS_PWROK", func(s *godbus.Signal) bool {
			changed, _ := s.Body[1].(map[string]godbus.Variant)
			_, ok := changed[chassisState.name]
			return ok
		}))
		require.NoError(t, c.Drive("PS_PWROK", true))
		b.board.Unplug(false)
		b.await(t, hostState, "Running")

		trace := traced(t, c, "RESET_OUT")
		host := bus.Object(hostName, godbus.ObjectPath(hostRequest.path))
		for range samples {
			mark := b.board.Mark()
			require.NoError(t, host.CallWithContext(t.Context(), "org.freedesktop.DBus.Properties.Set", 0,
				hostRequest.iface, hostRequest.name, godbus.MakeVariant(hostRequest.values+"ForceWarmReboot")).Err)
			b.awaitPulses(t, mark, "RESET_OUT", 1)
			b.awaitLine(t, "POST_COMPLETE", true)
		}
		report(t, "error of a pulse, daemon", trace())
	})
}

// report prints the figures of a set of durations.
func report(t *testing.T, what string, d []time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, len(d), samples, what)
	slices.Sort(d)
	n := len(d)
	fmt.Printf("BED-FIGURE %-28s n=%d median=%v p95=%v max=%v\n", what, n, d[n/2], d[n*95/100], d[n-1])
}

// listen returns a connection that gets the signals of a rule.
func listen(t *testing.T, rule string) *godbus.Conn {
	t.Helper()
	bus, err := godbus.ConnectSystemBus(godbus.WithSignalHandler(godbus.NewSequentialSignalHandler()))
	require.NoError(t, err)
	t.Cleanup(func() { bus.Close() })
	require.NoError(t, bus.BusObject().CallWithContext(t.Context(), "org.freedesktop.DBus.AddMatch", 0, rule).Err)
	return bus
}

// toggle moves a line there and back, and returns how long each edge took to
// become a signal of the wanted kind.
func toggle(t *testing.T, bus *godbus.Conn, c *chip, line string, wanted func(*godbus.Signal) bool) []time.Duration {
	t.Helper()
	signals := make(chan *godbus.Signal, 64)
	bus.Signal(signals)
	defer bus.RemoveSignal(signals)
	level, err := c.Read(line)
	require.NoError(t, err)
	var took []time.Duration
	for range samples {
		level = !level
		began := time.Now()
		require.NoError(t, c.Drive(line, level))
		for seen := false; !seen; {
			select {
			case s := <-signals:
				seen = wanted(s)
			case <-time.After(patience):
				t.Fatalf("edge %d gave no signal", len(took))
			}
		}
		took = append(took, time.Since(began))
		time.Sleep(apart) // so that what comes after a signal is not waited for by the next edge
	}
	return took
}

// traced has the kernel note every value that is written to a line, and returns
// what gives the errors of the pulses since, against pulseWidth.
func traced(t *testing.T, c *chip, line string) func() []time.Duration {
	t.Helper()
	const tracing = "/sys/kernel/tracing"
	_, err := shell(t.Context(), "mountpoint -q "+tracing+" || mount -t tracefs tracefs "+tracing)
	require.NoError(t, err)
	write(t, tracing+"/trace_clock", "mono")
	write(t, tracing+"/events/gpio/gpio_value/enable", "1")
	write(t, tracing+"/trace", "")
	t.Cleanup(func() { write(t, tracing+"/events/gpio/gpio_value/enable", "0") })

	number := base(t, c) + c.at[line]
	pattern := regexp.MustCompile(fmt.Sprintf(`([0-9]+\.[0-9]+): gpio_value: %d set ([01])`, number))
	return func() []time.Duration {
		var errs []time.Duration
		var began time.Duration
		for _, m := range pattern.FindAllStringSubmatch(read(t, tracing+"/trace"), -1) {
			seconds, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			at := time.Duration(seconds * float64(time.Second))
			switch {
			case m[2] == "0" && began == 0: // asserted low
				began = at
			case m[2] == "1" && began != 0:
				errs = append(errs, (at - began - pulseWidth).Abs())
				began = 0
			}
		}
		return errs
	}
}

// base returns the kernel's number of the chip's first line.
func base(t *testing.T, c *chip) int {
	t.Helper()
	labels, err := filepath.Glob("/sys/class/gpio/gpiochip*/label")
	require.NoError(t, err)
	for _, l := range labels {
		if read(t, l) == c.label {
			n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(l)), "gpiochip"))
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("the kernel has no chip %s", c.label)
	return 0
}

// bareName is one that the bed's own bus policy gives away.
const bareName = "xyz.openbmc_project.Bed"

// bareLoop is the daemon without everything: one signal per edge, one pulse per
// call.
type bareLoop struct{ out *gpiocdev.Line }

// Pulse asserts the line for pulseWidth.
func (b bareLoop) Pulse() *godbus.Error {
	err := b.out.SetValue(1)
	time.Sleep(pulseWidth)
	if err = errors.Join(err, b.out.SetValue(0)); err != nil {
		return godbus.MakeFailedError(err)
	}
	return nil
}

// runBareLoop is the process that TestLatency measures beside the daemon.
func runBareLoop(t *testing.T, dev string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	bus, err := godbus.ConnectSystemBus()
	require.NoError(t, err)
	chip, err := gpiocdev.NewChip(dev)
	require.NoError(t, err)
	defer chip.Close()
	at := func(name string) int {
		return slices.Index(boardLines, name)
	}
	out, err := chip.RequestLine(at("RESET_OUT"), gpiocdev.AsOutput(0), gpiocdev.AsActiveLow)
	require.NoError(t, err)
	in, err := chip.RequestLine(at("PS_PWROK"), gpiocdev.WithBothEdges, gpiocdev.WithEventHandler(func(e gpiocdev.LineEvent) {
		_ = bus.Emit("/", bareName+".Edge", e.Type == gpiocdev.LineEventRisingEdge) // a lost one fails the other side
	}))
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, bus.Export(bareLoop{out}, "/", bareName))
	_, err = bus.RequestName(bareName, godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	<-ctx.Done()
}
