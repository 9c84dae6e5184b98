package client

import (
	"context"
	"fmt"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
)

// Deliveries returns what arrived at a queue last, repeats and refusals
// included, oldest first. The daemon keeps it in memory only.
func (c *Client) Deliveries(ctx context.Context, domain int) ([]engine.Delivery, error) {
	var rows []map[string]godbus.Variant
	if err := c.queue(ctx, domain, "Deliveries", []any{&rows}); err != nil {
		return nil, err
	}
	all := make([]engine.Delivery, len(rows))
	for i, row := range rows {
		values := plain(row)
		op, ok := openbmc.ParseTransition(field[string](values, "Transition"))
		if !ok {
			return nil, fmt.Errorf("delivery %d: unknown transition %q", i, field[string](values, "Transition"))
		}
		all[i] = engine.Delivery{
			Arrived: time.Duration(field[uint64](values, "Arrived")) * time.Microsecond,
			Key: state.Key{
				UID: field[uint32](values, "Uid"), Client: field[string](values, "ClientId"),
				Request: field[string](values, "RequestId"),
			},
			Op: op, Seq: field[uint64](values, "Sequence"),
			Repeat: field[bool](values, "Repeat"), Delayed: field[bool](values, "Delayed"),
		}
	}
	return all, nil
}
