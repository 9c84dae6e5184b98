// Package peers talks to the other daemons of the BMC that the state machine
// depends on: the settings daemon, the event log, the power supplies.
//
// All of them share a [Link], one bus connection that is made again when it is
// lost. Nothing here is ever a reason to stop: a peer that is absent, slow or
// wrong leaves what it should say unknown, and is asked again. A signal is a
// hint; what counts is what is read after it.
package peers
