package main

import (
	"context"
	"fmt"
	"reflect"
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
			if *full || telling(change) {
				fmt.Fprintln(e.stdout, time.Now().Format("15:04:05.000"), changeLine(change, *full))
			}
		case <-ctx.Done():
			return nil // interrupting is how a watch ends
		}
	}
}

// telling leaves out what a reader knows already: that a new object's empty
// properties are empty, and a request's status a second time in the words of
// Common.Progress.
func telling(c client.Change) bool {
	if c.Kind != client.Changed {
		return true
	}
	v := reflect.ValueOf(c.Value)
	blank := !v.IsValid() || v.Kind() == reflect.String && v.Len() == 0 || v.Kind() == reflect.Slice && v.Len() == 0
	return !blank && c.Interface != "xyz.openbmc_project.Common.Progress" && c.Value != uint64(0)
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
