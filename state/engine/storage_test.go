package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

var errFull = errors.New("history: write journal: no space left on device")

func (r *rig) failing(err error) { r.commit = func(uint64, uint64) error { return err } }

func TestAFailedCommitRefusesTheRequest(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.failing(errFull)
	p := r.write(state.HostOn)
	require.Equal(t, CodeUnavailable, p.answer.Err.Code)
	require.Contains(t, p.answer.Err.Text, "no space")
	r.pass(time.Minute)
	require.Empty(t, r.pulses)
	require.Equal(t, state.HostOff, r.host[len(r.host)-1].Requested)
	r.commit = nil
	p = r.write(state.HostOn)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
}

func TestAHungCommitIsAnsweredAndVoided(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.hang = true
	p := r.write(state.HostOn)
	r.pass(4900 * time.Millisecond)
	require.False(t, p.got)
	r.pass(200 * time.Millisecond)
	require.Equal(t, CodeUnavailable, p.answer.Err.Code)
	require.Contains(t, p.answer.Err.Text, "storage did not answer; the request may be on disk")
	var voided []uint64
	for _, e := range r.effects {
		if v, ok := e.(voidEffect); ok {
			voided = append(voided, v.entries...)
		}
	}
	accepted := slices.IndexFunc(r.journal, func(e history.Entry) bool { return e.Kind == history.KindAccepted })
	require.Contains(t, voided, r.journal[accepted].Seq)
	r.hang = false
	r.flush()
	r.pass(time.Minute)
	require.Empty(t, r.pulses, "a voided request is not run when the disk wakes up")
}

func TestAHungStepFailsTheLaunch(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	p := r.write(state.HostOn)
	require.False(t, p.got, "being judged")
	r.hang = true
	r.pass(time.Second)
	require.Equal(t, state.Running, r.status(p.answer.Seq))
	r.pass(10 * time.Second)
	require.Equal(t, state.Failed, r.status(p.answer.Seq))
	require.Contains(t, r.reason(p.answer.Seq), "stuck")
	require.Empty(t, r.pulses)
	require.Equal(t, uint32(3), r.host[len(r.host)-1].AttemptsLeft, "nothing moved: the attempt is given back")
}

func TestChassisOffDoesNotWaitForTheJournal(t *testing.T) {
	for name, breakIt := range map[string]func(*rig){
		"hang":  func(r *rig) { r.hang = true },
		"error": func(r *rig) { r.failing(errFull) },
	} {
		t.Run(name, func(t *testing.T) {
			r := runningHost(t)
			breakIt(r)
			at := r.now.Boot
			off := r.write(state.ChassisOff)
			r.pass(100 * time.Millisecond)
			require.Len(t, r.pulses, 1)
			require.LessOrEqual(t, r.pulses[0].from-at, 100*time.Millisecond)
			require.True(t, off.got)
			require.Nil(t, off.answer.Err)
			var barriers int
			for _, e := range r.effects {
				if _, ok := e.(barrierEffect); ok {
					barriers++
				}
			}
			require.Equal(t, 1, barriers)
			on := r.write(state.HostOn)
			require.Equal(t, CodeUnavailable, on.answer.Err.Code, "raising is refused until the record is in")
			r.pass(20 * time.Second)
			require.Equal(t, state.PowerStateOff, r.powerState())
			require.Equal(t, state.Success, r.status(off.answer.Seq))

			r.hang, r.commit = false, nil
			r.flush()
			r.pass(5 * time.Second)
			on = r.write(state.HostOn)
			r.pass(time.Minute)
			require.Equal(t, state.Success, r.status(on.answer.Seq))
		})
	}
}

func TestReadsAndFinalStatusesSurviveAFailingDisk(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	p := r.write(state.HostOn)
	r.pass(100 * time.Millisecond)
	r.failing(errFull)
	r.pass(time.Minute)
	require.Equal(t, state.Success, r.status(p.answer.Seq))
	r.commit = nil
	r.write(state.HostOff)
	r.pass(time.Minute)
	picture := history.Fold(r.durable)
	for _, rec := range picture.Requests {
		require.True(t, rec.Status.Final(), "request %d is %s on disk", rec.Seq, rec.Status)
	}
}

// A launch whose first step only waits is not held back by a journal that does
// not take its start. The start is then written with the step that acts, or a
// replay would take the request for one that never began (DESIGN.md P3).
func TestLaunchThatTheJournalRefusedIsWrittenBeforeItActs(t *testing.T) {
	r := newRig(t)
	r.plant.powerGood = time.Second
	r.write(state.HostOn)
	r.pass(300 * time.Millisecond) // pressed, and power is not good yet
	refused := 0
	r.commit = func(first, last uint64) error {
		for _, e := range r.journal[first-1 : last] {
			if e.Kind == history.KindStarted {
				refused++
				return errFull
			}
		}
		return nil
	}
	off := r.write(state.ChassisOff)
	r.pass(100 * time.Millisecond)
	require.Equal(t, 1, refused)
	require.Equal(t, state.Running, r.status(off.answer.Seq))
	require.Equal(t, []string{out}, r.presses(), "it waits for the press to lead to power good")
	r.commit = nil
	for i := 0; i < 100 && len(r.pulses) < 2; i++ {
		r.pass(50 * time.Millisecond)
	}
	require.Len(t, r.pulses, 2, "power came up and is cut")

	picture := history.Fold(r.durable)
	record := picture.Requests[len(picture.Requests)-1]
	require.Equal(t, off.answer.Seq, record.Seq)
	require.True(t, record.Launched, "the force-off acts and no entry says that it was launched")
}
