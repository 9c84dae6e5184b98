// Package faults runs the fault monitor: it owns a monitor.Monitor in one
// goroutine, makes the probes that it asks for, watches units, and carries its
// decisions out (DESIGN.md §5).
//
// Whatever takes time (a probe, a job, a request) has a goroutine of its own
// with a deadline, and answers through the loop's inbox exactly once. Nothing
// that hangs holds up the loop, and [Loop.Run] waits for all of them.
package faults
