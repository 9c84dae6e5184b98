package scenarios

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run directory that takes no mark keeps no power on. Whatever else would
// press a button fails, and does not hold the next press back: no line moved.
func TestRunDirectoryThatTakesNoMark(t *testing.T) {
	d := boot(t, "")
	d.on()
	pulses := filepath.Join(d.runDir, "pulses")
	require.NoError(t, os.RemoveAll(pulses))
	require.NoError(t, os.WriteFile(pulses, nil, 0o600))

	require.NoError(t, d.hset("Off"))
	d.idle()
	d.untilLog("pulse mark")
	d.untilHost("Running")

	require.NoError(t, d.cset("Off"))
	d.untilChassis("Off")
	d.idle()

	require.NoError(t, d.hset("On"))
	d.idle()
	d.untilChassis("Off")

	require.NoError(t, os.Remove(pulses))
	d.on() // at once: the press that failed moved nothing
}
