package queue

import (
	"hash/maphash"
	"math"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Queue is the admission of one domain. Make one with [New]; it is not safe for
// concurrent use.
type Queue struct {
	cfg Config

	hash   func(state.Key) uint64
	keys   map[uint64]*record // by hash of the key; see record.sameHash
	order  []*record          // all records by sequence, forgotten ones included
	gone   int                // how many of order are forgotten
	owners map[uint32]*owner
	conns  map[string]int // waiting requests per bus connection

	first, last *record // unfinished records by sequence
	running     *record // RUNNING or UNKNOWN, at most one
	depth       int     // waiting
	expiry      int64   // when a waiting request expires, or earlier

	newest   map[state.Object]Newest
	counters Counters
	log      deliveryLog
}

// owner is what one uid has in the queue.
type owner struct {
	_ state.Incomparable

	records     int // all of them
	waiting     int
	first, last *record // final ones, oldest first
	unsorted    bool    // restored out of order
}

// Counters are the totals that the queue object shows.
type Counters struct {
	Launches             uint64 // transitions started
	DuplicatesSuppressed uint64 // repeats answered from a record
	Refused              uint64 // BUSY, Full, ID_CONFLICT, and what the journal refused
}

// Newest is the newest accepted request of an object.
type Newest struct {
	_ state.Incomparable

	Op  state.Operation
	Seq uint64
}

// Delivery is one request as it arrives.
type Delivery struct {
	Key      state.Key // of a property write only UID counts
	Object   state.Object
	Op       state.Operation
	Conn     string // bus connection, "" for none
	Property bool   // a plain property write (DESIGN.md §3.4)
	Cause    string
	Expires  time.Duration // from now, by the boot clock; 0 = by PendingTTL

	// Adopted marks what other hands have begun already, for example a foreign
	// systemd job: it is registered whatever the policy and the bounds say.
	Adopted bool
	// Aside marks the parent of an operation on an aggregate: it is shown and
	// keyed here but neither waits in the order nor takes the executor's place.
	Aside bool
	// Parent is the sequence of the Aside request that this is a child of. A
	// property write equal to the parent joins it although the child is newer.
	Parent uint64
}

// Outcome is the admission's decision.
type Outcome uint8

// The outcomes.
const (
	Accepted Outcome = iota + 1 // a new record: journal it
	Repeat                      // known: answer its status
	Conflict                    // key known with another operation
	Busy                        // the policy does not queue
	Full                        // depth, share or history bound
)

var outcomeNames = [...]string{
	Accepted: "ACCEPTED", Repeat: "REPEAT", Conflict: "ID_CONFLICT", Busy: "BUSY", Full: "FULL",
}

// String returns the outcome's name, for example "ID_CONFLICT".
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}

// Answer is what [Queue.Admit] decided.
type Answer struct {
	Outcome Outcome
	Seq     uint64       // of the new, joined or conflicting record
	Status  state.Status // of that record
	Text    string       // of a refusal: what is wrong and the way out
	Durable bool         // the record is in the journal
	Claimed bool         // the join added the sender's uid: journal the claim
	Evicted []uint64     // aged out or evicted for room: journal that they are forgotten
}

// New returns an empty queue.
func New(cfg Config) *Queue {
	cfg = cfg.WithDefaults()
	seed := maphash.MakeSeed()
	return &Queue{
		cfg:    cfg,
		hash:   func(k state.Key) uint64 { return maphash.Comparable(seed, k) },
		keys:   map[uint64]*record{},
		owners: map[uint32]*owner{},
		conns:  map[string]int{},
		newest: map[state.Object]Newest{},
		log:    deliveryLog{max: cfg.LogMax},
		expiry: math.MaxInt64,
	}
}

// Config returns the configuration with its defaults filled in.
func (q *Queue) Config() Config { return q.cfg }

// Admit decides about d. It takes a sequence number from nextSeq only for a new
// record; the numbers must rise. Nothing is durable yet: see the package's
// order of calls.
func (q *Queue) Admit(now state.Instant, d Delivery, nextSeq func() uint64) Answer {
	evicted := q.ageOut(now)
	a := q.admit(now, &d, nextSeq)
	a.Evicted = append(evicted, a.Evicted...)
	switch a.Outcome {
	case Repeat:
		q.counters.DuplicatesSuppressed++
	case Conflict, Busy, Full:
		q.counters.Refused++
	}
	q.note(now, &d, a)
	return a
}

func (q *Queue) admit(now state.Instant, d *Delivery, nextSeq func() uint64) Answer {
	var known *record
	switch {
	case d.Adopted:
	case d.Property:
		if r := q.joinable(d); r != nil {
			return q.join(r, d)
		}
	case q.cfg.Policy.Keys():
		known = q.lookup(d.Key)
		if known != nil && !q.retries(known, d) {
			return repeat(known, d)
		}
	}
	a := q.room(now, d)
	if a.Outcome != 0 {
		return a
	}
	r := q.register(now, d, nextSeq(), known)
	a.Outcome, a.Seq, a.Status = Accepted, r.seq, r.status
	return a
}

