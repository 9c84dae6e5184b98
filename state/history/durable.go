package history

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
)

// Durable proves that one entry is on disk. Only the journal makes one; its zero
// value proves nothing.
type Durable struct {
	log *Log
	seq uint64
}

// Covers returns nil if d proves that entry seq of journal l is durable, else an
// error that wraps [ErrNoToken]. It must be asked before every effect.
func (d Durable) Covers(l *Log, seq uint64) error {
	return covers("entry", d.log, d.seq, l, seq)
}

// NotDurable permits one Chassis Off to act although its records are not on
// disk: a barrier is in the run directory instead. Its zero value permits
// nothing.
type NotDurable struct {
	log     *Log
	request uint64
}

// Covers returns nil if n permits the steps of the given request of journal l,
// else an error that wraps [ErrNoToken].
func (n NotDurable) Covers(l *Log, request uint64) error {
	return covers("request", n.log, n.request, l, request)
}

func covers(what string, have *Log, haveSeq uint64, want *Log, wantSeq uint64) error {
	switch {
	case have == nil || want == nil || wantSeq == 0:
		return fmt.Errorf("%w: zero token for %s %d", ErrNoToken, what, wantSeq)
	case have != want:
		return fmt.Errorf("%w: token of another journal for %s %d", ErrNoToken, what, wantSeq)
	case haveSeq != wantSeq:
		return fmt.Errorf("%w: token of %s %d for %s %d", ErrNoToken, what, haveSeq, what, wantSeq)
	default:
		return nil
	}
}

// Commit is the outcome of one write and fsync.
type Commit struct {
	// First and Last are the sequences of the entries, without gaps.
	First, Last uint64
	// Err is nil if all of them are durable; otherwise none is, and their
	// numbers are spent. It is an *IOError, ErrClosed, or an encoding error.
	Err error
	// Voided are the acceptances among them that were given up by [Log.Void]
	// before the write came back. The log ends them INTERRUPTED itself.
	Voided []uint64
	// Due says that it is time for [Log.Compact].
	Due bool

	log         *Log // nil where Err is set
	first, last uint64
}

// Durable returns the token of one entry of the commit, or the zero token where
// the commit failed, was voided, or does not hold the entry.
func (c Commit) Durable(seq uint64) Durable {
	if c.log == nil || seq < c.first || seq > c.last || state.Contains(c.Voided, seq) {
		return Durable{}
	}
	return Durable{log: c.log, seq: seq}
}
