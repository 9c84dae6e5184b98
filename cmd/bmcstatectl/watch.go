package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/dbus/client"
)

func runWatch(ctx context.Context, e *env, args []string) error {
	f := e.flags("watch", "")
	full := f.Bool("full", false, "print paths and enum values in full")
	if _, err := e.parse(f, args, 0); err != nil {
		return err
	}
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	w, err := c.Watch(ctx, client.StatePaths()...)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		select {
		case change, ok := <-w.C:
			switch {
			case !ok && ctx.Err() == nil:
				return client.ErrLost
			case !ok:
				return nil
			}
			fmt.Fprintln(e.stdout, time.Now().Format("15:04:05.000"), changeLine(change, *full))
		case <-ctx.Done():
			return nil // interrupting is how a watch ends
		}
	}
}

func changeLine(c client.Change, full bool) string {
	p, v := shortPath(c.Path), shortValue(c.Value)
	if full {
		p, v = c.Path, fmt.Sprint(c.Value)
	}
	switch c.Kind {
	case client.Added:
		return p + " added"
	case client.Removed:
		return p + " removed"
	case client.Owned:
		return c.Service + " is on the bus"
	case client.Left:
		return c.Service + " has left the bus"
	default:
		return fmt.Sprintf("%s %s %s", p, c.Property, v)
	}
}
