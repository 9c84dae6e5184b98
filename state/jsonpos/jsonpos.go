// Package jsonpos reads JSON into a tree whose nodes know where in the text
// they stand, so that a reader of configuration can say which line is wrong. It
// also reads and writes the small files and notes of bmcstate themselves.
//
// encoding/json tells places of syntax errors only, and it is 180 KB of a BMC's
// flash; this package is a tenth of that. It takes the same texts and words
// syntax errors in the same way. It is pure and knows nothing of bmcstate, so
// that every other package may import it.
package jsonpos

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep objects and arrays may nest.
const MaxDepth = 64

// Kind is what a node is in JSON's own words.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{
	Null: "null", Bool: "a boolean", Number: "a number", String: "a string", Array: "a list", Object: "an object",
}

// String returns the kind with its article, for example "a number".
func (k Kind) String() string { return kindNames[k] }

// Node is one JSON value. It is immutable.
type Node struct {
	Kind    Kind
	Offset  int      // byte offset of its first character
	Bool    bool     // of a Bool
	Text    string   // of a String, and of a Number as written
	Elems   []*Node  // of an Array
	Members []Member // of an Object, in the order of the text, duplicates included

	end int // byte offset behind its last character
}

// Member is one key of an object with its value.
type Member struct {
	_ [0]func() // see state.Incomparable

	Key    string
	Offset int // byte offset of the key's opening quote
	Value  *Node
}

// Position is a place in a text: line and column count from 1, the column in
// characters.
type Position struct{ Line, Column int }

// String returns "line:column".
func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// PositionOf returns the place of the byte at offset in data. An offset outside
// data is moved to its nearest end.
func PositionOf(data []byte, offset int) Position {
	before := data[:min(max(offset, 0), len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return Position{
		Line:   bytes.Count(before, []byte{'\n'}) + 1,
		Column: utf8.RuneCount(before[start:]) + 1,
	}
}

// SyntaxError says that a text is no JSON, or not what was expected, and where.
// It is an error.
type SyntaxError struct {
	_ [0]func() // see state.Incomparable

	Offset int // byte offset of the first wrong character
	Text   string
}

// Error returns what is wrong, without the place.
func (e *SyntaxError) Error() string { return e.Text }

var _ error = (*SyntaxError)(nil)

// Source returns the node as it stands in data, without white space and cut to
// at most limit characters, for messages.
func (n *Node) Source(data []byte, limit int) string {
	var compact []byte
	quoted := false
	for i := n.Offset; i < n.end; i++ {
		c := data[i]
		switch {
		case quoted && c == '\\':
			compact = append(compact, c)
			i++
			c = data[i]
		case c == '"':
			quoted = !quoted
		case !quoted && isSpace(c):
			continue
		}
		compact = append(compact, c)
	}
	text := []rune(string(compact))
	if len(text) > limit {
		return string(text[:limit]) + "…"
	}
	return string(text)
}
