package client

import (
	"context"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
)

// FaultSuspend stops the fault monitor's actions for a resource in the owner's
// name, for a time or (0) until [Client.FaultResume].
func (c *Client) FaultSuspend(ctx context.Context, resource, owner string, lasts time.Duration) error {
	return c.fault(ctx, resource, "Suspend", nil, owner, uint64(lasts.Microseconds()))
}

// FaultResume ends the owner's suspension.
func (c *Client) FaultResume(ctx context.Context, resource, owner string) error {
	return c.fault(ctx, resource, "Resume", nil, owner)
}

// FaultReset clears what the fault monitor remembers of a resource.
func (c *Client) FaultReset(ctx context.Context, resource string) error {
	return c.fault(ctx, resource, "Reset", nil)
}

// FaultProbe has a resource probed at once.
func (c *Client) FaultProbe(ctx context.Context, resource string) error {
	return c.fault(ctx, resource, "ProbeNow", nil)
}

// FaultHistory returns the newest decisions about a resource, oldest first; with
// most 0 all.
func (c *Client) FaultHistory(ctx context.Context, resource string, most uint32) ([]map[string]any, error) {
	var rows []map[string]godbus.Variant
	if err := c.fault(ctx, resource, "GetHistory", []any{&rows}, most); err != nil {
		return nil, err
	}
	all := make([]map[string]any, len(rows))
	for i, r := range rows {
		all[i] = plain(r)
	}
	return all, nil
}

func (c *Client) fault(ctx context.Context, resource, method string, out []any, args ...any) error {
	return c.call(ctx, openbmc.IfaceFault, openbmc.FaultPath(resource), openbmc.IfaceFault+"."+method, out, args...)
}
