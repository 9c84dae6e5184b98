// Package engine owns the power domains: it admits, journals, sequences,
// observes and publishes (DESIGN.md §3).
//
// # Two layers
//
// [Core] is the rules. Its Step takes the time and one event and returns
// effects: lines to pulse, readings to take, values to publish, calls to
// answer. It does no input or output, starts no goroutine and knows no clock,
// so every history of events can be replayed in a test.
//
// [Engine] is the one goroutine around a Core. It turns the world into events
// and effects into calls, and never waits for any of them: lines, disk and bus
// answer with events of their own.
//
// # The order that a crash must find
//
// A request is admitted, then journalled, then answered. A transition is
// journalled as started, then each step before it acts. What acts needs the
// token that only the journal makes ([Engine.execute] checks it), so "journal,
// then line" does not depend on care.
//
// Events that arrive while a request waits for the journal or for a reading
// find it in that state; nothing is decided twice and nothing is decided on a
// reading that is older than the question.
package engine
