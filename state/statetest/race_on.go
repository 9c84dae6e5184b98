//go:build race

package statetest

// Race says that the test is built with the race detector. Tests that are too
// slow under it, and prove nothing more, run in the plain pass.
const Race = true
