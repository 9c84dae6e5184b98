package engine

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

// rules are named after what the model test must notice when it is gone.
var rules = []struct {
	name  string
	edits []statetest.Edit
}{
	{"a known key is answered, not run again", []statetest.Edit{{
		File: "state/queue/queue.go",
		Old:  "		if known != nil && !q.retries(known, d) {\n", New: "		if false && known != nil && !q.retries(known, d) {\n",
	}}},
	{"a key that comes with another operation is a conflict", []statetest.Edit{{
		File: "state/queue/queue.go", Old: "	if !sameIntent(known, d) {\n", New: "	if false && !sameIntent(known, d) {\n",
	}}},
	{"an equal property write joins the newest unfinished request", []statetest.Edit{{
		File: "state/queue/queue.go", Old: "	r := q.last\n	if r == nil {\n", New: "	r := q.last\n	if r != nil || r == nil {\n",
	}}},
	{"no write joins a request against which something was seen", []statetest.Edit{{
		File: "state/queue/queue.go", Old: "r.status == state.Running && !r.live.contrary {", New: "r.status == state.Running {",
	}}},
	{"the depth is bounded", []statetest.Edit{{
		File: "state/queue/queue.go", Old: "	case reached(q.depth, q.cfg.DepthLimit):\n", New: "	case false && reached(q.depth, q.cfg.DepthLimit):\n",
	}}},
	{"Chassis Off is exempt from every bound", []statetest.Edit{{
		File: "state/queue/queue.go", Old: "	if d.Adopted || d.Op.Class() == state.Emergency {\n", New: "	if d.Adopted {\n",
	}}},
	{"Chassis Off takes over from every wait", []statetest.Edit{{
		File: "state/engine/admit.go", Old: "		d.preempt = req.Seq\n", New: "		d.preempt = 0\n",
	}}},
	{"nothing that was accepted before a Chassis Off raises power after it", []statetest.Edit{{
		File: "state/engine/admit.go", Old: "	d.supersede(req.Seq, older)\n	on, _ := d.powered()\n", New: "	_ = older\n	on, _ := d.powered()\n",
	}}},
	{"a step that was journalled does not run again", []statetest.Edit{{
		File: "state/engine/recover.go", Old: "	case st.Hold:\n", New: "	case st.Hold, st.Pulse != \"\":\n",
	}}},
	{"everything ends", []statetest.Edit{{
		File: "state/sequence/build.go", Old: "Goal: GoalPowerOff, Within: b.t.GracefulTimeout, OnTimeout: TimeoutFail,\n		Reason: fmt.Sprintf(\"the OS",
		New: "Goal: GoalPowerOff, Within: 1000 * b.t.GracefulTimeout, OnTimeout: TimeoutFail,\n		Reason: fmt.Sprintf(\"the OS",
	}}},
}

// TestEachRuleIsNeeded takes each rule out of a build of its own; the model
// test must then fail.
func TestEachRuleIsNeeded(t *testing.T) {
	statetest.PlainOnly(t)
	require.Len(t, rules, 10)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "model.test")
			build := exec.Command("go", "test", "-c", "-overlay", statetest.Overlay(t, rule.edits...), "-o", bin, ".")
			text, err := build.CombinedOutput()
			require.NoError(t, err, string(text))
			out, err := exec.Command(bin, "-test.run", "^TestModel$", "-rapid.checks", sequences,
				"-rapid.nofailfile", "-rapid.shrinktime", "1ms").CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the model does not notice")
			require.Contains(t, string(out), "--- FAIL: TestModel")
		})
	}
}

// TestTheRulesFitTheCode is the quick half: each rule is still where its edit
// looks for it.
func TestTheRulesFitTheCode(t *testing.T) {
	for _, rule := range rules {
		statetest.Overlay(t, rule.edits...)
	}
}
