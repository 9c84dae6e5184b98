package main

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// notices turns what the engine finds worth telling into log records with fixed
// message ids, and into the status line that systemctl status shows. It is safe
// for concurrent use; nothing in it waits for systemd.
type notices struct {
	log    *slog.Logger
	notify *systemd.Notifier
	wake   chan struct{}

	mu       sync.Mutex // guards the rest
	phase    string
	problems []string
	storage  string
	open     map[uint64]openRequest // requests that have not ended
	stuck    map[int]string         // by domain: why its last request got stuck
	domains  []int
}

// openRequest is a request that has not ended.
type openRequest struct {
	_ state.Incomparable

	domain            int
	op, by            string
	launched, unknown bool
}

func newNotices(notify *systemd.Notifier, log *slog.Logger) *notices {
	return &notices{log: log, notify: notify, wake: make(chan struct{}, 1), phase: "starting",
		open: map[uint64]openRequest{}, stuck: map[int]string{}}
}

// problem adds something lasting that is wrong to the status line. The caller
// has logged it.
func (n *notices) problem(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.problems = append(n.problems, text)
	n.changed()
}

// undriven says why a host is served and not driven.
func (n *notices) undriven(host int, err error) {
	const text = "the host is served and not driven"
	n.log.Error(text, systemd.LogMessageID, systemd.MsgDegraded, "host", host, "err", err)
	n.problem("host " + strconv.Itoa(host) + " is served and not driven: " + err.Error())
}

// enter says what the daemon as a whole does; "" = it serves.
func (n *notices) enter(phase string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.phase = phase
	n.changed()
}

// changed has the status line sent. n.mu is held.
func (n *notices) changed() {
	select {
	case n.wake <- struct{}{}:
	default: // it is about to be
	}
}

// run sends the status line whenever it has changed, until ctx ends.
func (n *notices) run(ctx context.Context) {
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		if line := n.line(); line != told {
			told = line
			tell(n.notify.Status(line), n.log)
		}
	}
}

// line is the present status line.
func (n *notices) line() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := snapshot{phase: n.phase, problems: n.problems, storage: n.storage}
	for _, id := range append(n.domains, engine.BMCDomain) {
		s.domains = append(s.domains, n.domain(id))
	}
	return statusLine(s)
}

// domain is what one domain does. n.mu is held.
func (n *notices) domain(id int) domainStatus {
	d := domainStatus{name: domainName(id), stuck: n.stuck[id]}
	for _, r := range n.open {
		switch {
		case r.domain != id:
		case r.launched:
			d.running, d.by, d.unknown = r.op, r.by, r.unknown
		default:
			d.waiting++
		}
	}
	return d
}

func domainName(id int) string {
	if id == engine.BMCDomain {
		return "BMC"
	}
	return "domain " + strconv.Itoa(id)
}

// take is the engine's Options.Notice.
func (n *notices) take(ev engine.Notice) {
	n.write(ev)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(ev)
	n.changed()
}

// stuckReason begins the reason of a request that a hung line or journal ended
// (DESIGN.md P4).
const stuckReason = "stuck"

// note keeps what the status line tells. n.mu is held.
func (n *notices) note(ev engine.Notice) {
	r := &ev.Request
	switch ev.Kind {
	case engine.NoticeAccepted, engine.NoticeLaunched, engine.NoticeUnknown:
		n.open[r.Seq] = openRequest{
			domain: ev.Domain, op: r.Op.String(), by: requestName(r),
			launched: ev.Kind != engine.NoticeAccepted, unknown: ev.Kind == engine.NoticeUnknown,
		}
	case engine.NoticeEnded:
		delete(n.open, r.Seq)
		switch reason, stuck := strings.CutPrefix(r.Reason, stuckReason+": "); {
		case stuck:
			n.stuck[ev.Domain] = requestName(r) + " (" + r.Op.String() + "): " + reason
		case r.Status == state.Success:
			delete(n.stuck, ev.Domain)
		}
	case engine.NoticeStorage:
		n.storage = ""
		if ev.Err != nil {
			n.storage = ev.Err.Error()
		}
	case engine.NoticeVolatile:
		n.problems = append(n.problems, volatileText+": "+ev.Err.Error())
	}
}

const volatileText = "the state directory does not survive power loss"

// requestName is a request's key as an operator knows it.
func requestName(r *state.Request) string { return r.Key.Client + "/" + r.Key.Request }

