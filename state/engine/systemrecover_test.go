package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// dieAt lets the daemon die with the first commit that takes the journal to so
// many entries. What the commit held beyond is lost, and nothing acts on it.
func (f *fleet) dieAt(entries int) {
	f.commit = func(first, last uint64) error {
		if last < uint64(entries) {
			return nil
		}
		f.durable = append(f.durable, f.journal[first-1:entries]...)
		f.life.dead = true
		return errors.New("nobody hears this")
	}
}

// rise starts the daemon again.
func (f *fleet) rise(sameBoot bool) {
	f.commit, f.life.dead = nil, false
	f.journal, f.next = f.journal[:len(f.durable)], uint64(len(f.durable))
	f.plan = nil
	f.crash(sameBoot)
}

// TestRestartAnywhereInASystemRequest ends the daemon at every entry of the
// journal of a request to all chassis. It has one end, its parts have theirs, and
// nothing of it is launched twice.
func TestRestartAnywhereInASystemRequest(t *testing.T) {
	statetest.Covers(t, "C20")
	for _, op := range []state.Operation{state.ChassisOff, state.ChassisPowerCycle, state.ChassisOn} {
		for _, sameBoot := range []bool{true, false} {
			for n := 1; ; n++ {
				ended := false
				t.Run(fmt.Sprintf("%s/same=%v/%d", op, sameBoot, n), func(t *testing.T) {
					f := newFleet(t, SystemAggregate)
					if op != state.ChassisOn {
						f.allOn()
					}
					seq := uint64(len(f.durable) + 1)
					f.dieAt(len(f.durable) + n)
					f.writeSystem(0, op)
					f.pass(time.Minute)
					ended = !f.life.dead
					f.rise(sameBoot)
					f.pass(5 * time.Minute)
					f.checkSystem(seq, op, sameBoot)
				})
				if ended || t.Failed() {
					break
				}
			}
		}
	}
}

// checkSystem looks at what a request to all chassis came to.
func (f *fleet) checkSystem(seq uint64, op state.Operation, sameBoot bool) {
	status := f.status(seq)
	require.True(f.t, status.Final(), "%s", status)
	for _, s := range f.partsOf() {
		require.True(f.t, s.Final(), "%s", s)
	}
	started := map[uint64]int{}
	parts := map[int]int{}
	for _, e := range f.durable {
		if e.Kind == history.KindStarted && e.Request > seq {
			started[e.Request]++
			parts[e.Domain]++
		}
	}
	for _, n := range started {
		require.Equal(f.t, 1, n, "P3")
	}
	for d, n := range parts {
		require.Equal(f.t, 1, n, "chassis %d has one part", d)
	}
	if op != state.ChassisOff && len(parts) > 0 && sameBoot {
		require.Len(f.t, parts, 3, "all or none: %s", f.reason(seq))
	}
	if status == state.Success {
		for _, d := range f.core.domains {
			on, known := d.powered()
			require.True(f.t, known)
			require.Equal(f.t, op != state.ChassisOff, on)
		}
	}
	require.Empty(f.t, f.core.system.parents)
}

// TestSystemRequestGoesOnAfterARestart: what waits, and what runs, comes to its
// end as if the daemon had not been away.
func TestSystemRequestGoesOnAfterARestart(t *testing.T) {
	t.Run("running", func(t *testing.T) {
		f := newFleet(t, SystemAggregate)
		f.allOn()
		p := f.writeSystem(0, state.ChassisPowerCycle)
		f.pass(4500 * time.Millisecond) // all are off: the dwell
		require.Equal(t, state.Running, f.status(p.answer.Seq))
		f.restart(true)
		again := f.writeSystem(0, state.ChassisPowerCycle)
		require.NotEqual(t, p.answer.Seq, again.answer.Seq, "what was seen before the restart is not known")
		f.pass(time.Minute)
		require.Equal(t, state.Success, f.status(p.answer.Seq), f.reason(p.answer.Seq))
	})
	t.Run("waiting for an executor", func(t *testing.T) {
		f := newFleet(t, SystemAggregate)
		f.allOn()
		f.keepBusy(2)
		p := f.writeSystem(0, state.ChassisPowerCycle)
		f.pass(time.Second)
		f.at = map[int]time.Duration{}
		f.restart(true)
		again := f.writeSystem(0, state.ChassisPowerCycle)
		f.pass(time.Second)
		require.True(t, again.answer.Repeated)
		require.NotContains(t, f.at, 0)
		require.NotContains(t, f.at, 1)
		f.frozen[2] = false
		f.pass(time.Minute)
		require.True(t, f.status(p.answer.Seq).Final())
		require.Zero(t, f.core.domains[0].q.Depth())
	})
	t.Run("a part that joined another's request", func(t *testing.T) {
		f := newFleet(t, SystemAggregate)
		f.allOn()
		f.frozen[1] = true
		off := &reply{}
		f.step(Write{Object: state.Object{Kind: state.KindChassis, Index: 1}, Op: state.ChassisOff, Reply: off.take(t)})
		f.pass(50 * time.Millisecond)
		p := f.writeSystem(0, state.ChassisOff)
		f.pass(time.Second)
		require.Equal(t, 1, f.core.domains[1].q.Len(), "joined")
		f.restart(true)
		f.pass(time.Minute)
		require.Equal(t, state.Failed, f.status(p.answer.Seq))
		require.Contains(t, f.reason(p.answer.Seq), "chassis1: ")
		require.Equal(t, 1, f.core.domains[1].q.Len(), "and not asked again")
	})
}

// TestPartsOfAnOlderDaemon: a journal without the note, or with one that is cut
// or means nothing, is read, and what it cannot tell ends INTERRUPTED.
func TestPartsOfAnOlderDaemon(t *testing.T) {
	for name, text := range map[string]string{
		"none": "", "cut": "%d:0=%d,1", "nothing known": "x:y=z,;;:=;99999999999999999999:-1=1,;",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, SystemAggregate)
			f.allOn()
			f.keepBusy(2)
			p := f.writeSystem(0, state.ChassisPowerCycle)
			f.pass(time.Second)
			for i := range f.durable {
				if e := &f.durable[i]; e.Kind == history.KindNote && e.Note.Name == partsNote {
					e.Note.Text = text
				}
			}
			f.at = map[int]time.Duration{}
			f.restart(true)
			f.pass(20 * time.Second)
			require.Equal(t, state.Interrupted, f.status(p.answer.Seq))
			require.NotContains(t, f.at, 0)
			require.NotContains(t, f.at, 1)
			require.Zero(t, f.core.domains[0].q.Depth())
		})
	}
}

// TestPartsNote: the note is what it was when this test was written.
func TestPartsNote(t *testing.T) {
	f := newFleet(t, SystemAggregate)
	f.allOn()
	p := f.writeSystem(0, state.ChassisOff)
	picture := history.Fold(f.durable)
	text, ok := picture.Note(0, partsNote)
	require.True(t, ok)
	n := p.answer.Seq
	require.Equal(t, fmt.Sprintf("%d:0=%d,1=%d,2=%d,;", n, n+1, n+2, n+3), text)
}
