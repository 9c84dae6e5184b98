// Package dbus shows the state objects on the system bus and hands what
// clients write to the engine.
//
// A [Server] keeps one bus connection per service (DESIGN.md §6), so that the
// object mapper books every path under its own name. It implements
// engine.Publisher: a published value is readable before the Publish call
// returns, and no Publish call waits for the bus.
//
// Calls of one sender to one service reach the [Backend] in the order sent
// (P10), after the bus driver has vouched for the sender's uid (P9). Reads are
// answered from immutable snapshots and wait for nothing (P8).
package dbus
