package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// fleet is a rig of three domains. The second and third have a board whose power
// follows the button at once.
type fleet struct {
	*rig
	on     map[int]bool
	frozen map[int]bool // the button does nothing
	at     map[int]time.Duration
}

func newFleet(t *testing.T, mode SystemMode, change ...func(*Config)) *fleet {
	f := &fleet{on: map[int]bool{}, frozen: map[int]bool{}, at: map[int]time.Duration{}}
	f.rig = newRig(t, append(change, func(c *Config) {
		c.System, c.Times.Gather = mode, 5*time.Second
		for i := 1; i < 3; i++ {
			d := c.Domains[0]
			d.ID, d.Hosts, d.Chassis = i, []int{i}, []int{i}
			c.Domains = append(c.Domains, d)
		}
	})...)
	f.intercept = f.take
	f.pass(6 * time.Second) // what was asked before anybody listened is asked again
	return f
}

func (f *fleet) take(e Effect) bool {
	switch e := e.(type) {
	case probeEffect:
		if e.domain == 0 {
			return false
		}
		f.after(e.settle, func() {
			f.step(seen{e.domain, e.id, state.Levels{PowerGood: state.LevelOf(f.on[e.domain])}, true, nil})
		})
	case pulseEffect:
		f.at[e.domain] = f.now.Boot
		if e.domain == 0 {
			return false
		}
		width := 50 * time.Millisecond
		if f.frozen[e.domain] {
			width = e.width
		} else {
			f.on[e.domain] = !f.on[e.domain]
		}
		f.after(width, func() { f.step(acted{e.domain, e.request, e.step, true, nil}) })
	case releaseEffect:
		return e.domain != 0
	default:
		return false
	}
	return true
}

func (f *fleet) reread() { f.pass(10 * time.Second) }

// allOn lets every host run.
func (f *fleet) allOn() {
	f.power(true)
	f.on[1], f.on[2] = true, true
	f.reread()
}

// keepBusy has the executor of a domain taken by holds that lead to nothing.
func (f *fleet) keepBusy(domain int) {
	f.frozen[domain] = true
	f.step(Submit{Domain: domain, Client: "c", Request: "1", Op: state.ChassisOff, Reply: (&reply{}).take(f.t)})
	f.pass(100 * time.Millisecond)
	require.Contains(f.t, f.at, domain)
}

// partsOf are the requests of each domain, the parent not among them.
func (f *fleet) partsOf() (all []state.Status) {
	for _, d := range f.core.domains {
		for _, r := range d.q.Page(0, 100) {
			if r.Object != systemObject {
				all = append(all, r.Status)
			}
		}
	}
	return all
}

var ended3 = func(s state.Status) []state.Status { return []state.Status{s, s, s} }

func TestSystemOff(t *testing.T) {
	f := newFleet(t, SystemAggregate)
	f.allOn()
	require.Equal(t, state.PowerStateOn, f.systems[0].Current)
	begun := f.now.Boot
	p := f.writeSystem(0, state.ChassisOff)
	f.pass(100 * time.Millisecond)
	for i := range 3 {
		require.LessOrEqual(t, f.at[i]-begun, 100*time.Millisecond, "chassis %d, beside the others", i)
	}
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.Equal(t, ended3(state.Success), f.partsOf())
	require.Equal(t, state.PowerStateOff, f.systems[0].Current)
	require.Equal(t, state.ChassisOff, f.systems[0].Requested)
	require.Equal(t, state.ChassisOff, f.chassis[len(f.chassis)-1].Requested, "of each chassis, too")
	require.Contains(t, f.requests, p.answer.Seq, "an object in the lowest domain's queue")

	p = f.judgedWrite(0, state.ChassisOff)
	require.Equal(t, state.Noop, f.status(p.answer.Seq))
	p = f.judgedWrite(0, state.ChassisPowerCycle)
	require.Equal(t, state.Invalid, f.status(p.answer.Seq))
}

