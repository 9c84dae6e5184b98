// Package jsonpos reads JSON into a tree whose nodes know where in the text
// they stand, so that a reader of configuration can say which line is wrong.
//
// encoding/json reports positions of syntax errors only; an unknown key or a
// value out of range comes without one.
package jsonpos

import (
	"bytes"
	"encoding/json"
	"errors"
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
}

// Member is one key of an object with its value.
type Member struct {
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

// SyntaxError says that a text is no JSON, and where. It is an error.
type SyntaxError struct {
	Offset int // byte offset of the first wrong character
	Text   string
}

// Error returns what is wrong, without the place.
func (e *SyntaxError) Error() string { return e.Text }

var _ error = (*SyntaxError)(nil)

// Parse reads one JSON value. Its error is a [*SyntaxError].
func Parse(data []byte) (*Node, error) {
	// A check of the whole text first gives exact offsets of syntax errors; the
	// token reader's are less exact, and after this check it meets none.
	var all json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, syntaxError(data, err)
	}
	p := parser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	return p.value(0)
}

func syntaxError(data []byte, err error) *SyntaxError {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return &SyntaxError{Text: err.Error()}
	}
	offset := int(syntax.Offset) - 1 // it counts the wrong character in
	if int(syntax.Offset) >= len(data) && syntax.Error() == "unexpected end of JSON input" {
		offset = len(data)
	}
	return &SyntaxError{Offset: max(offset, 0), Text: syntax.Error()}
}

type parser struct {
	data []byte
	dec  *json.Decoder
}

// token returns the next token and the offset of its first character.
func (p *parser) token() (json.Token, int, error) {
	start := int(p.dec.InputOffset())
	for start < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[start]) >= 0 {
		start++
	}
	tok, err := p.dec.Token()
	if err != nil {
		return nil, start, &SyntaxError{Offset: start, Text: err.Error()}
	}
	return tok, start, nil
}

func (p *parser) value(depth int) (*Node, error) {
	tok, start, err := p.token()
	if err != nil {
		return nil, err
	}
	if depth > MaxDepth {
		return nil, &SyntaxError{Offset: start, Text: fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
	}
	n := &Node{Offset: start}
	switch t := tok.(type) {
	case bool:
		n.Kind, n.Bool = Bool, t
	case json.Number:
		n.Kind, n.Text = Number, t.String()
	case string:
		n.Kind, n.Text = String, t
	case json.Delim:
		if t == '[' {
			n.Kind = Array
			return n, p.elems(n, depth)
		}
		n.Kind = Object
		return n, p.members(n, depth)
	}
	return n, nil
}

func (p *parser) elems(n *Node, depth int) error {
	for p.dec.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.Elems = append(n.Elems, v)
	}
	_, _, err := p.token() // the closing bracket
	return err
}

func (p *parser) members(n *Node, depth int) error {
	for p.dec.More() {
		key, start, err := p.token()
		if err != nil {
			return err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		name, _ := key.(string) // an object's keys are strings
		n.Members = append(n.Members, Member{Key: name, Offset: start, Value: v})
	}
	_, _, err := p.token() // the closing brace
	return err
}

// Source returns the node as it stands in data, cut to at most limit
// characters, for messages.
func (n *Node) Source(data []byte, limit int) string {
	dec := json.NewDecoder(bytes.NewReader(data[n.Offset:]))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return n.Kind.String()
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return n.Kind.String()
	}
	text := []rune(compact.String())
	if len(text) > limit {
		return string(text[:limit]) + "…"
	}
	return string(text)
}
