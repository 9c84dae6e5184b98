// Package scenarios holds the black-box tests of the daemon: the real program
// on a real bus, seen only through D-Bus. A test is named after the scenario of
// the conformance list that it covers (S01, S02, …).
package scenarios
