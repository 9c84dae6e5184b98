// Package systemd is what bmcstate knows of systemd: units are started, watched
// and judged here (DESIGN.md §4), and the daemon itself is made a good service
// (readiness, watchdog, descriptor store, structured log).
//
// [Units] holds one bus connection of its own to org.freedesktop.systemd1. Its
// invariants:
//
//   - A signal is a hint. Whatever woke it, the unit is read again, and only
//     what was read is reported (DESIGN.md P5). A job that vanished without its
//     signal ends with [ResultLost].
//   - Every call has a deadline, and nothing that a caller leaves unread (a job's
//     result, an event) holds up anything else.
//   - An absent, slow, reloading or re-executing systemd is waited for; it is
//     never a reason to stop.
//   - Signals are taken per unit (bus path, or unit name as argument), so that
//     the rest of the system's units cost nothing.
//
// The package imports nothing of ours and shows no type of a bus library.
package systemd
