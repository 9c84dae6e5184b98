package gpio

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// The files of the run directory are what encoding/json made of them, so that
// an older or newer daemon can read them.
func TestFilesAsEncodingJSON(t *testing.T) {
	full := mark{
		Kind: markChardev, Board: 1, Signal: PowerOut, PID: 7, Chip: `1e780000.gpio "x"`, Dev: "/dev/gpiochip0",
		Offset: 3, Line: "POWER_OUT", ActiveLow: true, Drive: "open-drain", Bias: "pull-up",
	}
	w := newWorld("id", "machine", VirtualConfig{
		Scale: 0.25, Inputs: []string{PowerOk}, StartOn: true, PowerGoodDelay: Duration(time.Millisecond),
		Faults: Faults{ForceOffIgnored: 2, LineHung: []string{PowerOut}, DropPowerGoodAfter: Duration(time.Hour)},
	}, time.Second)
	w.Edges, w.Lost, w.Tail, w.TailAt = []edge{{1 << 63, PowerOk, true}}, 3, "1 PowerOk 1 0\n", 4
	for _, v := range []any{mark{Kind: markVirtual}, full, bootFile{"id", 5 * time.Second, "machine"}, *w} {
		ours := jsonpos.Marshal(v)
		standard, err := json.Marshal(v)
		require.NoError(t, err)
		assert.Equal(t, string(standard), string(ours))
	}

	var k mark
	require.NoError(t, jsonpos.Unmarshal(jsonpos.Marshal(full), &k))
	assert.Equal(t, full, k)
	var a, b world
	require.NoError(t, jsonpos.Unmarshal(jsonpos.Marshal(*w), &a))
	require.NoError(t, json.Unmarshal(jsonpos.Marshal(*w), &b))
	assert.Equal(t, b, a)
	assert.ErrorContains(t, jsonpos.Unmarshal([]byte(`{"config": {"postDelay": "-1s"}}`), &a), "1:26: \"-1s\" is no duration")
}
