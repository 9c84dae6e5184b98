package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// slowBoard is a board that goes off while it is read, and whose first reading
// takes long to be told.
type slowBoard struct {
	Board
	reads int
}

func (b *slowBoard) Read(context.Context, time.Duration) (state.Levels, bool, error) {
	b.reads++
	if b.reads > 1 {
		return state.Levels{PowerGood: state.LevelOff}, true, nil
	}
	time.Sleep(time.Second)
	return state.Levels{PowerGood: state.LevelOn}, true, nil
}

// Readings are told in the order in which they were taken.
func TestReadingsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{opts: Options{Boards: map[int]Board{3: &slowBoard{}}}, core: &Core{cfg: Config{Times: DefaultTimes()}},
			ctx: t.Context(), reads: map[int]chan struct{}{3: make(chan struct{}, 1)}}
		e.inbox.wake = make(chan struct{}, 1)
		for id := range uint64(2) {
			e.workers.Go(func() { e.read(probeEffect{domain: 3, id: id + 1}) })
			synctest.Wait()
		}
		e.workers.Wait()
		for _, want := range []seen{
			{3, 1, state.Levels{PowerGood: state.LevelOn}, true, nil},
			{3, 2, state.Levels{PowerGood: state.LevelOff}, true, nil},
		} {
			ev, ok := e.inbox.take()
			require.True(t, ok)
			require.Equal(t, want, ev)
		}
	})
}
