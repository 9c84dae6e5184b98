package queue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// write is a plain property write of uid.
func write(uid uint32, op state.Operation) queue.Delivery {
	return queue.Delivery{Key: state.Key{UID: uid}, Object: state.Object{Kind: op.Kind()}, Op: op, Property: true}
}

var policies = []state.Policy{state.Check, state.Dedup, state.FIFO, state.FIFODedup}

func TestEqualWriteJoinsTheNewestUnfinished(t *testing.T) {
	for _, p := range policies {
		t.Run(p.String(), func(t *testing.T) {
			d := newDriver(t, queue.Config{Policy: p})
			first := d.deliver(write(0, state.HostReboot), false)
			require.Equal(t, queue.Accepted, first.Outcome)
			d.at(u)
			// Before the BUSY test, and whoever writes it.
			again := d.deliver(write(1000, state.HostReboot), false)
			assert.Equal(t, queue.Repeat, again.Outcome)
			assert.Equal(t, first.Seq, again.Seq)
			assert.True(t, again.Claimed)
			assert.False(t, d.deliver(write(1000, state.HostReboot), false).Claimed)
			assert.Len(t, d.launches, 1)
			assert.EqualValues(t, 2, d.q.Counters().DuplicatesSuppressed)
			// An equal one finished before: a new intent.
			d.at(100 * u)
			assert.Equal(t, queue.Accepted, d.deliver(write(0, state.HostReboot), false).Outcome)
			assert.Len(t, d.launches, 2)
		})
	}
}

func TestWriteKey(t *testing.T) {
	d := newDriver(t, queue.Config{})
	a := d.deliver(write(7, state.HostReboot), false)
	r, ok := d.q.Get(a.Seq)
	require.True(t, ok)
	assert.Equal(t, state.Key{UID: 7, Client: "property", Request: "1"}, r.Key)
	// Its key leads there for every uid: several may share it.
	r, ok = d.q.Lookup(d.now, state.Key{UID: 9, Client: "property", Request: "1"})
	require.True(t, ok)
	assert.Equal(t, a.Seq, r.Seq)
}

func TestWriteJoinsASubmittedRequest(t *testing.T) {
	d := newDriver(t, queue.Config{})
	d.deliver(submit("a#1", state.HostReboot), false)
	waiting := d.deliver(submit("a#2", state.HostOff), false)
	a := d.deliver(write(0, state.HostOff), false)
	assert.Equal(t, queue.Repeat, a.Outcome)
	assert.Equal(t, waiting.Seq, a.Seq)
	// The other way round a new id is a new intent.
	assert.Equal(t, queue.Accepted, d.deliver(submit("a#3", state.HostOff), false).Outcome)
}

func TestOnOffOnIsThreeRequests(t *testing.T) {
	d := newDriver(t, queue.Config{})
	d.deliver(submit("a#1", state.HostReboot), false) // holds the executor
	for _, op := range []state.Operation{state.HostOn, state.HostOff, state.HostOn} {
		assert.Equal(t, queue.Accepted, d.deliver(write(0, op), false).Outcome)
	}
	assert.Equal(t, 3, d.q.Depth())
}

func TestWriteOfAnotherObjectIsAnotherIntent(t *testing.T) {
	d := newDriver(t, queue.Config{})
	d.deliver(write(0, state.HostReboot), false)
	other := write(0, state.HostReboot)
	other.Object.Index = 1
	assert.Equal(t, queue.Accepted, d.deliver(other, false).Outcome)
}

func TestWriteDoesNotJoin(t *testing.T) {
	cases := []struct {
		name   string
		happen func(d *driver, seq uint64)
		want   queue.Outcome
	}{
		{"RUNNING with nothing contrary is joined", func(*driver, uint64) {}, queue.Repeat},
		{"RUNNING after a contrary level", func(d *driver, seq uint64) { d.q.Contrary(seq) }, queue.Accepted},
		{"UNKNOWN", func(d *driver, seq uint64) { d.at(13 * u) }, queue.Accepted},
		{"final", func(d *driver, seq uint64) { d.at(14 * u) }, queue.Accepted},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, queue.Config{})
			a := d.deliver(write(0, state.HostReboot), true)
			c.happen(d, a.Seq)
			assert.Equal(t, c.want, d.deliver(write(0, state.HostReboot), false).Outcome)
		})
	}
}

func TestWriteThatIsNotARepeatIsBusyUnderCheckAndDedup(t *testing.T) {
	for _, p := range []state.Policy{state.Check, state.Dedup} {
		d := newDriver(t, queue.Config{Policy: p})
		d.deliver(write(0, state.HostReboot), false)
		assert.Equal(t, queue.Busy, d.deliver(write(0, state.HostOff), false).Outcome, p)
	}
}

func TestEveryWriteIsItsOwnKeyOnceAnEqualOneHasEnded(t *testing.T) {
	d := newDriver(t, queue.Config{})
	a := d.deliver(write(0, state.HostOn), false) // NOOP at once
	b := d.deliver(write(0, state.HostOn), false)
	assert.NotEqual(t, a.Seq, b.Seq)
	assert.Equal(t, queue.Accepted, b.Outcome)
}

