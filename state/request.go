package state

import "time"

// Key identifies an intent: whoever repeats a key gets the stored answer.
type Key struct {
	UID     uint32
	Client  string
	Request string
}

// PropertyClient is the reserved client id of plain property writes; their
// request id is the sequence number (DESIGN.md §3.4).
const PropertyClient = "property"

// InternalPrefix starts the client ids of the daemon's own clients.
const InternalPrefix = "internal."

// Request is one accepted request and everything that is known of it. It is
// what the journal stores, what the queue orders and what D-Bus shows.
type Request struct {
	Seq    uint64 // journal sequence of the acceptance, never reused
	Key    Key
	Object Object
	Op     Operation
	Cause  string   // free text of the caller, or a restart cause
	Claims []uint32 // further uids that asked for the same
	// OwnerLeft says that Key.UID has withdrawn and only Claims still want it.
	OwnerLeft bool

	Status Status
	Reason string

	Accepted Instant
	Started  Instant       // zero until launched
	Ended    Instant       // zero until final
	Expires  time.Duration // boot clock; 0 = by pendingTTL
	Launched bool          // the executor has started it: it took a place in Launches

	Superseded []uint64 // sequences that this request superseded
}

// Internal reports whether the daemon itself asked.
func (r *Request) Internal() bool {
	return len(r.Key.Client) >= len(InternalPrefix) && r.Key.Client[:len(InternalPrefix)] == InternalPrefix
}
