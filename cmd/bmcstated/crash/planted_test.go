package crash

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// planted is a fault put into a copy of the daemon's code; the crash test must
// find it.
type planted struct {
	name  string
	edits []statetest.Edit
	find  func(t *testing.T, bin string) error
}

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
		edits: []statetest.Edit{
			{File: "state/engine/carry.go", Old: "	if barrier {\n		return e.permits", New: "	if true {\n		return nil\n	}\n	if barrier {\n		return e.permits"},
			{File: "state/engine/launch.go", Old: "	r.needs++\n	if r.op.Class()", New: "	r.needs++\n	defer func() { d.act(false) }()\n	if r.op.Class()"},
		},
		find: noEffectWithoutTheJournal,
	},
	{
		name:  "a started request is run again",
		edits: []statetest.Edit{{File: "state/engine/recover.go", Old: "	case st.Hold:\n", New: "	case st.Hold, st.Pulse != \"\":\n"}},
		find:  anyPoint(state.HostForceWarmReboot, true),
	},
	{
		name:  "success by a bare level",
		edits: []statetest.Edit{{File: "state/engine/recover.go", Old: "		return ok && st.AfterPassage && on", New: "		_, _ = st, ok\n		return on"}},
		find:  anyPoint(state.HostReboot, false),
	},
	{
		name:  "a line stays pressed after a death",
		edits: []statetest.Edit{{File: "gpio/marks.go", Old: "func ReleaseMarked(runDir string, log *slog.Logger) error {\n", New: "func ReleaseMarked(runDir string, log *slog.Logger) error {\n	if true {\n		return nil\n	}\n"}},
		find:  anyPoint(state.HostOn, true),
	},
	{
		name:  "an off does not outlive its barrier",
		edits: []statetest.Edit{{File: "state/history/marks.go", Old: "		if b.Domain == r.Domain && r.Seq < b.Request {\n", New: "		if false && b.Domain == r.Domain && r.Seq < b.Request {\n"}},
		find:  offOutlivesItsBarrier,
	},
}

// TestPlantedFaultsAreFound: each fault, put into a build of its own, breaks a
// promise that the checks see.
func TestPlantedFaultsAreFound(t *testing.T) {
	statetest.PlainOnly(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			bin, err := buildDaemon(t.TempDir(), statetest.Overlay(t, f.edits...))
			require.NoError(t, err)
			err = f.find(t, bin)
			require.Error(t, err, "the fault is not found")
			t.Log("found: ", err)
		})
	}
}

// TestThePlantedFaultsFitTheCode is the quick half: each fault is still where
// its edit looks for it.
func TestThePlantedFaultsFitTheCode(t *testing.T) {
	for _, f := range faults {
		statetest.Overlay(t, f.edits...)
	}
}
