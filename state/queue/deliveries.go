package queue

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/bmcstate/bmcstate/state"
)

// Logged is one delivery as it arrived, repeats and refusals included.
type Logged struct {
	_ state.Incomparable

	At      state.Instant
	Key     state.Key // of a property write: that of the request it made or joined
	Op      state.Operation
	Outcome Outcome
	Seq     uint64 // of its request, 0 = none
	Delayed bool   // the request became UNKNOWN
}

// deliveryLog is a ring that grows up to max.
type deliveryLog struct {
	max  int
	next int
	ring []Logged
}

// note logs one delivery and its answer.
func (q *Queue) note(now state.Instant, d *Delivery, a Answer) {
	if q.log.max <= 0 || d.Adopted {
		return
	}
	e := Logged{At: now, Key: d.Key, Op: d.Op, Outcome: a.Outcome, Seq: a.Seq}
	switch r := q.find(a.Seq); {
	case !d.Property:
	case r != nil:
		e.Key = r.key()
	default: // each refused write is an intent of its own
		e.Key.Client, e.Key.Request = state.PropertyClient, "refused-"+strconv.FormatUint(q.counters.Refused, 10)
	}
	q.log.add(e)
}

func (l *deliveryLog) add(e Logged) {
	if len(l.ring) < l.max {
		l.ring = append(l.ring, e)
		return
	}
	l.ring[l.next] = e
	l.next = (l.next + 1) % l.max
}

func (l *deliveryLog) delayed(seq uint64) {
	for i := range l.ring {
		if l.ring[i].Seq == seq {
			l.ring[i].Delayed = true
		}
	}
}

// Deliveries returns the last deliveries, oldest first. They are lost with the
// process.
func (q *Queue) Deliveries() []Logged {
	l := &q.log
	return append(append([]Logged{}, l.ring[l.next:]...), l.ring[:l.next]...)
}

// TraceColumns are the columns of a trace, as the simulator reads them.
func TraceColumns() []string {
	return []string{"arrival_u", "client_id", "request_id", "op", "is_repeat", "delayed"}
}

// WriteTrace writes deliveries as a trace that the simulator replays: one u is
// one second, counted from the first delivery; a client id is prefixed with its
// uid, as only both together are one client.
func WriteTrace(w io.Writer, deliveries []Logged) error {
	out := csv.NewWriter(w)
	if err := out.Write(TraceColumns()); err != nil {
		return fmt.Errorf("queue: write trace: %w", err)
	}
	late := map[uint64]bool{} // sequences: a repeat is delayed like its request
	for _, d := range deliveries {
		late[d.Seq] = late[d.Seq] || d.Seq != 0 && d.Delayed
	}
	seen := map[state.Key]bool{}
	for _, d := range deliveries {
		at := (d.At.Boot - deliveries[0].At.Boot).Seconds()
		again := seen[d.Key] || d.Outcome == Repeat
		seen[d.Key] = true
		err := out.Write([]string{
			strconv.FormatFloat(at, 'f', -1, 64),
			strconv.FormatUint(uint64(d.Key.UID), 10) + ":" + d.Key.Client, d.Key.Request,
			d.Op.String(), bit(again), bit(late[d.Seq]),
		})
		if err != nil {
			return fmt.Errorf("queue: write trace: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("queue: write trace: %w", err)
	}
	return nil
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
