package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// machine drives a queue at random and watches what must always hold.
type machine struct {
	*driver
	cfg     queue.Config
	final   map[uint64]state.Status
	collide bool // every key has the same hash
}

var anyOperation = rapid.SampledFrom([]state.Operation{
	state.HostOn, state.HostOff, state.HostReboot, state.HostForceWarmReboot, state.ChassisOff, state.ChassisPowerCycle,
})

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := queue.Config{
			Policy:     rapid.SampledFrom(policies).Draw(t, "policy"),
			DepthLimit: 6, Share: 4, ConnShare: 3, HistoryMax: 12,
			HistoryTTL: 1000 * u, RepeatWindow: 60 * u, PendingTTL: 50 * u,
			RetryInvalid: rapid.Bool().Draw(t, "retry"),
		}
		m := &machine{driver: newDriver(t, cfg), cfg: cfg, final: map[uint64]state.Status{}}
		if m.collide = rapid.Bool().Draw(t, "collide"); m.collide {
			queue.Collide(m.q)
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit":  m.submit,
			"write":   m.write,
			"cancel":  m.cancel,
			"time":    m.time,
			"expire":  func(*rapid.T) { m.q.Expire(m.now); m.pump() },
			"evict":   func(*rapid.T) { m.q.Evict(m.now) },
			"button":  func(*rapid.T) { m.off = !m.off; m.contrary() },
			"drop":    m.drop,
			"restart": m.restart,
			"":        m.check,
		})
	})
}

func (m *machine) submit(t *rapid.T) {
	d := submit(fmt.Sprintf("c%d#%d", rapid.IntRange(0, 1).Draw(t, "client"), rapid.IntRange(0, 9).Draw(t, "id")), anyOperation.Draw(t, "op"))
	m.arrive(t, d)
}

func (m *machine) write(t *rapid.T) { m.arrive(t, write(0, anyOperation.Draw(t, "op"))) }

func (m *machine) arrive(t *rapid.T, d queue.Delivery) {
	d.Key.UID = rapid.Uint32Range(0, 2).Draw(t, "uid")
	d.Conn = fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "conn"))
	before, known := m.q.Lookup(m.now, d.Key)
	waiting, records := m.waiting(d), m.q.Len()
	a := m.deliver(d, rapid.Bool().Draw(t, "delayed"))
	emergency := d.Op == state.ChassisOff
	switch a.Outcome {
	case queue.Accepted:
		require.True(t, emergency || waiting < m.cfg.Share)
		if known && m.cfg.Policy.Keys() && !d.Property {
			require.True(t, m.cfg.RetryInvalid && before.Status == state.Invalid)
		}
		if emergency {
			m.q.Supersede(m.now, a.Seq, m.q.Overtaken(a.Seq, false))
			m.pump()
		}
	case queue.Repeat:
		require.Equal(t, records, m.q.Len())
		if !d.Property {
			require.Equal(t, before.Seq, a.Seq)
			require.Equal(t, before.Status, a.Status)
		}
	default:
		require.False(t, emergency && a.Outcome != queue.Conflict)
		require.False(t, a.Outcome == queue.Busy && m.cfg.Policy.Queues())
		require.NotEmpty(t, a.Text)
	}
}

// waiting counts what waits of d's uid.
func (m *machine) waiting(d queue.Delivery) (n int) {
	for _, r := range m.q.Unfinished() {
		if r.Status == state.Pending && r.Key.UID == d.Key.UID {
			n++
		}
	}
	return n
}

func (m *machine) cancel(t *rapid.T) {
	if m.seq == 0 {
		return
	}
	seq := rapid.Uint64Range(1, m.seq).Draw(t, "seq")
	m.q.Cancel(m.now, seq, rapid.Uint32Range(0, 2).Draw(t, "uid"), "")
	m.pump()
}

func (m *machine) time(t *rapid.T) {
	m.at(m.now.Boot + time.Duration(rapid.IntRange(0, 200).Draw(t, "u"))*u)
}

func (m *machine) contrary() {
	if r, ok := m.q.Running(); ok {
		m.q.Contrary(r.Seq)
	}
}

// drop is a journal that refuses: nothing of the request remains.
func (m *machine) drop(t *rapid.T) {
	d := submit("dropped#1", anyOperation.Draw(t, "op"))
	a := m.q.Admit(m.now, d, m.next)
	if a.Outcome == queue.Accepted {
		require.True(t, m.q.Drop(a.Seq))
		_, known := m.q.Lookup(m.now, d.Key)
		require.False(t, known)
	}
}

// restart rebuilds the queue from its records: nothing may differ but the
// deliveries and what was seen since the launch.
func (m *machine) restart(t *rapid.T) {
	old := m.q
	m.q = queue.New(m.cfg)
	if m.collide {
		queue.Collide(m.q)
	}
	records := old.Page(0, 1000)
	for _, r := range rapid.Permutation(records).Draw(t, "order") {
		age, _ := old.Age(m.now, r.Seq)
		m.q.Restore(m.now, r, queue.Restored{Age: age})
	}
	m.q.SetCounters(old.Counters())
	require.Equal(t, records, m.q.Page(0, 1000))
	require.Equal(t, old.Unfinished(), m.q.Unfinished())
	require.Equal(t, old.Depth(), m.q.Depth())
	for _, r := range records {
		want, known := old.Lookup(m.now, r.Key)
		got, knows := m.q.Lookup(m.now, r.Key)
		require.Equal(t, known, knows)
		require.Equal(t, want, got)
	}
}

// check is what holds after every action.
func (m *machine) check(t *rapid.T) {
	running, waiting := 0, 0
	launches := map[state.Key]int{}
	records := m.q.Page(0, 1000)
	require.Len(t, records, m.q.Len())
	for i, r := range records {
		require.True(t, i == 0 || records[i-1].Seq < r.Seq)
		if was, ok := m.final[r.Seq]; ok {
			require.Equal(t, was, r.Status, "a final status stays")
		}
		switch {
		case r.Status.Final():
			m.final[r.Seq] = r.Status
		case r.Status == state.Pending:
			waiting++
		default:
			running++
		}
		if r.Launched {
			launches[r.Key]++
		}
	}
	require.LessOrEqual(t, running, 1)
	require.Equal(t, waiting, m.q.Depth())
	if m.cfg.Policy.Keys() {
		for k, n := range launches {
			require.Equal(t, 1, n, "%v launched once", k)
		}
	}
	if running == 0 {
		require.Zero(t, waiting, "an idle executor leaves nothing waiting")
	}
}
