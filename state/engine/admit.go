package engine

import (
	"fmt"
	"strconv"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/queue"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// call is a call that waits for its request to be durable and, where the
// executor is free, judged: a refusal by the state is then the call's answer.
type call struct {
	seq      uint64
	property bool
	repeated bool
	reply    func(Answer)
}

// write admits a write of a Requested…Transition property.
func (c *Core) write(ev Write) {
	if ev.Object.Kind == state.KindBMC {
		c.bmc.write(ev)
		return
	}
	if c.aggregate(ev.Object) {
		c.writeSystem(ev)
		return
	}
	d := c.domainOf(ev.Object)
	if d == nil {
		c.refuse(ev.Reply, invalidArgument("there is no %s", ev.Object))
		return
	}
	d.admitCall(queue.Delivery{
		Key: state.Key{UID: ev.Caller.UID}, Object: ev.Object, Op: ev.Op, Conn: ev.Caller.Sender, Property: true,
	}, ev.Reply)
}

// submit admits a request with a key of its own.
func (c *Core) submit(ev Submit) {
	d := c.domain(ev.Domain)
	d.admitCall(queue.Delivery{
		Key:    state.Key{UID: ev.Caller.UID, Client: ev.Client, Request: ev.Request},
		Object: d.object(ev.Op), Op: ev.Op, Conn: ev.Caller.Sender, Cause: ev.Cause, Expires: ev.Expires,
	}, ev.Reply)
}

func (c *Core) refuse(reply func(Answer), r *Refusal) {
	c.emit(replyEffect{reply, Answer{Err: r}})
}

// admitCall admits what a client asks for. A closed gate or a masked button
// refuses what is new; a repeat has its answer.
func (d *domain) admitCall(dl queue.Delivery, reply func(Answer)) {
	if r := d.core.gateRefusal(dl.Op); r != nil && !d.q.Repeats(dl) {
		d.core.refuseRequest(d.cfg.ID, dl, reply, r)
		return
	}
	if r := d.maskedRefusal(dl.Op); r != nil && dl.Object.Kind != state.KindSystem {
		d.core.refuseRequest(d.cfg.ID, dl, reply, r)
		return
	}
	d.admit(dl, reply)
}

// admit decides about a delivery and journals what it accepts.
// It returns the sequence of what is new, else 0.
func (d *domain) admit(dl queue.Delivery, reply func(Answer)) uint64 {
	if d.barrier != 0 && dl.Op.Raising() && !d.q.Repeats(dl) {
		d.core.refuseRequest(d.cfg.ID, dl, reply, unavailable(fmt.Errorf("a power off that is not in the journal yet must be written first")))
		return 0
	}
	if r := d.core.updateRefusal(dl.Op); r != nil && !d.q.Repeats(dl) {
		d.core.refuseRequest(d.cfg.ID, dl, reply, r)
		return 0
	}
	a := d.q.Admit(d.now(), dl, func() uint64 { return d.journalNew(dl) })
	switch a.Outcome {
	case queue.Accepted:
		d.pending = append(d.pending, call{a.Seq, dl.Property, false, reply})
		d.wanted(dl.Key, dl.Op)
		return a.Seq
	case queue.Repeat:
		d.intervened()
		if a.Claimed {
			d.journalClaim(a.Seq, dl.Key.UID, false)
		}
		d.pending = append(d.pending, call{a.Seq, dl.Property, true, reply})
		d.decided = true
	default:
		d.core.refuseRequest(d.cfg.ID, dl, reply, refusal(a))
	}
	return 0
}

var refusalCodes = [256]Code{
	queue.Conflict: CodeIDConflict,
	queue.Busy:     CodeBusy,
	queue.Full:     CodeFull,
}

func refusal(a queue.Answer) *Refusal { return &Refusal{refusalCodes[a.Outcome], a.Text} }

// journalNew journals a new request; the entry's sequence is the request's.
// Nothing may act on it before the journal has it.
func (d *domain) journalNew(dl queue.Delivery) uint64 {
	e := history.Entry{Kind: history.KindAccepted, Domain: d.cfg.ID, Accepted: newRequest(d.now(), dl)}
	seq := d.core.append(e, wait{what: waitAccept, domain: d})
	w := d.core.waits[seq]
	w.request = seq
	d.core.waits[seq] = w
	d.undurable[seq] = true
	if dl.Op.Class() == state.Emergency && !dl.Aside {
		d.awaitBarrier()
	}
	return seq
}

// newRequest is the record of a delivery before it has a sequence. The journal
// fills that in, and as the request id of a property write.
func newRequest(now state.Instant, dl queue.Delivery) state.Request {
	r := state.Request{Key: dl.Key, Object: dl.Object, Op: dl.Op, Cause: dl.Cause, Status: state.Pending, Accepted: now}
	if dl.Property {
		r.Key.Client, r.Key.Request = state.PropertyClient, ""
	}
	if dl.Expires > 0 {
		r.Expires = now.Boot + dl.Expires
	}
	return r
}

// accepted takes the journal's answer about a new request.
func (d *domain) accepted(seq uint64, err error) {
	req, ok := d.q.Get(seq)
	if !ok {
		return
	}
	if d.run != nil && d.run.seq == seq && d.run.adopted {
		delete(d.undurable, seq) // it is under way whatever the journal says
		d.run.lost = err != nil
		d.q.Durable(seq)
		return
	}
	if err != nil && req.Op.Class() == state.Emergency && !d.core.aggregate(req.Object) {
		d.goWithoutJournal(seq)
		return
	}
	delete(d.undurable, seq)
	d.decided = true
	if err != nil {
		d.core.emit(noticeEffect{Notice{Kind: NoticeRefused, Domain: d.cfg.ID, Request: req, Err: err}})
		d.q.Drop(seq)
		delete(d.followers, seq)
		d.answerAll(seq, unavailable(err))
		return
	}
	d.recorded(seq)
	d.durable(seq)
}

// durable lets a request be launched, and an urgent one overtake.
func (d *domain) durable(seq uint64) {
	d.q.Durable(seq)
	d.touch(seq)
	req, _ := d.q.Get(seq)
	if req.Status != state.Pending {
		return
	}
	d.core.notice(NoticeAccepted, d.cfg.ID, d.q, seq)
	if d.core.aggregate(req.Object) {
		return // its parts overtake
	}
	d.askedOfAll(&req, req.Op.Passes())
	switch req.Op.Class() {
	case state.Emergency:
		d.emergency(req)
	case state.Forced:
		d.forced(req)
	}
}

// forced lets a forced request that could be launched overtake (DESIGN.md
// §3.5). It cuts no running operation but a graceful wait.
func (d *domain) forced(req state.Request) {
	_, known := d.powered()
	if !known || d.core.gated(req.Op) || !d.verdict(req).Launches() {
		return
	}
	graceful := d.run != nil && d.run.waitsForOS()
	d.supersede(req.Seq, d.q.Overtaken(req.Seq, graceful))
}

// emergency ends what waits before a Chassis Off and lets it take over the
// executor. What runs is taken over in [domain.takeOver], when no pulse that
// must end first is asserted.
func (d *domain) emergency(req state.Request) {
	older := d.q.Overtaken(req.Seq, false)
	if d.run != nil {
		older = state.Remove(older, d.run.seq)
	}
	d.supersede(req.Seq, older)
	on, _ := d.powered()
	switch {
	case d.run != nil && !d.run.plan.Verdict.Cuts(), d.run == nil && (on || d.mayComeUp()):
		d.preempt = req.Seq
	}
}

// supersede ends older requests in favour of a newer one.
func (d *domain) supersede(by uint64, victims []uint64) {
	for _, seq := range d.q.Supersede(d.now(), by, victims) {
		d.journalStatus(seq)
		if d.run != nil && d.run.seq == seq {
			d.abandon()
		}
	}
	d.touch(by)
	if len(victims) > 0 {
		d.journalStatus(by)
	}
}

// takeOver launches a Chassis Off at once, in the place of whatever waits.
func (d *domain) takeOver() {
	if d.preempt == 0 {
		return
	}
	req, ok := d.q.Get(d.preempt)
	if !ok || req.Status != state.Pending {
		d.preempt = 0
		return
	}
	on, _ := d.powered()
	held, begun := false, false
	if d.run != nil {
		// Units that were started for on may still apply power: only the
		// target for off takes them all back.
		begun = d.run.started && d.run.op.Raising()
		held = d.run.pulsing == sequence.PowerOut && on && !d.cfg.Options.PowerLevel && req.Object.Kind != state.KindSystem
		if d.run.pulsing != "" && !held {
			return // the pulse ends first
		}
		d.supersede(req.Seq, []uint64{d.run.seq})
	}
	d.preempt = 0
	d.unjudge()
	powerUp := !on && (d.mayComeUp() || begun)
	if !on && !powerUp {
		return // nothing to cut: judged as the head, which it is now
	}
	v := state.VerdictCutPower
	if req.Object.Kind == state.KindSystem {
		v = d.verdict(req)
	}
	if v.Launches() {
		d.launch(req, v, powerUp, held)
	}
}

// journalClaim records that a uid joined a request, or gave it up.
func (d *domain) journalClaim(seq uint64, uid uint32, gone bool) {
	d.core.record(d, history.Entry{Kind: history.KindClaim, Domain: d.cfg.ID, Request: seq, Claim: history.Claim{UID: uid, Dropped: gone}})
}

// request admits a request of the daemon itself and returns its sequence, 0 if it
// was refused. Its id is the moment, which no earlier run can have used.
func (d *domain) request(client string, o state.Object, op state.Operation, cause state.RestartCause, reply func(Answer)) uint64 {
	id := fmt.Sprintf("%d-%d", d.now().WallMicros(), d.boot().Nanoseconds())
	return d.requestAs(client, id, o, op, cause, reply)
}

// requestAs is request with an id of the client's own.
func (d *domain) requestAs(client, id string, o state.Object, op state.Operation, cause state.RestartCause, reply func(Answer)) uint64 {
	return d.admit(queue.Delivery{
		Key:    state.Key{Client: state.InternalPrefix + client, Request: id},
		Object: o, Op: op, Cause: strconv.Itoa(int(cause)),
	}, reply)
}

// undecided reports whether a request is about to be judged, or waits for the gates'
// first word: its callers are answered when it has been, or does so for too long.
func (d *domain) undecided(seq uint64) bool {
	if req, _ := d.q.Get(seq); req.Status == state.Pending && d.core.gated(req.Op) {
		return d.boot() < req.Accepted.Boot+d.core.cfg.Times.Read
	}
	return d.judging != nil && d.judging.seq == seq && d.boot() < d.judging.since+d.core.cfg.Times.Read
}

// ready takes out the calls that can be answered, and makes the requests that
// their senders are told of the newest of their objects.
func (d *domain) ready() []call {
	if !d.decided && d.judging == nil && !d.core.gates.wait {
		return nil
	}
	d.decided = false
	var out []call
	rest := d.pending[:0]
	for _, c := range d.pending {
		if d.undurable[c.seq] || d.undecided(c.seq) {
			rest = append(rest, c)
			continue
		}
		out = append(out, c)
		if a := d.answerFor(c); a.Err == nil && a.Status != state.Invalid {
			d.q.SetNewest(c.seq)
			if req, ok := d.q.Get(c.seq); ok {
				d.wished(req.Op)
			}
		}
	}
	d.pending = rest
	return out
}

func (d *domain) answerFor(c call) Answer {
	req, ok := d.q.Get(c.seq)
	if !ok {
		return Answer{Err: unavailable(fmt.Errorf("the request is forgotten already"))}
	}
	a := Answer{Status: req.Status, Seq: req.Seq, Repeated: c.repeated}
	_, a.Object = d.live[c.seq]
	if !c.property {
		return a
	}
	switch {
	case req.Status == state.Invalid:
		a.Err = notAllowed(req.Op, req.Reason)
	case req.Status == state.Failed && !req.Launched:
		a.Err = unavailable(fmt.Errorf("%s", req.Reason))
	}
	return a
}

func (d *domain) reply(calls []call) {
	for _, c := range calls {
		d.core.emit(replyEffect{c.reply, d.answerFor(c)})
	}
}

// answerAll refuses every call that waits for a request.
func (d *domain) answerAll(seq uint64, r *Refusal) {
	rest := d.pending[:0]
	for _, c := range d.pending {
		if c.seq == seq {
			d.core.refuse(c.reply, r)
			continue
		}
		rest = append(rest, c)
	}
	d.pending = rest
}
