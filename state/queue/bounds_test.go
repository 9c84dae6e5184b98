package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// from is a Submit with a fresh key of uid over a connection.
func (d *driver) from(uid uint32, conn string, op state.Operation) queue.Delivery {
	s := submit(fmt.Sprintf("c#%d", d.seq+1), op)
	s.Key.UID, s.Conn = uid, conn
	return s
}

// fill holds the executor and lets n requests wait, each of a new connection
// and of the uids 100, 101, … in turn.
func (d *driver) fill(n, uids int) {
	require.Equal(d.t, queue.Accepted, d.deliver(d.from(99, "", state.HostReboot), false).Outcome)
	for i := range n {
		a := d.deliver(d.from(uint32(100+i%uids), fmt.Sprintf(":1.%d", i), state.HostOff), false)
		require.Equal(d.t, queue.Accepted, a.Outcome, a.Text)
	}
}

func TestDefaults(t *testing.T) {
	assert.Equal(t, queue.Config{
		Policy: state.FIFODedup, DepthLimit: 32, Share: 16, ConnShare: 8, HistoryMax: 4096,
		HistoryTTL: 7 * 24 * time.Hour, RepeatWindow: 10 * time.Minute, PendingTTL: 10 * time.Minute, LogMax: 4096,
	}, queue.New(queue.Config{}).Config())
}

func TestDepthAndShares(t *testing.T) {
	cases := []struct {
		name    string
		prepare func(*driver)
		uid     uint32
		conn    string
		text    string
	}{
		{"depth", func(d *driver) { d.fill(32, 8) }, 7, "", "32 requests wait in this domain"},
		{"share of a uid", func(d *driver) { d.fill(16, 1) }, 100, "", "16 requests of this user wait"},
		{"share of a connection", func(d *driver) {
			d.fill(0, 1)
			for i := range 8 {
				d.deliver(d.from(uint32(100+i), ":1.5", state.HostOff), false)
			}
		}, 7, ":1.5", "8 requests of this bus connection wait"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, queue.Config{})
			c.prepare(d)
			before := d.q.Len()
			a := d.deliver(d.from(c.uid, c.conn, state.HostOn), false)
			assert.Equal(t, queue.Full, a.Outcome)
			assert.Equal(t, c.text+", which is the limit: repeat later, or cancel one of them", a.Text)
			assert.Equal(t, before, d.q.Len(), "nothing is stored")
			assert.EqualValues(t, 1, d.q.Counters().Refused)

			off := d.deliver(d.from(c.uid, c.conn, state.ChassisOff), false)
			assert.Equal(t, queue.Accepted, off.Outcome, "Chassis Off is exempt")

			require.Equal(t, queue.CancelDone, d.q.Cancel(d.now, off.Seq, c.uid, ""))
			victim := d.q.Unfinished()[1]
			require.Equal(t, queue.CancelDone, d.q.Cancel(d.now, victim.Seq, victim.Key.UID, ""))
			if c.uid == victim.Key.UID || c.name != "share of a uid" {
				assert.Equal(t, queue.Accepted, d.deliver(d.from(c.uid, c.conn, state.HostOn), false).Outcome, "room again")
			}
		})
	}
}

func TestRepeatsAreAnsweredAtTheBound(t *testing.T) {
	d := newDriver(t, queue.Config{DepthLimit: 2})
	d.fill(1, 1)
	key := submit("z#1", state.HostOff)
	require.Equal(t, queue.Accepted, d.deliver(key, false).Outcome)
	require.Equal(t, queue.Full, d.deliver(submit("z#2", state.HostOff), false).Outcome)
	assert.Equal(t, queue.Repeat, d.deliver(key, false).Outcome)
	assert.Equal(t, queue.Repeat, d.deliver(write(3, state.HostOff), false).Outcome)
}

func TestChassisOffIsNeverBusy(t *testing.T) {
	for _, p := range []state.Policy{state.Check, state.Dedup} {
		d := newDriver(t, queue.Config{Policy: p})
		d.deliver(submit("a#1", state.HostReboot), false)
		assert.Equal(t, queue.Busy, d.deliver(submit("a#2", state.ChassisPowerCycle), false).Outcome)
		assert.Equal(t, queue.Accepted, d.deliver(submit("a#3", state.ChassisOff), false).Outcome)
	}
}

func TestSharesAreFreedByLaunchAndEnd(t *testing.T) {
	d := newDriver(t, queue.Config{ConnShare: 1})
	d.fill(0, 1)
	require.Equal(t, queue.Accepted, d.deliver(d.from(5, "c", state.HostOff), false).Outcome)
	require.Equal(t, queue.Full, d.deliver(d.from(5, "c", state.HostOn), false).Outcome)
	d.at(9 * u) // the Off runs: it waits no longer
	assert.Equal(t, queue.Accepted, d.deliver(d.from(5, "c", state.HostOn), false).Outcome)
}

// history fills the history of uid with n NOOPs, one a second.
func (d *driver) history(uid uint32, n int) (seqs []uint64) {
	for range n {
		d.now.Boot += time.Second
		a := d.deliver(d.from(uid, "", state.HostOn), false)
		require.Equal(d.t, queue.Accepted, a.Outcome, a.Text)
		seqs = append(seqs, a.Seq)
	}
	return seqs
}