func TestWriteJoinsTheParentOfItsNewestChild(t *testing.T) {
	d := newDriver(t, queue.Config{})
	parent := write(0, state.ChassisPowerCycle)
	parent.Aside = true
	p := d.deliver(parent, false)
	child := submit("internal.aggregate#1", state.ChassisPowerCycle)
	child.Object.Index, child.Parent = 1, p.Seq
	require.Equal(t, queue.Accepted, d.deliver(child, false).Outcome)

	assert.Equal(t, p.Seq, d.deliver(write(0, state.ChassisPowerCycle), false).Seq)
	// The parent takes no place: the child runs, nothing waits.
	r, running := d.q.Running()
	require.True(t, running)
	assert.NotEqual(t, p.Seq, r.Seq)
	assert.Zero(t, d.q.Depth())
	require.NoError(t, d.q.Start(d.now, p.Seq))
	require.NoError(t, d.q.Finish(d.now, p.Seq, state.Success, ""))
}

func TestConflict(t *testing.T) {
	for _, p := range policies {
		d := newDriver(t, queue.Config{Policy: p})
		d.deliver(submit("a#1", state.HostReboot), false)
		d.at(20 * u)
		a := d.deliver(submit("a#1", state.HostOff), false)
		if !p.Keys() {
			assert.Equal(t, queue.Accepted, a.Outcome, p)
			continue
		}
		assert.Equal(t, queue.Conflict, a.Outcome, p)
		assert.Equal(t, "this request id was used for Host Reboot before: use a new request id for Host Off", a.Text)
		r, _ := d.q.Lookup(d.now, state.Key{Client: "a", Request: "1"})
		assert.Equal(t, state.Success, r.Status)
		assert.EqualValues(t, 1, d.q.Counters().Refused)
	}
}

func TestUidIsPartOfTheKey(t *testing.T) {
	d := newDriver(t, queue.Config{})
	mine := submit("a#1", state.HostReboot)
	theirs := mine
	theirs.Key.UID = 1000
	d.deliver(mine, false)
	assert.Equal(t, queue.Accepted, d.deliver(theirs, false).Outcome)
}

func TestUnderCheckAndFIFOEverySubmitIsARecord(t *testing.T) {
	d := newDriver(t, queue.Config{Policy: state.FIFO})
	a := d.deliver(submit("a#1", state.HostReboot), false)
	b := d.deliver(submit("a#1", state.HostReboot), false)
	assert.NotEqual(t, a.Seq, b.Seq)
	r, ok := d.q.Lookup(d.now, state.Key{Client: "a", Request: "1"})
	require.True(t, ok)
	assert.Equal(t, b.Seq, r.Seq, "Lookup names the newest")
	assert.Len(t, d.q.Page(0, 10), 2)
}

func TestRepeatAfterInvalid(t *testing.T) {
	for _, retry := range []bool{false, true} {
		d := newDriver(t, queue.Config{RetryInvalid: retry})
		d.off = true
		first := d.deliver(submit("a#1", state.HostReboot), false)
		d.off = false
		again := d.deliver(submit("a#1", state.HostReboot), false)
		conflict := d.deliver(submit("a#1", state.HostOff), false)
		assert.Equal(t, queue.Conflict, conflict.Outcome)
		if !retry {
			assert.Equal(t, queue.Repeat, again.Outcome)
			assert.Equal(t, state.Invalid, again.Status)
			assert.Empty(t, d.launches)
			continue
		}
		assert.Equal(t, queue.Accepted, again.Outcome)
		assert.Greater(t, again.Seq, first.Seq)
		assert.Len(t, d.launches, 1)
		assert.Equal(t, queue.Repeat, d.deliver(submit("a#1", state.HostReboot), false).Outcome)
	}
}

func TestDroppedRetryLeavesTheFirstAnswer(t *testing.T) {
	d := newDriver(t, queue.Config{RetryInvalid: true})
	d.off = true
	first := d.deliver(submit("a#1", state.HostReboot), false)
	again := d.q.Admit(d.now, submit("a#1", state.HostReboot), d.next)
	require.Equal(t, queue.Accepted, again.Outcome)
	require.True(t, d.q.Drop(again.Seq))
	r, ok := d.q.Lookup(d.now, state.Key{Client: "a", Request: "1"})
	require.True(t, ok)
	assert.Equal(t, first.Seq, r.Seq)
	assert.Equal(t, state.Invalid, r.Status)
}

// Where a key may have several records, the newest that is left answers.
func TestKeyLeadsToTheNewestRecordThatIsLeft(t *testing.T) {
	d := newDriver(t, queue.Config{Policy: state.FIFO})
	first := d.q.Admit(d.now, submit("c#1", state.HostOn), d.next)
	second := d.q.Admit(d.now, submit("c#1", state.HostOn), d.next)
	require.Equal(t, queue.Accepted, second.Outcome)
	require.True(t, d.q.Drop(second.Seq))
	r, known := d.q.Lookup(d.now, state.Key{Client: "c", Request: "1"})
	require.True(t, known)
	require.Equal(t, first.Seq, r.Seq)
}
