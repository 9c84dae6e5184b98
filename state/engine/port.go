package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Caller is who asks, as the bus driver vouches for it.
type Caller struct {
	_ state.Incomparable

	UID    uint32
	Sender string // unique bus name of the connection
}

// Code is the kind of a refusal. The D-Bus layer maps it to an error name
// (DESIGN.md §6).
type Code uint8

// The kinds of refusals.
const (
	CodeInvalidArgument Code = iota + 1 // bad value
	CodeNotAllowed                      // refused by the state
	CodeUnavailable                     // busy, full, disk, firmware update
	CodeBMCNotReady                     // gate of the interface
	CodeInvalidTime                     // schedule in the past
	CodeIDConflict                      // same key, other operation
	CodeBusy                            // policy answers BUSY
	CodeFull                            // depth, share or history bound
	CodeUnknownRequest                  // no such key
	CodeRunning                         // cannot be cancelled any more
	CodeAccessDenied                    // not the owner
)

// Refusal is a request's or a write's negative answer. It is an error.
type Refusal struct {
	Code Code
	Text string // a whole sentence: what is wrong and the way out
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Answer is what a caller of [Engine.Post] gets back.
type Answer struct {
	Err      *Refusal        // nil on success
	Status   state.Status    // of the request, where there is one
	Seq      uint64          // of the request, 0 = none
	Object   bool            // the request is an object on the bus
	Repeated bool            // the key or value was known already
	Requests []state.Request // of History and Lookup, oldest first

	Deliveries []Delivery // of Deliveries, oldest first
}

// Event is a call that the engine answers. Every event's Reply is called
// exactly once, from the engine's goroutine, and must not block.
type Event interface{ isEvent() }

// Write is a write to a Requested…Transition property.
type Write struct {
	Caller Caller
	Object state.Object
	Op     state.Operation
	Reply  func(Answer)
}

// Submit is TransitionQueue.Submit on the queue of Domain.
type Submit struct {
	Caller  Caller
	Domain  int
	Client  string
	Request string
	Op      state.Operation
	Cause   string
	Expires time.Duration // from acceptance, by the boot clock; 0 = by pendingTTL
	Reply   func(Answer)
}

// Lookup asks for the status of a key.
type Lookup struct {
	Caller  Caller
	Domain  int
	Client  string
	Request string
	Reply   func(Answer)
}

// Cancel withdraws a request: by key, or by Seq where that is not 0.
type Cancel struct {
	Caller  Caller
	Domain  int
	Client  string
	Request string
	Seq     uint64
	Reply   func(Answer)
}

// Dismiss takes a finished request's object off the bus (Object.Delete). The
// history keeps its record.
type Dismiss struct {
	Caller Caller
	Domain int
	Seq    uint64
	Reply  func(Answer)
}

// History asks for at most Max records with a sequence above After.
type History struct {
	Caller Caller
	Domain int
	After  uint64
	Max    uint32
	Reply  func(Answer)
}

// Deliveries asks for what arrived at a queue last, repeats and refusals
// included. It is kept in memory only.
type Deliveries struct {
	Caller Caller
	Domain int
	Reply  func(Answer)
}

// Delivery is one request as it arrived, whatever became of it.
type Delivery struct {
	_ state.Incomparable

	Arrived time.Duration // boot clock
	Key     state.Key
	Op      state.Operation
	Seq     uint64 // of the request, 0 = refused
	Repeat  bool   // answered by an older request
	Delayed bool   // the request became UNKNOWN
}

// Property is a property, other than Requested…Transition, that a client may
// write.
type Property uint8

// The writable properties.
const (
	PropHostState Property = iota + 1
	PropRestartCause
	PropBootProgress
	PropBootProgressUpdate
	PropOSState
	PropAttemptsLeft
	PropRetryAttempts
	PropPowerState
	PropPowerStatus
	PropLastStateChange
	PropPOHCounter
	PropBMCState
	PropLastRebootTime
	PropLastRebootCause
	PropScheduledTime
	PropScheduledTransition
	PropRequestedRestartCause // of the private interface
	PropHypervisorOn          // RequestedHostTransition of a hypervisor, which takes On alone

	// Of the settings objects, where we serve them ourselves.
	PropRestorePolicy
	PropRestorePolicyOnce
	PropRestoreDelay // µs
	PropAutoReboot
	PropAutoRebootOnce
)

// Set is a write to one of the [Property] properties. Value is the number, or
// the enum value in package state's order.
type Set struct {
	Caller Caller
	Object state.Object
	Prop   Property
	Value  uint64
	Reply  func(Answer)
}

// Mask holds the output of a button at its idle level, so that the hardware
// passes no press on, and has requests that need the button refused; or ends
// that. The answer comes when the line is held.
type Mask struct {
	Caller Caller
	Host   int
	Button state.Button
	On     bool
	Reply  func(Answer)
}

// NMI pulses the host's NMI output. The answer comes when it is released.
type NMI struct {
	Caller Caller
	Host   int
	Reply  func(Answer)
}

// DriveLines has the lines of a domain driven, as a unit on the way of a target
// asks (DESIGN.md §4, "gpio with targets"). The answer comes when power is seen
// to be so, or says why it is not.
type DriveLines struct {
	Caller Caller
	Domain int
	On     bool
	Reply  func(Answer)
}

func (DriveLines) isEvent() {}

func (Mask) isEvent() {}
func (NMI) isEvent()  {}

// Foreign is a job that somebody else queued on a unit of a domain, or its end.
type Foreign struct {
	_ state.Incomparable

	Domain int
	Job    uint32
	Unit   string
	Op     state.Operation // what the unit amounts to
	Rank   int             // of several jobs queued together, the highest says what is going on
	Ended  bool
	Result string // of an ended job; "done" is success
}

// BMCUnits is what the BMC's own units show.
type BMCUnits struct {
	Ready      bool // everything that belongs to a booted BMC is up
	Quiesced   bool // a critical service failed: stays so until the next boot
	TimeSynced bool // the wall clock is right from now on
}

func (Foreign) isEvent()    {}
func (BMCUnits) isEvent()   {}
func (Write) isEvent()      {}
func (Submit) isEvent()     {}
func (Lookup) isEvent()     {}
func (Cancel) isEvent()     {}
func (Dismiss) isEvent()    {}
func (History) isEvent()    {}
func (Deliveries) isEvent() {}
func (Set) isEvent()        {}

// Publisher shows what the engine sees. Calls come from the engine's goroutine
// in order and must not block; readers see a value as soon as the call that
// carried it has returned.
type Publisher interface {
	PublishHost(index int, h state.Host)
	PublishChassis(index int, c state.Chassis)
	// PublishSystem shows a slot, or with index 0 the whole machine.
	PublishSystem(index int, c state.Chassis)
	PublishBMC(b state.BMC)
	PublishSchedule(index int, s state.Schedule)
	PublishQueue(domain int, q state.Queue)
	PublishPanel(host int, p state.Panel)
	PublishSettings(host int, s state.Settings)
	// PublishRequest shows a request as an object; the first call adds it.
	PublishRequest(domain int, r state.Request)
	// RemoveRequest takes a request's object away.
	RemoveRequest(domain int, seq uint64)
}