// Repeats reports whether a delivery would be answered from a record, and
// changes nothing.
func (q *Queue) Repeats(d Delivery) bool {
	if d.Property {
		return q.joinable(&d) != nil
	}
	return q.cfg.Policy.Keys() && q.lookup(d.Key) != nil
}

// joinable returns the request that the property write d repeats, nil if it is
// a new intent. Only the newest unfinished request of the domain counts:
// anything older was followed by another wish.
func (q *Queue) joinable(d *Delivery) *record {
	r := q.last
	if r == nil {
		return nil
	}
	if p := r.live.parent; p != 0 && (r.op != d.Op || r.object() != d.Object) {
		if r = q.find(p); r == nil || r.live == nil {
			return nil
		}
	}
	if r.op != d.Op || r.object() != d.Object {
		return nil
	}
	if r.status == state.Pending || r.status == state.Running && !r.live.contrary {
		return r
	}
	return nil
}

func (q *Queue) join(r *record, d *Delivery) Answer {
	return Answer{
		Outcome: Repeat, Seq: r.seq, Status: r.status, Durable: r.live.durable,
		Claimed: r.claim(d.Key.UID),
	}
}

// retries reports whether the delivery of a known key is judged again.
func (q *Queue) retries(known *record, d *Delivery) bool {
	return q.cfg.RetryInvalid && known.status == state.Invalid && sameIntent(known, d)
}

func sameIntent(r *record, d *Delivery) bool { return r.op == d.Op && r.object() == d.Object }

func repeat(known *record, d *Delivery) Answer {
	a := Answer{
		Outcome: Repeat, Seq: known.seq, Status: known.status,
		Durable: known.live == nil || known.live.durable,
	}
	if !sameIntent(known, d) {
		a.Outcome = Conflict
		a.Text = "this request id was used for " + known.op.String() + " before: use a new request id for " + d.Op.String()
	}
	return a
}

// room refuses d where the policy or a bound does. What has begun already and
// emergencies are never refused, but make room if they can.
func (q *Queue) room(now state.Instant, d *Delivery) Answer {
	if d.Adopted || d.Op.Class() == state.Emergency {
		evicted, _ := q.makeRoom(now, d.Key.UID)
		return Answer{Evicted: evicted}
	}
	if !q.cfg.Policy.Queues() && q.occupied(d) {
		return Answer{Outcome: Busy, Text: "a transition is under way and the policy " + q.cfg.Policy.String() +
			" does not queue: repeat when it has ended"}
	}
	if text := q.overBound(d); text != "" {
		return Answer{Outcome: Full, Text: text}
	}
	evicted, ok := q.makeRoom(now, d.Key.UID)
	if !ok {
		return Answer{Outcome: Full, Evicted: evicted, Text: "the history is full of requests that are unfinished or younger than " +
			q.cfg.RepeatWindow.String() + ": repeat later"}
	}
	return Answer{Evicted: evicted}
}

// occupied reports whether a request is unfinished, not counting the one that d
// is a child of.
func (q *Queue) occupied(d *Delivery) bool {
	r := q.last
	if r != nil && r.seq == d.Parent {
		r = r.live.prev
	}
	return r != nil
}

// overBound returns the text of the refusal where d goes beyond a bound.
func (q *Queue) overBound(d *Delivery) string {
	waiting := 0
	if o := q.owners[d.Key.UID]; o != nil {
		waiting = o.waiting
	}
	switch {
	case d.Aside:
		return ""
	case reached(q.depth, q.cfg.DepthLimit):
		return bound(q.depth, "requests wait in this domain")
	case reached(waiting, q.cfg.Share):
		return bound(waiting, "requests of this user wait")
	case d.Conn != "" && reached(q.conns[d.Conn], q.cfg.ConnShare):
		return bound(q.conns[d.Conn], "requests of this bus connection wait")
	}
	return ""
}

func bound(n int, what string) string {
	return strconv.Itoa(n) + " " + what + ", which is the limit: repeat later, or cancel one of them"
}

// register makes the record of an accepted delivery.
func (q *Queue) register(now state.Instant, d *Delivery, seq uint64, replaces *record) *record {
	r := &record{
		seq: seq, uid: d.Key.UID, client: d.Key.Client, request: d.Key.Request,
		kind: d.Object.Kind, index: int32(d.Object.Index), op: d.Op,
		status: state.Pending, accepted: stampOf(now),
		live: &live{conn: d.Conn, parent: d.Parent, replaces: replaces, aside: d.Aside},
	}
	if d.Property {
		r.client, r.request = state.PropertyClient, strconv.FormatUint(seq, 10)
	}
	if d.Cause != "" {
		r.more().cause = d.Cause
	}
	if d.Expires > 0 {
		r.more().expires = addClamped(int64(now.Boot), int64(d.Expires))
	}
	q.insert(r)
	q.index(r)
	return r
}

func addClamped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
