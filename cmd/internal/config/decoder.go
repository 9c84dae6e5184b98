package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// errOutOfRange tells [text] that a string is not allowed; it is never seen
// outside.
var errOutOfRange = errors.New("out of range")

// FieldError says what is wrong with one field of a configuration file and
// what would be right. It is an error.
type FieldError struct {
	_ [0]func() // see state.Incomparable

	File    string
	At      jsonpos.Position
	Field   string // dotted path, for example "simulate.timings.powerPulse"; empty for the file as a whole
	Value   string // as written, shortened; empty for a file that is no JSON
	Problem string // for example "is out of range"
	Allowed string // what would be right; empty where Problem says it
}

// Error returns one line: "file:line:column: field: value problem; allowed: …".
func (e *FieldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%s: ", e.File, e.At)
	if e.Field != "" {
		fmt.Fprintf(&b, "%s: ", e.Field)
	}
	if e.Value != "" {
		fmt.Fprintf(&b, "%s ", e.Value)
	}
	b.WriteString(e.Problem)
	if e.Allowed != "" {
		fmt.Fprintf(&b, "; allowed: %s", e.Allowed)
	}
	return b.String()
}

var _ error = (*FieldError)(nil)

// decoder walks one file and gathers everything that is wrong with it.
type decoder struct {
	file string
	data []byte
	errs []error
}

func (d *decoder) report(offset int, e FieldError) {
	e.File, e.At = d.file, jsonpos.PositionOf(d.data, offset)
	d.errs = append(d.errs, &e)
}

func (d *decoder) fail(field string, n *jsonpos.Node, problem, allowed string) {
	d.failAt(n.Offset, field, n, problem, allowed)
}

// failAt is fail for what is wrong with a key rather than with its value n.
func (d *decoder) failAt(offset int, field string, n *jsonpos.Node, problem, allowed string) {
	const valueLimit = 60
	d.report(offset, FieldError{Field: field, Value: n.Source(d.data, valueLimit), Problem: problem, Allowed: allowed})
}

func (d *decoder) wrongType(field string, n *jsonpos.Node, allowed string) {
	problem := "is " + n.Kind.String()
	if n.Kind == jsonpos.Null {
		problem = "is no value"
	}
	d.fail(field, n, problem, allowed)
}

func (d *decoder) outOfRange(field string, n *jsonpos.Node, allowed string) {
	d.fail(field, n, "is not allowed here", allowed)
}

// object reads the members of n by the table of keys.
func (d *decoder) object(field string, n *jsonpos.Node, keys []key) {
	seen := make(map[string]bool, len(n.Members))
	for _, m := range n.Members {
		path := m.Key
		if path == "" {
			path = `""` // a name that can be seen
		}
		if len(path) > keyLimit {
			path = strings.ToValidUTF8(path[:keyLimit], "") + "…"
		}
		if field != "" {
			path = field + "." + path
		}
		read := find(keys, m.Key)
		switch {
		case read == nil:
			d.failAt(m.Offset, path, m.Value, unknownKey(keys, m.Key), names(keys))
		case seen[m.Key]:
			d.failAt(m.Offset, path, m.Value, "is there twice", "each key once")
		default:
			read(d, path, m.Value)
		}
		seen[m.Key] = true
	}
}

func find(keys []key, name string) reader {
	for _, k := range keys {
		if k.name == name {
			return k.read
		}
	}
	return nil
}

func names(keys []key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.name
	}
	return strings.Join(all, ", ")
}

// keyLimit is above the length of any key that there is, in bytes.
const keyLimit = 64

func unknownKey(keys []key, name string) string {
	if len(name) > keyLimit {
		return "has an unknown key" // to compare it with all would take long
	}
	for _, k := range keys {
		if strings.EqualFold(k.name, name) || distance(k.name, name) <= 2 {
			return fmt.Sprintf("has an unknown key (did you mean %q?)", k.name)
		}
	}
	return "has an unknown key"
}

// distance returns how many characters must be put in, left out or replaced
// to make a into b (Levenshtein).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			replaced := diagonal
			if x[i] != y[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
