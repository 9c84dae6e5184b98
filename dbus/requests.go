package dbus

import (
	"strings"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

type requestKey struct {
	domain int
	seq    uint64
}

// requestChanges lists a request's values in the order in which they are
// signalled: who sees a final Status can read everything else.
func requestChanges(r *state.Request) []props.Change {
	// A string that is not what D-Bus calls one would hide the whole object.
	client, request, reason := clean(r.Key.Client), clean(r.Key.Request), clean(r.Reason)
	superseded := r.Superseded
	if superseded == nil {
		superseded = []uint64{}
	}
	return []props.Change{
		{Interface: openbmc.IfaceRequest, Property: "ClientId", Value: client},
		{Interface: openbmc.IfaceRequest, Property: "RequestId", Value: request},
		{Interface: openbmc.IfaceRequest, Property: "Uid", Value: r.Key.UID},
		{Interface: openbmc.IfaceRequest, Property: "Transition", Value: openbmc.Transition(r.Op)},
		{Interface: openbmc.IfaceRequest, Property: "Accepted", Value: r.Accepted.WallMicros()},
		{Interface: openbmc.IfaceRequest, Property: "Started", Value: r.Started.WallMicros()},
		{Interface: openbmc.IfaceRequest, Property: "Ended", Value: r.Ended.WallMicros()},
		{Interface: openbmc.IfaceRequest, Property: "Superseded", Value: superseded},
		{Interface: openbmc.IfaceRequest, Property: "Reason", Value: reason},
		{Interface: openbmc.IfaceProgress, Property: "StartTime", Value: r.Accepted.WallMicros()},
		{Interface: openbmc.IfaceProgress, Property: "CompletedTime", Value: r.Ended.WallMicros()},
		{Interface: openbmc.IfaceProgress, Property: "Status", Value: openbmc.OperationStatus(r.Status)},
		{Interface: openbmc.IfaceRequest, Property: "Status", Value: openbmc.Status.String(r.Status)},
	}
}

// clean makes any text fit for D-Bus: UTF-8 without zero bytes.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// PublishRequest implements engine.Publisher. A request that is NOOP or INVALID
// at once gets no object; one that becomes so signals its Status and waits for
// [Server.RemoveRequest].
func (s *Server) PublishRequest(domain int, r state.Request) {
	changes := requestChanges(&r)
	key := requestKey{domain, r.Seq}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.requests[key]; old != nil {
		old.Update(changes...)
		return
	}
	if s.queueSvc == nil || r.Status == state.Noop || r.Status == state.Invalid {
		return
	}
	object, err := s.queueSvc.Add(openbmc.RequestPath(domain, r.Seq), s.requestImpls(domain, r.Seq, changes)...)
	if err != nil {
		s.log.Error("cannot show a request", "domain", domain, "sequence", r.Seq, "error", err)
		return
	}
	s.requests[key] = object
}

// RemoveRequest implements engine.Publisher.
func (s *Server) RemoveRequest(domain int, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := requestKey{domain, seq}
	if s.requests[key] == nil {
		return
	}
	delete(s.requests, key)
	s.queueSvc.Remove(openbmc.RequestPath(domain, seq))
}

func (s *Server) requestImpls(domain int, seq uint64, values []props.Change) []props.Impl {
	return []props.Impl{
		{Interface: openbmc.Request, Values: valuesOf(openbmc.Request, values), Methods: map[string]func(*props.Call){
			"Cancel": func(c *props.Call) {
				s.opts.Backend.Post(engine.Cancel{Caller: caller(c), Domain: domain, Seq: seq, Reply: plainReply(c)})
			},
		}},
		{Interface: openbmc.OperationProgress, Values: valuesOf(openbmc.OperationProgress, values)},
		{Interface: openbmc.Delete, Methods: map[string]func(*props.Call){
			"Delete": func(c *props.Call) {
				s.opts.Backend.Post(engine.Dismiss{Caller: caller(c), Domain: domain, Seq: seq, Reply: plainReply(c)})
			},
		}},
	}
}

// plainReply answers a method that returns nothing.
func plainReply(c *props.Call) func(engine.Answer) {
	return func(a engine.Answer) {
		if a.Err != nil {
			c.Fail(methodError(state.KindHost, a.Err))
			return
		}
		c.Return()
	}
}
