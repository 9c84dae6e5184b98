package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// admit registers a delivery and does nothing else.
func (d *driver) admit(r queue.Delivery) uint64 {
	a := d.q.Admit(d.now, r, d.next)
	require.Equal(d.t, queue.Accepted, a.Outcome, a.Text)
	return a.Seq
}

// durable registers a delivery and journals it.
func (d *driver) durable(r queue.Delivery) uint64 {
	seq := d.admit(r)
	require.True(d.t, d.q.Durable(seq))
	return seq
}

func (d *driver) status(seq uint64) state.Status {
	r, ok := d.q.Get(seq)
	require.True(d.t, ok, seq)
	return r.Status
}

func TestOnlyDurableRequestsAreLaunched(t *testing.T) {
	d := newDriver(t, queue.Config{})
	first := d.admit(submit("a#1", state.HostReboot))
	second := d.durable(submit("a#2", state.HostOff))
	_, ok := d.q.Head()
	assert.False(t, ok, "the order holds: the older one is not durable yet")
	require.ErrorIs(t, d.q.Start(d.now, first), queue.ErrNotDurable)

	again := d.q.Admit(d.now, submit("a#1", state.HostReboot), d.next)
	assert.Equal(t, queue.Answer{Outcome: queue.Repeat, Seq: first, Status: state.Pending}, again, "not to be answered yet")

	d.q.Durable(first)
	head, ok := d.q.Head()
	require.True(t, ok)
	assert.Equal(t, first, head.Seq)
	require.NoError(t, d.q.Start(d.now, first))
	require.ErrorIs(t, d.q.Start(d.now, second), queue.ErrExecutorHeld)
	require.ErrorIs(t, d.q.Start(d.now, first), queue.ErrTransition)
	require.ErrorIs(t, d.q.Start(d.now, 99), queue.ErrUnknownRequest)
}

func TestEmergencyMayBeLaunchedNotDurable(t *testing.T) {
	d := newDriver(t, queue.Config{})
	off := d.admit(submit("a#1", state.ChassisOff))
	require.NoError(t, d.q.Start(d.now, off))
}

func TestDropLeavesNoTrace(t *testing.T) {
	d := newDriver(t, queue.Config{ConnShare: 1})
	delivery := d.from(5, ":1.1", state.HostOn)
	seq := d.admit(delivery)
	d.q.Admit(d.now, write(6, state.HostOn), d.next) // joined it: goes with it
	require.True(t, d.q.Drop(seq))
	assert.Zero(t, d.q.Len())
	assert.Zero(t, d.q.Depth())
	_, ok := d.q.Lookup(d.now, delivery.Key)
	assert.False(t, ok)
	assert.EqualValues(t, 1, d.q.Counters().Refused)
	assert.Equal(t, queue.Accepted, d.q.Admit(d.now, delivery, d.next).Outcome)
	assert.False(t, d.q.Drop(seq))

	kept := d.durable(submit("a#9", state.HostOn))
	assert.False(t, d.q.Drop(kept), "what is durable stays")
	assert.False(t, d.q.Durable(77))
}

func TestChangesOfStatus(t *testing.T) {
	allowed := map[state.Status]string{
		state.Pending: "Noop Invalid Failed Cancelled Superseded Expired Interrupted",
		state.Running: "Success Failed Cancelled Superseded Interrupted",
		state.Unknown: "Success Failed Cancelled Superseded Interrupted",
		state.Success: "",
	}
	for from, list := range allowed {
		for to := state.Pending; to <= state.Interrupted; to++ {
			d := newDriver(t, queue.Config{})
			seq := d.durable(submit("a#1", state.HostReboot))
			bring(t, d, seq, from)
			before, _ := d.q.Get(seq)
			err := d.q.Finish(d.now, seq, to, "because")
			if strings.Contains(" "+list+" ", " "+to.String()+" ") {
				require.NoError(t, err, "%v to %v", from, to)
				assert.Equal(t, to, d.status(seq))
				continue
			}
			require.ErrorIs(t, err, queue.ErrTransition, "%v to %v", from, to)
			after, _ := d.q.Get(seq)
			assert.Equal(t, before, after)
		}
	}
	require.ErrorIs(t, newDriver(t, queue.Config{}).q.Finish(state.Instant{}, 1, state.Failed, ""), queue.ErrUnknownRequest)
}

// bring leads a waiting request to a status.
func bring(t *testing.T, d *driver, seq uint64, to state.Status) {
	if to == state.Pending {
		return
	}
	require.NoError(t, d.q.Start(d.now, seq))
	switch to {
	case state.Unknown:
		require.NoError(t, d.q.Unknown(seq))
		require.ErrorIs(t, d.q.Unknown(seq), queue.ErrTransition)
	case state.Success:
		require.NoError(t, d.q.Finish(d.now, seq, state.Success, ""))
	}
}

