package client

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
)

// Submission is what [Client.Submit] asks for.
type Submission struct {
	Domain          int // of the queue
	Client, Request string
	Op              state.Operation
	Cause           string        // free text for the record, may be empty
	Expires         time.Duration // from acceptance; 0 = the daemon's default
}

// Outcome is where a request stands.
type Outcome struct {
	Status   state.Status
	Seq      uint64 // of its object, 0 = it has none
	Repeated bool   // Submit: the key was known already
	Reason   string // Wait: why it ended so, where the daemon says
}

// Record is one request as the history keeps it.
type Record struct {
	Seq               uint64
	Client, Request   string
	UID               uint32
	Transition        string // full enum string
	Status            state.Status
	Reason            string
	Accepted, Started time.Time // zero = not yet
	Ended             time.Time // zero = not yet
	Superseded        []uint64
}

// Submit asks the queue for a transition. It returns when the request is
// durable, or answered from the history.
func (c *Client) Submit(ctx context.Context, s Submission) (Outcome, error) {
	options := map[string]godbus.Variant{}
	if s.Cause != "" {
		options["cause"] = godbus.MakeVariant(s.Cause)
	}
	if s.Expires > 0 {
		options["expires"] = godbus.MakeVariant(uint64(s.Expires.Microseconds()))
	}
	var status string
	var object godbus.ObjectPath
	var o Outcome
	err := c.queue(ctx, s.Domain, "Submit", []any{&status, &object, &o.Repeated},
		s.Client, s.Request, Transition(s.Op), options)
	if err != nil {
		return Outcome{}, err
	}
	o.Seq = sequence(object)
	o.Status, err = parseStatus(status)
	return o, err
}

// Lookup returns where the request of a key stands.
func (c *Client) Lookup(ctx context.Context, domain int, client, request string) (Outcome, error) {
	var status string
	var object godbus.ObjectPath
	if err := c.queue(ctx, domain, "Lookup", []any{&status, &object}, client, request); err != nil {
		return Outcome{}, err
	}
	parsed, err := parseStatus(status)
	return Outcome{Status: parsed, Seq: sequence(object)}, err
}

// Cancel withdraws the request of a key.
func (c *Client) Cancel(ctx context.Context, domain int, client, request string) (state.Status, error) {
	var status string
	if err := c.queue(ctx, domain, "Cancel", []any{&status}, client, request); err != nil {
		return 0, err
	}
	return parseStatus(status)
}

// CancelSeq withdraws the request of a sequence, which must have an object.
func (c *Client) CancelSeq(ctx context.Context, domain int, seq uint64) error {
	return c.call(ctx, openbmc.IfaceQueue, openbmc.RequestPath(domain, seq), openbmc.IfaceRequest+".Cancel", nil)
}

// History returns at most most records with a sequence above after, oldest
// first.
func (c *Client) History(ctx context.Context, domain int, after uint64, most uint32) ([]Record, error) {
	var rows []map[string]godbus.Variant
	if err := c.queue(ctx, domain, "History", []any{&rows}, after, most); err != nil {
		return nil, err
	}
	records := make([]Record, len(rows))
	for i, row := range rows {
		r, err := ParseRecord(plain(row))
		if err != nil {
			return nil, err
		}
		records[i] = r
	}
	return records, nil
}

func (c *Client) queue(ctx context.Context, domain int, method string, out []any, args ...any) error {
	return c.call(ctx, openbmc.IfaceQueue, openbmc.QueuePath(domain), openbmc.IfaceQueue+"."+method, out, args...)
}

// Transition returns the full enum string of a host's or chassis's operation.
func Transition(op state.Operation) string {
	if op.Kind() == state.KindChassis {
		return openbmc.ChassisTransition.String(op)
	}
	return openbmc.HostTransition.String(op)
}

func parseStatus(s string) (state.Status, error) {
	status, ok := openbmc.Status.Parse(s)
	if !ok {
		return 0, fmt.Errorf("unknown request status %q", s)
	}
	return status, nil
}

// sequence returns the number in a request's path, 0 for "/".
func sequence(object godbus.ObjectPath) uint64 {
	seq, _ := strconv.ParseUint(path.Base(string(object)), 10, 64)
	return seq
}

// ParseRecord reads the properties of a TransitionRequest, as History and the
// request's object carry them. Sequence is in History's rows only.
func ParseRecord(row map[string]any) (Record, error) {
	r := Record{
		Seq: field[uint64](row, "Sequence"), UID: field[uint32](row, "Uid"),
		Client: field[string](row, "ClientId"), Request: field[string](row, "RequestId"),
		Transition: field[string](row, "Transition"), Reason: field[string](row, "Reason"),
		Accepted: moment(row, "Accepted"), Started: moment(row, "Started"), Ended: moment(row, "Ended"),
		Superseded: field[[]uint64](row, "Superseded"),
	}
	var err error
	if r.Status, err = parseStatus(field[string](row, "Status")); err != nil {
		return Record{}, fmt.Errorf("request %d: %w", r.Seq, err)
	}
	return r, nil
}

// field returns a property, or the zero value where it is missing or of
// another type.
func field[T any](row map[string]any, name string) T {
	v, _ := row[name].(T)
	return v
}

func moment(row map[string]any, name string) time.Time {
	micros := field[uint64](row, name)
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(micros))
}
