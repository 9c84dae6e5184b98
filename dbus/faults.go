package dbus

import (
	"errors"
	"math"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// Fault is what a resource of the fault monitor shows.
type Fault struct {
	_ state.Incomparable

	Name, Status, Message, NextAction, LastDecision string

	FailureSum, Restarts uint32
	RetryCount           int32
	RetryInterval        int64  // s, −1 = never ages
	LastFailure          uint64 // µs since the epoch, 0 = none
}

// FaultRecord is one decision of the fault monitor.
type FaultRecord struct {
	_ state.Incomparable

	At             uint64 // µs since the epoch
	Decision, Text string
	Status         int32
	Sum, Restarts  uint32
}

// FaultOp is what a client wants of a resource.
type FaultOp uint8

// What there is to want.
const (
	FaultSuspend FaultOp = iota + 1
	FaultResume
	FaultReset
	FaultProbe
	FaultHistory
	FaultRetryCount
	FaultRetryInterval
)

// FaultCall is a call of a client. Reply is called exactly once, from any
// goroutine; records are of FaultHistory.
type FaultCall struct {
	Op       FaultOp
	Resource string
	UID      uint32
	Owner    string        // of FaultSuspend and FaultResume
	Lasts    time.Duration // of FaultSuspend, 0 = until FaultResume
	Value    int64         // of FaultRetryCount, and of FaultRetryInterval in seconds
	Max      int           // of FaultHistory, 0 = all
	Reply    func(refusal *engine.Refusal, records []FaultRecord)
}

// addFaults makes the fault monitor's service, where it has resources.
func (s *Server) addFaults() error {
	if len(s.opts.FaultResources) == 0 {
		return nil
	}
	if s.opts.Faults == nil {
		return errors.New("dbus: Options.Faults is needed where there are FaultResources: it takes what clients ask for")
	}
	svc := s.addService(openbmc.IfaceFault, 0, openbmc.StateRoot)
	for _, name := range s.opts.FaultResources {
		object, err := svc.Add(openbmc.FaultPath(name), props.Impl{
			Interface: openbmc.Fault,
			Values:    valuesOf(openbmc.Fault, faultChanges(&Fault{Name: name, Status: "UNKNOWN"})),
			Set:       s.setFault(name),
			Methods: map[string]func(*props.Call){
				"Suspend":    func(c *props.Call) { s.suspend(c, name) },
				"Resume":     func(c *props.Call) { s.fault(c, FaultCall{Op: FaultResume, Resource: name, Owner: c.Args[0].(string)}) },
				"Reset":      func(c *props.Call) { s.fault(c, FaultCall{Op: FaultReset, Resource: name}) },
				"ProbeNow":   func(c *props.Call) { s.fault(c, FaultCall{Op: FaultProbe, Resource: name}) },
				"GetHistory": func(c *props.Call) { s.faultHistory(c, name) },
			},
		})
		if err != nil {
			return err
		}
		s.faults[name] = object
	}
	return nil
}

func faultChanges(f *Fault) []props.Change {
	change := func(property string, v any) props.Change {
		return props.Change{Interface: openbmc.IfaceFault, Property: property, Value: v}
	}
	return []props.Change{
		change("Name", clean(f.Name)), change("StatusMessage", clean(f.Message)), change("NextAction", f.NextAction),
		change("LastDecision", f.LastDecision), change("FailureSum", f.FailureSum), change("RestartsInInterval", f.Restarts),
		change("RetryCount", f.RetryCount), change("RetryInterval", f.RetryInterval), change("LastFailure", f.LastFailure),
		change("Status", f.Status),
	}
}

// ShowFault shows what a resource has come to.
func (s *Server) ShowFault(f Fault) {
	if o := s.faults[f.Name]; o != nil {
		o.Update(faultChanges(&f)...)
		return
	}
	s.log.Error("nothing shows this resource of the fault monitor", "resource", f.Name)
}

// fault passes a call on that returns nothing.
func (s *Server) fault(c *props.Call, call FaultCall) {
	if (call.Op == FaultSuspend || call.Op == FaultResume) && call.Owner != "" && !isID(call.Owner) {
		c.Fail(invalid("An owner is 1 to %d bytes of printable UTF-8.", maxID))
		return
	}
	call.UID = c.UID
	call.Reply = func(r *engine.Refusal, _ []FaultRecord) {
		if r != nil {
			c.Fail(setError(state.KindBMC, r))
			return
		}
		c.Return()
	}
	s.opts.Faults(call)
}

func (s *Server) suspend(c *props.Call, name string) {
	owner, micros := c.Args[0].(string), c.Args[1].(uint64)
	if micros > math.MaxInt64/uint64(time.Microsecond) {
		c.Fail(invalid("A suspension lasts some time in microseconds, or 0 until Resume; %d makes no sense.", micros))
		return
	}
	s.fault(c, FaultCall{Op: FaultSuspend, Resource: name, Owner: owner, Lasts: time.Duration(micros) * time.Microsecond})
}

func (s *Server) setFault(name string) func(*props.Call, string, any) {
	return func(c *props.Call, property string, value any) {
		switch v := value.(type) {
		case int32:
			s.fault(c, FaultCall{Op: FaultRetryCount, Resource: name, Value: int64(v)})
		case int64:
			s.fault(c, FaultCall{Op: FaultRetryInterval, Resource: name, Value: v})
		default:
			c.Fail(props.Errorf(props.ErrPropertyReadOnly, "Property '%s' is not writable.", property))
		}
	}
}

func (s *Server) faultHistory(c *props.Call, name string) {
	s.opts.Faults(FaultCall{
		Op: FaultHistory, Resource: name, UID: c.UID, Max: int(min(c.Args[0].(uint32), maxPage)),
		Reply: func(r *engine.Refusal, records []FaultRecord) {
			if r != nil {
				c.Fail(setError(state.KindBMC, r))
				return
			}
			rows := make([]map[string]godbus.Variant, len(records))
			for i, f := range records {
				rows[i] = map[string]godbus.Variant{
					"Time": godbus.MakeVariant(f.At), "Decision": godbus.MakeVariant(f.Decision), "Text": godbus.MakeVariant(clean(f.Text)),
					"Status": godbus.MakeVariant(f.Status), "FailureSum": godbus.MakeVariant(f.Sum),
					"RestartsInInterval": godbus.MakeVariant(f.Restarts),
				}
			}
			c.Return(rows)
		},
	})
}