func TestRecordOfALife(t *testing.T) {
	d := newDriver(t, queue.Config{})
	wall := time.UnixMicro(1_700_000_000_123_456)
	d.now = state.Instant{Boot: time.Minute, Wall: wall}
	delivery := submit("a#1", state.HostReboot)
	delivery.Cause, delivery.Expires = "night", time.Hour
	seq := d.durable(delivery)
	d.now.Boot += time.Second
	require.NoError(t, d.q.Start(d.now, seq))
	d.now.Boot += time.Second
	require.NoError(t, d.q.Finish(d.now, seq, state.Failed, "no power good"))
	got, _ := d.q.Get(seq)
	assert.Equal(t, state.Request{
		Seq: seq, Key: delivery.Key, Object: delivery.Object, Op: state.HostReboot, Cause: "night",
		Status: state.Failed, Reason: "no power good", Launched: true,
		Accepted: state.Instant{Boot: time.Minute, Wall: wall},
		Started:  state.Instant{Boot: time.Minute + time.Second, Wall: wall},
		Ended:    state.Instant{Boot: time.Minute + 2*time.Second, Wall: wall},
		Expires:  time.Minute + time.Hour,
	}, got)
	assert.Equal(t, queue.Counters{Launches: 1}, d.q.Counters())
}

func TestExpire(t *testing.T) {
	d := newDriver(t, queue.Config{})
	d.fill(0, 1)
	short := submit("a#1", state.HostOff)
	short.Expires = 3 * u
	long := submit("a#2", state.HostOff)
	long.Expires = time.Hour
	s, l, ttl := d.durable(short), d.durable(long), d.durable(submit("a#3", state.HostOff))
	next, ok := d.q.NextDeadline()
	require.True(t, ok)
	assert.Equal(t, 3*u, next)

	d.now.Boot = 3*u - 1
	assert.Empty(t, d.q.Expire(d.now))
	d.now.Boot++
	assert.Equal(t, []uint64{s}, d.q.Expire(d.now))
	d.now.Boot = 10 * time.Minute
	assert.Equal(t, []uint64{ttl}, d.q.Expire(d.now))
	assert.Equal(t, state.Expired, d.status(ttl))
	next, _ = d.q.NextDeadline()
	assert.Equal(t, time.Hour, next)
	d.now.Boot = 1 << 62
	assert.Equal(t, []uint64{l}, d.q.Expire(d.now), "the running one has no such deadline")
	_, ok = d.q.NextDeadline()
	assert.False(t, ok)
	assert.Equal(t, queue.Repeat, d.q.Admit(state.Instant{Boot: 11 * time.Minute}, short, d.next).Outcome, "its answer is kept")
}

func TestExpiresIsClamped(t *testing.T) {
	d := newDriver(t, queue.Config{PendingTTL: queue.Unlimited})
	d.now.Boot = time.Hour
	d.durable(submit("a#0", state.HostOff))
	_, ok := d.q.NextDeadline()
	assert.False(t, ok)
	far := submit("a#1", state.HostOff)
	far.Expires = 1<<63 - 1
	d.durable(far)
	assert.Empty(t, d.q.Expire(state.Instant{Boot: 1 << 62}))
}

func TestOvertaking(t *testing.T) {
	const external, internal = "a", state.InternalPrefix + "monitor"
	cases := []struct {
		name    string
		older   string // client of the running and the waiting requests
		op      state.Operation
		client  string
		wait    bool // the running one is a graceful wait
		victims []uint64
	}{
		{"forced: a graceful wait and what waits", external, state.HostForceWarmReboot, external, true, []uint64{1, 2, 3}},
		{"forced: cuts no other running operation", external, state.ChassisPowerCycle, external, false, []uint64{2, 3}},
		{"emergency: everything", external, state.ChassisOff, external, false, []uint64{1, 2, 3}},
		{"graceful overtakes nothing", external, state.HostOff, external, true, nil},
		{"normal overtakes nothing", external, state.HostReboot, external, true, nil},
		{"internal never overtakes external", external, state.ChassisOff, internal, true, nil},
		{"internal overtakes internal", internal, state.ChassisOff, internal, false, []uint64{1, 2, 3}},
		{"external overtakes internal", internal, state.ChassisPowerCycle, external, true, []uint64{1, 2, 3}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, queue.Config{})
			d.deliver(submit(c.older+"#1", state.HostReboot), false)
			d.deliver(submit(c.older+"#2", state.HostOff), false)
			d.deliver(submit(c.older+"#3", state.HostOn), false)
			by := d.durable(submit(c.client+"#4", c.op))
			younger := d.durable(submit("b#5", state.HostOff))

			victims := d.q.Overtaken(by, c.wait)
			assert.Equal(t, c.victims, victims)
			assert.Equal(t, c.victims, d.q.Supersede(d.now, by, victims))
			for _, seq := range victims {
				r, _ := d.q.Get(seq)
				assert.Equal(t, state.Superseded, r.Status)
				assert.Equal(t, "superseded by request 4", r.Reason)
			}
			r, _ := d.q.Get(by)
			assert.Equal(t, c.victims, r.Superseded)
			assert.Equal(t, state.Pending, d.status(younger))
			if len(victims) > 0 {
				head, _ := d.q.Head()
				assert.Equal(t, by, head.Seq)
			}
			_, running := d.q.Running()
			assert.Equal(t, len(victims) < 3, running)
		})
	}
}

