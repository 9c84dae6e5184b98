// Package inputs reads D-Bus properties that stand for lines of a board, as
// x86-power-control's entries of Type "DBUS" do (power-sequencing.md §3.1,
// §5).
//
// A [Source] keeps no value for anybody to rely on: [Source.Read] asks the
// services, and what arrives by signal is a hint, like an edge. A service that
// is absent, hangs or shows a value of the wrong type makes its inputs unknown,
// never on or off; it is asked again by and by.
package inputs
