package queue

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// stamp is a state.Instant in 16 bytes: boot clock in nanoseconds, wall clock
// in microseconds since the epoch, 0 for none.
type stamp struct{ boot, wall int64 }

func stampOf(i state.Instant) stamp {
	return stamp{int64(i.Boot), int64(i.WallMicros())}
}

func (s stamp) instant() state.Instant {
	i := state.Instant{Boot: time.Duration(s.boot)}
	if s.wall != 0 {
		i.Wall = time.UnixMicro(s.wall)
	}
	return i
}

// record is one request. Thousands of finished ones are kept on a small
// machine, so what only unfinished or unusual ones need is behind a pointer.
type record struct {
	_ state.Incomparable

	seq      uint64
	client   string
	request  string
	reason   string
	accepted stamp
	started  stamp
	ended    stamp
	aged     int64 // when it ended, on this boot's clock: negative if in an earlier boot

	sameHash  *record // next record whose key has the same hash
	nextFinal *record // next final record of the same uid, by aged
	live      *live   // nil once final
	rare      *rare   // nil if nothing in it is set

	uid      uint32
	index    int32 // of the object
	kind     state.Kind
	op       state.Operation
	status   state.Status
	launched bool
	gone     bool // forgotten; waits to be swept out of the order
}

// live is what an unfinished record needs besides.
type live struct {
	_ state.Incomparable

	prev, next *record // unfinished records by sequence
	conn       string
	parent     uint64
	replaces   *record // the INVALID record that had the key before
	durable    bool
	contrary   bool
	aside      bool
}

// rare is what few records have.
type rare struct {
	cause      string
	claims     []uint32
	superseded []uint64
	expires    int64 // boot clock, 0 = by PendingTTL
	ownerLeft  bool
}

func (r *record) key() state.Key {
	return state.Key{UID: r.uid, Client: r.client, Request: r.request}
}

func (r *record) object() state.Object {
	return state.Object{Kind: r.kind, Index: int(r.index)}
}

func (r *record) internal() bool {
	return len(r.client) >= len(state.InternalPrefix) && r.client[:len(state.InternalPrefix)] == state.InternalPrefix
}

// waits reports whether r stands in the queue.
func (r *record) waits() bool { return r.status == state.Pending && !r.live.aside }

// more returns r.rare, which it makes if need be.
func (r *record) more() *rare {
	if r.rare == nil {
		r.rare = &rare{}
	}
	return r.rare
}

// claimants returns the uids that still want r.
func (r *record) claimants() []uint32 {
	if r.rare == nil {
		return []uint32{r.uid}
	}
	if r.rare.ownerLeft {
		return r.rare.claims
	}
	return append([]uint32{r.uid}, r.rare.claims...)
}

// claim adds uid to those who want r and reports whether it is new.
func (r *record) claim(uid uint32) bool {
	if state.Contains(r.claimants(), uid) {
		return false
	}
	if uid == r.uid {
		r.rare.ownerLeft = false
		return true
	}
	r.more().claims = append(r.more().claims, uid)
	return true
}

// disclaim takes uid away from those who want r.
func (r *record) disclaim(uid uint32) {
	if uid == r.uid {
		r.more().ownerLeft = true
		return
	}
	r.rare.claims = state.Remove(r.rare.claims, uid)
}

// copy returns r in the shared form. It shares no memory with r.
func (r *record) copy() state.Request {
	out := state.Request{
		Seq: r.seq, Key: r.key(), Object: r.object(), Op: r.op,
		Status: r.status, Reason: r.reason, Launched: r.launched,
		Accepted: r.accepted.instant(), Started: r.started.instant(), Ended: r.ended.instant(),
	}
	if r.rare != nil {
		out.Cause = r.rare.cause
		out.Claims = append([]uint32(nil), r.rare.claims...)
		out.Superseded = append([]uint64(nil), r.rare.superseded...)
		out.Expires = time.Duration(r.rare.expires)
		out.OwnerLeft = r.rare.ownerLeft
	}
	return out
}
