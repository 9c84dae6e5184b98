package props

import (
	"strings"
	"sync/atomic"

	godbus "github.com/godbus/dbus/v5"
)

// Call is one method call or property write that a handler answers, once, with
// [Call.Return] or [Call.Fail]. Both may be called from any goroutine and do
// not wait.
type Call struct {
	Sender string // unique name of the caller
	UID    uint32 // of the caller, vouched for by the bus driver; in handlers only
	Path   godbus.ObjectPath
	Args   []any // of a method

	iface, member string
	signature     string
	serial        uint32
	noReply       bool
	write         bool // goes to the sender's ordered lane
	cost          int  // bytes that it takes while it is open

	refusal *godbus.Error // the answer to a message that was not taken

	svc      *Service
	from     *sender
	refused  bool // over the sender's limit: counted apart
	replying bool // the reply is in the outbox; under senders.mu
	answered atomic.Bool
}

// newCall makes a call of a message of size bytes.
func newCall(s *Service, msg *godbus.Message, size int) *Call {
	c := &Call{svc: s, Args: msg.Body, serial: msg.Serial(), noReply: msg.Flags&godbus.FlagNoReplyExpected != 0, cost: callCost + size}
	path, _ := msg.Headers[godbus.FieldPath].Value().(godbus.ObjectPath)
	c.Sender, c.Path = header(msg, godbus.FieldSender), godbus.ObjectPath(strings.Clone(string(path)))
	c.iface, c.member = header(msg, godbus.FieldInterface), header(msg, godbus.FieldMember)
	if sig, ok := msg.Headers[godbus.FieldSignature].Value().(godbus.Signature); ok {
		c.signature = strings.Clone(sig.String())
	}
	for i, v := range c.Args {
		c.Args[i] = cloned(v)
	}
	return c
}

func header(msg *godbus.Message, field godbus.HeaderField) string {
	text, _ := msg.Headers[field].Value().(string)
	return strings.Clone(text)
}

// cloned copies the strings of a value. godbus cuts the strings of a message out
// of buffers of 4 KiB, one for the header and one for the body, and each string
// that is kept would keep its buffer. Only what our methods take is worth it:
// strings, in variants too, and options.
func cloned(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Clone(v)
	case godbus.Variant:
		if text, ok := v.Value().(string); ok {
			return godbus.MakeVariant(strings.Clone(text))
		}
	case map[string]godbus.Variant:
		all := make(map[string]godbus.Variant, len(v))
		for key, value := range v {
			all[strings.Clone(key)], _ = cloned(value).(godbus.Variant)
		}
		return all
	}
	return v
}

// Return answers the call with values. Only the first answer counts.
func (c *Call) Return(values ...any) {
	msg := c.newReply(godbus.TypeMethodReply)
	msg.Body = values
	if len(values) > 0 {
		msg.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.SignatureOf(values...))
	}
	c.answer(msg)
}

// Fail answers the call with an error. Only the first answer counts.
func (c *Call) Fail(err *godbus.Error) {
	msg := c.newReply(godbus.TypeError)
	msg.Headers[godbus.FieldErrorName] = godbus.MakeVariant(err.Name)
	msg.Body = err.Body
	if len(err.Body) > 0 {
		msg.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.SignatureOf(err.Body...))
	}
	c.answer(msg)
}

func (c *Call) newReply(t godbus.Type) *godbus.Message {
	return &godbus.Message{
		Type:  t,
		Flags: godbus.FlagNoReplyExpected,
		Headers: map[godbus.HeaderField]godbus.Variant{
			godbus.FieldDestination: godbus.MakeVariant(c.Sender),
			godbus.FieldReplySerial: godbus.MakeVariant(c.serial),
		},
	}
}

func (c *Call) answer(msg *godbus.Message) {
	if c.answered.Swap(true) {
		return
	}
	if c.noReply {
		c.svc.senders.finished(c)
		return
	}
	c.svc.senders.replying(c)
	c.svc.out.put(outgoing{kind: reply, msg: msg, sent: func() { c.svc.senders.finished(c) }})
}

// guard runs a handler; a panic in it is answered and logged, and its text goes
// to nobody else.
func (c *Call) guard(handler func()) {
	defer func() {
		if p := recover(); p != nil {
			c.svc.log.Error("panic while handling a call", "path", c.Path, "interface", c.iface,
				"member", c.member, "sender", c.Sender, "panic", p, "stack", stack())
			c.Fail(Errorf(ErrFailed, "Internal error. The daemon's log has the details."))
		}
	}()
	handler()
}
