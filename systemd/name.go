package systemd

import (
	"fmt"
	"strings"
)

const (
	busName      = "org.freedesktop.systemd1"
	managerPath  = "/org/freedesktop/systemd1"
	managerIface = "org.freedesktop.systemd1.Manager"
	unitIface    = "org.freedesktop.systemd1.Unit"
	serviceIface = "org.freedesktop.systemd1.Service"
	jobIface     = "org.freedesktop.systemd1.Job"
	propsIface   = "org.freedesktop.DBus.Properties"
	unitPrefix   = managerPath + "/unit/"
	jobPrefix    = managerPath + "/job/"
	maxUnitName  = 255 // UNIT_NAME_MAX of systemd.unit(5), without the NUL
)

var unitSuffixes = map[string]bool{
	"service": true, "socket": true, "target": true, "device": true, "mount": true, "automount": true,
	"swap": true, "timer": true, "path": true, "slice": true, "scope": true,
}

// EscapePath returns name as the last element of a D-Bus object path, escaped
// as systemd escapes unit names: every byte that is no letter or digit becomes
// "_" and two hex digits, a digit in front as well, and "" becomes "_".
func EscapePath(name string) string {
	if name == "" {
		return "_"
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// UnescapePath is the inverse of [EscapePath]; what is no valid escape stays as
// it is.
func UnescapePath(element string) string {
	if element == "_" {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(element); i++ {
		if element[i] == '_' && i+2 < len(element) {
			hi, lo := unhex(element[i+1]), unhex(element[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(element[i])
	}
	return b.String()
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// ValidUnitName reports whether systemd can take name as the name of one unit
// (systemd.unit(5)): a known suffix, at most 255 bytes, letters, digits and
// ":-_.\@" only, and no template without an instance. Names that pass cannot
// break out of a bus match rule.
func ValidUnitName(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || len(name) > maxUnitName || !unitSuffixes[name[dot+1:]] {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(`:-_.\@`, c) >= 0) {
			return false
		}
	}
	stem := name[:dot]
	return stem[0] != '@' && stem[len(stem)-1] != '@'
}

func isService(name string) bool { return strings.HasSuffix(name, ".service") }
