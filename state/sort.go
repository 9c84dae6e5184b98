package state

import (
	"cmp"
	"sort"
)

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
