package powerconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pattern is an ECMAScript regular expression that a text must match as a
// whole. It has what expressions for property values need: everything but
// look-around, back-references and word boundaries. (Package regexp would make
// a daemon for a BMC larger by a third of a megabyte.) It is safe for
// concurrent use.
type Pattern struct {
	source string
	match  matcher
}

// maxTries bounds the work of one match; an expression that needs more does not
// match.
const maxTries = 100_000

// search is one match under way.
type search struct {
	text  []rune
	tries int
}

// matcher matches from position i and calls next with each position where it
// can end, until next is content.
type matcher func(s *search, i int, next func(int) bool) bool

// CompilePattern reads an expression. Its error says what is wrong with it.
func CompilePattern(expression string) (*Pattern, error) {
	if !utf8.ValidString(expression) {
		return nil, fmt.Errorf("it is not valid UTF-8")
	}
	c := &compiler{in: []rune(expression)}
	m, err := c.alternatives(0)
	if err == nil && c.at < len(c.in) {
		err = fmt.Errorf("the ) at position %d closes nothing", c.at+1)
	}
	if err != nil {
		return nil, err
	}
	return &Pattern{source: expression, match: m}, nil
}

// String returns the expression.
func (p *Pattern) String() string { return p.source }

// Match reports whether the whole text matches.
func (p *Pattern) Match(text string) bool {
	s := &search{text: []rune(text), tries: maxTries}
	return p.match(s, 0, func(i int) bool { return i == len(s.text) })
}

func empty(_ *search, i int, next func(int) bool) bool { return next(i) }

func one(is func(rune) bool) matcher {
	return func(s *search, i int, next func(int) bool) bool {
		s.tries--
		return s.tries > 0 && i < len(s.text) && is(s.text[i]) && next(i+1)
	}
}

func then(a, b matcher) matcher {
	return func(s *search, i int, next func(int) bool) bool {
		return a(s, i, func(j int) bool { return b(s, j, next) })
	}
}

func either(a, b matcher) matcher {
	return func(s *search, i int, next func(int) bool) bool { return a(s, i, next) || b(s, i, next) }
}

func repeat(m matcher, least, most int) matcher {
	var from func(s *search, n, i int, next func(int) bool) bool
	from = func(s *search, n, i int, next func(int) bool) bool {
		if s.tries--; s.tries <= 0 {
			return false
		}
		again := func(j int) bool { return (j > i || n < least) && from(s, n+1, j, next) }
		return n < most && m(s, i, again) || n >= least && next(i)
	}
	return func(s *search, i int, next func(int) bool) bool { return from(s, 0, i, next) }
}

func at(edge func(s *search, i int) bool) matcher {
	return func(s *search, i int, next func(int) bool) bool { return edge(s, i) && next(i) }
}

// compiler reads an expression from left to right.
type compiler struct {
	in []rune
	at int
}

func (c *compiler) peek() rune {
	if c.at < len(c.in) {
		return c.in[c.at]
	}
	return -1
}

func (c *compiler) skip(text string) bool {
	if strings.HasPrefix(string(c.in[c.at:]), text) {
		c.at += len([]rune(text))
		return true
	}
	return false
}

// maxNesting bounds how deep groups may nest.
const maxNesting = 50

func (c *compiler) alternatives(depth int) (matcher, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("groups nest deeper than %d", maxNesting)
	}
	m, err := c.sequence(depth)
	for err == nil && c.skip("|") {
		var other matcher
		other, err = c.sequence(depth)
		m = either(m, other)
	}
	return m, err
}

func (c *compiler) sequence(depth int) (matcher, error) {
	all := matcher(empty)
	for c.at < len(c.in) && c.peek() != '|' && c.peek() != ')' {
		m, err := c.atom(depth)
		if err == nil {
			m, err = c.quantified(m)
		}
		if err != nil {
			return nil, err
		}
		all = then(all, m)
	}
	return all, nil
}

func (c *compiler) atom(depth int) (matcher, error) {
	start := c.at
	r := c.in[c.at]
	c.at++
	switch r {
	case '(':
		return c.group(start, depth)
	case '[':
		is, err := c.class(start)
		return one(is), err
	case '\\':
		is, err := c.escape()
		return one(is), err
	case '.':
		return one(func(r rune) bool { return !strings.ContainsRune("\n\r\u2028\u2029", r) }), nil
	case '^':
		return at(func(_ *search, i int) bool { return i == 0 }), nil
	case '$':
		return at(func(s *search, i int) bool { return i == len(s.text) }), nil
	case '*', '+', '?', '{':
		return nil, fmt.Errorf("the %c at position %d repeats nothing", r, start+1)
	}
	return one(func(x rune) bool { return x == r }), nil
}

