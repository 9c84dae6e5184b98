package client

import (
	"context"
	"errors"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
)

// ErrLost says that the bus went away during a wait. The request is not
// affected.
var ErrLost = errors.New("the connection to the bus was lost; the request goes on")

// SubmitAndWait submits and returns when the request has ended. accepted, which
// may be nil, is called with the answer to the submission. When ctx ends first,
// its error is returned with the last known status; the request goes on. The
// wait outlives a restart of the daemon.
func (c *Client) SubmitAndWait(ctx context.Context, s Submission, accepted func(Outcome)) (Outcome, error) {
	// Subscribe first, so that no end is missed. A signal is only a hint to
	// look again, so a forged one does no harm.
	w, err := c.Watch(ctx, string(openbmc.QueuePath(s.Domain)))
	if err != nil {
		return Outcome{}, err
	}
	defer w.Close()
	o, err := c.Submit(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	if accepted != nil {
		accepted(o)
	}
	// The status may have changed while the answer was under way.
	for news := true; !o.Status.Final(); {
		if news {
			if o, err = c.refresh(ctx, s, o); err != nil || o.Status.Final() {
				break
			}
		}
		select {
		case change, ok := <-w.C:
			if !ok {
				return o, ErrLost
			}
			news = concerns(change, s.Domain, o.Seq)
		case <-ctx.Done():
			return o, ctx.Err()
		}
	}
	if err == nil {
		o.Reason = c.reason(ctx, s.Domain, o.Seq)
	}
	return o, err
}

// refresh looks a request up again. A daemon that is just restarting is no
// error: its name's return is a reason to look again.
func (c *Client) refresh(ctx context.Context, s Submission, o Outcome) (Outcome, error) {
	now, err := c.Lookup(ctx, s.Domain, s.Client, s.Request)
	var refused *Error
	switch {
	case errors.As(err, &refused) && refused.Absent():
		return o, nil
	case err != nil:
		return o, err
	case now.Seq == 0: // its object is gone, which does not make it another one
		now.Seq = o.Seq
	}
	now.Repeated = o.Repeated
	return now, nil
}

// concerns reports whether a change may be the end of the request, or the
// daemon's return.
func concerns(change Change, domain int, seq uint64) bool {
	switch change.Kind {
	case Owned:
		return change.Service == openbmc.IfaceQueue
	case Left, Added:
		return false
	default:
		ours := seq == 0 || change.Path == string(openbmc.RequestPath(domain, seq))
		return ours && (change.Kind == Removed || change.Interface == openbmc.IfaceRequest && change.Property == "Status")
	}
}

// reason returns why a request ended so. It is for people, so its own errors
// only leave it out.
func (c *Client) reason(ctx context.Context, domain int, seq uint64) string {
	if seq == 0 {
		return ""
	}
	records, err := c.History(ctx, domain, seq-1, 1)
	if err != nil || len(records) == 0 || records[0].Seq != seq {
		return ""
	}
	return records[0].Reason
}
