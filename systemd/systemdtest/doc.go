// Package systemdtest is a double of org.freedesktop.systemd1 on a private bus,
// for tests that must provoke systemd: late replies, refusals, jobs that never
// end, lost subscriptions, an absent or re-executed manager.
//
// It keeps systemd's order of things on the wire: the job that a call names is
// announced before the reply, the other jobs of the transaction after it, and
// one message is finished before the next is looked at.
package systemdtest
