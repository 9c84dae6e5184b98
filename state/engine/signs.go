package engine

import (
	"fmt"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
)

// SignKind says what a [Sign] is.
type SignKind uint8

// The kinds of signs.
const (
	SignIntent      SignKind = iota + 1 // somebody outside wants something new: Intent has moved
	SignOff                             // somebody, or the host's OS, wants power off; What says who
	SignOperatorOff                     // an Off from outside is launched, or is so already
	SignOperatorOn                      // an On from outside is, or an Off from outside came to nothing
	SignPower                           // power is seen to be On or not, the first time included
	SignFirmware                        // of the whole BMC: firmware is being updated (On), or not any more
)

// Sign is what the fault monitor has to know of a domain, so that it repairs
// nothing that was meant (DESIGN.md §5).
type Sign struct {
	_ state.Incomparable

	Domain int
	Kind   SignKind
	What   string // of SignOff and SignOperatorOff
	Intent uint64 // the intent generation after the sign
	On     bool   // of SignPower and SignFirmware
}

// signEffect tells the fault monitor.
type signEffect struct{ sign Sign }

func (signEffect) isEffect() {}

func (d *domain) sign(s Sign) {
	s.Domain, s.Intent = d.cfg.ID, d.intent
	d.core.emit(signEffect{s})
}

// intend notes that somebody outside wants something new. What the fault monitor
// has decided before ends CANCELLED instead of being launched.
func (d *domain) intend() {
	d.intent++
	d.intervened()
	d.sign(Sign{Kind: SignIntent})
}

// meant reports whether a request stands for a person: a schedule was set by
// one, the daemon's other clients act by themselves.
func meant(k state.Key) bool {
	r := state.Request{Key: k}
	return !r.Internal() || k.Client == state.InternalPrefix+"schedule"
}

// goesOff reports whether power is off at the end of an operation, or on its
// way.
func goesOff(op state.Operation) bool {
	return !op.Raising() || op.Passes() && op != state.HostForceWarmReboot
}

// wanted takes what was accepted.
func (d *domain) wanted(k state.Key, op state.Operation) {
	if meant(k) {
		d.intend()
	}
	if goesOff(op) {
		d.sign(Sign{Kind: SignOff, What: op.String()})
	}
}

// began takes what is launched.
func (d *domain) began(req *state.Request) {
	if goesOff(req.Op) {
		d.sign(Sign{Kind: SignOff, What: req.Op.String()})
	}
	switch {
	case !meant(req.Key):
	case req.Op.Raising():
		d.sign(Sign{Kind: SignOperatorOn})
	default:
		d.sign(Sign{Kind: SignOperatorOff, What: req.Op.String()})
	}
}

// cameTo takes a final status. An Off that found the power off wants it so; one
// that was withdrawn or failed leaves the host watched, and what it may still
// lead to is meant.
func (d *domain) cameTo(req *state.Request) {
	if goesOff(req.Op) && req.Status != state.Success {
		d.sign(Sign{Kind: SignOff, What: req.Op.String()})
	}
	if !meant(req.Key) {
		return
	}
	on, known := d.powered()
	switch {
	case req.Status == state.Noop && req.Op.Raising():
		d.sign(Sign{Kind: SignOperatorOn})
	case req.Status == state.Noop:
		d.sign(Sign{Kind: SignOperatorOff, What: req.Op.String()})
	case req.Launched && !req.Op.Raising() && req.Status != state.Success && req.Status != state.Superseded && known && on:
		d.sign(Sign{Kind: SignOperatorOn})
	}
}

