// Package gpio drives and watches the lines between a BMC and one server
// board.
//
// A [Board] is the whole set of lines of one host. Signals carry the names that
// x86-power-control's configuration gives them, and levels are logical:
// asserted or not, whatever the polarity of the wire.
//
// There are two boards. [Chardev] is the real one, on Linux GPIO character
// devices (uAPI v2, Linux 5.10 and later). [Virtual] is a simulated chassis
// whose wires live in a file and go on by the clock while no process looks at
// them.
//
// The package keeps two invariants (DESIGN.md P6, P8):
//
//   - A pulse line is asserted for at most its width, however the caller, its
//     context or the process fares. Before a line is asserted a mark is written
//     under the run directory; [ReleaseMarked] releases what a dead process
//     left asserted.
//   - A call into the kernel that hangs costs only the line it was made for.
//     Callers get [ErrStuck] when their context ends.
//
// All boards are safe for concurrent use.
package gpio
