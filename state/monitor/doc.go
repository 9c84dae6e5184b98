// Package monitor is the decision core of the fault monitor: DSDL's two
// histories, its decision table and what DESIGN.md §5 adds to them.
//
// A [Resource] is one watched thing (a unit, a service behind a port, a host).
// It is stepped with events (a probe's result, a death, a deadline, an
// operator's word) and answers with actions as values: start this probe,
// restart, escalate, log, publish. A [Monitor] owns many resources, passes a
// parent's trouble on to its children, and limits how many restarts run at
// once and per minute. Neither does any I/O, reads a clock or draws a random
// number of its own, so every decision can be replayed.
//
// What the caller owes:
//
//   - One goroutine steps a Monitor or Resource; neither is safe for concurrent
//     use.
//   - Actions are carried out in order. [Save] comes first in its step: the
//     snapshot is on disk before the restart that it counts is started, so a
//     crash between the two loses no restart.
//   - After each step it sleeps until NextDeadline or the next event, and then
//     steps with [Tick].
//   - Each [StartProbe] is answered by exactly one [ProbeResult] with the same
//     tag, also after a [CancelProbe] and however late. Until then no other
//     probe of that resource is started.
//   - Each [Restart] is answered by a [RestartDone], each [Escalate] by an
//     [EscalationAnswer]. Silence is answered by their deadlines.
//
// All ages, deadlines and windows are on state.Instant.Boot. The wall clock is
// passed through to log events and decides nothing.
package monitor
