// Package queue is the admission of one power domain: the four policies, the
// keys, the order, the bounds and the history of DESIGN.md §3.3 to §3.5. The
// daemon and the simulator run this one implementation.
//
// A [Queue] holds every request record of its domain. It does no input or
// output and knows no clock: each call that needs the time gets a
// [state.Instant]. It is not safe for concurrent use; the engine's goroutine
// owns it.
//
// # The order of calls
//
//   - [Queue.Admit] decides about one delivery. An accepted request is
//     registered, so that repeats find it, but nothing may act on it yet.
//   - The caller writes it to the journal, then calls [Queue.Durable], or
//     [Queue.Drop] where the journal refused it. Only then does it answer the
//     sender. A repeat is answered when [Answer.Durable] is true, else together
//     with the request it joined.
//   - [Queue.SetNewest] when the sender is told success: the object's
//     Requested…Transition shows it from then on.
//   - While [Queue.Running] has none: take [Queue.Head], judge it
//     ([state.Judge]) and call [Queue.Start], or [Queue.Finish] with NOOP or
//     INVALID and look at the head again: those take no time.
//   - [Queue.Unknown] and [Queue.Finish] as the executor reports.
//     [Queue.Contrary] when a contrary level, a button or a foreign job was
//     seen since the launch: later property writes no longer join it.
//   - A forced or emergency request: [Queue.Overtaken] names what it may
//     supersede on arrival, [Queue.Supersede] does it.
//   - [Queue.Expire] at [Queue.NextDeadline], [Queue.Evict] now and then; both
//     answer with the sequences to write to the journal.
//   - At start: [Queue.Restore] for each record that the journal holds, then
//     [Queue.SetCounters].
//
// # What counts
//
// Waiting means PENDING: the depth and the shares count these and not the
// running one. Busy, for CHECK and DEDUP, means that any request of the domain
// is unfinished. Property writes have the reserved client id "property" and
// their sequence as request id.
package queue
