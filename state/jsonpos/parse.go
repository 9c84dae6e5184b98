package jsonpos

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Parse reads one JSON value (RFC 8259). Its error is a [*SyntaxError].
func Parse(data []byte) (*Node, error) {
	p := parser{data: data}
	n := p.value(0)
	p.space()
	if p.err == nil && p.at < len(data) {
		p.fail("after top-level value")
	}
	if p.err != nil {
		return nil, p.err
	}
	return n, nil
}

// parser descends through data. After the first error it only returns.
type parser struct {
	data []byte
	at   int
	err  *SyntaxError
}

// fail says that the character at hand is not right there.
func (p *parser) fail(there string) {
	if p.err != nil {
		return
	}
	p.err = &SyntaxError{Offset: p.at, Text: "unexpected end of JSON input"}
	if p.at < len(p.data) {
		p.err.Text = "invalid character " + quote(p.data[p.at]) + " " + there
	}
}

func quote(c byte) string {
	switch c {
	case '\'':
		return `'\''`
	case '"':
		return `'"'`
	}
	s := strconv.Quote(string(rune(c)))
	return "'" + s[1:len(s)-1] + "'"
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (p *parser) space() {
	for p.at < len(p.data) && isSpace(p.data[p.at]) {
		p.at++
	}
}

// peek returns the character at hand, 0 at the end. A 0 in the text is right
// nowhere either.
func (p *parser) peek() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

// take steps over c if it is at hand.
func (p *parser) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

func (p *parser) value(depth int) *Node {
	p.space()
	n := &Node{Offset: p.at}
	if depth > MaxDepth && p.err == nil {
		p.err = &SyntaxError{Offset: p.at, Text: fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
	}
	if p.err != nil {
		return n
	}
	switch c := p.peek(); {
	case c == '{':
		n.Kind = Object
		p.object(n, depth)
	case c == '[':
		n.Kind = Array
		p.array(n, depth)
	case c == '"':
		n.Kind, n.Text = String, p.text()
	case c == '-' || isDigit(c):
		n.Kind, n.Text = Number, p.number()
	case c == 't':
		n.Kind, n.Bool = Bool, true
		p.literal("true")
	case c == 'f':
		n.Kind = Bool
		p.literal("false")
	case c == 'n':
		p.literal("null")
	default:
		p.fail("looking for beginning of value")
	}
	n.end = p.at
	return n
}

// object reads from the opening brace to the closing one.
func (p *parser) object(n *Node, depth int) {
	p.at++
	p.space()
	if p.take('}') {
		return
	}
	for p.err == nil {
		p.space()
		m := Member{Offset: p.at}
		if p.peek() != '"' {
			p.fail("looking for beginning of object key string")
			return
		}
		m.Key = p.text()
		p.space()
		if !p.take(':') {
			p.fail("after object key")
			return
		}
		m.Value = p.value(depth + 1)
		n.Members = append(n.Members, m)
		p.space()
		if p.take('}') {
			return
		}
		if !p.take(',') {
			p.fail("after object key:value pair")
		}
	}
}

// array reads from the opening bracket to the closing one.
func (p *parser) array(n *Node, depth int) {
	p.at++
	p.space()
	if p.take(']') {
		return
	}
	for p.err == nil {
		n.Elems = append(n.Elems, p.value(depth+1))
		p.space()
		if p.take(']') {
			return
		}
		if !p.take(',') {
			p.fail("after array element")
		}
	}
}

func (p *parser) literal(word string) {
	for i := range len(word) {
		if !p.take(word[i]) {
			p.fail("in literal " + word + " (expecting " + quote(word[i]) + ")")
			return
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits steps over at least one digit.
func (p *parser) digits(there string) {
	if !isDigit(p.peek()) {
		p.fail(there)
	}
	for isDigit(p.peek()) {
		p.at++
	}
}

func (p *parser) number() string {
	start := p.at
	p.take('-')
	if !p.take('0') {
		p.digits("in numeric literal")
	}
	if p.take('.') {
		p.digits("after decimal point in numeric literal")
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		p.digits("in exponent of numeric literal")
	}
	return string(p.data[start:p.at])
}

// text reads a string from quote to quote. What is no UTF-8 becomes U+FFFD.
func (p *parser) text() string {
	p.at++
	var b strings.Builder
	for {
		switch c := p.peek(); {
		case c == '"':
			p.at++
			return b.String()
		case c < ' ':
			p.fail("in string literal")
			return ""
		case c == '\\':
			p.at++
			p.escape(&b)
			if p.err != nil {
				return ""
			}
		default:
			r, size := utf8.DecodeRune(p.data[p.at:])
			b.WriteRune(r)
			p.at += size
		}
	}
}

// What may follow a backslash, and what it stands for.
const escapes, escaped = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

func (p *parser) escape(b *strings.Builder) {
	c := p.peek()
	if i := strings.IndexByte(escapes, c); i >= 0 {
		p.at++
		b.WriteByte(escaped[i])
		return
	}
	if !p.take('u') {
		p.fail("in string escape code")
		return
	}
	r := p.hex()
	if utf16.IsSurrogate(r) && p.err == nil {
		r = p.second(r)
	}
	b.WriteRune(r)
}

// second reads the other half of a surrogate pair. Without it r stands for
// nothing.
func (p *parser) second(r rune) rune {
	start := p.at
	if p.take('\\') && p.take('u') {
		if r = utf16.DecodeRune(r, p.hex()); r != utf8.RuneError || p.err != nil {
			return r
		}
	}
	p.at = start
	return utf8.RuneError
}

// hex reads four hexadecimal digits.
func (p *parser) hex() rune {
	var r rune
	for range 4 {
		c := p.peek()
		i := strings.IndexByte("0123456789abcdef", c|0x20)
		if i < 0 || c < '0' || c > 'f' {
			p.fail(`in \u hexadecimal character escape`)
			return utf8.RuneError
		}
		r = r<<4 | rune(i)
		p.at++
	}
	return r
}
