package props

import (
	"fmt"

	godbus "github.com/godbus/dbus/v5"
)

// The standard error names. sd-bus maps these to errno values that clients
// tell apart; godbus's own names it does not know.
const (
	ErrFailed           = "org.freedesktop.DBus.Error.Failed"
	ErrAccessDenied     = "org.freedesktop.DBus.Error.AccessDenied"
	ErrInvalidArgs      = "org.freedesktop.DBus.Error.InvalidArgs"
	ErrLimitsExceeded   = "org.freedesktop.DBus.Error.LimitsExceeded"
	ErrPropertyReadOnly = "org.freedesktop.DBus.Error.PropertyReadOnly"
	ErrUnknownInterface = "org.freedesktop.DBus.Error.UnknownInterface"
	ErrUnknownMethod    = "org.freedesktop.DBus.Error.UnknownMethod"
	ErrUnknownObject    = "org.freedesktop.DBus.Error.UnknownObject"
	ErrUnknownProperty  = "org.freedesktop.DBus.Error.UnknownProperty"
)

// Errorf makes a D-Bus error with a text.
func Errorf(name, format string, args ...any) *godbus.Error {
	return &godbus.Error{Name: name, Body: []any{fmt.Sprintf(format, args...)}}
}

func unknownObject(path godbus.ObjectPath) *godbus.Error {
	return Errorf(ErrUnknownObject, "Unknown object '%s'.", path)
}

func unknownMethod(iface, member string) *godbus.Error {
	return Errorf(ErrUnknownMethod, "Unknown method %s or interface %s.", member, iface)
}

func unknownInterface(iface string) *godbus.Error {
	return Errorf(ErrUnknownInterface, "Unknown interface '%s'.", iface)
}

func unknownProperty(iface, property string) *godbus.Error {
	return Errorf(ErrUnknownProperty, "Unknown interface %s or property %s.", iface, property)
}

func wrongArgs(got, iface, member, want string) *godbus.Error {
	return Errorf(ErrInvalidArgs, "Invalid arguments '%s' to call %s.%s(), expecting '%s'.", got, iface, member, want)
}

func wrongType(property, want, got string) *godbus.Error {
	return Errorf(ErrInvalidArgs, "Incorrect parameters for property '%s', expected '%s', got '%s'.", property, want, got)
}

func readOnly(property string) *godbus.Error {
	return Errorf(ErrPropertyReadOnly, "Property '%s' is not writable.", property)
}
