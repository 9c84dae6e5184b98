package sequence_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testNames returns the names of all test functions of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names[fn.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return names
}

// TestDefects holds DEFECTS.md against the tests that it names.
func TestDefects(t *testing.T) {
	text, err := os.ReadFile("DEFECTS.md")
	require.NoError(t, err)
	names := testNames(t)
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || !strings.ContainsAny(cells[1], "0123456789") {
			continue
		}
		id, shown := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[3])
		assert.False(t, listed[id], "%s is listed twice", id)
		listed[id] = true
		if reason, ok := strings.CutPrefix(shown, "n/a:"); ok {
			assert.Greater(t, len(reason), 20, "%s gives a reason", id)
			continue
		}
		for name := range strings.SplitSeq(shown, ", ") {
			assert.True(t, names[name], "%s names %s, which does not exist", id, name)
		}
	}
	for section, count := range map[string]int{"2.3.%d": 8, "6.1.%d": 35, "D3.%d": 8, "D4.%d": 8, "D5.%d": 11} {
		for n := range count {
			assert.True(t, listed[fmt.Sprintf(section, n+1)], section, n+1)
		}
	}
}
