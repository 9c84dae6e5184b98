//go:build !faults

package scenarios

// buildTags are those of the daemon under test.
const buildTags = ""
