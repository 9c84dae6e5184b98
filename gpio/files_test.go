package gpio

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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
	w.Edges, w.Lost, w.Tail, w.TailAt = []edge{{Seq: 1 << 63, Signal: PowerOk, Asserted: true}}, 3, "1 PowerOk 1 0\n", 4
	for _, v := range []any{mark{Kind: markVirtual}, full, bootFile{ID: "id", Anchor: 5 * time.Second, Machine: "machine"}, *w} {
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

// olderMark is a mark as it was written when this test was.
const olderMark = `{"kind":"chardev","board":1,"signal":"PowerOut","pid":7,"chip":"c","dev":"/dev/gpiochip0","offset":3,` +
	`"line":"POWER_OUT","activeLow":true,"drive":"open-drain","bias":"pull-up"}`

// Marks of an older and of a newer daemon are read; one that cannot be read stays
// where it is, is named, and hides none of the others.
func TestMarksOfOlderAndNewerDaemons(t *testing.T) {
	want := mark{
		Kind: markChardev, Board: 1, Signal: "PowerOut", PID: 7, Chip: "c", Dev: "/dev/gpiochip0",
		Offset: 3, Line: "POWER_OUT", ActiveLow: true, Drive: "open-drain", Bias: "pull-up",
	}
	assert.Equal(t, olderMark, string(jsonpos.Marshal(want)), "an older daemon reads it")
	m := newMarks(t.TempDir())
	require.NoError(t, os.MkdirAll(m.dir, 0o755))
	for name, text := range map[string]string{
		"1-a.json": olderMark,
		"1-b.json": strings.Replace(olderMark, `"kind"`, `"new":{"a":[1]},"kind"`, 1),
		"1-c.json": `{"kind":"virtual","board":0,"signal":"PowerOut"}`,
		"1-d.json": olderMark[:30],
		"1-e.json": `{"kind":"virtual","board":"host 0"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
	}
	all, err := m.list()
	assert.Equal(t, []mark{want, want, {Kind: markVirtual, Signal: "PowerOut"}}, all)
	for _, name := range []string{"1-d.json", "1-e.json"} {
		assert.ErrorContains(t, err, filepath.Join(m.dir, name))
		assert.FileExists(t, filepath.Join(m.dir, name))
	}
	assert.ErrorContains(t, err, "remove it by hand once the line is released")
}
