package dbus

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/dbus/props"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

const (
	maxID    = 128  // bytes of a client or request id
	maxCause = 256  // bytes of Submit's option cause
	maxPage  = 1024 // records of one History reply; more come with the next page
)

// queueImpl is the TransitionQueue interface of a domain's queue.
func (s *Server) queueImpl(domain int) props.Impl {
	return props.Impl{
		Interface: openbmc.Queue,
		Values:    valuesOf(openbmc.Queue, queueChanges(domain, state.Queue{Policy: state.FIFODedup})),
		Methods: map[string]func(*props.Call){
			"Submit":  func(c *props.Call) { s.submit(c, domain) },
			"Lookup":  func(c *props.Call) { s.lookup(c, domain) },
			"Cancel":  func(c *props.Call) { s.cancel(c, domain) },
			"History": func(c *props.Call) { s.history(c, domain) },

			"Deliveries": func(c *props.Call) { s.deliveries(c, domain) },
			"DriveLines": func(c *props.Call) { s.driveLines(c, domain) },
		},
	}
}

func (s *Server) submit(c *props.Call, domain int) {
	client, request := c.Args[0].(string), c.Args[1].(string)
	transition, options := c.Args[2].(string), c.Args[3].(map[string]godbus.Variant)
	if err := checkKey(client, request); err != nil {
		c.Fail(err)
		return
	}
	if client == state.PropertyClient {
		c.Fail(invalid("The client id %q is reserved for property writes. Use an id of your own.", client))
		return
	}
	op, ok := openbmc.ParseTransition(transition)
	if !ok {
		c.Fail(invalid("%q is no Host or Chassis transition.", transition))
		return
	}
	cause, expires, err := parseOptions(options)
	if err != nil {
		c.Fail(err)
		return
	}
	s.opts.Backend.Post(engine.Submit{
		Caller: caller(c), Domain: domain, Client: client, Request: request, Op: op, Cause: cause, Expires: expires,
		Reply: func(a engine.Answer) {
			if a.Err != nil {
				c.Fail(methodError(op.Kind(), a.Err))
				return
			}
			c.Return(openbmc.Status.String(a.Status), requestPath(domain, a), a.Repeated)
		},
	})
}

func (s *Server) lookup(c *props.Call, domain int) {
	client, request := c.Args[0].(string), c.Args[1].(string)
	if err := checkKey(client, request); err != nil {
		c.Fail(err)
		return
	}
	s.opts.Backend.Post(engine.Lookup{
		Caller: caller(c), Domain: domain, Client: client, Request: request,
		Reply: func(a engine.Answer) {
			if a.Err != nil {
				c.Fail(methodError(state.KindHost, a.Err))
				return
			}
			c.Return(openbmc.Status.String(a.Status), requestPath(domain, a))
		},
	})
}

// cancel answers RUNNING, as a status, where a line step cannot be stopped any
// more.
func (s *Server) cancel(c *props.Call, domain int) {
	client, request := c.Args[0].(string), c.Args[1].(string)
	if err := checkKey(client, request); err != nil {
		c.Fail(err)
		return
	}
	s.opts.Backend.Post(engine.Cancel{
		Caller: caller(c), Domain: domain, Client: client, Request: request,
		Reply: func(a engine.Answer) {
			switch {
			case a.Err == nil:
				c.Return(openbmc.Status.String(a.Status))
			case a.Err.Code == engine.CodeRunning:
				c.Return(openbmc.Status.String(state.Running))
			default:
				c.Fail(methodError(state.KindHost, a.Err))
			}
		},
	})
}

func (s *Server) history(c *props.Call, domain int) {
	s.opts.Backend.Post(engine.History{
		Caller: caller(c), Domain: domain, After: c.Args[0].(uint64), Max: min(c.Args[1].(uint32), maxPage),
		Reply: func(a engine.Answer) {
			if a.Err != nil {
				c.Fail(methodError(state.KindHost, a.Err))
				return
			}
			rows := make([]map[string]godbus.Variant, len(a.Requests))
			for i := range a.Requests {
				rows[i] = historyRow(&a.Requests[i])
			}
			c.Return(rows)
		},
	})
}

