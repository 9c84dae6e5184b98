package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
)

// bmcDomain is the BMC's own domain in the journal; it has no queue object.
const bmcDomain = -1

var bmcObject = state.Object{Kind: state.KindBMC}

// bmc is the BMC's own domain (DESIGN.md §3.2). A reboot is journalled, waits
// while a line is asserted or a cycle stands between off and on, and has
// succeeded once the boot id has changed.
type bmc struct {
	core      *Core
	q         *queue.Queue
	requested state.Operation
	units     BMCUnits
	goingAt   time.Duration // when the reboot was asked for
	hint      hint
	cause     state.RebootCause
	bootedAt  uint64 // ms since the epoch
	going     uint64 // request that reboots the BMC
	entry     uint64 // its journal entry
	pending   []call
	undurable map[uint64]bool
	shown     state.BMC
	once      bool
}

func newBMC(c *Core) bmc {
	return bmc{
		core: c, q: queue.New(queue.Config{}), requested: state.BMCNone,
		units: BMCUnits{Ready: !c.cfg.BMCUnits}, cause: c.cfg.RebootCause, undurable: map[uint64]bool{},
	}
}

func (b *bmc) write(ev Write) {
	if ev.Op == state.BMCNone {
		b.requested = state.BMCNone
		b.core.emitReplyLater(ev.Reply, Answer{})
		return
	}
	dl := queue.Delivery{Key: state.Key{UID: ev.Caller.UID}, Object: bmcObject, Op: ev.Op, Conn: ev.Caller.Sender, Property: true}
	if r := b.core.updateRefusal(dl.Op); r != nil && !b.q.Repeats(dl) {
		b.core.refuseRequest(bmcDomain, dl, ev.Reply, r)
		return
	}
	a := b.q.Admit(b.core.now, dl, func() uint64 { return b.journalNew(dl) })
	if a.Outcome != queue.Accepted && a.Outcome != queue.Repeat {
		b.core.refuseRequest(bmcDomain, dl, ev.Reply, refusal(a))
		return
	}
	b.pending = append(b.pending, call{a.Seq, true, a.Outcome == queue.Repeat, ev.Reply})
	if ev.Op == state.BMCHardReboot {
		b.core.emit(releaseAllEffect{}) // systemd runs no ExecStopPost on that way
	}
}

func (b *bmc) journalNew(dl queue.Delivery) uint64 {
	seq := b.core.append(history.Entry{Kind: history.KindAccepted, Domain: bmcDomain, Accepted: newRequest(b.core.now, dl)},
		wait{what: waitAccept})
	w := b.core.waits[seq]
	w.request = seq
	b.core.waits[seq] = w
	b.undurable[seq] = true
	return seq
}

// accepted takes the journal's answer about a request and answers its callers.
func (b *bmc) accepted(seq uint64, err error) {
	delete(b.undurable, seq)
	if err != nil {
		req, _ := b.q.Get(seq)
		b.core.emit(noticeEffect{Notice{Kind: NoticeRefused, Domain: bmcDomain, Request: req, Err: err}})
		b.q.Drop(seq)
	} else {
		b.q.Durable(seq)
		b.q.SetNewest(seq)
		b.core.notice(NoticeAccepted, bmcDomain, b.q, seq)
	}
	rest := b.pending[:0]
	for _, c := range b.pending {
		switch {
		case c.seq != seq:
			rest = append(rest, c)
		case err != nil:
			b.core.refuse(c.reply, unavailable(err))
		default:
			req, _ := b.q.Get(seq)
			b.requested = req.Op
			b.core.emitReplyLater(c.reply, Answer{Status: req.Status, Seq: seq, Repeated: c.repeated})
		}
	}
	b.pending = rest
}

// advance reboots as soon as nothing stands in the way.
func (b *bmc) advance() {
	for _, seq := range b.q.Expire(b.core.now) {
		b.journalStatus(seq)
	}
	if b.hint.until != 0 && b.core.now.Boot >= b.hint.until {
		b.hint = hint{}
	}
	if b.going != 0 && b.core.now.Boot >= b.goingAt+b.core.cfg.Times.Reboot {
		b.end(state.Failed, "the BMC did not reboot")
	}
	head, ok := b.q.Head()
	if ok && b.going != 0 && head.Op == state.BMCHardReboot {
		// A reboot that waits for units to stop is what a hard one is for.
		b.end(state.Superseded, fmt.Sprintf("superseded by request %d", head.Seq))
	}
	if !ok || b.going != 0 || head.Op == state.BMCReboot && b.core.midway() || b.core.gated(head.Op) {
		return
	}
	if r := b.core.lateRefusal(&head); r != nil {
		b.going = head.Seq
		b.end(state.Failed, r.Text)
		return
	}
	if err := b.q.Start(b.core.now, head.Seq); err != nil {
		return // another reboot is on its way
	}
	b.going, b.goingAt = head.Seq, b.core.now.Boot
	b.core.notice(NoticeLaunched, bmcDomain, b.q, head.Seq)
	b.entry = b.core.append(history.Entry{Kind: history.KindStarted, Domain: bmcDomain, Request: head.Seq},
		wait{what: waitStep, request: head.Seq})
}

