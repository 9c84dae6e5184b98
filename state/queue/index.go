package queue

import (
	"sort"
	"strconv"

	"github.com/bmcstate/bmcstate/state"
)

// insert puts r into the order, into its owner's count and, while it is
// unfinished, among the unfinished.
func (q *Queue) insert(r *record) {
	q.order = insertBySeq(q.order, r)
	q.owner(r.uid).records++
	if r.live != nil {
		q.link(r)
	} else {
		q.retire(r)
	}
}

func insertBySeq(order []*record, r *record) []*record {
	if n := len(order); n == 0 || order[n-1].seq < r.seq {
		return append(order, r)
	}
	i, _ := position(order, r.seq)
	order = append(order, nil)
	copy(order[i+1:], order[i:])
	order[i] = r
	return order
}

func position(order []*record, seq uint64) (int, bool) {
	i := sort.Search(len(order), func(i int) bool { return order[i].seq >= seq })
	return i, i < len(order) && order[i].seq == seq
}

func (q *Queue) owner(uid uint32) *owner {
	o := q.owners[uid]
	if o == nil {
		o = &owner{}
		q.owners[uid] = o
	}
	return o
}

// link puts r among the unfinished, by sequence.
func (q *Queue) link(r *record) {
	prev := q.last
	for prev != nil && prev.seq > r.seq {
		prev = prev.live.prev
	}
	r.live.prev = prev
	if prev == nil {
		r.live.next, q.first = q.first, r
	} else {
		r.live.next, prev.live.next = prev.live.next, r
	}
	if r.live.next == nil {
		q.last = r
	} else {
		r.live.next.live.prev = r
	}
	if r.status == state.Pending {
		q.expiry = min(q.expiry, q.deadline(r))
	}
	if r.waits() {
		q.count(r, 1)
	}
}

// unlink takes r out of the unfinished. Its live part stays readable.
func (q *Queue) unlink(r *record) {
	if r.waits() {
		q.count(r, -1)
	}
	if q.running == r {
		q.running = nil
	}
	if p := r.live.prev; p != nil {
		p.live.next = r.live.next
	} else {
		q.first = r.live.next
	}
	if n := r.live.next; n != nil {
		n.live.prev = r.live.prev
	} else {
		q.last = r.live.prev
	}
}

// count adds n to what waits: of the domain, of r's uid, of its connection.
func (q *Queue) count(r *record, n int) {
	q.depth += n
	q.owner(r.uid).waiting += n
	if r.live.conn == "" {
		return
	}
	q.conns[r.live.conn] += n
	if q.conns[r.live.conn] == 0 {
		delete(q.conns, r.live.conn)
	}
}

// retire appends the final record r to its owner's final ones.
func (q *Queue) retire(r *record) {
	o := q.owner(r.uid)
	r.nextFinal = nil
	if o.last == nil {
		o.first, o.last = r, r
		return
	}
	o.unsorted = o.unsorted || r.aged < o.last.aged
	o.last.nextFinal, o.last = r, r
}

// oldest returns the final record of o that ended first.
func (o *owner) oldest() *record {
	if o.unsorted {
		o.sort()
	}
	return o.first
}

func (o *owner) sort() {
	var all []*record
	for r := o.first; r != nil; r = r.nextFinal {
		all = append(all, r)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].aged < all[j].aged })
	for i, r := range all[1:] {
		all[i].nextFinal = r
	}
	o.first, o.last = all[0], all[len(all)-1]
	o.last.nextFinal = nil
	o.unsorted = false
}

// index makes r what its key leads to. Of several records with one key (CHECK,
// FIFO, a repeat after INVALID) that is the newest. A property write needs no
// index: its request id is its sequence.
func (q *Queue) index(r *record) {
	if r.client == state.PropertyClient {
		return
	}
	h := q.hash(r.key())
	var prev *record
	for other := q.keys[h]; other != nil; prev, other = other, other.sameHash {
		if other.key() != r.key() {
			continue
		}
		if other.seq > r.seq {
			return
		}
		r.sameHash, other.sameHash = other.sameHash, nil
		q.setAfter(h, prev, r)
		return
	}
	r.sameHash = q.keys[h]
	q.keys[h] = r
}

// unindex makes r's key unknown if it leads to r, and reports whether it did.
func (q *Queue) unindex(r *record) bool {
	h := q.hash(r.key())
	var prev *record
	for other := q.keys[h]; other != nil; prev, other = other, other.sameHash {
		if other == r {
			q.setAfter(h, prev, r.sameHash)
			r.sameHash = nil
			return true
		}
	}
	return false
}

// reindex makes the newest record with r's key, which is being forgotten, what
// the key leads to. Where every request has a record of its own, a newer one may
// go before an older one.
func (q *Queue) reindex(r *record) {
	if q.cfg.Policy.Keys() && !q.cfg.RetryInvalid {
		return // there are no two
	}
	for i := len(q.order) - 1; i >= 0; i-- {
		other := q.order[i]
		if other != r && !other.gone && other.uid == r.uid && other.client == r.client && other.request == r.request && !q.unkept(other) {
			q.index(other)
			return
		}
	}
}

// setAfter makes r the successor of prev in the chain of hash h.
func (q *Queue) setAfter(h uint64, prev, r *record) {
	switch {
	case prev != nil:
		prev.sameHash = r
	case r == nil:
		delete(q.keys, h)
	default:
		q.keys[h] = r
	}
}

// lookup returns the newest record of a key, nil if there is none. The key of a
// property write leads to its record whoever asks: several uids may share it.
func (q *Queue) lookup(k state.Key) *record {
	if k.Client == state.PropertyClient {
		seq, err := strconv.ParseUint(k.Request, 10, 64)
		if r := q.find(seq); err == nil && r != nil && r.client == state.PropertyClient {
			return r
		}
		return nil
	}
	for r := q.keys[q.hash(k)]; r != nil; r = r.sameHash {
		if r.uid == k.UID && r.client == k.Client && r.request == k.Request {
			return r
		}
	}
	return nil
}

// find returns the record with a sequence, nil if there is none.
func (q *Queue) find(seq uint64) *record {
	i, ok := position(q.order, seq)
	if !ok || q.order[i].gone {
		return nil
	}
	return q.order[i]
}

// forget removes the record r, which is no longer linked and not among its
// owner's final ones.
func (q *Queue) forget(r *record) {
	if q.unindex(r) {
		q.reindex(r)
	}
	o := q.owner(r.uid)
	if o.records--; o.records == 0 {
		delete(q.owners, r.uid)
	}
	// The record stays in the order until a sweep: empty what it holds.
	*r = record{seq: r.seq, gone: true}
	q.gone++
	q.sweep()
}

// sweep takes forgotten records out of the order: at its front at once, as the
// oldest go first, elsewhere when they are a quarter of it.
func (q *Queue) sweep() {
	for len(q.order) > 0 && q.order[0].gone {
		q.order[0] = nil
		q.order = q.order[1:]
		q.gone--
	}
	if q.gone > 16 && q.gone > len(q.order)/4 {
		left := make([]*record, 0, len(q.order))
		for _, r := range q.order {
			if !r.gone {
				left = append(left, r)
			}
		}
		q.order, q.gone = left, 0
	}
}

// size returns how many records there are.
func (q *Queue) size() int { return len(q.order) - q.gone }
