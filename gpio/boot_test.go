package gpio_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio"
)

func TestBootFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	id, now, err := gpio.OpenBoot(dir)
	require.NoError(t, err)
	require.Len(t, id, 36)
	first := now()
	require.Less(t, first, time.Minute)

	again, later, err := gpio.OpenBoot(dir)
	require.NoError(t, err)
	require.Equal(t, id, again, "a restart of the daemon is no boot")
	require.GreaterOrEqual(t, later(), first)

	path := filepath.Join(dir, "boot")
	require.NoError(t, os.Remove(path))
	other, restarted, err := gpio.OpenBoot(dir)
	require.NoError(t, err)
	require.NotEqual(t, id, other)
	require.Less(t, restarted(), later())

	require.NoError(t, os.WriteFile(path, []byte(`{"id":"old","anchor":1,"machine":"another"}`), 0o644))
	third, _, err := gpio.OpenBoot(dir)
	require.NoError(t, err)
	require.NotEqual(t, "old", third, "the machine itself has booted since")
}

func TestBootOfTheMachine(t *testing.T) {
	id, err := gpio.BootID()
	require.NoError(t, err)
	require.Len(t, id, 36)
	require.Positive(t, gpio.BootTime())
}

func TestBMCRebootKeepsTheHostRunning(t *testing.T) {
	dir := t.TempDir()
	_, _, err := gpio.OpenBoot(dir)
	require.NoError(t, err)
	v := open(t, dir, quick())
	powerOn(t, v)
	require.NoError(t, v.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "boot")))
	_, _, err = gpio.OpenBoot(dir)
	require.NoError(t, err)
	v = open(t, dir, quick())
	require.True(t, levels(t, v).Asserted(gpio.PowerOk))
}
