package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	godbus "github.com/godbus/dbus/v5"
)

// The error names that matter to a caller, as systemd and the bus driver spell
// them (org.freedesktop.systemd1(5)).
const (
	NameNoSuchUnit           = "org.freedesktop.systemd1.NoSuchUnit"
	NameNoSuchJob            = "org.freedesktop.systemd1.NoSuchJob"
	NameLoadFailed           = "org.freedesktop.systemd1.LoadFailed"
	NameUnitMasked           = "org.freedesktop.systemd1.UnitMasked"
	NameOnlyByDependency     = "org.freedesktop.systemd1.OnlyByDependency"
	NameJobTypeNotApplicable = "org.freedesktop.systemd1.JobTypeNotApplicable"
	NameDestructive          = "org.freedesktop.systemd1.TransactionIsDestructive"
	NameJobsConflicting      = "org.freedesktop.systemd1.TransactionJobsConflicting"
	NameOrderIsCyclic        = "org.freedesktop.systemd1.TransactionOrderIsCyclic"
	NameShuttingDown         = "org.freedesktop.systemd1.ShuttingDown"
	NameAlreadySubscribed    = "org.freedesktop.systemd1.AlreadySubscribed"

	NameAccessDenied   = "org.freedesktop.DBus.Error.AccessDenied"
	NameDisconnected   = "org.freedesktop.DBus.Error.Disconnected"
	NameInvalidArgs    = "org.freedesktop.DBus.Error.InvalidArgs"
	NameNameHasNoOwner = "org.freedesktop.DBus.Error.NameHasNoOwner"
	NameNoReply        = "org.freedesktop.DBus.Error.NoReply"
	NameServiceUnknown = "org.freedesktop.DBus.Error.ServiceUnknown"
	NameUnknownObject  = "org.freedesktop.DBus.Error.UnknownObject"
)

const nameFailed = "org.freedesktop.DBus.Error.Failed"

// Error is a call to systemd that did not succeed.
type Error struct {
	_ [0]func() // see state.Incomparable

	Op   string // the method, for example "StartUnit"
	Unit string // the unit or job it was about, "" if none
	Name string // D-Bus error name; NameNoReply if the deadline passed, NameDisconnected if there is no bus
	Err  error  // what systemd said, or context.DeadlineExceeded
}

var _ error = (*Error)(nil)

// Error names the call, the unit and the D-Bus error.
func (e *Error) Error() string {
	subject := e.Op
	if e.Unit != "" {
		subject += " " + e.Unit
	}
	if e.Err == nil {
		return fmt.Sprintf("systemd: %s: %s", subject, e.Name)
	}
	return fmt.Sprintf("systemd: %s: %v (%s)", subject, e.Err, e.Name)
}

// Unwrap returns what lay below.
func (e *Error) Unwrap() error { return e.Err }

// Short returns the last element of the error's name, for example "UnitMasked":
// the word that a request's reason carries.
func (e *Error) Short() string { return e.Name[strings.LastIndexByte(e.Name, '.')+1:] }

// NotSent reports whether systemd certainly never saw the call, so that
// repeating it cannot act twice.
func (e *Error) NotSent() bool {
	switch e.Name {
	case NameServiceUnknown, NameNameHasNoOwner, NameInvalidArgs, NameAccessDenied:
		return true
	case NameDisconnected:
		return errors.Is(e.Err, errNoLink)
	default:
		return false
	}
}

// Temporary reports whether the same call may succeed a little later without
// anybody changing a unit: jobs in conflict, systemd away or slow.
func (e *Error) Temporary() bool {
	switch e.Name {
	case NameDestructive, NameJobsConflicting, NameServiceUnknown, NameNameHasNoOwner, NameNoReply, NameDisconnected:
		return true
	default:
		return false
	}
}

// ErrorName returns the D-Bus error name inside err, "" if there is none.
func ErrorName(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Name
	}
	return ""
}

var (
	errNoLink = errors.New("systemd is not on the bus; check that the system bus and systemd are up")
	errClosed = errors.New("the connection to systemd was closed by its owner")
)

// wrap gives a failed call its *Error; nil stays nil.
func wrap(op, unit string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Unit: unit, Name: nameFailed, Err: err}
	var bus godbus.Error
	switch {
	case errors.As(err, &bus):
		e.Name = bus.Name
		e.Err = errors.New(busText(bus))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Name = NameNoReply
	case gone(err):
		e.Name = NameDisconnected
	}
	return e
}

func gone(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, end := range []error{errNoLink, errClosed, godbus.ErrClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func busText(e godbus.Error) string {
	if len(e.Body) > 0 {
		if s, ok := e.Body[0].(string); ok && s != "" {
			return s
		}
	}
	return "refused without a text"
}
