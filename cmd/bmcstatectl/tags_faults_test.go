//go:build faults

package main

// buildTags are those of the daemon under test: the test's own.
const buildTags = "faults"
