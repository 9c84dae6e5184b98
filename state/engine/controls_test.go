package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
)

// lastOf returns the newest effect of a type.
func lastOf[T Effect](r *rig) (last T, ok bool) {
	for _, e := range r.effects {
		if v, is := e.(T); is {
			last, ok = v, true
		}
	}
	return last, ok
}

func (r *rig) mask(b state.Button, on bool) *reply {
	p := &reply{}
	r.step(Mask{Button: b, On: on, Reply: p.take(r.t)})
	return p
}

func TestMaskHoldsTheLineFirst(t *testing.T) {
	r := runningHost(t)
	p := r.mask(state.ButtonPower, true)
	require.False(t, p.got, "the line is not held yet")
	hold, ok := lastOf[holdEffect](r)
	require.True(t, ok)
	assert.Equal(t, "PowerOut", hold.signal)
	r.step(controlled{0, hold.id, nil})
	assert.True(t, p.got)
	assert.Nil(t, p.answer.Err)
	assert.Equal(t, CodeNotAllowed, r.write(state.HostOff).answer.Err.Code)

	r.step(edge{0, "PowerButton", true})
	assert.Zero(t, r.core.domains[0].hands, "a masked press begins nothing")
}

func TestFailedMaskIsNotBelieved(t *testing.T) {
	r := runningHost(t)
	p := r.mask(state.ButtonReset, true)
	hold, _ := lastOf[holdEffect](r)
	r.step(controlled{0, hold.id, errors.New("line is held by another process")})
	assert.Equal(t, CodeUnavailable, p.answer.Err.Code)
	shown, _ := lastOf[publishPanel](r)
	assert.False(t, shown.panel.Masked[state.ButtonReset])
	w := r.write(state.HostForceWarmReboot)
	r.pass(time.Second)
	assert.Nil(t, w.answer.Err, "requests are not refused")
}

func TestNMIButton(t *testing.T) {
	for name, c := range map[string]struct {
		on, whenOff, masked, want bool
	}{
		"on": {true, false, false, true}, "off": {false, false, false, false},
		"off and allowed": {false, true, false, true}, "masked": {true, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(cfg *Config) { cfg.Domains[0].NMIWhenPoweredOff = c.whenOff })
			r.pass(time.Second)
			if c.on {
				r.power(true)
				r.pass(time.Second)
			}
			if c.masked {
				require.True(t, r.mask(state.ButtonNMI, true).got, "there is no line to hold")
			}
			r.step(edge{0, "NMIButton", true})
			_, pulsed := lastOf[nmiEffect](r)
			assert.Equal(t, c.want, pulsed)
		})
	}
}
