package engine

import (
	"errors"
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

var errStorageHangs = errors.New("storage did not answer; the request may be on disk")

// ErrAbandoned is the cause with which a unit's job is given up.
var ErrAbandoned = errors.New("engine: the transition was given up")

// The texts of the interfaces' standard errors (clients.md §0.4) start what we
// add: callers match names, people read texts.
func unavailable(err error) *Refusal {
	return &Refusal{CodeUnavailable, fmt.Sprintf("The service is temporarily unavailable: %v", err)}
}

func invalidArgument(format string, args ...any) *Refusal {
	return &Refusal{CodeInvalidArgument, "Invalid argument was given: " + fmt.Sprintf(format, args...)}
}

func notAllowed(op state.Operation, reason string) *Refusal {
	return &Refusal{CodeNotAllowed, fmt.Sprintf("The operation is not allowed: %s: %s", op, reason)}
}
