// Package trace holds the input of the simulator: which requests arrive when.
// It reads and writes traces as CSV and generates them on the random stream of
// the paper.
package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/state"
)

// Delivery is one arrival of a request.
type Delivery struct {
	At       float64 // u from the start of the trace
	Key      state.Key
	Intent   int // index of the key among the trace's keys, by first arrival
	Op       state.Operation
	Repeat   bool
	Delayed  bool // its confirmation comes late
	Property bool // a plain property write
}

// Trace is a sorted list of deliveries.
type Trace struct {
	Deliveries []Delivery
	Intents    int // distinct keys
}

// paperNames are the names of the paper's three operations.
var paperNames = []struct {
	name string
	op   state.Operation
}{{"ON", state.HostOn}, {"OFF", state.HostOff}, {"REBOOT", state.HostReboot}}

// Operations lists the names that [ParseOperation] knows.
func Operations() []string {
	var out []string
	for _, n := range paperNames {
		out = append(out, n.name)
	}
	for op := state.HostOn; op <= state.ChassisPowerCycle; op++ {
		out = append(out, op.String())
	}
	return out
}

// ParseOperation returns the operation with a name of the paper or of
// DESIGN.md §3.2.
func ParseOperation(name string) (state.Operation, error) {
	for _, n := range paperNames {
		if n.name == name {
			return n.op, nil
		}
	}
	op, err := state.ParseOperation(name)
	if err != nil || op.Kind() == state.KindBMC {
		return 0, fmt.Errorf("allowed is one of %s", strings.Join(Operations(), ", "))
	}
	return op, nil
}

// operationName is the inverse of ParseOperation; the paper's names come first.
func operationName(op state.Operation) string {
	for _, n := range paperNames {
		if n.op == op {
			return n.name
		}
	}
	return op.String()
}

// InputError is a bad value in a file or on the command line.
type InputError struct {
	File    string // or "command line"
	Line    int    // 0 = none
	Field   string
	Value   string
	Allowed string // what is allowed, for example "a number above 0"
}

// Error names the place, the value and what is allowed.
func (e *InputError) Error() string {
	place := e.File
	if e.Line > 0 {
		place += ":" + strconv.Itoa(e.Line)
	}
	return fmt.Sprintf("%s: %s: %q: %s", place, e.Field, e.Value, e.Allowed)
}

// clientOf splits a client id of a trace, "uid:client" or, for uid 0, "client".
func clientOf(text string) (uid uint32, client string) {
	if head, rest, ok := strings.Cut(text, ":"); ok {
		if n, err := strconv.ParseUint(head, 10, 32); err == nil {
			return uint32(n), rest
		}
	}
	return 0, text
}

// clientText is the inverse of clientOf.
func clientText(k state.Key) string {
	if k.UID == 0 && !strings.Contains(k.Client, ":") {
		return k.Client
	}
	return strconv.FormatUint(uint64(k.UID), 10) + ":" + k.Client
}

// sortByTime sorts deliveries by time and keeps the order of simultaneous ones.
func sortByTime(d []Delivery) {
	slices.SortStableFunc(d, func(a, b Delivery) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
}
