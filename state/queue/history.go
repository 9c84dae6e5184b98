package queue

import (
	"sort"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Get returns the record with a sequence.
func (q *Queue) Get(seq uint64) (state.Request, bool) {
	r := q.find(seq)
	if r == nil {
		return state.Request{}, false
	}
	return r.copy(), true
}

// Lookup returns the newest record of a key. A record that has aged out is
// unknown, and so is one whose key the policy does not keep.
func (q *Queue) Lookup(now state.Instant, k state.Key) (state.Request, bool) {
	r := q.lookup(k)
	if r == nil || q.aged(now, r) {
		return state.Request{}, false
	}
	return r.copy(), true
}

// Page returns up to limit records with a sequence above after, oldest first.
func (q *Queue) Page(after uint64, limit int) []state.Request {
	i := sort.Search(len(q.order), func(i int) bool { return q.order[i].seq > after })
	var out []state.Request
	for ; i < len(q.order) && len(out) < limit; i++ {
		if !q.order[i].gone {
			out = append(out, q.order[i].copy())
		}
	}
	return out
}

// Unfinished returns all unfinished records, oldest first.
func (q *Queue) Unfinished() []state.Request {
	var out []state.Request
	for r := q.first; r != nil; r = r.live.next {
		out = append(out, r.copy())
	}
	return out
}

// Depth returns how many requests wait.
func (q *Queue) Depth() int { return q.depth }

// Len returns how many records there are, finished or not.
func (q *Queue) Len() int { return q.size() }

// Counters returns the totals.
func (q *Queue) Counters() Counters { return q.counters }

// SetCounters sets the totals, after a replay.
func (q *Queue) SetCounters(c Counters) { q.counters = c }

// Newest returns the newest accepted request of an object.
func (q *Queue) Newest(o state.Object) (Newest, bool) {
	n, ok := q.newest[o]
	return n, ok
}

// SetNewest makes a request the newest accepted one of its object. Call it when
// the sender is told success, also where its property write joined an older
// request; a refused write leaves the newest one as it is.
func (q *Queue) SetNewest(seq uint64) {
	if r := q.find(seq); r != nil {
		q.newest[r.object()] = Newest{Op: r.op, Seq: seq}
	}
}

// Age returns the uptime since the request ended; false while it has not.
func (q *Queue) Age(now state.Instant, seq uint64) (time.Duration, bool) {
	r := q.find(seq)
	if r == nil || r.live != nil {
		return 0, false
	}
	return time.Duration(int64(now.Boot) - r.aged), true
}

// Restored is what the journal knows of a record besides the request.
type Restored struct {
	Age    time.Duration // of a final record: uptime since its end, over all boots
	Aside  bool          // see Delivery.Aside
	Parent uint64        // see Delivery.Parent
}

// Restore registers a record that the journal holds, in any order of sequences.
// Unfinished records of an earlier boot come in as they were: the caller
// settles them with [Queue.Finish] (DESIGN.md §3.5).
func (q *Queue) Restore(now state.Instant, req state.Request, extra Restored) {
	r := &record{
		seq: req.Seq, uid: req.Key.UID, client: req.Key.Client, request: req.Key.Request,
		kind: req.Object.Kind, index: int32(req.Object.Index), op: req.Op,
		status: req.Status, reason: req.Reason, launched: req.Launched,
		accepted: stampOf(req.Accepted), started: stampOf(req.Started), ended: stampOf(req.Ended),
	}
	if req.Cause != "" || len(req.Claims) > 0 || len(req.Superseded) > 0 || req.Expires != 0 || req.OwnerLeft {
		r.rare = &rare{cause: req.Cause, expires: int64(req.Expires), ownerLeft: req.OwnerLeft,
			claims: append([]uint32(nil), req.Claims...), superseded: append([]uint64(nil), req.Superseded...)}
	}
	if req.Status.Final() {
		r.aged = int64(now.Boot - extra.Age)
	} else {
		r.live = &live{durable: true, aside: extra.Aside, parent: extra.Parent}
		if req.Status != state.Pending && !extra.Aside {
			q.running = r
		}
	}
	q.insert(r)
	if !q.unkept(r) {
		q.index(r)
	}
	if n := q.newest[r.object()]; r.seq > n.Seq && (r.status != state.Invalid || r.launched) {
		q.newest[r.object()] = Newest{Op: r.op, Seq: r.seq}
	}
}

// Evict forgets final records that have aged out, and, where there are more
// than the history may hold, what may be evicted. It returns their sequences.
func (q *Queue) Evict(now state.Instant) []uint64 {
	out := q.ageOut(now)
	for q.cfg.HistoryMax >= 0 && q.size() > q.cfg.HistoryMax {
		r := q.evictable(now, nil)
		if r == nil {
			break
		}
		out = append(out, r.seq)
		q.dropOldest(q.owner(r.uid))
	}
	return out
}

// ageOut forgets what is older than HistoryTTL.
func (q *Queue) ageOut(now state.Instant) []uint64 {
	if q.cfg.HistoryTTL < 0 {
		return nil
	}
	var out []uint64
	for _, o := range q.owners {
		for r := o.oldest(); r != nil && q.aged(now, r); r = o.oldest() {
			out = append(out, r.seq)
			q.dropOldest(o)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func (q *Queue) aged(now state.Instant, r *record) bool {
	return r.live == nil && q.cfg.HistoryTTL >= 0 && int64(now.Boot)-r.aged >= int64(q.cfg.HistoryTTL)
}

// dropOldest forgets the oldest final record of o.
func (q *Queue) dropOldest(o *owner) {
	r := o.first
	if o.first = r.nextFinal; o.first == nil {
		o.last = nil
	}
	q.forget(r)
}

// makeRoom makes room for one more record of uid. It reports false where there
// is none.
func (q *Queue) makeRoom(now state.Instant, uid uint32) (evicted []uint64, ok bool) {
	for q.cfg.HistoryMax >= 0 && q.size() >= q.cfg.HistoryMax {
		r := q.evictable(now, &uid)
		if r == nil {
			return evicted, false
		}
		evicted = append(evicted, r.seq)
		q.dropOldest(q.owner(r.uid))
	}
	return evicted, true
}

// evictable returns the record to evict: the oldest of the uid that is furthest
// over its share of the history, unless it is younger than RepeatWindow; then
// of the next uid over its share. A uid's share is the history divided by the
// number of uids in it, newcomer included.
func (q *Queue) evictable(now state.Instant, newcomer *uint32) *record {
	uids := len(q.owners)
	if newcomer != nil && q.owners[*newcomer] == nil {
		uids++
	}
	share := max(q.cfg.HistoryMax/max(uids, 1), 1)
	var best *record
	most := share
	for uid, o := range q.owners {
		n := o.records
		if newcomer != nil && uid == *newcomer {
			n++
		}
		r := o.oldest()
		if n <= share || r == nil || int64(now.Boot)-r.aged < int64(q.cfg.RepeatWindow) {
			continue
		}
		if n > most || n == most && best != nil && r.seq < best.seq {
			best, most = r, n
		}
	}
	return best
}

// Each calls do with the sequence of every record, oldest first.
func (q *Queue) Each(do func(seq uint64)) {
	for _, r := range q.order {
		if !r.gone {
			do(r.seq)
		}
	}
}
