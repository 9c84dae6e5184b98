package client

import (
	"context"
	"fmt"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// Deliveries returns what arrived at a queue last, repeats and refusals
// included, oldest first. The daemon keeps it in memory only.
func (c *Client) Deliveries(ctx context.Context, domain int) ([]queue.Logged, error) {
	var rows []map[string]godbus.Variant
	if err := c.queue(ctx, domain, "Deliveries", []any{&rows}); err != nil {
		return nil, err
	}
	logged := make([]queue.Logged, len(rows))
	for i, row := range rows {
		values := plain(row)
		op, ok := parseTransition(field[string](values, "Transition"))
		if !ok {
			return nil, fmt.Errorf("delivery %d: unknown transition %q", i, field[string](values, "Transition"))
		}
		l := queue.Logged{
			At: state.Instant{Boot: time.Duration(field[uint64](values, "Arrived")) * time.Microsecond},
			Key: state.Key{
				UID: field[uint32](values, "Uid"), Client: field[string](values, "ClientId"),
				Request: field[string](values, "RequestId"),
			},
			Op: op, Seq: field[uint64](values, "Sequence"), Delayed: field[bool](values, "Delayed"),
		}
		if field[bool](values, "Repeat") {
			l.Outcome = queue.Repeat
		}
		logged[i] = l
	}
	return logged, nil
}

func parseTransition(full string) (state.Operation, bool) {
	if op, ok := openbmc.HostTransition.Parse(full); ok {
		return op, true
	}
	return openbmc.ChassisTransition.Parse(full)
}