// midway reports whether some domain asserts a line or stands between off and
// on of a cycle: a reboot now would leave a button pressed or a host off.
func (c *Core) midway() bool {
	for _, d := range c.domains {
		if r := d.run; r != nil && (r.pulsing != "" || r.mode == modeJournal || r.current().AfterOff) {
			return true
		}
	}
	return false
}

func (b *bmc) mayAct(request, entry uint64, err error) {
	if b.going != request {
		return
	}
	if err != nil {
		b.end(state.Failed, "the journal did not take the start: "+err.Error())
		return
	}
	req, _ := b.q.Get(request)
	b.core.emit(rebootEffect{entry: entry, hard: req.Op == state.BMCHardReboot, seq: request})
}

// failed takes the platform's refusal: the state goes back to what is true.
func (b *bmc) failed(ev rebootFailed) {
	if b.going == ev.seq {
		b.end(state.Failed, ev.err.Error())
	}
}

func (b *bmc) end(status state.Status, reason string) {
	seq := b.going
	b.going = 0
	if err := b.q.Finish(b.core.now, seq, status, reason); err != nil {
		panic(fmt.Sprintf("engine: finish %d as %s: %v", seq, status, err))
	}
	b.journalStatus(seq)
}

func (b *bmc) journalStatus(seq uint64) {
	req, ok := b.q.Get(seq)
	if !ok {
		return
	}
	if kind, ok := statusNotice(req.Status); ok {
		b.core.notice(kind, bmcDomain, b.q, seq)
	}
	b.core.append(history.Entry{Kind: history.KindStatus, Domain: bmcDomain, Request: seq, Status: req.Status, Reason: req.Reason},
		wait{what: waitRecord, request: seq})
}

// seen takes what the BMC's units show. Quiesced stays: only a boot mends what
// made it so (openbmc-state-manager.md §2.2).
func (b *bmc) seen(ev BMCUnits) {
	if ev.TimeSynced && !b.units.TimeSynced {
		b.bootedAt = 0 // reckoned anew, by a clock that is right
	}
	ev.Quiesced = ev.Quiesced || b.units.Quiesced
	ev.TimeSynced = ev.TimeSynced || b.units.TimeSynced
	if ev != b.units {
		b.hint = hint{}
	}
	b.units = ev
}

// set takes a write to one of the BMC's observed properties.
func (b *bmc) set(ev Set) {
	if ev.Prop == PropBMCState && state.BMCState(ev.Value) == state.BMCStateUpdateInProgress {
		b.hint = hint{ev.Value, b.core.now.Boot + b.core.cfg.Times.Hint}
	}
}

func (b *bmc) publish() {
	if b.bootedAt == 0 {
		b.bootedAt = uint64(b.core.now.Wall.Add(-b.core.now.Boot).UnixMilli())
	}
	v := state.BMC{Requested: b.requested, Current: b.state(), LastRebootTime: b.bootedAt, LastRebootCause: b.cause}
	if !b.once || v != b.shown {
		b.once, b.shown = true, v
		b.core.emit(publishBMC{v})
	}
}

// state is what CurrentBMCState shows.
func (b *bmc) state() state.BMCState {
	switch {
	case b.going != 0:
		return state.BMCStateNotReady
	case b.units.Quiesced:
		return state.BMCStateQuiesced
	case b.hint.until != 0:
		return state.BMCState(b.hint.value)
	case b.units.Ready:
		return state.BMCStateReady
	default:
		return state.BMCStateNotReady
	}
}

func (b *bmc) nextDeadline() time.Duration {
	next := time.Duration(math.MaxInt64)
	if t, ok := b.q.NextDeadline(); ok {
		next = t
	}
	if b.hint.until != 0 {
		next = min(next, b.hint.until)
	}
	if b.going != 0 {
		next = min(next, b.goingAt+b.core.cfg.Times.Reboot)
	}
	return next
}

// recover takes the BMC's own records of an earlier run.
func (b *bmc) recover(r *history.Record, bootID string, age time.Duration) {
	b.q.Restore(b.core.now, r.Request, queue.Restored{Age: age})
	if r.Status.Final() {
		return
	}
	sameBoot := r.Boot == bootID
	status, reason := state.Success, ""
	switch {
	case r.Status == state.Pending && sameBoot:
		return // waits again
	case r.Status == state.Pending:
		status, reason = state.Expired, "BMC restarted"
	case sameBoot:
		status, reason = state.Interrupted, "the daemon restarted and the BMC did not"
	}
	if err := b.q.Finish(b.core.now, r.Seq, status, reason); err != nil {
		panic(fmt.Sprintf("engine: settle %d: %v", r.Seq, err))
	}
	b.journalStatus(r.Seq)
}
