package sim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// Observer watches a run, for a picture of it. Any field may be nil.
type Observer struct {
	Depth      func(at float64, waiting int)
	Transition func(start, end float64, op state.Operation, status state.Status)
	Answer     func(at float64, o queue.Outcome)
	Crash      func(at, restart float64)
	Progress   func(share float64) // of the trace, now and then
}

// progressEvery is how many deliveries pass between two calls of Progress.
const progressEvery = 4096

// run is one replay.
type run struct {
	o     Options
	watch Observer
	q     *queue.Queue
	now   float64
	seq   uint64

	power, host bool // what the server shows between transitions
	job         job
	crashes     []float64 // that are still to come
	restart     float64   // never while the daemon lives

	requests []request // by sequence - 1
	intents  []intent
	result   Result
	err      error // a call that the queue refused: a defect
}

// request ties a record of the queue to the trace.
type request struct {
	intents []int // whose deliveries led to it; the first one made it
	delayed bool
}

// Run replays t.
func Run(t *trace.Trace, o Options) (Result, error) { return Watch(t, o, Observer{}) }

// Watch replays t and tells w what happens, in the order of time.
func Watch(t *trace.Trace, o Options, w Observer) (Result, error) {
	r := &run{
		o: o, watch: w, q: queue.New(o.Queue), power: true, host: true, job: idle(), crashes: o.Crashes, restart: never,
		intents: make([]intent, t.Intents), requests: make([]request, 0, len(t.Deliveries)),
	}
	r.result.Deliveries = len(t.Deliveries)
	for i := range t.Deliveries {
		r.until(t.Deliveries[i].At)
		r.arrive(&t.Deliveries[i])
		if w.Progress != nil && i%progressEvery == progressEvery-1 {
			w.Progress(float64(i) / float64(len(t.Deliveries)))
		}
	}
	r.until(never)
	if r.err != nil {
		return Result{}, fmt.Errorf("sim: at %v u: %w", r.now, r.err)
	}
	r.result.End = r.now
	r.result.finish(r.intents)
	return r.result, nil
}

// until lets everything happen that is due up to t. What ends at t ends before
// what arrives at t.
func (r *run) until(t float64) {
	for r.err == nil {
		at, what := r.next()
		if at > t || math.IsInf(at, 1) {
			break
		}
		r.now = max(r.now, at) // what was due while the daemon was dead happens now
		r.happen(what)
	}
	if !math.IsInf(t, 1) {
		r.now = t
	}
}

// event is something that happens in the world, arrivals aside.
type event uint8

const (
	eventOff event = iota
	eventUnknown
	eventDone
	eventExpiry
	eventCrash
	eventRestart
)

// next returns the next event and when it is due.
func (r *run) next() (float64, event) {
	at, what := r.job.next(r.alive())
	if r.o.Queue.PendingTTL > 0 && r.alive() {
		if d, ok := r.q.NextDeadline(); ok && d.Seconds() < at {
			at, what = d.Seconds(), eventExpiry
		}
	}
	if len(r.crashes) > 0 && r.crashes[0] < at && r.alive() {
		at, what = r.crashes[0], eventCrash
	}
	if r.restart < at {
		at, what = r.restart, eventRestart
	}
	return at, what
}

func (r *run) happen(what event) {
	switch what {
	case eventOff:
		r.powerGone()
	case eventUnknown:
		r.unconfirmed()
	case eventDone:
		r.done()
	case eventExpiry:
		r.expire()
	case eventCrash:
		r.crash()
	case eventRestart:
		r.recover()
	}
}

func (r *run) alive() bool { return math.IsInf(r.restart, 1) }

// instant is the virtual time as the queue takes it.
func (r *run) instant() state.Instant {
	return state.Instant{Boot: time.Duration(math.Round(r.now * float64(time.Second)))}
}

func (r *run) nextSeq() uint64 {
	r.seq++
	return r.seq
}

// check keeps the first error of a call that must not fail.
func (r *run) check(err error) {
	if r.err == nil {
		r.err = err
	}
}

var errNotDurable = errors.New("the queue does not know its own request")

