// Package statetest has what tests of several packages share: builds with a
// fault put into them on purpose.
package statetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Edit replaces a text that occurs once in a file of the module.
type Edit struct {
	File string // relative to the module's root
	Old  string
	New  string
}

// Overlay writes the edited files and returns the name of the list of them for
// go build -overlay. The module's own files stay as they are. The test fails
// where a text does not occur exactly once: an edit that no longer fits proves
// nothing.
func Overlay(t testing.TB, edits ...Edit) string {
	t.Helper()
	root := moduleRoot(t)
	dir := t.TempDir()
	texts := map[string]string{}
	for _, e := range edits {
		name := filepath.Join(root, e.File)
		text, ok := texts[name]
		if !ok {
			text = read(t, name)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			t.Fatalf("the text to change occurs %d times in %s:\n%s", n, e.File, e.Old)
		}
		texts[name] = strings.Replace(text, e.Old, e.New, 1)
	}
	replace := map[string]string{}
	for name, text := range texts {
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		write(t, changed, []byte(text))
		replace[name] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	write(t, file, list)
	return file
}

// moduleRoot is the directory of go.mod above the test's.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test's directory")
	return ""
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// PlainOnly skips a test under the race detector: it is slow, its work is done
// in other processes or by one goroutine, and make test runs it without the
// detector too.
func PlainOnly(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("runs in the pass without the race detector")
	}
}