// deliveries answers what arrived last, for a trace that the simulator replays.
func (s *Server) deliveries(c *props.Call, domain int) {
	s.opts.Backend.Post(engine.Deliveries{
		Caller: caller(c), Domain: domain,
		Reply: func(a engine.Answer) {
			if a.Err != nil {
				c.Fail(methodError(state.KindHost, a.Err))
				return
			}
			rows := make([]map[string]godbus.Variant, len(a.Deliveries))
			for i, d := range a.Deliveries {
				rows[i] = map[string]godbus.Variant{
					"Arrived":  godbus.MakeVariant(uint64(d.Arrived.Microseconds())), // boot clock
					"Uid":      godbus.MakeVariant(d.Key.UID),
					"ClientId": godbus.MakeVariant(clean(d.Key.Client)), "RequestId": godbus.MakeVariant(clean(d.Key.Request)),
					"Transition": godbus.MakeVariant(openbmc.Transition(d.Op)), "Sequence": godbus.MakeVariant(d.Seq),
					"Repeat": godbus.MakeVariant(d.Repeat), "Delayed": godbus.MakeVariant(d.Delayed),
				}
			}
			c.Return(rows)
		},
	})
}

// driveLines answers when power is seen to be as asked, which takes as long as
// it takes: the caller is a unit on the way of a target.
func (s *Server) driveLines(c *props.Call, domain int) {
	direction := c.Args[0].(string)
	if direction != "on" && direction != "off" {
		c.Fail(invalid("The direction is \"on\" or \"off\", not %q.", direction))
		return
	}
	s.opts.Backend.Post(engine.DriveLines{
		Caller: caller(c), Domain: domain, On: direction == "on",
		Reply: func(a engine.Answer) {
			if a.Err != nil {
				c.Fail(methodError(state.KindChassis, a.Err))
				return
			}
			c.Return()
		},
	})
}

// historyRow has the properties of a request's object, and its sequence.
func historyRow(r *state.Request) map[string]godbus.Variant {
	row := map[string]godbus.Variant{"Sequence": godbus.MakeVariant(r.Seq)}
	for _, c := range requestChanges(r) {
		if c.Interface == openbmc.IfaceRequest {
			row[c.Property] = godbus.MakeVariant(c.Value)
		}
	}
	return row
}

func requestPath(domain int, a engine.Answer) godbus.ObjectPath {
	if !a.Object || a.Seq == 0 {
		return openbmc.NoObject
	}
	return openbmc.RequestPath(domain, a.Seq)
}

// checkKey refuses ids that no caller may use or nobody could read.
func checkKey(client, request string) *godbus.Error {
	if !isID(client) || !isID(request) {
		return invalid("Client and request ids are 1 to %d bytes of printable UTF-8.", maxID)
	}
	if strings.HasPrefix(client, state.InternalPrefix) {
		return invalid("Client ids that begin with %q are the daemon's own. Use another.", state.InternalPrefix)
	}
	return nil
}

func isID(s string) bool { return s != "" && isText(s, maxID) }

func isText(s string, size int) bool {
	return len(s) <= size && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// parseOptions reads Submit's options: cause (s) and expires (t, µs).
func parseOptions(options map[string]godbus.Variant) (cause string, expires time.Duration, err *godbus.Error) {
	for name, value := range options {
		switch name {
		case "cause":
			text, ok := value.Value().(string)
			if !ok {
				return "", 0, optionType(name, "s", value)
			}
			if !isText(text, maxCause) {
				return "", 0, invalid("The option cause is at most %d bytes of printable UTF-8.", maxCause)
			}
			cause = text
		case "expires":
			micros, ok := value.Value().(uint64)
			if !ok {
				return "", 0, optionType(name, "t", value)
			}
			if micros == 0 || micros > math.MaxInt64/uint64(time.Microsecond) {
				return "", 0, invalid("The option expires is the time in microseconds that the request may wait; %d makes no sense.", micros)
			}
			expires = time.Duration(micros) * time.Microsecond
		default:
			return "", 0, invalid("Unknown option %q. There are: cause (s), expires (t).", name)
		}
	}
	return cause, expires, nil
}

func optionType(name, want string, got godbus.Variant) *godbus.Error {
	return props.Errorf(props.ErrInvalidArgs, "Incorrect parameters for option '%s', expected '%s', got '%s'.", name, want, got.Signature())
}

func invalid(format string, args ...any) *godbus.Error {
	return props.Errorf(openbmc.ErrInvalidArgument, format, args...)
}