// messages are the text, the message id and the level of each kind of notice.
var messages = [32]struct {
	text, id string
	level    slog.Level
}{
	engine.NoticeAccepted: {"request accepted", systemd.MsgAccepted, slog.LevelInfo},
	engine.NoticeRefused:  {"request refused", systemd.MsgRefused, slog.LevelInfo},
	engine.NoticeLaunched: {"transition launched", systemd.MsgLaunched, slog.LevelInfo},
	engine.NoticeUnknown:  {"transition not confirmed yet", systemd.MsgLaunched, slog.LevelWarn},
	engine.NoticeEnded:    {"request ended", systemd.MsgEnded, slog.LevelInfo},
	engine.NoticeStorage:  {"storage", systemd.MsgDegraded, slog.LevelError},
	engine.NoticeVolatile: {volatileText, systemd.MsgDegraded, slog.LevelWarn},

	engine.NoticePowerOn:   {"power is good", systemd.MsgPower, slog.LevelInfo},
	engine.NoticePowerOff:  {"power is off", systemd.MsgPower, slog.LevelInfo},
	engine.NoticePowerCame: {"power came up, and nothing here asked for it", systemd.MsgPower, slog.LevelInfo},
	engine.NoticePowerLost: {"power good was lost, and nothing here asked for it", systemd.MsgPower, slog.LevelWarn},

	engine.NoticePowerButton: {"the power button is pressed", systemd.MsgPanel, slog.LevelInfo},
	engine.NoticeResetButton: {"the reset button is pressed", systemd.MsgPanel, slog.LevelInfo},
	engine.NoticeNMIButton:   {"the NMI button is pressed", systemd.MsgPanel, slog.LevelInfo},
	engine.NoticeNMI:         {"an NMI was sent to the host", systemd.MsgPanel, slog.LevelInfo},
	engine.NoticeNoPowerGood: {"power was asked for, and power good did not come", systemd.MsgPower, slog.LevelError},
	engine.NoticeNoSIOGood:   {"power is good, and SIO power good did not come", systemd.MsgPower, slog.LevelError},
}

// redfish are the entries of x86-power-control's that event logs pick out of the
// journal.
var redfish = [32]string{
	engine.NoticePowerOn: "OpenBMC.0.1.DCPowerOn", engine.NoticePowerCame: "OpenBMC.0.1.DCPowerOn",
	engine.NoticePowerButton: "OpenBMC.0.1.PowerButtonPressed", engine.NoticeResetButton: "OpenBMC.0.1.ResetButtonPressed",
	engine.NoticeNMIButton: "OpenBMC.0.1.NMIButtonPressed", engine.NoticeNMI: "OpenBMC.0.1.NMIDiagnosticInterrupt",
	engine.NoticeNoPowerGood: "OpenBMC.0.1.SystemPowerOnFailed", engine.NoticeNoSIOGood: "OpenBMC.0.1.SystemPowerGoodFailed",
	engine.NoticePowerOff: "OpenBMC.0.1.DCPowerOff", engine.NoticePowerLost: "OpenBMC.0.1.DCPowerOff",
}

// write logs a notice.
func (n *notices) write(ev engine.Notice) {
	m := messages[ev.Kind]
	attrs := []slog.Attr{slog.String(systemd.LogMessageID, m.id)}
	id := redfish[ev.Kind]
	switch {
	case ev.Kind == engine.NoticeStorage && ev.Err == nil:
		m.level, m.text = slog.LevelInfo, "storage takes entries again"
	case ev.Kind == engine.NoticeStorage:
		m.text = "storage fails: requests are refused"
		attrs = append(attrs, slog.String("err", ev.Err.Error()))
	case ev.Kind == engine.NoticeVolatile:
		attrs = append(attrs, slog.String("err", ev.Err.Error()))
	case id != "":
		attrs = append(attrs, slog.Int(systemd.LogDomain, ev.Domain), slog.String(systemd.LogRedfish, id))
	default:
		attrs = append(attrs, ofRequest(&ev)...)
	}
	if ev.Kind == engine.NoticeEnded && bad[ev.Request.Status] {
		m.level = slog.LevelWarn
	}
	n.log.LogAttrs(context.Background(), m.level, m.text, attrs...)
}

// ofRequest are the attributes of a notice about a request.
func ofRequest(ev *engine.Notice) []slog.Attr {
	r := &ev.Request
	attrs := []slog.Attr{
		slog.String(systemd.LogRequest, requestName(r)), slog.Int(systemd.LogDomain, ev.Domain),
		slog.String(systemd.LogTransition, r.Op.String()), slog.Uint64("seq", r.Seq), slog.Uint64("uid", uint64(r.Key.UID)),
		slog.String("object", r.Object.String()),
	}
	switch {
	case ev.Err != nil:
		attrs = append(attrs, slog.String(systemd.LogResult, "Refused"), slog.String("reason", ev.Err.Error()))
	case r.Status.Final():
		attrs = append(attrs, slog.String(systemd.LogResult, r.Status.String()), slog.String("reason", r.Reason))
	}
	return attrs
}

// bad are the statuses that nobody has asked for.
var bad = [256]bool{state.Failed: true, state.Interrupted: true, state.Expired: true}