func TestSupersedeLeavesTheFinishedAlone(t *testing.T) {
	d := newDriver(t, queue.Config{})
	noop := d.deliver(submit("a#1", state.HostOn), false)
	by := d.durable(submit("a#2", state.ChassisOff))
	assert.Empty(t, d.q.Supersede(d.now, by, []uint64{noop.Seq, 77, by}))
	assert.Equal(t, state.Noop, d.status(noop.Seq))
	assert.Empty(t, d.q.Supersede(d.now, 78, []uint64{by}))
	assert.Nil(t, d.q.Overtaken(78, true))
}

func TestAdoptedIsNeverRefused(t *testing.T) {
	d := newDriver(t, queue.Config{Policy: state.Check, DepthLimit: 1})
	d.deliver(submit("a#1", state.HostReboot), false)
	foreign := submit("internal.foreign#1", state.HostOn)
	foreign.Adopted = true
	assert.Equal(t, queue.Accepted, d.q.Admit(d.now, foreign, d.next).Outcome)
}

func TestCancel(t *testing.T) {
	const owner, joiner, stranger = 10, 11, 12
	setup := func(run bool) (*driver, uint64) {
		d := newDriver(t, queue.Config{})
		if !run {
			d.fill(0, 1)
		}
		a := d.deliver(write(owner, state.HostOff), false)
		require.Equal(t, queue.Accepted, a.Outcome)
		return d, a.Seq
	}
	cancel := func(d *driver, seq uint64, uid uint32, want queue.CancelOutcome) {
		t.Helper()
		assert.Equal(t, want, d.q.CanCancel(seq, uid))
		assert.Equal(t, want, d.q.Cancel(d.now, seq, uid, "cancelled"))
	}

	d, seq := setup(false)
	cancel(d, 99, owner, queue.CancelNoRequest)
	cancel(d, seq, stranger, queue.CancelDenied)
	cancel(d, seq, owner, queue.CancelDone)
	assert.Equal(t, state.Cancelled, d.status(seq))
	cancel(d, seq, owner, queue.CancelFinal)
	assert.Zero(t, d.q.Depth())

	d, seq = setup(false)
	cancel(d, seq, 0, queue.CancelDone) // root may

	d, seq = setup(true)
	cancel(d, seq, owner, queue.CancelRunning)
	assert.Equal(t, state.Running, d.status(seq))

	// With several uids only the caller's claim goes, whoever comes first.
	d, seq = setup(false)
	d.deliver(write(joiner, state.HostOff), false)
	cancel(d, seq, owner, queue.CancelClaim)
	r, _ := d.q.Get(seq)
	assert.True(t, r.OwnerLeft)
	assert.Equal(t, state.Pending, r.Status)
	cancel(d, seq, owner, queue.CancelDenied)
	cancel(d, seq, joiner, queue.CancelDone)

	d, seq = setup(true)
	d.deliver(write(joiner, state.HostOff), false)
	cancel(d, seq, joiner, queue.CancelClaim) // running: the claim goes all the same
	r, _ = d.q.Get(seq)
	assert.Empty(t, r.Claims)
	cancel(d, seq, owner, queue.CancelRunning)

	// Who left may come back with a write.
	d, seq = setup(false)
	d.deliver(write(joiner, state.HostOff), false)
	cancel(d, seq, owner, queue.CancelClaim)
	assert.True(t, d.deliver(write(owner, state.HostOff), false).Claimed)
	r, _ = d.q.Get(seq)
	assert.False(t, r.OwnerLeft)
	assert.Equal(t, []uint32{joiner}, r.Claims)
}

func TestNewest(t *testing.T) {
	host := state.Object{Kind: state.KindHost}
	d := newDriver(t, queue.Config{})
	_, ok := d.q.Newest(host)
	assert.False(t, ok)
	a := d.deliver(submit("a#1", state.HostReboot), false)
	_, ok = d.q.Newest(host)
	assert.False(t, ok, "not before the sender is told")
	d.q.SetNewest(a.Seq)
	d.deliver(submit("a#2", state.ChassisOn), false)
	n, ok := d.q.Newest(host)
	require.True(t, ok)
	assert.Equal(t, queue.Newest{Op: state.HostReboot, Seq: a.Seq}, n)
}

func TestIDs(t *testing.T) {
	long := strings.Repeat("x", 128)
	require.NoError(t, queue.CheckIDs(long, "żółć 1"))
	for _, c := range []struct{ client, request, want string }{
		{"property", "1", `client id "property" is reserved: choose another one, fresh for each run`},
		{"internal.x", "1", `client id "internal.x" is reserved: choose another one, fresh for each run`},
		{"", "1", "client id has 0 bytes: allowed are 1 to 128"},
		{"a", long + "x", "request id has 129 bytes: allowed are 1 to 128"},
		{"a\n", "1", `client id "a\n": allowed is printable UTF-8`},
		{"a", "\xff", `request id "\xff": allowed is printable UTF-8`},
	} {
		assert.EqualError(t, queue.CheckIDs(c.client, c.request), c.want)
	}
}