// A chassis that is not there takes no part and is not looked for, and one that
// the inventory has lost while its power is on is not left on.
func TestSystemWithoutAnAbsentChassis(t *testing.T) {
	statetest.Covers(t, "C25")
	f := newFleet(t, SystemAggregate)
	f.frozen[2] = true // it would fail
	f.step(Presence{Domain: 2, Absent: true})
	p := f.writeSystem(0, state.ChassisOn)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.Equal(t, []state.Status{state.Success, state.Success}, f.partsOf())
	require.NotContains(t, f.at, 2)
	require.Equal(t, state.PowerStateOn, f.systems[0].Current)

	f.on[2], f.frozen[2] = true, false
	f.reread()
	p = f.writeSystem(0, state.ChassisOff)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.False(t, f.on[2])

	f.step(Presence{Domain: 2})
	p = f.writeSystem(0, state.ChassisOn)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.True(t, f.on[2])
}

func TestSystemOffNamesWhatFailed(t *testing.T) {
	statetest.Covers(t, "C25")
	f := newFleet(t, SystemAggregate)
	f.allOn()
	f.frozen[1] = true
	p := f.writeSystem(0, state.ChassisOff)
	f.pass(time.Minute)
	require.Equal(t, state.Failed, f.status(p.answer.Seq))
	require.Contains(t, f.reason(p.answer.Seq), "chassis1: Failed power good stays on")
	require.NotContains(t, f.reason(p.answer.Seq), "chassis2")
	require.False(t, f.on[2])
}

// Everything but Off begins on all chassis or on none.
func TestSystemPowerCycleWaitsForAllExecutors(t *testing.T) {
	f := newFleet(t, SystemAggregate)
	f.allOn()
	f.keepBusy(1)
	p := f.writeSystem(0, state.ChassisPowerCycle)
	require.True(t, p.got)
	f.at = map[int]time.Duration{}
	f.pass(4 * time.Second)
	require.Empty(t, f.at, "none begins without the others")
	f.pass(time.Minute)
	require.Equal(t, state.Failed, f.status(p.answer.Seq))
	require.Contains(t, f.reason(p.answer.Seq), "was not free within 5s")
	require.NotContains(t, f.at, 0)
	require.NotContains(t, f.at, 2)

	f = newFleet(t, SystemAggregate)
	f.allOn()
	p = f.writeSystem(0, state.ChassisPowerCycle)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.Equal(t, ended3(state.Success), f.partsOf())
	require.Equal(t, state.PowerStateOn, f.systems[0].Current)
}

func TestSystemRequestIsWithdrawnWhole(t *testing.T) {
	f := newFleet(t, SystemAggregate)
	f.allOn()
	f.keepBusy(2)
	p := f.writeSystem(0, state.ChassisPowerCycle)
	again := f.writeSystem(0, state.ChassisPowerCycle)
	f.pass(time.Second)
	require.True(t, again.answer.Repeated)
	require.Equal(t, p.answer.Seq, again.answer.Seq)
	f.at = map[int]time.Duration{}
	cancel := &reply{}
	f.step(Cancel{Seq: p.answer.Seq, Reply: cancel.take(t)})
	f.pass(time.Second)
	require.Equal(t, state.Cancelled, cancel.answer.Status)
	f.pass(time.Minute)
	require.NotContains(t, f.at, 0)
	require.NotContains(t, f.at, 1)
	for _, s := range f.partsOf() {
		require.True(t, s.Final())
	}
}

// A chassis' own Off comes first, and the others do not begin without it.
func TestChassisOffBreaksASystemRequest(t *testing.T) {
	f := newFleet(t, SystemAggregate)
	f.allOn()
	f.keepBusy(2)
	p := f.writeSystem(0, state.ChassisPowerCycle)
	f.pass(time.Second)
	off := f.write(state.ChassisOff)
	f.pass(20 * time.Second)
	require.Equal(t, state.Success, f.status(off.answer.Seq))
	require.Equal(t, state.Failed, f.status(p.answer.Seq))
	require.Contains(t, f.reason(p.answer.Seq), "chassis0: Superseded")
	require.True(t, f.on[1])
}

