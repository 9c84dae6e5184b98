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
//   - Actions are carried out in order, and all of them before the next step: an
//     answer that is known at once waits its turn. [Save] comes first in its step: the
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
// Who tells what (the rest are the executors' own answers):
//
//   - The watcher of a unit sends [Died] for an end that nobody ordered,
//     [OperatorOff] and [OperatorOn] for jobs that are not the monitor's, and
//     [Absent] for a unit that is not loaded.
//   - The domain's engine sends [Intent] at start-up and whenever the intent
//     generation moves, [OffSign] for every sign of an intended Off as it is
//     seen, [PowerGood] for observed levels, [OperatorOff] when an external Off
//     is launched and [OperatorOn] when an external On is.
//   - The daemon sends SetInhibit for conditions of the whole BMC, and
//     [Precheck] when the refusal that a failover would meet changes.
//
// All ages, deadlines and windows are on state.Instant.Boot. The wall clock is
// passed through to log events and decides nothing.
package monitor
