package props

import (
	"fmt"
	"strings"

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
	ErrTimeout          = "org.freedesktop.DBus.Error.Timeout"
	ErrUnknownInterface = "org.freedesktop.DBus.Error.UnknownInterface"
	ErrUnknownMethod    = "org.freedesktop.DBus.Error.UnknownMethod"
	ErrUnknownObject    = "org.freedesktop.DBus.Error.UnknownObject"
	ErrUnknownProperty  = "org.freedesktop.DBus.Error.UnknownProperty"
)

// quoteMax is how many bytes of a caller's words an error repeats.
const quoteMax = 200

// Errorf makes a D-Bus error with a text. Arguments that are long texts are cut:
// they are a caller's, and need not all come back, or go into a log.
func Errorf(name, format string, args ...any) *godbus.Error {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = clip(a)
		case godbus.ObjectPath:
			args[i] = clip(string(a))
		}
	}
	return &godbus.Error{Name: name, Body: []any{fmt.Sprintf(format, args...)}}
}

func clip(text string) string {
	if len(text) <= quoteMax {
		return text
	}
	return strings.ToValidUTF8(text[:quoteMax], "") + "…"
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
