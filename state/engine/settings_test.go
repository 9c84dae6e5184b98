package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// What an operator sets is told to be set when it is durable; what a unit file
// says of the moment waits for nothing.
func TestSettingsAreDurableBeforeTheyAreAnswered(t *testing.T) {
	for prop, durable := range map[Property]bool{
		PropRestorePolicy: true, PropAutoReboot: true, PropScheduledTime: true, PropRetryAttempts: true,
		PropBootProgress: false, PropHostState: false,
	} {
		r := settingsRig(t, true, rebootAlways)
		r.hang = true
		p := &reply{}
		value := uint64(2)
		switch prop {
		case PropAutoReboot:
			value = 0
		case PropScheduledTime:
			value = uint64(r.now.Wall.Add(time.Hour).Unix())
		}
		r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: prop, Value: value, Reply: p.take(t)})
		require.Equal(t, !durable, p.got, "property %d", prop)
		if !durable {
			continue
		}
		r.flush()
		require.True(t, p.got)
		require.Nil(t, p.answer.Err)

		r.commit = func(uint64, uint64) error { return errors.New("no space left") }
		q := &reply{}
		r.step(Set{Object: state.Object{Kind: state.KindHost}, Prop: prop, Value: value + 1, Reply: q.take(t)})
		r.flush()
		require.NotNil(t, q.answer.Err, "property %d", prop)
	}
}
