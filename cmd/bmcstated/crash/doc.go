// Package crash kills the real daemon at every point of its work and looks from
// outside at what is left: the wires of the virtual chassis, the answers on the
// bus, the history. It has no code but its tests.
//
// The points are not sampled. A run without a crash counts the points that an
// operation passes (every step of a journal write and of a pulse, see the build
// tag inject); then the operation runs once per point and dies there, and comes
// back as systemd would bring it back: ExecStopPost first, then the daemon, in
// the same boot of the BMC and in another one.
package crash