// A policy without a queue takes the parts of what it has taken.
func TestSystemUnderAPolicyWithoutQueue(t *testing.T) {
	f := newFleet(t, SystemAggregate, func(c *Config) { c.Domains[0].Queue.Policy = state.Check })
	p := f.writeSystem(0, state.ChassisOn)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.True(t, f.on[1] && f.on[2])
}

func TestSystemTarget(t *testing.T) {
	f := newFleet(t, SystemTarget)
	require.Equal(t, CodeInvalidArgument, f.writeSystem(0, state.ChassisOff).answer.Err.Code)
	reset := func() (*reply, uint64) {
		f.effects = nil
		p := f.writeSystem(0, state.ChassisPowerCycle)
		f.pass(time.Second)
		for _, e := range f.effects {
			if e, ok := e.(systemResetEffect); ok {
				require.Contains(t, f.requests, e.seq)
				return p, e.seq
			}
		}
		require.FailNow(t, "no target was started")
		return nil, 0
	}
	p, seq := reset()
	require.Equal(t, state.Running, f.status(p.answer.Seq))
	f.step(systemReset{seq, nil})
	require.Equal(t, state.Success, f.status(seq))
	_, seq = reset()
	f.step(systemReset{seq, errors.New("no such unit")})
	require.Equal(t, state.Failed, f.status(seq))
	require.Equal(t, "no such unit", f.reason(seq))
	_, seq = reset()
	f.restart(false)
	f.pass(time.Second)
	require.Equal(t, state.Interrupted, f.status(seq))
}

func TestNoSystemObjectUnlessConfigured(t *testing.T) {
	f := newFleet(t, SystemNone)
	require.Equal(t, CodeInvalidArgument, f.writeSystem(0, state.ChassisOff).answer.Err.Code)
	require.Empty(t, f.systems)
}

// Where no chassis is chassis0, it stands for all, and the highest of their
// states counts. One that nothing drives takes no part.
func TestChassis0OverMany(t *testing.T) {
	f := newFleet(t, SystemNone, func(c *Config) {
		c.Chassis0 = true
		c.Domains[0].Chassis = []int{3}
	})
	write := func(op state.Operation) *reply {
		p := &reply{}
		f.step(Write{Object: chassis0Object, Op: op, Reply: p.take(t)})
		return p
	}
	p := write(state.ChassisOn)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.True(t, f.on[1] && f.on[2])
	require.Equal(t, state.PowerStateOn, f.chassis[len(f.chassis)-1].Current)

	f.on[1], f.on[2] = false, false
	f.reread()
	var shown state.Chassis
	for _, e := range f.effects {
		if e, ok := e.(publishChassis); ok && e.index == 0 {
			shown = e.chassis
		}
	}
	require.Equal(t, state.PowerStateOn, shown.Current, "one of them is")
	require.Equal(t, state.ChassisOn, shown.Requested)
	hint := &reply{}
	f.step(Set{Object: chassis0Object, Prop: PropPowerState, Value: uint64(state.PowerStateTransitioningToOn), Reply: hint.take(t)})
	require.Nil(t, hint.answer.Err, "its writers exist")

	f.core.domains[2].cfg.Driven = false
	p = write(state.ChassisOff)
	f.pass(time.Minute)
	require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	require.Zero(t, f.core.domains[2].q.Len()-1, "the On alone")
}

// A power off of the whole machine does not wait for a journal either.
func TestSystemOffWithoutAJournal(t *testing.T) {
	f := newFleet(t, SystemAggregate)
	f.allOn()
	f.commit = func(uint64, uint64) error { return errors.New("disk full") }
	f.at = map[int]time.Duration{}
	p := f.writeSystem(0, state.ChassisOff)
	f.pass(100 * time.Millisecond)
	require.Len(t, f.at, 3)
	require.Equal(t, CodeUnavailable, p.answer.Err.Code, "this request is not in the journal")
	f.commit = nil
	f.pass(time.Minute)
	require.Equal(t, state.PowerStateOff, f.systems[0].Current)
	require.Equal(t, ended3(state.Success), f.partsOf())
}
