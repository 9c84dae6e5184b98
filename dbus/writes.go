package dbus

import (
	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// write is how a writable property reaches the engine.
type write struct {
	property string
	engine   engine.Property // 0: a Requested…Transition
	parse    func(value any) (v uint64, ok bool)
}

// writes is every writable property; their names are unique over all state
// objects.
var writes = [...]write{
	{"RequestedHostTransition", 0, enum(openbmc.HostTransition)},
	{"RequestedPowerTransition", 0, enum(openbmc.ChassisTransition)},
	{"RequestedBMCTransition", 0, enum(openbmc.BMCTransition)},
	{"CurrentHostState", engine.PropHostState, enum(openbmc.HostState)},
	{"RestartCause", engine.PropRestartCause, enum(openbmc.RestartCause)},
	{"RequestedRestartCause", engine.PropRequestedRestartCause, enum(openbmc.PrivateRestartCause)},
	{"BootProgress", engine.PropBootProgress, enum(openbmc.BootProgress)},
	{"BootProgressLastUpdate", engine.PropBootProgressUpdate, number},
	{"OperatingSystemState", engine.PropOSState, enum(openbmc.OSState)},
	{"AttemptsLeft", engine.PropAttemptsLeft, number},
	{"RetryAttempts", engine.PropRetryAttempts, number},
	{"CurrentPowerState", engine.PropPowerState, enum(openbmc.PowerState)},
	{"CurrentPowerStatus", engine.PropPowerStatus, enum(openbmc.PowerStatus)},
	{"LastStateChangeTime", engine.PropLastStateChange, number},
	{"POHCounter", engine.PropPOHCounter, number},
	{"CurrentBMCState", engine.PropBMCState, enum(openbmc.BMCState)},
	{"LastRebootTime", engine.PropLastRebootTime, number},
	{"LastRebootCause", engine.PropLastRebootCause, enum(openbmc.RebootCause)},
	{"ScheduledTime", engine.PropScheduledTime, number},
	{"ScheduledTransition", engine.PropScheduledTransition, enum(openbmc.HostTransition)},
}

func enum[T ~uint8](e openbmc.Enum[T]) func(any) (uint64, bool) {
	return func(value any) (uint64, bool) {
		s, _ := value.(string)
		v, ok := e.Parse(s)
		return uint64(v), ok
	}
}

func number(value any) (uint64, bool) {
	switch n := value.(type) {
	case uint32:
		return uint64(n), true
	case uint64:
		return n, true
	default:
		return 0, false
	}
}

// setter returns what hands writes to an object's properties to the engine.
// It does not wait for the answer, so that pipelined writes are admitted
// together.
func (s *Server) setter(o state.Object) func(*props.Call, string, any) {
	return func(c *props.Call, property string, value any) {
		w := findWrite(property)
		if w == nil {
			c.Fail(props.Errorf(props.ErrPropertyReadOnly, "Property '%s' is not writable.", property))
			return
		}
		v, ok := w.parse(value)
		if !ok {
			c.Fail(props.Errorf(openbmc.ErrInvalidArgument, "Invalid argument was given: %q is no value of %s.", value, property))
			return
		}
		reply := func(a engine.Answer) { answerSet(c, o.Kind, a) }
		if w.engine == 0 {
			s.opts.Backend.Post(engine.Write{Caller: caller(c), Object: o, Op: state.Operation(v), Reply: reply})
			return
		}
		s.opts.Backend.Post(engine.Set{Caller: caller(c), Object: o, Prop: w.engine, Value: v, Reply: reply})
	}
}

func findWrite(property string) *write {
	for i := range writes {
		if writes[i].property == property {
			return &writes[i]
		}
	}
	return nil
}

func caller(c *props.Call) engine.Caller { return engine.Caller{UID: c.UID, Sender: c.Sender} }

// answerSet ends a property write. A request that the state made INVALID is an
// error here; Submit returns it as a status.
func answerSet(c *props.Call, kind state.Kind, a engine.Answer) {
	switch {
	case a.Err != nil:
		c.Fail(setError(kind, a.Err))
	case a.Status == state.Invalid:
		c.Fail(setError(kind, &engine.Refusal{Code: engine.CodeNotAllowed, Text: "The operation is not allowed in this state."}))
	default:
		c.Return()
	}
}
