package client

import (
	"context"
	"errors"
	"time"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
)

// returnWithin is how long a daemon that left the bus may take to come back.
const returnWithin = time.Minute

// DriveLines has the daemon drive the lines of a queue's domain, and returns when
// power is seen to be so, or the daemon's reason why it is not. A daemon that is
// restarted meanwhile is asked again: it knows what it has driven.
func (c *Client) DriveLines(ctx context.Context, domain int, on bool) error {
	direction := "off"
	if on {
		direction = "on"
	}
	w, err := c.Watch(ctx, string(openbmc.QueuePath(domain)))
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		err := c.queue(ctx, domain, "DriveLines", nil, direction)
		var refused *Error
		if !errors.As(err, &refused) || !refused.Absent() {
			return err
		}
		if !w.owned(ctx, openbmc.IfaceQueue) {
			return err
		}
	}
}

// owned waits until a service comes to the bus.
func (w *Watch) owned(ctx context.Context, service string) bool {
	late := time.NewTimer(returnWithin)
	defer late.Stop()
	for {
		select {
		case change, ok := <-w.C:
			if !ok {
				return false
			}
			if change.Kind == Owned && change.Service == service {
				return true
			}
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
