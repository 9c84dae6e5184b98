package gpio_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/slog"
)

// victimEnv makes the test binary a process that opens the board in this
// directory, presses PowerOut, and kills itself at the point named by
// victimPoint.
const (
	victimEnv   = "GPIO_TEST_VICTIM"
	victimPoint = "GPIO_TEST_POINT"
)

func victim() error {
	v, err := gpio.OpenVirtual(gpio.VirtualOptions{
		RunDir: os.Getenv(victimEnv),
		Config: gpio.VirtualConfig{Scale: 0.5, SlotPower: true},
		Hook: func(p gpio.Point, _ string) {
			if string(p) == os.Getenv(victimPoint) {
				_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
				select {}
			}
		},
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	err = errors.Join(v.Pulse(ctx, gpio.PowerOut, 20*ms, false), v.SetLevel(ctx, gpio.SlotPower, true))
	return errors.Join(err, v.Close())
}

func markFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pulses", "*.json"))
	require.NoError(t, err)
	return files
}

// kill runs a victim on dir that dies at point.
func kill(t *testing.T, dir string, point gpio.Point) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(deadline(t), exe)
	cmd.Env = append(os.Environ(), victimEnv+"="+dir, victimPoint+"="+string(point))
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, "signal: killed", exit.Error())
}

func TestNoLineStaysPressedAfterDeath(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, p := range gpio.Points() {
		t.Run(string(p), func(t *testing.T) {
			dir := t.TempDir()
			kill(t, dir, p)
			died := gpio.BootTime()
			c, err := gpio.ReadChassis(dir, 0)
			require.NoError(t, err)
			if c.Wires[gpio.PowerOut] {
				require.Len(t, markFiles(t, dir), 1, "asserted without a mark")
			}
			require.NoError(t, gpio.ReleaseMarked(dir, log))
			require.Empty(t, markFiles(t, dir))

			wires, err := gpio.ReadWires(dir, 0)
			require.NoError(t, err)
			down := false
			for _, w := range wires {
				if w.Signal == gpio.PowerOut {
					down = w.Asserted
					assert.Less(t, w.At, died+10*time.Second, "ten times the second that P6 allows")
				}
			}
			require.False(t, down)
			before := len(wires)
			require.NoError(t, gpio.ReleaseMarked(dir, log))
			open(t, dir, gpio.VirtualConfig{Scale: 0.5, SlotPower: true})
			wires, err = gpio.ReadWires(dir, 0)
			require.NoError(t, err)
			for _, w := range wires[before:] {
				assert.NotEqual(t, gpio.PowerOut, w.Signal, "a second release or a start moved the line")
			}
		})
	}
}

func TestUnreleasedLineStaysAssertedAndIsOverridden(t *testing.T) {
	dir := t.TempDir()
	kill(t, dir, gpio.AfterAssert)
	require.Eventually(t, func() bool {
		c, err := gpio.ReadChassis(dir, 0)
		require.NoError(t, err)
		require.True(t, c.Wires[gpio.PowerOut])
		wires, err := gpio.ReadWires(dir, 0)
		require.NoError(t, err)
		last := wires[len(wires)-1]
		return last.Signal == gpio.PowerOk && !last.Asserted
	}, patience, 5*ms, "a button held for too long cuts the power")
	require.NoError(t, gpio.ReleaseMarked(dir, slog.New(slog.DiscardHandler)))
	awaitWire(t, dir, gpio.PowerOut, false)
}

func TestReleaseMarkedReportsWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	require.NoError(t, gpio.ReleaseMarked(dir, log), "no mark")
	kill(t, dir, gpio.AfterAssert)
	pulses := filepath.Join(dir, "pulses")
	require.NoError(t, os.WriteFile(filepath.Join(pulses, "0-Bad.json"), []byte("{"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(pulses, "0-Odd.json"), []byte(`{"kind":"odd","signal":"Odd"}`), 0o644))
	err := gpio.ReleaseMarked(dir, log)
	require.ErrorContains(t, err, "0-Bad.json")
	require.ErrorContains(t, err, `unknown kind "odd"`)
	awaitWire(t, dir, gpio.PowerOut, false)
}

func TestReleaseMarkedWithoutItsBoard(t *testing.T) {
	dir := t.TempDir()
	kill(t, dir, gpio.AfterAssert)
	require.NoError(t, os.Remove(filepath.Join(dir, "board0.json")))
	require.NoError(t, gpio.ReleaseMarked(dir, slog.New(slog.DiscardHandler)))
	require.Empty(t, markFiles(t, dir))
}

func TestPulseWithoutRoomForItsMarkMovesNothing(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir, gpio.VirtualConfig{})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pulses"), nil, 0o644))
	for _, signal := range []string{gpio.PowerOut, gpio.ResetOut} {
		err := v.Pulse(deadline(t), signal, ms, signal != gpio.PowerOut)
		var le *gpio.LineError
		require.ErrorAs(t, err, &le)
		require.Equal(t, "mark", le.Op)
		require.False(t, gpio.Moved(err))
		require.Empty(t, widths(t, dir, signal))
	}
	require.NoError(t, v.Pulse(deadline(t), gpio.PowerOut, ms, true), "power off goes ahead")
	require.Len(t, widths(t, dir, gpio.PowerOut), 1)
}

// A second daemon, or an operator who runs --release-lines, cuts no pulse of a
// daemon that lives, and takes its mark from nobody.
func TestReleaseMarkedLeavesALivingProcessAlone(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	v := open(t, dir, gpio.VirtualConfig{})
	done := make(chan error, 1)
	go func() { done <- v.Pulse(context.Background(), gpio.PowerOut, time.Hour, false) }()
	awaitWire(t, dir, gpio.PowerOut, true)
	require.ErrorIs(t, gpio.ReleaseMarked(dir, log), gpio.ErrBusy)
	require.Len(t, markFiles(t, dir), 1)
	c, err := gpio.ReadChassis(dir, 0)
	require.NoError(t, err)
	require.True(t, c.Wires[gpio.PowerOut])
	v.Release(gpio.PowerOut)
	require.NoError(t, <-done)
	require.NoError(t, gpio.ReleaseMarked(dir, log))
}

func TestMoved(t *testing.T) {
	for err, want := range map[error]bool{
		nil: true, gpio.ErrTakenOver: true, gpio.ErrStuck: true,
		gpio.ErrUnmoved: false, gpio.ErrMissing: false, gpio.ErrBusy: false, gpio.ErrAsserted: false, gpio.ErrNotDriven: false, gpio.ErrClosed: false,
	} {
		require.Equal(t, want, gpio.Moved(err), err)
	}
	v := open(t, t.TempDir(), gpio.VirtualConfig{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.False(t, gpio.Moved(v.Pulse(ended, gpio.PowerOut, ms, false)))
	require.False(t, gpio.Moved(v.Pulse(deadline(t), gpio.PowerOut, 0, false)))
}