// arrive hands one delivery to the admission. The journal of this world takes
// no time.
func (r *run) arrive(d *trace.Delivery) {
	k := &r.intents[d.Intent]
	if !k.seen {
		k.seen, k.arrived, k.urgent = true, d.At, d.Op.Class() >= state.Forced
	}
	if !r.alive() {
		r.result.Lost++
		return
	}
	a := r.q.Admit(r.instant(), queue.Delivery{
		Key: d.Key, Object: state.Object{Kind: d.Op.Kind()}, Op: d.Op, Property: d.Property,
	}, r.nextSeq)
	switch a.Outcome {
	case queue.Accepted:
		r.accepted(d, a.Seq)
	case queue.Repeat:
		r.result.Repeats++
		r.repeated(d.Intent, a)
	case queue.Busy:
		r.result.Busy++
	case queue.Full:
		r.result.Full++
	case queue.Conflict:
		r.result.Conflicts++
	}
	if r.watch.Answer != nil {
		r.watch.Answer(r.now, a.Outcome)
	}
}

func (r *run) accepted(d *trace.Delivery, seq uint64) {
	r.requests = append(r.requests, request{intents: []int{d.Intent}, delayed: d.Delayed})
	if !r.q.Durable(seq) {
		r.check(errNotDurable)
		return
	}
	if r.o.Overtaking && d.Op.Class() >= state.Forced {
		r.overtake(seq, d.Op)
	}
	r.pump()
}

// repeated credits the intent with what the request it joined comes to.
func (r *run) repeated(intent int, a queue.Answer) {
	req := &r.requests[a.Seq-1]
	if req.intents[0] == intent {
		return
	}
	req.intents = append(req.intents, intent)
	if a.Status == state.Success || a.Status == state.Noop {
		r.credit(intent, a.Status)
	}
}

// overtake lets a forced request that could be launched, and any emergency,
// supersede what the queue says it may.
func (r *run) overtake(seq uint64, op state.Operation) {
	if op.Class() < state.Emergency && !state.Judge(op, r.column(), r.o.RebootWhenOff).Launches() {
		return
	}
	for _, victim := range r.q.Supersede(r.instant(), seq, r.q.Overtaken(seq, r.job.gracefulWait())) {
		r.result.Ended.add(state.Superseded)
		if victim == r.job.seq {
			r.abort(state.Superseded)
		}
	}
}

// column is what a request is judged by.
func (r *run) column() state.Column {
	if r.job.raising() {
		return state.ColumnChassisOnly
	}
	return state.ColumnOf(r.power, r.host, false)
}

// pump takes from the queue what the executor can take.
func (r *run) pump() {
	for r.err == nil && !r.job.active() {
		head, ok := r.q.Head()
		if !ok {
			break
		}
		switch v := state.Judge(head.Op, r.column(), r.o.RebootWhenOff); v {
		case state.VerdictNoop:
			r.end(head.Seq, state.Noop, "already so")
		case state.VerdictInvalid:
			r.end(head.Seq, state.Invalid, "the host is off")
		default:
			r.launch(head.Seq, head.Op, v)
		}
	}
	r.sample()
}

// sample looks at the queue after what takes no time was taken from it.
func (r *run) sample() {
	depth := r.q.Depth()
	r.result.MaxQueue = max(r.result.MaxQueue, depth)
	if r.watch.Depth != nil {
		r.watch.Depth(r.now, depth)
	}
}

// end gives a request its final status and credits its intents.
func (r *run) end(seq uint64, status state.Status, reason string) {
	r.check(r.q.Finish(r.instant(), seq, status, reason))
	r.result.Ended.add(status)
	if status != state.Success && status != state.Noop {
		return
	}
	for _, intent := range r.requests[seq-1].intents {
		r.credit(intent, status)
	}
}

func (r *run) credit(intent int, status state.Status) {
	k := &r.intents[intent]
	k.completed = k.completed || status == state.Success
	if !k.ok {
		k.ok, k.succeeded = true, r.now
	}
}

// expire ends what has waited too long. It hands the queue's own deadline back:
// in floating point it could come out a nanosecond early.
func (r *run) expire() {
	deadline, _ := r.q.NextDeadline()
	for range r.q.Expire(state.Instant{Boot: deadline}) {
		r.result.Ended.add(state.Expired)
	}
	r.sample()
}
