//go:build bed4

package cases

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bootFile is what guest wrote down about the boot before the first case ran.
const bootFile = "/run/bed-boot"

// The daemon is up before multi-user.target is reached, after the bus, and its
// start starts nothing.
func TestBootOrder(t *testing.T) {
	text, err := os.ReadFile(bootFile)
	require.NoError(t, err)
	began, up, names := map[string]int64{}, map[string]int64{}, []string{}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[key] = value
		}
		id := values["Id"]
		began[id], _ = strconv.ParseInt(values["InactiveExitTimestampMonotonic"], 10, 64)
		up[id], _ = strconv.ParseInt(values["ActiveEnterTimestampMonotonic"], 10, 64)
		if values["ActiveState"] != "inactive" {
			names = append(names, id)
		}
	}
	require.NotZero(t, up[unit], "%s", text)
	assert.Greater(t, began[unit], up["dbus.socket"])
	assert.Greater(t, up["multi-user.target"], up[unit])
	assert.Greater(t, up[unit], began[unit])
	assert.ElementsMatch(t, []string{unit, "dbus.socket", "multi-user.target"}, names, "no target was started by the start")
}
