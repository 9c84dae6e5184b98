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
			text := map[NoticeKind]string{NoticeAccepted: "accepted", NoticeRefused: "refused", NoticeLaunched: "launched",
				NoticeUnknown: "unknown", NoticeEnded: "ended"}[n.notice.Kind] + " " + n.notice.Request.Op.String()
			if n.notice.Kind == NoticeEnded {
				text += " " + n.notice.Request.Status.String()
			}
			all = append(all, text)
		}
	}
	return all
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
