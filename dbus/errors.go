package dbus

import (
	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// errorNames are the names of refusals (DESIGN.md §6): what a property write
// is told, in words that bmcweb maps to HTTP, and what a queue's method is told.
// CodeBMCNotReady depends on the interface.
var errorNames = [...]struct{ set, method string }{
	engine.CodeInvalidArgument: {openbmc.ErrInvalidArgument, openbmc.ErrInvalidArgument},
	engine.CodeNotAllowed:      {openbmc.ErrNotAllowed, openbmc.ErrNotAllowed},
	engine.CodeUnavailable:     {openbmc.ErrUnavailable, openbmc.ErrUnavailable},
	engine.CodeInvalidTime:     {openbmc.ErrInvalidTime, openbmc.ErrInvalidTime},
	engine.CodeIDConflict:      {openbmc.ErrNotAllowed, openbmc.ErrIDConflict},
	engine.CodeBusy:            {openbmc.ErrUnavailable, openbmc.ErrBusy},
	engine.CodeFull:            {openbmc.ErrUnavailable, openbmc.ErrFull},
	engine.CodeUnknownRequest:  {openbmc.ErrNotAllowed, openbmc.ErrUnknownRequest},
	engine.CodeRunning:         {openbmc.ErrNotAllowed, openbmc.ErrNotAllowed},
	engine.CodeAccessDenied:    {props.ErrAccessDenied, props.ErrAccessDenied},
}

// notReady is the name of CodeBMCNotReady by the object that was asked. The
// BMC's own interface declares none.
func notReady(kind state.Kind) string {
	switch kind {
	case state.KindHost:
		return openbmc.ErrHostNotReady
	case state.KindChassis, state.KindSystem:
		return openbmc.ErrChassisNotReady
	default:
		return openbmc.ErrUnavailable
	}
}

// setError is the error of a property write.
func setError(kind state.Kind, r *engine.Refusal) *godbus.Error {
	if r.Code == engine.CodeBMCNotReady {
		return props.Errorf(notReady(kind), "%s", clean(r.Text))
	}
	return props.Errorf(named(r.Code).set, "%s", clean(r.Text))
}

// methodError is the error of a method of a queue or a request.
func methodError(kind state.Kind, r *engine.Refusal) *godbus.Error {
	if r.Code == engine.CodeBMCNotReady {
		return props.Errorf(notReady(kind), "%s", clean(r.Text))
	}
	return props.Errorf(named(r.Code).method, "%s", clean(r.Text))
}

func named(code engine.Code) (names struct{ set, method string }) {
	if int(code) < len(errorNames) && errorNames[code].set != "" {
		return errorNames[code]
	}
	names.set, names.method = props.ErrFailed, props.ErrFailed
	return names
}
