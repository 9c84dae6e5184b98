package state

// Status is where a request stands.
type Status uint8

// The statuses of DESIGN.md §3. The zero value is none of them.
const (
	Pending Status = iota + 1
	Running
	Unknown
	Success
	Noop
	Invalid
	Failed
	Cancelled
	Superseded
	Expired
	Interrupted
)

var statusNames = [...]string{
	Pending: "Pending", Running: "Running", Unknown: "Unknown", Success: "Success", Noop: "Noop",
	Invalid: "Invalid", Failed: "Failed", Cancelled: "Cancelled", Superseded: "Superseded",
	Expired: "Expired", Interrupted: "Interrupted",
}

// String returns the status's name, for example "Pending".
func (s Status) String() string { return name(statusNames[:], s, "Status") }

// ParseStatus is the inverse of [Status.String].
func ParseStatus(s string) (Status, error) { return parse[Status](statusNames[:], s, "status") }

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return s >= Pending && s <= Interrupted }

// Final reports whether a request with this status has ended.
func (s Status) Final() bool { return s >= Success && s <= Interrupted }

// Policy is an admission policy (DESIGN.md §3.3).
type Policy uint8

// The policies. FIFODedup is the default of the product, not the zero value.
const (
	Check Policy = iota + 1
	Dedup
	FIFO
	FIFODedup
)

var policyNames = [...]string{Check: "CHECK", Dedup: "DEDUP", FIFO: "FIFO", FIFODedup: "FIFO_DEDUP"}

// String returns the policy as configuration and the simulator spell it, for
// example "FIFO_DEDUP".
func (p Policy) String() string { return name(policyNames[:], p, "Policy") }

// ParsePolicy is the inverse of [Policy.String].
func ParsePolicy(s string) (Policy, error) { return parse[Policy](policyNames[:], s, "policy") }

// Queues reports whether the policy queues a request while the executor is
// busy; the others answer BUSY.
func (p Policy) Queues() bool { return p == FIFO || p == FIFODedup }

// Keys reports whether the policy keeps a history of keys and answers a repeat
// from it.
func (p Policy) Keys() bool { return p == Dedup || p == FIFODedup }
