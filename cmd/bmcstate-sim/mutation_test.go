package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

// TestMutations shows that the simulator has no rule of its own: with one rule
// of the daemon's admission changed, its figures are no longer the article's.
// Each patch is applied to a copy that only that build sees.
func TestMutations(t *testing.T) {
	statetest.PlainOnly(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	patches, err := filepath.Glob("testdata/mutations/*.patch")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 3)
	for _, p := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".patch"), func(t *testing.T) {
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			cmd := exec.Command("go", "test", "-overlay", overlay(t, root, string(text)),
				"-run", "^TestFigures$", "./cmd/bmcstate-sim/internal/paper")
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the mutation changes nothing:\n%s", text)
			assert.Contains(t, string(out), "--- FAIL: TestFigures")
			assert.NotContains(t, string(out), "build failed")
		})
	}
}

// overlay applies a patch to a copy and returns the file for go's -overlay.
func overlay(t *testing.T, root, patch string) string {
	t.Helper()
	_, rest, ok := strings.Cut(patch, "\n+++ b/")
	require.True(t, ok, "no +++ line")
	name, hunk, _ := strings.Cut(rest, "\n@@\n")
	file := filepath.Join(root, name)
	source, err := os.ReadFile(file)
	require.NoError(t, err)

	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(name))
	require.NoError(t, os.WriteFile(changed, []byte(apply(t, string(source), hunk)), 0o600))
	index, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	require.NoError(t, err)
	out := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(out, index, 0o600))
	return out
}

// apply applies one hunk, found by its text, not by line numbers.
func apply(t *testing.T, source, hunk string) string {
	t.Helper()
	var before, after strings.Builder
	for line := range strings.Lines(hunk) {
		switch line[0] {
		case ' ':
			before.WriteString(line[1:])
			after.WriteString(line[1:])
		case '-':
			before.WriteString(line[1:])
		case '+':
			after.WriteString(line[1:])
		}
	}
	require.Equal(t, 1, strings.Count(source, before.String()), "the patch does not fit any more: adapt it to the source")
	return strings.Replace(source, before.String(), after.String(), 1)
}
