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
			_, pulsed := lastOf[pressEffect](r)
			assert.Equal(t, c.want, pulsed)
		})
	}
}

// Where presses are passed on by software the output follows the button, once
// power is known and while nothing of ours is on the line.
func TestButtonIsPassedThrough(t *testing.T) {
	passing := func(c *Config) { c.Domains[0].PassThrough = true }
	press := func(r *rig, signal string, down bool) { r.step(edge{0, signal, down}) }
	r := runningHost(t, passing)
	for signal, out := range map[string]string{"PowerButton": "PowerOut", "ResetButton": "ResetOut"} {
		r.effects = nil
		press(r, signal, true)
		p, ok := lastOf[pressEffect](r)
		require.True(t, ok)
		assert.Equal(t, pressEffect{domain: 0, id: p.id, signal: out, width: r.core.cfg.Domains[0].Timings.ForceOffPulse}, p)
		_, released := lastOf[releaseEffect](r)
		require.False(t, released)
		press(r, signal, false)
		rel, _ := lastOf[releaseEffect](r)
		assert.Equal(t, releaseEffect{domain: 0, signal: out}, rel)
		r.step(controlled{0, p.id, nil})
	}

	for name, r := range map[string]*rig{
		"not configured": runningHost(t),
		"masked": func() *rig {
			r := runningHost(t, passing)
			r.mask(state.ButtonPower, true)
			hold, _ := lastOf[holdEffect](r)
			r.step(controlled{0, hold.id, nil})
			return r
		}(),
		"a pulse of ours": func() *rig {
			r := runningHost(t, passing)
			r.write(state.ChassisOff)
			r.pass(time.Second)
			return r
		}(),
		"a level": runningLevelRig(t, passing),
	} {
		r.effects = nil
		press(r, "PowerButton", true)
		press(r, "PowerButton", false)
		_, pressed := lastOf[pressEffect](r)
		assert.False(t, pressed, name)
		_, released := lastOf[releaseEffect](r)
		assert.False(t, released, "%s: no other pulse is cut", name)
	}
}

// What the front panel and the watchdogs tell ends in Redfish's event log.
func TestNoticesOfThePanel(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	kinds := func() (all []NoticeKind) {
		for _, e := range r.effects {
			if n, ok := e.(noticeEffect); ok && n.notice.Kind > NoticePowerLost {
				all = append(all, n.notice.Kind)
			}
		}
		r.effects = nil
		return all
	}
	kinds()
	r.step(edge{0, "ResetButton", true})
	r.step(edge{0, "ResetButton", false})
	r.step(edge{0, "IdButton", true})
	assert.Equal(t, []NoticeKind{NoticeResetButton}, kinds())
	p := &reply{}
	r.step(NMI{Reply: p.take(t)})
	e, _ := lastOf[pressEffect](r)
	r.step(controlled{0, e.id, nil})
	assert.Equal(t, []NoticeKind{NoticeNMI}, kinds())
	r.plant.powerGood = 0
	r.write(state.HostOn)
	r.pass(time.Minute)
	assert.Equal(t, []NoticeKind{NoticeNoPowerGood}, kinds())
}
