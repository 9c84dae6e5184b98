package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/state"
)

// notices returns what the core gave notice of, in short.
func (r *rig) notices() (all []string) {
	for _, e := range r.effects {
		if n, ok := e.(noticeEffect); ok {
			text, of := map[NoticeKind]string{NoticeAccepted: "accepted", NoticeRefused: "refused", NoticeLaunched: "launched",
				NoticeUnknown: "unknown", NoticeEnded: "ended"}[n.notice.Kind]
			if !of {
				continue
			}
			text += " " + n.notice.Request.Op.String()
			if n.notice.Kind == NoticeEnded {
				text += " " + n.notice.Request.Status.String()
			}
			all = append(all, text)
		}
	}
	return all
}

// powerNotices returns the notices of changes of power.
func (r *rig) powerNotices() (all []NoticeKind) {
	for _, e := range r.effects {
		if n, ok := e.(noticeEffect); ok && n.notice.Kind >= NoticePowerOn && n.notice.Kind <= NoticePowerLost {
			all = append(all, n.notice.Kind)
		}
	}
	return all
}

// Each change of power leaves a trail that tells a loss from what was meant.
func TestNoticesOfPower(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*rig)
		want []NoticeKind
	}{
		"asked for": {func(r *rig) {
			r.write(state.HostReboot)
			r.pass(20 * time.Second)
			r.write(state.ChassisOff)
		}, []NoticeKind{NoticePowerOff, NoticePowerOn, NoticePowerOff}},
		"button": {func(r *rig) {
			r.step(edge{0, "PowerButton", true})
			r.pass(time.Second)
			r.power(false)
		}, []NoticeKind{NoticePowerOff}},
		"lost and back": {func(r *rig) {
			r.power(false)
			r.pass(time.Second)
			r.power(true)
		}, []NoticeKind{NoticePowerLost, NoticePowerCame}},
		"lost at a reset": {func(r *rig) {
			r.plant.post = time.Minute
			r.write(state.HostForceWarmReboot)
			r.pass(700 * time.Millisecond)
			r.power(false)
		}, []NoticeKind{NoticePowerLost}},
		"lost while no daemon looked": {func(r *rig) {
			r.levels.PowerGood = state.LevelOff
			r.restart(false)
		}, []NoticeKind{NoticePowerLost}},
		"another daemon": {func(r *rig) { r.restart(true) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := runningHost(t)
			r.pass(time.Second)
			r.effects = nil
			c.do(r)
			r.pass(20 * time.Second)
			assert.Equal(t, c.want, r.powerNotices())
		})
	}
}

// Each request leaves a trail, and its repeats none.
func TestNoticesOfRequests(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.write(state.HostReboot)
	r.pass(time.Second)
	r.write(state.HostOn)
	r.write(state.HostOn)
	r.pass(10 * time.Second)
	r.write(state.HostOn)
	r.pass(time.Second)
	assert.Equal(t, []string{
		"accepted Host Reboot", "ended Host Reboot Invalid",
		"accepted Host On", "launched Host On", "ended Host On Success",
		"accepted Host On", "ended Host On Noop",
	}, r.notices())
}

func TestNoticesOfRefusalsAndSupersession(t *testing.T) {
	r := newRig(t)
	r.plant.powerGood = 0 // the press leads to nothing
	r.pass(time.Second)
	r.submit("c", "1", state.HostOn)
	r.pass(2 * time.Second)
	r.submit("c", "1", state.HostOff)
	r.write(state.ChassisOff)
	r.pass(time.Minute)
	assert.Equal(t, []string{
		"accepted Host On", "launched Host On", "refused Host Off", "accepted Chassis Off", "ended Host On Superseded",
		"launched Chassis Off", "ended Chassis Off Success",
	}, r.notices())
}

func TestNoticeOfARequestThatTheJournalRefuses(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.failing(errFull)
	r.write(state.HostOn)
	r.write(state.BMCReboot)
	assert.Equal(t, []string{"refused Host On", "refused BMC Reboot"}, r.notices())
}

// A power off that went ahead of the journal is told of once.
func TestNoticesAheadOfTheJournal(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.write(state.HostOn)
	r.pass(10 * time.Second)
	r.effects = nil
	r.failing(errors.New("disk full"))
	r.write(state.ChassisOff)
	r.pass(20 * time.Second)
	r.commit = nil
	r.pass(20 * time.Second)
	assert.Equal(t, []string{"accepted Chassis Off", "launched Chassis Off", "ended Chassis Off Success"}, r.notices())
}

func TestNoticesOfTheBMC(t *testing.T) {
	r := newRig(t)
	r.pass(time.Second)
	r.write(state.BMCReboot)
	r.pass(time.Second)
	r.step(rebootFailed{r.core.bmc.going, errors.New("refused")})
	assert.Equal(t, []string{"accepted BMC Reboot", "launched BMC Reboot", "ended BMC Reboot Failed"}, r.notices())
}

// Power that was on before the daemon, or the BMC, started is no news.
func TestNoNoticeOfPowerThatWasOn(t *testing.T) {
	for _, sameBoot := range []bool{true, false} {
		r := runningHost(t)
		r.effects = nil
		r.restart(sameBoot)
		r.pass(time.Minute)
		assert.Equal(t, state.HostStateRunning, r.hostState())
		assert.Empty(t, r.powerNotices())
	}
}
