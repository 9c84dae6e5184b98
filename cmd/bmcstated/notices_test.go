package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// capture is a log whose last record can be looked at.
type capture struct {
	slog.Handler
	level  slog.Level
	text   string
	fields map[string]string
}

func (c *capture) Enabled(context.Context, slog.Level) bool { return true }

func (c *capture) Handle(_ context.Context, r slog.Record) error {
	c.level, c.text, c.fields = r.Level, r.Message, map[string]string{}
	for _, a := range r.Attrs {
		c.fields[a.Key] = a.Value
	}
	return nil
}

// One request's life: each notice leaves a record with its own message id, and
// the status line follows.
func TestNoticesOfARequest(t *testing.T) {
	log := &capture{}
	n := newNotices(systemd.NewNotifier(), slog.New(log))
	n.domains = []int{0}
	n.enter("")
	req := state.Request{Seq: 7, Key: state.Key{UID: 1000, Client: "bmcweb", Request: "42"},
		Object: state.Object{Kind: state.KindHost}, Op: state.HostOn, Status: state.Pending}
	take := func(kind engine.NoticeKind, status state.Status, reason string, err error) {
		req.Status, req.Reason = status, reason
		n.take(engine.Notice{Kind: kind, Request: req, Err: err})
	}
	key := map[string]string{"request": "bmcweb/42", "domain": "0", "transition": "Host On", "seq": "7", "uid": "1000", "object": "host0"}
	expect := func(line, text, id string, level slog.Level, more map[string]string) {
		t.Helper()
		want := map[string]string{"message_id": id}
		for _, m := range []map[string]string{key, more} {
			for k, v := range m {
				want[k] = v
			}
		}
		assert.Equal(t, line, n.line())
		assert.Equal(t, text, log.text)
		assert.Equal(t, level, log.level)
		assert.Equal(t, want, log.fields)
	}
	take(engine.NoticeRefused, state.Pending, "", errors.New("the queue is full"))
	expect("serving", "request refused", systemd.MsgRefused, slog.LevelInfo, map[string]string{"result": "Refused", "reason": "the queue is full"})
	take(engine.NoticeAccepted, state.Pending, "", nil)
	expect("domain 0: 1 waiting", "request accepted", systemd.MsgAccepted, slog.LevelInfo, nil)
	take(engine.NoticeLaunched, state.Running, "", nil)
	expect("domain 0: Host On for bmcweb/42", "transition launched", systemd.MsgLaunched, slog.LevelInfo, nil)
	take(engine.NoticeUnknown, state.Unknown, "", nil)
	expect("domain 0: Host On for bmcweb/42, not confirmed yet", "transition not confirmed yet", systemd.MsgLaunched, slog.LevelWarn, nil)
	take(engine.NoticeEnded, state.Failed, "stuck: line PowerOut did not answer within 3s", nil)
	expect("domain 0 got stuck: bmcweb/42 (Host On): line PowerOut did not answer within 3s", "request ended", systemd.MsgEnded,
		slog.LevelWarn, map[string]string{"result": "Failed", "reason": "stuck: line PowerOut did not answer within 3s"})
	take(engine.NoticeEnded, state.Superseded, "", nil)
	assert.Contains(t, n.line(), "got stuck", "nothing has shown that the line works")
	take(engine.NoticeEnded, state.Success, "", nil)
	expect("serving", "request ended", systemd.MsgEnded, slog.LevelInfo, map[string]string{"result": "Success", "reason": ""})
}

func TestNoticesOfTrouble(t *testing.T) {
	log := &capture{}
	n := newNotices(systemd.NewNotifier(), slog.New(log))
	assert.Equal(t, "starting", n.line())
	n.take(engine.Notice{Kind: engine.NoticeVolatile, Err: errors.New("/run/x is on tmpfs")})
	assert.Equal(t, map[string]string{"message_id": systemd.MsgDegraded, "err": "/run/x is on tmpfs"}, log.fields)
	n.undriven(1, errors.New("power-config-host1.json:3:5: no such line"))
	assert.Equal(t, slog.LevelError, log.level)
	n.enter("")
	lasting := "the state directory does not survive power loss: /run/x is on tmpfs; " +
		"host 1 is served and not driven: power-config-host1.json:3:5: no such line"
	assert.Equal(t, lasting, n.line())

	n.take(engine.Notice{Kind: engine.NoticeStorage, Err: errors.New("no space left on device")})
	assert.Equal(t, slog.LevelError, log.level)
	assert.Equal(t, systemd.MsgDegraded, log.fields["message_id"])
	assert.Equal(t, "requests are refused: no space left on device; "+lasting, n.line())
	n.take(engine.Notice{Kind: engine.NoticeStorage})
	assert.Equal(t, "storage takes entries again", log.text)
	assert.Equal(t, lasting, n.line())

	n.take(engine.Notice{Kind: engine.NoticeLaunched, Domain: engine.BMCDomain,
		Request: state.Request{Op: state.BMCReboot, Key: state.Key{Client: "property", Request: "3"}}})
	assert.Equal(t, lasting+"; BMC: BMC Reboot for property/3", n.line())
}

// Redfish's event log is fed from the journal by x86-power-control's field.
func TestNoticesOfPower(t *testing.T) {
	log := &capture{}
	n := newNotices(systemd.NewNotifier(), slog.New(log))
	n.enter("")
	line := n.line()
	n.take(engine.Notice{Kind: engine.NoticePowerLost, Domain: 2})
	assert.Equal(t, slog.LevelWarn, log.level)
	assert.Equal(t, map[string]string{"message_id": systemd.MsgPower, "domain": "2", "redfish_message_id": "OpenBMC.0.1.DCPowerOff"}, log.fields)
	n.take(engine.Notice{Kind: engine.NoticePowerOn, Domain: 0})
	assert.Equal(t, slog.LevelInfo, log.level)
	assert.Equal(t, "OpenBMC.0.1.DCPowerOn", log.fields["redfish_message_id"])
	assert.Equal(t, line, n.line())
}

func TestEveryNoticeHasAMessage(t *testing.T) {
	for k := engine.NoticeAccepted; k <= engine.NoticeNoSIOGood; k++ {
		assert.NotEmpty(t, messages[k].text, k)
		assert.Len(t, messages[k].id, 32, k)
	}
}
