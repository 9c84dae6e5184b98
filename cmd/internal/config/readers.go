package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// reader reads the value n of the field into wherever it was bound to, or
// reports to d why not and leaves it.
type reader func(d *decoder, field string, n *jsonpos.Node)

// number is what an integer key can be stored as.
type number interface{ ~int | ~uint32 }

func integer[T number](to *T, least, most int64) reader {
	return whole(least, most, func(v int64) { *to = T(v) })
}

func whole(least, most int64, store func(int64)) reader {
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
		store(v)
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
	return words(allowed, func(s string) bool {
		v, err := parse(s)
		if err == nil {
			*to = v
		}
		return err == nil
	})
}

// words reads a string through store, which says whether it is allowed.
func words(allowed string, store func(string) bool) reader {
	return func(d *decoder, field string, n *jsonpos.Node) {
		if n.Kind != jsonpos.String {
			d.wrongType(field, n, allowed)
		} else if !store(n.Text) {
			d.outOfRange(field, n, allowed)
		}
	}
}

// choice reads one of two words: no stores false, yes stores true.
func choice(to *bool, no, yes string) reader {
	return words(fmt.Sprintf("%q or %q", no, yes), func(s string) bool {
		if s == no || s == yes {
			*to = s == yes
		}
		return s == no || s == yes
	})
}

// word reads one of several words and stores its place in the list.
func word[T ~uint8](to *T, all []string) reader {
	return words("one of "+strings.Join(all, ", "), func(s string) bool {
		i := state.Index(all, s)
		if i >= 0 {
			*to = T(i)
		}
		return i >= 0
	})
}

func directory(to *string) reader {
	return words("an absolute path", func(s string) bool {
		if !filepath.IsAbs(s) || strings.ContainsRune(s, 0) {
			return false
		}
		*to = filepath.Clean(s)
		return true
	})
}

func list[T comparable](to *[]T, most int, element func(*T) reader) reader {
	allowed := fmt.Sprintf("a list of at most %d different elements", most)
	return func(d *decoder, field string, n *jsonpos.Node) {
		before, all := len(d.errs), make([]T, 0, len(n.Elems))
		d.elements(field, n, most, allowed, func(at string, e *jsonpos.Node) (twice bool) {
			var v T
			failed := len(d.errs)
			element(&v)(d, at, e)
			twice = len(d.errs) == failed && state.Contains(all, v)
			all = append(all, v)
			return twice
		})
		if len(d.errs) == before {
			*to = all
		}
	}
}

// elements passes those of a list to read, which says whether one like it was
// there before.
func (d *decoder) elements(field string, n *jsonpos.Node, most int, allowed string, read func(at string, e *jsonpos.Node) (twice bool)) {
	switch {
	case n.Kind != jsonpos.Array:
		d.wrongType(field, n, allowed)
	case len(n.Elems) > most:
		d.outOfRange(field, n, allowed)
	default:
		for i, e := range n.Elems {
			if at := fmt.Sprintf("%s[%d]", field, i); read(at, e) {
				d.fail(at, e, "is there twice", allowed)
			}
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
