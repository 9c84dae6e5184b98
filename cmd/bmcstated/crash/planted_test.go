package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// planted is a fault put into a copy of the daemon's code; the crash test must
// find it.
type planted struct {
	name  string
	edits []edit
	find  func(t *testing.T, bin string) error
}

// edit replaces text that occurs once in a file of the module.
type edit struct{ file, old, new string }

// anyPoint kills at every point of an operation until a violation shows.
func anyPoint(op state.Operation, sameBoot bool) func(*testing.T, string) error {
	return func(t *testing.T, bin string) error {
		for _, tr := range trials {
			if tr.op != op {
				continue
			}
			names := count(t, bin, tr)
			for at := range names {
				if err := violation(t, bin, tr, at+1, sameBoot); err != nil {
					return fmt.Errorf("at %s: %w", names[at], err)
				}
			}
		}
		return nil
	}
}

var faults = []planted{
	{
		name: "an effect without its token",
		edits: []edit{
			{"state/engine/engine.go", "	if barrier {\n		return e.permits", "	if true {\n		return nil\n	}\n	if barrier {\n		return e.permits"},
			{"state/engine/launch.go", "	r.needs++\n", "	r.needs++\n	defer func() { d.act(false) }()\n"},
		},
		find: anyPoint(state.HostForceWarmReboot, true),
	},
	{
		name:  "a started request is run again",
		edits: []edit{{"state/engine/recover.go", "	case st.Hold:\n", "	case st.Hold, st.Pulse != \"\":\n"}},
		find:  anyPoint(state.HostForceWarmReboot, true),
	},
	{
		name:  "success by a bare level",
		edits: []edit{{"state/engine/recover.go", "		return ok && st.AfterPassage && on", "		_, _ = st, ok\n		return on"}},
		find:  anyPoint(state.HostReboot, false),
	},
	{
		name: "a line stays pressed after a death",
		edits: []edit{{"gpio/marks.go", "func ReleaseMarked(runDir string, log *slog.Logger) error {\n",
			"func ReleaseMarked(runDir string, log *slog.Logger) error {\n	if true {\n		return nil\n	}\n"}},
		find: anyPoint(state.HostOn, true),
	},
	{
		name:  "an off does not outlive its barrier",
		edits: []edit{{"state/history/marks.go", "		return b.Domain == r.Domain && r.Seq < b.Request\n", "		return false && b.Domain == r.Domain && r.Seq < b.Request\n"}},
		find:  offOutlivesItsBarrier,
	},
}

// TestPlantedFaultsAreFound: each fault, put into a build of its own, breaks a
// promise that the checks see.
func TestPlantedFaultsAreFound(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			bin, err := buildDaemon(t.TempDir(), overlay(t, f.edits))
			require.NoError(t, err)
			err = f.find(t, bin)
			require.Error(t, err, "the fault is not found")
			t.Log("found: ", err)
		})
	}
}

// overlay writes the changed files and the list of them for go build.
func overlay(t *testing.T, edits []edit) string {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	for i, e := range edits {
		original := filepath.Join(root, e.file)
		text, err := os.ReadFile(original)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), e.old), "the place of the fault in %s", e.file)
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600))
		replace[original] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list, 0o600))
	return file
}
