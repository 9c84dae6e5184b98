package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// reader reads the value n of the field into wherever it was bound to, or
// reports to d why not and leaves it.
type reader func(d *decoder, field string, n *jsonpos.Node)

// number is what an integer key can be stored as.
type number interface{ ~int | ~uint32 }

func integer[T number](to *T, least, most int64) reader {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	return func(d *decoder, field string, n *jsonpos.Node) {
		if n.Kind != jsonpos.Number {
			d.wrongType(field, n, allowed)
			return
		}
		v, err := strconv.ParseInt(n.Text, 10, 64)
		if err != nil || v < least || v > most {
			d.outOfRange(field, n, allowed)
			return
		}
		*to = T(v)
	}
}

func duration[T ~int64](to *T, least, most T) reader {
	allowed := fmt.Sprintf(`a duration from %q to %q, for example "90s" or "1h30m"`,
		short(time.Duration(least)), short(time.Duration(most)))
	return text(to, allowed, func(s string) (T, error) {
		v, err := time.ParseDuration(s)
		if err == nil && (T(v) < least || T(v) > most) {
			err = errOutOfRange
		}
		return T(v), err
	})
}

// short writes a duration without its trailing zero units: "24h", not
// "24h0m0s".
func short(d time.Duration) string {
	s := d.String()
	if d >= time.Minute {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func boolean(to *bool) reader {
	return func(d *decoder, field string, n *jsonpos.Node) {
		if n.Kind != jsonpos.Bool {
			d.wrongType(field, n, "true or false")
			return
		}
		*to = n.Bool
	}
}

// noting remembers that the key is there.
func noting(there *bool, r reader) reader {
	return func(d *decoder, field string, n *jsonpos.Node) {
		*there = true
		r(d, field, n)
	}
}

// text reads a string through parse, which says whether it is allowed.
func text[T any](to *T, allowed string, parse func(string) (T, error)) reader {
	return func(d *decoder, field string, n *jsonpos.Node) {
		if n.Kind != jsonpos.String {
			d.wrongType(field, n, allowed)
			return
		}
		v, err := parse(n.Text)
		if err != nil {
			d.outOfRange(field, n, allowed)
			return
		}
		*to = v
	}
}

// choice reads one of two words: no stores false, yes stores true.
func choice(to *bool, no, yes string) reader {
	return text(to, fmt.Sprintf("%q or %q", no, yes), func(s string) (bool, error) {
		if s != no && s != yes {
			return false, errOutOfRange
		}
		return s == yes, nil
	})
}

// word reads one of several words and stores its place in the list.
func word[T ~uint8](to *T, words []string) reader {
	return text(to, "one of "+strings.Join(words, ", "), func(s string) (T, error) {
		i := slices.Index(words, s)
		if i < 0 {
			return 0, errOutOfRange
		}
		return T(i), nil
	})
}

func directory(to *string) reader {
	return text(to, "an absolute path", func(s string) (string, error) {
		if !filepath.IsAbs(s) || strings.ContainsRune(s, 0) {
			return "", errOutOfRange
		}
		return filepath.Clean(s), nil
	})
}

func list[T comparable](to *[]T, most int, element func(*T) reader) reader {
	allowed := fmt.Sprintf("a list of at most %d different elements", most)
	return func(d *decoder, field string, n *jsonpos.Node) {
		if n.Kind != jsonpos.Array {
			d.wrongType(field, n, allowed)
			return
		}
		if len(n.Elems) > most {
			d.outOfRange(field, n, allowed)
			return
		}
		before, all := len(d.errs), make([]T, 0, len(n.Elems))
		for i, e := range n.Elems {
			var v T
			at := fmt.Sprintf("%s[%d]", field, i)
			failed := len(d.errs)
			element(&v)(d, at, e)
			if len(d.errs) == failed && slices.Contains(all, v) {
				d.fail(at, e, "is there twice", allowed)
			}
			all = append(all, v)
		}
		if len(d.errs) == before {
			*to = all
		}
	}
}

// object reads an object by the table that keys returns.
func object(keys func() []key) reader {
	return func(d *decoder, field string, n *jsonpos.Node) {
		if n.Kind != jsonpos.Object {
			d.wrongType(field, n, "an object")
			return
		}
		d.object(field, n, keys())
	}
}
