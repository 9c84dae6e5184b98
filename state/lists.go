package state

import (
	"cmp"
	"sort"
)

// Package slices is written for speed: most of its functions call others of it,
// and all are compiled again for each type of slice. These are compiled once for
// each type of element and call nothing, which is a third of the size. Where a
// type occurs once, a plain loop is smaller still.

// Index returns the place of v in list, -1 = nowhere.
func Index[T comparable](list []T, v T) int {
	for i, e := range list {
		if e == v {
			return i
		}
	}
	return -1
}

// Contains reports whether v is in list.
func Contains[T comparable](list []T, v T) bool {
	for _, e := range list {
		if e == v {
			return true
		}
	}
	return false
}

// Remove takes every v out of list, in place, and returns what is left of it.
func Remove[T comparable](list []T, v T) []T {
	kept := list[:0]
	for _, e := range list {
		if e != v {
			kept = append(kept, e)
		}
	}
	return kept
}

// Sort puts s into ascending order. Package sort has one copy of its code for
// all types, package slices one of 5 KB for each.
func Sort[T cmp.Ordered](s []T) {
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
}

// SortedKeys returns the keys of m in ascending order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	Sort(keys)
	return keys
}
