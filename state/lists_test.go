package state_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state"
)

func TestSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.String()).Draw(t, "all")
		want := slices.Sorted(slices.Values(all))
		state.Sort(all)
		if !slices.Equal(want, all) {
			t.Fatalf("%q, want %q", all, want)
		}
	})
	assert.Equal(t, []uint64{1, 2, 1 << 63}, state.SortedKeys(map[uint64]bool{1 << 63: true, 2: false, 1: true}))
	assert.Empty(t, state.SortedKeys(map[int]int(nil)))
}
