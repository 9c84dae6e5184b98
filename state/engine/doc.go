// Package engine owns the domains: it admits, journals, sequences and observes
// (DESIGN.md §3) in one goroutine.
package engine
