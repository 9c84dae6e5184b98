package engine

import (
	"errors"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// NoticeKind says what a [Notice] is about.
type NoticeKind uint8

// The kinds of notices.
const (
	NoticeAccepted    NoticeKind = iota + 1 // a request is durable
	NoticeRefused                           // a request was not accepted; Err says why
	NoticeLaunched                          // a transition has begun, was adopted or is resumed
	NoticeUnknown                           // a transition is not confirmed; the levels are read again
	NoticeEnded                             // a request has its final status
	NoticeStorage                           // the journal fails, or takes entries again (Err is nil)
	NoticeVolatile                          // the state directory does not survive power loss; Err names it
	NoticePowerOn                           // power came, as a request or a button asked for
	NoticePowerOff                          // power went, likewise
	NoticePowerCame                         // power came, and nothing here asked for it
	NoticePowerLost                         // power went, and nothing here asked for it
	NoticePowerButton                       // a button was pressed that is not masked
	NoticeResetButton
	NoticeNMIButton
	NoticeNMI         // the NMI output was pulsed
	NoticeNoPowerGood // no power good within its time after power was asked for
	NoticeNoSIOGood   // likewise SIO power good after power good
)

// BMCDomain is the Domain of notices about the BMC's own transitions.
const BMCDomain = bmcDomain

// Notice is what an operator may want to find again, or to be told of now. The
// bus shows states; this is the trail of who asked for what and how it ended.
type Notice struct {
	Kind    NoticeKind
	Domain  int           // of the request or the power; not of storage notices
	Request state.Request // with status and reason; of a refused one only key, object and operation; not of power
	Err     error         // of refusals and storage notices
}

// noticeEffect passes a notice on.
type noticeEffect struct{ notice Notice }

func (noticeEffect) isEffect() {}

// notice passes on what has become of a request.
func (c *Core) notice(kind NoticeKind, domain int, q *queue.Queue, seq uint64) {
	if req, ok := q.Get(seq); ok {
		c.emit(noticeEffect{Notice{Kind: kind, Domain: domain, Request: req}})
	}
}

// tell leaves a trail of what has happened to a host.
func (d *domain) tell(kind NoticeKind) {
	d.core.emit(noticeEffect{Notice{Kind: kind, Domain: d.cfg.ID}})
}

// powerNotice leaves the trail of a change of power.
func (d *domain) powerNotice(on, asked bool) {
	kind := NoticePowerLost
	switch {
	case on && asked:
		kind = NoticePowerOn
	case asked:
		kind = NoticePowerOff
	case on:
		kind = NoticePowerCame
	}
	d.tell(kind)
}

// refuseRequest answers a request that is not accepted, and leaves a trail.
func (c *Core) refuseRequest(domain int, dl queue.Delivery, reply func(Answer), r *Refusal) {
	c.emit(noticeEffect{Notice{Kind: NoticeRefused, Domain: domain, Request: newRequest(c.now, dl), Err: r}})
	c.refuse(reply, r)
}

// statusNotice is the notice that a status of a request is worth, if any.
func statusNotice(s state.Status) (NoticeKind, bool) {
	switch {
	case s.Final():
		return NoticeEnded, true
	case s == state.Unknown:
		return NoticeUnknown, true
	default:
		return 0, false
	}
}

// errSilent is the trouble of a journal that neither takes an entry nor refuses
// it.
var errSilent = errors.New("storage does not answer: fsync hangs")

// storage passes a change of the journal's health on. The engine's own loop
// calls it.
func (e *Engine) storage(err error) {
	if (err != nil) == e.storageBad {
		return
	}
	e.storageBad = err != nil
	e.tell(Notice{Kind: NoticeStorage, Domain: BMCDomain, Err: err})
}

func (e *Engine) tell(n Notice) {
	if e.opts.Notice != nil {
		e.opts.Notice(n)
	}
}
