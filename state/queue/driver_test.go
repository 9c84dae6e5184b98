package queue_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

const (
	u            = time.Second // one u of the paper
	unknownAfter = 12 * u
	knownAfter   = 14 * u
)

// durations are those of the paper's transitions.
var durations = map[state.Operation]time.Duration{state.HostOn: 5 * u, state.HostOff: 3 * u, state.HostReboot: 8 * u}

// driver is the paper's server: one executor, judged with state.Judge, in
// virtual time. It contains no rule of admission.
type driver struct {
	t        require.TestingT
	q        *queue.Queue
	now      state.Instant
	off      bool
	seq      uint64
	delayed  map[uint64]bool // sequences whose confirmation is late
	unknown  time.Duration   // when the running one becomes UNKNOWN, 0 = not
	done     time.Duration   // when the running one ends
	launches []launch
	maxDepth int
}

type launch struct {
	op state.Operation
	at time.Duration
}

func newDriver(t require.TestingT, cfg queue.Config) *driver {
	return &driver{t: t, q: queue.New(cfg), delayed: map[uint64]bool{}}
}

func (d *driver) next() uint64 {
	d.seq++
	return d.seq
}

// at lets time pass: what ends at the same instant ends first.
func (d *driver) at(t time.Duration) {
	for {
		r, running := d.q.Running()
		switch {
		case running && d.unknown != 0 && d.unknown <= t:
			d.now.Boot, d.unknown = d.unknown, 0
			require.NoError(d.t, d.q.Unknown(r.Seq))
		case running && d.done <= t:
			d.now.Boot = d.done
			d.off = r.Op == state.HostOff || r.Op == state.ChassisOff
			require.NoError(d.t, d.q.Finish(d.now, r.Seq, state.Success, ""))
			d.pump()
		default:
			d.now.Boot = t
			return
		}
	}
}

// deliver hands one request in, journals it at once and returns the answer.
func (d *driver) deliver(r queue.Delivery, delayed bool) queue.Answer {
	a := d.q.Admit(d.now, r, d.next)
	if a.Outcome == queue.Accepted {
		d.delayed[a.Seq] = delayed
		require.True(d.t, d.q.Durable(a.Seq))
		d.pump()
	}
	return a
}

// pump takes from the queue what the executor can take.
func (d *driver) pump() {
	for {
		_, busy := d.q.Running()
		r, ok := d.q.Head()
		if busy || !ok {
			break
		}
		v := state.Judge(r.Op, state.ColumnOf(!d.off, !d.off, false), false)
		switch {
		case v == state.VerdictNoop:
			require.NoError(d.t, d.q.Finish(d.now, r.Seq, state.Noop, ""))
		case v == state.VerdictInvalid:
			require.NoError(d.t, d.q.Finish(d.now, r.Seq, state.Invalid, ""))
		default:
			d.start(r)
		}
	}
	d.maxDepth = max(d.maxDepth, d.q.Depth())
}

func (d *driver) start(r state.Request) {
	require.NoError(d.t, d.q.Start(d.now, r.Seq))
	d.launches = append(d.launches, launch{r.Op, d.now.Boot})
	length, ok := durations[r.Op]
	if !ok {
		length = 5 * u
	}
	d.unknown, d.done = 0, d.now.Boot+length
	if d.delayed[r.Seq] {
		d.unknown, d.done = d.now.Boot+unknownAfter, d.now.Boot+knownAfter
	}
}
