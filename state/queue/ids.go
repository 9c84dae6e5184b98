package queue

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmcstate/bmcstate/state"
)

// maxID is the longest client or request id, in bytes (DESIGN.md §6).
const maxID = 128

// CheckIDs tells whether a caller of Submit may use these ids: 1 to 128 bytes of
// printable UTF-8, and none of the reserved client ids.
func CheckIDs(client, request string) error {
	if client == state.PropertyClient || strings.HasPrefix(client, state.InternalPrefix) {
		return fmt.Errorf("client id %q is reserved: choose another one, fresh for each run", client)
	}
	if err := checkID("client id", client); err != nil {
		return err
	}
	return checkID("request id", request)
}

func checkID(what, id string) error {
	if len(id) == 0 || len(id) > maxID {
		return fmt.Errorf("%s has %d bytes: allowed are 1 to %d", what, len(id), maxID)
	}
	if !utf8.ValidString(id) || strings.IndexFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		return fmt.Errorf("%s %q: allowed is printable UTF-8", what, id)
	}
	return nil
}
