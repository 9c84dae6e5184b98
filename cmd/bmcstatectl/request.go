package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/state"
)

func runRequest(ctx context.Context, e *env, args []string) error {
	verbs := map[string]func(context.Context, *env, []string) error{
		"list": requestList, "show": requestShow, "cancel": requestCancel,
	}
	if len(args) > 0 {
		if run, ok := verbs[args[0]]; ok {
			return run(ctx, e, args[1:])
		}
		if strings.HasPrefix(args[0], "-") || args[0] == "help" {
			fmt.Fprintln(e.stdout, "Usage: bmcstatectl request list|show|cancel [OPTIONS] [SEQUENCE]")
			return nil
		}
	}
	return e.usageError("request needs one of list, show or cancel")
}

// requestObject is a request that has an object.
type requestObject struct {
	domain int
	record client.Record
}

// requestList shows the requests that have objects: the unfinished ones, and
// the newest finished launches.
func requestList(ctx context.Context, e *env, args []string) error {
	f := e.flags("request list", "")
	all := f.Bool("all", false, "finished requests too, as far as they have objects; see history for the others")
	if _, err := e.parse(f, args, 0); err != nil {
		return err
	}
	objects, err := e.objects(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tSEQUENCE\tTRANSITION\tSTATUS\tUID\tCLIENT\tREQUEST\tREASON")
	for _, r := range requestsOf(objects) {
		if *all || !r.record.Status.Final() {
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\n", r.domain, r.record.Seq, transitionName(r.record.Transition),
				r.record.Status, r.record.UID, r.record.Client, r.record.Request, r.record.Reason)
		}
	}
	return w.Flush()
}

// requestsOf picks the requests out of all objects, by queue and sequence.
func requestsOf(objects []client.Object) []requestObject {
	var found []requestObject
	for _, o := range objects {
		var r requestObject
		var seq uint64
		if n, _ := fmt.Sscanf(shortPath(o.Path), "queue%d/request/%d", &r.domain, &seq); n != 2 {
			continue
		}
		record, err := client.ParseRecord(o.Interfaces["xyz.openbmc_project.State.TransitionRequest"])
		if err != nil {
			continue // of another daemon, or half gone
		}
		r.record, r.record.Seq = record, seq
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b requestObject) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.record.Seq, b.record.Seq))
	})
	return found
}

// transitionName returns "Host On" for the full enum string.
func transitionName(full string) string {
	words := strings.Split(full, ".")
	if len(words) < 3 {
		return full
	}
	return words[len(words)-3] + " " + words[len(words)-1]
}

func requestShow(ctx context.Context, e *env, args []string) error {
	f := e.flags("request show", "SEQUENCE")
	domain := f.Int("queue", 0, "the queue's `number`")
	operands, err := e.parse(f, args, 1)
	if err != nil {
		return err
	}
	seq, err := parseSequence(e, operands[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	records, err := c.History(ctx, *domain, seq-1, 1)
	if err != nil {
		return err
	}
	if len(records) == 0 || records[0].Seq != seq {
		return &client.Error{
			Name: "xyz.openbmc_project.State.TransitionQueue.Error.UnknownRequest",
			Text: fmt.Sprintf("queue %d has no request %d, or no longer", *domain, seq),
		}
	}
	return writeJSON(e.stdout, rowOf(*domain, records[0]))
}

func parseSequence(e *env, s string) (uint64, error) {
	seq, err := strconv.ParseUint(s, 10, 64)
	if err != nil || seq == 0 {
		return 0, e.usageError("%q is no sequence: it is the number that request list shows", s)
	}
	return seq, nil
}

func requestCancel(ctx context.Context, e *env, args []string) error {
	byKey := len(args) > 0 && slices.ContainsFunc(args, func(a string) bool {
		return strings.Contains(a, "-id")
	})
	f := e.flags("request cancel", "SEQUENCE | --client-id ID --request-id ID")
	domain := f.Int("queue", 0, "the queue's `number`")
	clientID := f.String("client-id", "", "cancel by key: the client `id`")
	requestID := f.String("request-id", "", "cancel by key: the request `id`")
	wanted := 1
	if byKey {
		wanted = 0
	}
	operands, err := e.parse(f, args, wanted)
	if err != nil {
		return err
	}
	var seq uint64
	if !byKey {
		if seq, err = parseSequence(e, operands[0]); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	if byKey {
		status, err := c.Cancel(ctx, *domain, *clientID, *requestID)
		if err != nil {
			return err
		}
		return e.cancelled(status)
	}
	if err := c.CancelSeq(ctx, *domain, seq); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "request %d is cancelled\n", seq)
	return nil
}

// cancelled shows what a cancel by key led to. Only what had not acted yet can
// be withdrawn, and of a request that several share only the caller's part.
func (e *env) cancelled(status state.Status) error {
	switch {
	case status == state.Cancelled:
		fmt.Fprintln(e.stdout, "request is cancelled")
		return nil
	case status == state.Running, status == state.Unknown:
		fmt.Fprintln(e.stderr, "bmcstatectl: request is acting and cannot be cancelled any more")
	case status.Final():
		fmt.Fprintln(e.stderr, "bmcstatectl: request has ended:", status)
	default:
		fmt.Fprintln(e.stdout, "request is still", status, "for others who asked for it")
		return nil
	}
	return exitCode(exitRefused)
}