// hinted takes an edge. S5 says that power is to go only if it comes before power
// goes: a platform that loses power ends there, too.
func (d *domain) hinted(e sequence.Event) {
	switch on, _ := d.powered(); {
	case e == sequence.PowerOKDeassert || e == sequence.SIOGoodDeassert:
		d.fading = true
	case e == sequence.PowerButtonPressed && on:
		d.intend()
		d.sign(Sign{Kind: SignOff, What: "power button"})
	case e == sequence.PowerButtonPressed:
		d.intend()
		d.sign(Sign{Kind: SignOperatorOn})
	case e == sequence.ResetButtonPressed:
		d.intend()
	case e == sequence.S5Assert && !d.fading:
		d.sign(Sign{Kind: SignOff, What: "S5"})
	}
}

// powerSign takes a change of the power state. An operation that passes through
// off may do so long after it was asked for.
func (d *domain) powerSign(on bool) {
	if r := d.run; r != nil && !on && goesOff(r.op) {
		d.sign(Sign{Kind: SignOff, What: r.op.String()})
	}
	d.sign(Sign{Kind: SignPower, On: on})
}

// FaultsClient is the client id of the fault monitor's requests.
const FaultsClient = state.InternalPrefix + "faults"

// Internal is a request of the fault monitor. Follow is called when it is
// refused (Err is set), and else with each of its statuses; the last one is
// final. A request whose Intent is older than the domain's ends CANCELLED
// instead of being launched.
type Internal struct {
	Domain int
	Op     state.Operation // of the domain's first host or chassis; no Chassis Off
	Cause  state.RestartCause
	Intent uint64
	Follow func(Answer)
}

func (Internal) isEvent() {}

// follower is who waits for what becomes of an internal request.
type follower struct {
	intent uint64
	told   state.Status // the last; 0 at first
	tell   func(Answer)
}

// internal admits a request of the fault monitor. Chassis Off is nobody's but an
// operator's: it takes over whatever runs.
func (c *Core) internal(ev Internal) {
	d := c.domain(ev.Domain)
	gate := c.stops(ev.Op)
	switch {
	case ev.Op.Class() == state.Emergency || ev.Op.Kind() == state.KindBMC:
		c.refuse(ev.Follow, invalidArgument("the fault monitor does not ask for %s", ev.Op))
	case ev.Intent < d.intent:
		c.emit(replyEffect{ev.Follow, Answer{Status: state.Cancelled}})
	case gate != nil: // not a word on the host: it is asked again
		c.refuse(ev.Follow, gate)
	case ev.Op.Raising() && d.quiesced():
		c.refuse(ev.Follow, notAllowedText("the host is Quiesced: an operator has to look at it"))
	case ev.Op.Kind() == state.KindHost && ev.Op.Raising() && d.values.saved.AttemptsLeft == 0:
		d.hostFailed = true // as a host that does not come up: see autoReboot
		c.refuse(ev.Follow, notAllowedText("no reboot attempts are left: AttemptsLeft is 0 until the next Host On from outside"))
	default:
		d.admitInternal(ev)
	}
}

func (d *domain) admitInternal(ev Internal) {
	refused := func(a Answer) {
		if a.Err != nil {
			ev.Follow(a)
		}
	}
	if seq := d.request("faults", d.object(ev.Op), ev.Op, ev.Cause, refused); seq != 0 {
		d.followers[seq] = &follower{intent: ev.Intent, tell: ev.Follow}
	}
}

// follow tells what has become of an internal request.
func (d *domain) follow(req *state.Request) {
	f := d.followers[req.Seq]
	if f == nil || f.told == req.Status {
		return
	}
	f.told = req.Status
	d.core.emit(replyEffect{f.tell, Answer{Status: req.Status, Seq: req.Seq, Requests: []state.Request{*req}}})
	if req.Status.Final() {
		delete(d.followers, req.Seq)
	}
}

// outdated ends a request of the fault monitor that somebody outside has
// overtaken with a newer intent.
func (d *domain) outdated(seq uint64) bool {
	f := d.followers[seq]
	if f == nil || f.intent >= d.intent {
		return false
	}
	d.finish(seq, state.Cancelled, fmt.Sprintf("intent %d is older than %d: somebody has asked for something since", f.intent, d.intent))
	return true
}