func TestHistoryEvictsTheOldestOfTheUidOverItsShare(t *testing.T) {
	d := newDriver(t, queue.Config{HistoryMax: 10, RepeatWindow: time.Minute})
	quiet := d.history(1, 2)
	loud := d.history(2, 8)
	d.now.Boot += time.Hour
	for i := range 4 {
		a := d.deliver(d.from(2, "", state.HostOn), false)
		require.Equal(t, queue.Accepted, a.Outcome)
		assert.Equal(t, []uint64{loud[i]}, a.Evicted)
	}
	for _, seq := range quiet {
		_, ok := d.q.Get(seq)
		assert.True(t, ok, "a uid within its share loses nothing")
	}
	// A newcomer has a share too.
	a := d.deliver(d.from(3, "", state.HostOn), false)
	assert.Equal(t, []uint64{loud[4]}, a.Evicted)
	assert.Equal(t, 10, d.q.Len())
}

func TestHistoryKeepsTheRepeatWindow(t *testing.T) {
	d := newDriver(t, queue.Config{HistoryMax: 3, RepeatWindow: time.Minute})
	seqs := d.history(1, 3)
	d.now.Boot = 60*time.Second + 900*time.Millisecond // the first ended at 1 s
	a := d.deliver(d.from(1, "", state.HostOn), false)
	assert.Equal(t, queue.Full, a.Outcome)
	assert.Equal(t, "the history is full of requests that are unfinished or younger than 1m0s: repeat later", a.Text)
	assert.Empty(t, a.Evicted)
	off := d.deliver(d.from(1, "", state.ChassisOff), false)
	assert.Equal(t, queue.Accepted, off.Outcome, "no gate for Chassis Off")
	assert.Equal(t, 4, d.q.Len())

	d.now.Boot = 62 * time.Second
	a = d.deliver(d.from(1, "", state.HostOn), false)
	assert.Equal(t, queue.Accepted, a.Outcome)
	assert.Equal(t, seqs[:2], a.Evicted, "back within the bound")
}

func TestUnfinishedAreNeverEvicted(t *testing.T) {
	d := newDriver(t, queue.Config{HistoryMax: 3, PendingTTL: queue.Unlimited, RepeatWindow: time.Minute})
	d.deliver(d.from(1, "", state.HostReboot), false)
	d.deliver(d.from(1, "", state.HostOff), false)
	d.deliver(d.from(1, "", state.HostOff), false)
	d.now.Boot = 30 * 24 * time.Hour
	assert.Equal(t, queue.Full, d.deliver(d.from(1, "", state.HostOn), false).Outcome)
	assert.Empty(t, d.q.Evict(d.now))
	assert.Equal(t, 3, d.q.Len())
}

func TestHistoryTTLIsUptime(t *testing.T) {
	d := newDriver(t, queue.Config{})
	key := submit("a#1", state.HostOn)
	a := d.deliver(key, false)
	d.now.Boot = 7*24*time.Hour - 1
	d.now.Wall = time.Unix(1e9, 0) // the wall clock does not matter
	assert.Equal(t, queue.Repeat, d.deliver(key, false).Outcome)
	d.now.Boot++
	_, ok := d.q.Lookup(d.now, key.Key)
	assert.False(t, ok)
	again := d.deliver(key, false)
	assert.Equal(t, queue.Accepted, again.Outcome, "a key that has aged out is a new key")
	assert.Equal(t, []uint64{a.Seq}, again.Evicted)
}

func TestAgeGoesOnInTheNextBoot(t *testing.T) {
	old := newDriver(t, queue.Config{})
	old.now.Boot = 5 * 24 * time.Hour
	a := old.deliver(submit("a#1", state.HostOn), false)
	req, _ := old.q.Get(a.Seq)

	d := newDriver(t, queue.Config{})
	d.now.Boot = time.Minute
	d.q.Restore(d.now, req, queue.Restored{Age: 6 * 24 * time.Hour})
	d.now.Boot += 24*time.Hour - 1
	age, ok := d.q.Age(d.now, a.Seq)
	require.True(t, ok)
	assert.Equal(t, 7*24*time.Hour-1, age)
	assert.Empty(t, d.q.Evict(d.now))
	d.now.Boot++
	assert.Equal(t, []uint64{a.Seq}, d.q.Evict(d.now))
	assert.Zero(t, d.q.Len())
}

func TestEvictTrimsToASmallerHistory(t *testing.T) {
	d := newDriver(t, queue.Config{})
	d.history(1, 10)
	small := newDriver(t, queue.Config{HistoryMax: 4, RepeatWindow: time.Second})
	small.now.Boot = time.Hour
	all := d.q.Page(0, 100)
	for i := len(all) - 1; i >= 0; i-- { // any order
		small.q.Restore(small.now, all[i], queue.Restored{Age: time.Hour - all[i].Ended.Boot})
	}
	assert.Equal(t, []uint64{1, 2, 3, 4, 5, 6}, small.q.Evict(small.now))
	assert.Len(t, small.q.Page(0, 100), 4)
}

func TestForgottenRecordsAreSweptOutOfTheMiddle(t *testing.T) {
	d := newDriver(t, queue.Config{HistoryMax: 100, RepeatWindow: time.Second})
	quiet := d.history(1, 2) // stay at the front
	loud := d.history(2, 500)
	page := d.q.Page(0, 1000)
	require.Len(t, page, 100)
	assert.Equal(t, quiet, []uint64{page[0].Seq, page[1].Seq})
	assert.Equal(t, loud[len(loud)-98], page[2].Seq)
	for _, seq := range loud[:len(loud)-98] {
		_, ok := d.q.Get(seq)
		require.False(t, ok)
	}
}
