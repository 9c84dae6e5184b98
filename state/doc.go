// Package state is the vocabulary of bmcstate: operations, statuses, published
// states, and the rules that need nothing but them.
//
// Everything under state/ is pure and deterministic. Time comes in as an
// [Instant]; effects go out as values. Nothing here knows D-Bus, GPIO or
// systemd, and only the journal (state/history) touches a file.
//
// All types are plain values, safe to copy; none is safe for concurrent
// mutation.
package state
