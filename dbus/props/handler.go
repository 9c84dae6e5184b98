package props

import godbus "github.com/godbus/dbus/v5"

// handler stands in for godbus's own table of exported objects, which races
// with introspection and knows no removal. It claims every path, interface and
// method: calls were sorted by the interceptor already, and who is missing is
// told so with the standard error names.
type handler struct{ s *Service }

var (
	_ godbus.Handler         = handler{}
	_ godbus.ServerObject    = handler{}
	_ godbus.Interface       = handler{}
	_ godbus.Method          = handler{}
	_ godbus.ArgumentDecoder = handler{}
)

// LookupObject implements godbus.Handler.
func (h handler) LookupObject(godbus.ObjectPath) (godbus.ServerObject, bool) { return h, true }

// LookupInterface implements godbus.ServerObject.
func (h handler) LookupInterface(string) (godbus.Interface, bool) { return h, true }

// LookupMethod implements godbus.Interface.
func (h handler) LookupMethod(string) (godbus.Method, bool) { return h, true }

// NumArguments implements godbus.Method.
func (h handler) NumArguments() int { return 0 }

// NumReturns implements godbus.Method.
func (h handler) NumReturns() int { return 0 }

// ArgumentValue implements godbus.Method; it is never called.
func (h handler) ArgumentValue(int) any { return nil }

// ReturnValue implements godbus.Method; it is never called.
func (h handler) ReturnValue(int) any { return nil }

// DecodeArguments implements godbus.ArgumentDecoder: the interceptor has made
// the call of the message.
func (h handler) DecodeArguments(_ *godbus.Conn, _ string, _ *godbus.Message, args []any) ([]any, error) {
	return args, nil
}

// Call implements godbus.Method. godbus calls it in a goroutine of its own, in
// any order; by then the call has its place in a lane.
func (h handler) Call(args ...any) ([]any, error) {
	if c, ok := args[0].(*Call); ok && h.s.stockDispatch {
		h.s.senders.accept(c)
	}
	return nil, nil
}

// intercept sorts a method call into its sender's lane. godbus calls it in its
// reader goroutine, in the order of the bus. What is left of the message makes
// godbus do nothing more: no reply of its own, and no answer to Peer, which it
// would send past the outbox.
func (s *Service) intercept(msg *godbus.Message) {
	if msg.Type != godbus.TypeMethodCall {
		return
	}
	c := newCall(s, msg, s.wire.size)
	c.write = s.tree.isWrite(c)
	msg.Flags |= godbus.FlagNoReplyExpected
	delete(msg.Headers, godbus.FieldInterface)
	msg.Body = []any{c}
	if !s.stockDispatch {
		s.senders.accept(c)
	}
}