func (c *compiler) group(start, depth int) (matcher, error) {
	if c.peek() == '?' && !c.skip("?:") {
		return nil, fmt.Errorf("the look-around or named group at position %d is not supported", start+1)
	}
	m, err := c.alternatives(depth + 1)
	if err == nil && !c.skip(")") {
		err = fmt.Errorf("the ( at position %d is not closed", start+1)
	}
	return m, err
}

// maxRepeat bounds the numbers in {n,m}.
const maxRepeat = 1000

func (c *compiler) quantified(m matcher) (matcher, error) {
	var least, most int
	switch {
	case c.skip("*"):
		least, most = 0, math.MaxInt
	case c.skip("+"):
		least, most = 1, math.MaxInt
	case c.skip("?"):
		least, most = 0, 1
	case c.skip("{"):
		var err error
		if least, most, err = c.bounds(); err != nil {
			return nil, err
		}
	default:
		return m, nil
	}
	c.skip("?") // laziness does not change what matches as a whole
	return repeat(m, least, most), nil
}

// bounds reads the rest of {n}, {n,} or {n,m}.
func (c *compiler) bounds() (least, most int, err error) {
	start := c.at
	for c.at < len(c.in) && c.peek() != '}' {
		c.at++
	}
	low, high, ranged := strings.Cut(string(c.in[start:c.at]), ",")
	least, err = strconv.Atoi(low)
	switch {
	case !ranged:
		most = least
	case high == "":
		most = math.MaxInt
	case err == nil:
		most, err = strconv.Atoi(high)
	}
	if err != nil || !c.skip("}") || least < 0 || least > most || least > maxRepeat || most != math.MaxInt && most > maxRepeat {
		return 0, 0, fmt.Errorf("the { at position %d is no {n}, {n,} or {n,m} up to %d", start, maxRepeat)
	}
	return least, most, nil
}

// class reads the rest of [...].
func (c *compiler) class(start int) (func(rune) bool, error) {
	negated := c.skip("^")
	var parts []func(rune) bool
	for c.at < len(c.in) && c.peek() != ']' {
		low, is, err := c.member()
		if err != nil {
			return nil, err
		}
		if is == nil && c.peek() == '-' && c.at+1 < len(c.in) && c.in[c.at+1] != ']' {
			c.at++
			high, set, err := c.member()
			if err != nil {
				return nil, err
			}
			if set != nil || high < low {
				return nil, fmt.Errorf("the range before position %d is none", c.at+1)
			}
			is = func(r rune) bool { return low <= r && r <= high }
		}
		if is == nil {
			is = func(r rune) bool { return r == low }
		}
		parts = append(parts, is)
	}
	if !c.skip("]") {
		return nil, fmt.Errorf("the [ at position %d is not closed", start+1)
	}
	return func(r rune) bool {
		for _, is := range parts {
			if is(r) {
				return !negated
			}
		}
		return negated
	}, nil
}

// member reads one character of a class, or a set such as \d.
func (c *compiler) member() (rune, func(rune) bool, error) {
	r := c.in[c.at]
	c.at++
	if r != '\\' {
		return r, nil, nil
	}
	return c.escaped()
}

func (c *compiler) escape() (func(rune) bool, error) {
	r, set, err := c.escaped()
	if set == nil {
		set = func(x rune) bool { return x == r }
	}
	return set, err
}

// escaped reads what follows a backslash: a character, or a set of them.
func (c *compiler) escaped() (rune, func(rune) bool, error) {
	r := c.peek()
	c.at++
	lower := unicode.ToLower(r)
	sets := map[rune]func(rune) bool{
		'd': func(r rune) bool { return '0' <= r && r <= '9' },
		'w': func(r rune) bool { return r == '_' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) },
		's': unicode.IsSpace,
	}
	if set, ok := sets[lower]; ok {
		return 0, func(x rune) bool { return set(x) == (r == lower) }, nil
	}
	controls := map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', '0': 0}
	if control, ok := controls[r]; ok {
		return control, nil, nil
	}
	digits := map[rune]int{'x': 2, 'u': 4}[r]
	switch {
	case digits > 0 && c.at+digits <= len(c.in):
		v, err := strconv.ParseUint(string(c.in[c.at:c.at+digits]), 16, 32)
		if err == nil {
			c.at += digits
			return rune(v), nil, nil
		}
	case r > 0 && !unicode.IsLetter(r) && !unicode.IsDigit(r):
		return r, nil, nil
	}
	return 0, nil, fmt.Errorf("the escape at position %d is not supported", c.at-1)
}
