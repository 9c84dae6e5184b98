package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bmcstate/bmcstate/dbus/client"
)

func runFaults(ctx context.Context, e *env, args []string) error {
	verbs := map[string]func(context.Context, *env, []string) error{
		"list": faultsList, "suspend": faultsSuspend, "resume": faultsResume,
		"reset": faultsReset, "probe": faultsProbe, "history": faultsHistory,
	}
	switch {
	case len(args) == 0:
		return faultsList(ctx, e, nil)
	case verbs[args[0]] != nil:
		return verbs[args[0]](ctx, e, args[1:])
	case strings.HasPrefix(args[0], "-") || args[0] == "help":
		fmt.Fprintln(e.stdout, "Usage: bmcstatectl faults [list|suspend|resume|reset|probe|history] [OPTIONS] [RESOURCE]")
		return nil
	}
	return e.usageError("faults takes one of list, suspend, resume, reset, probe and history, not %q", args[0])
}

const faultIface = "xyz.openbmc_project.State.FaultMonitor"

func faultsList(ctx context.Context, e *env, args []string) error {
	if _, err := e.parse(e.flags("faults list", ""), args, 0); err != nil {
		return err
	}
	objects, err := e.objects(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tSTATUS\tFAILURES\tRESTARTS\tNEXT\tMESSAGE")
	for _, o := range objects {
		if p := o.Interfaces[faultIface]; p != nil {
			fmt.Fprintf(w, "%v\t%v\t%v\t%v of %v\t%v\t%v\n", p["Name"], p["Status"], p["FailureSum"],
				p["RestartsInInterval"], p["RetryCount"], p["NextAction"], p["StatusMessage"])
		}
	}
	return w.Flush()
}

// onResource parses a command on one resource and makes its call.
func (e *env) onResource(ctx context.Context, f *flag.FlagSet, args []string, do func(context.Context, *client.Client, string) error) error {
	names, err := e.parse(f, args, 1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	return do(ctx, c, names[0])
}

// ownerName returns in whose name a suspension is.
func ownerName(given string) string {
	if given == "" {
		return fmt.Sprintf("uid %d", os.Getuid())
	}
	return given
}

func faultsSuspend(ctx context.Context, e *env, args []string) error {
	f := e.flags("faults suspend", "RESOURCE")
	owner := f.String("owner", "", "in whose `NAME`; default: by uid")
	lasts := f.Duration("for", 0, "how long; 0 is until it is resumed")
	return e.onResource(ctx, f, args, func(ctx context.Context, c *client.Client, name string) error {
		return c.FaultSuspend(ctx, name, ownerName(*owner), *lasts)
	})
}

func faultsResume(ctx context.Context, e *env, args []string) error {
	f := e.flags("faults resume", "RESOURCE")
	owner := f.String("owner", "", "whose suspension ends; default: by uid")
	return e.onResource(ctx, f, args, func(ctx context.Context, c *client.Client, name string) error {
		return c.FaultResume(ctx, name, ownerName(*owner))
	})
}

func faultsReset(ctx context.Context, e *env, args []string) error {
	return e.onResource(ctx, e.flags("faults reset", "RESOURCE"), args, func(ctx context.Context, c *client.Client, name string) error {
		return c.FaultReset(ctx, name)
	})
}

func faultsProbe(ctx context.Context, e *env, args []string) error {
	return e.onResource(ctx, e.flags("faults probe", "RESOURCE"), args, func(ctx context.Context, c *client.Client, name string) error {
		return c.FaultProbe(ctx, name)
	})
}

func faultsHistory(ctx context.Context, e *env, args []string) error {
	f := e.flags("faults history", "RESOURCE")
	most := f.Uint("max", 0, "at most this many, the newest; 0 is all")
	return e.onResource(ctx, f, args, func(ctx context.Context, c *client.Client, name string) error {
		rows, err := c.FaultHistory(ctx, name, uint32(*most))
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TIME\tDECISION\tSTATUS\tSUM\tRESTARTS\tTEXT")
		for _, r := range rows {
			micros, _ := r["Time"].(uint64)
			fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%v\t%v\n", time.UnixMicro(int64(micros)).Format(time.RFC3339),
				r["Decision"], r["Status"], r["FailureSum"], r["RestartsInInterval"], r["Text"])
		}
		return w.Flush()
	})
}
