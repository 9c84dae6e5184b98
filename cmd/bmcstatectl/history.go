package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

func runHistory(ctx context.Context, e *env, args []string) error {
	f := e.flags("history", "")
	domain := f.Int("queue", 0, "the queue's `number`")
	after := f.Uint64("after", 0, "only requests with a `sequence` above this")
	asJSON := f.Bool("json", false, "print one JSON object per line")
	asCSV := f.Bool("csv", false, "print the last deliveries, repeats and refusals included, as a trace for bmcstate-sim; "+
		"the daemon keeps at most 4096 of them, in memory only, so a restart of the daemon empties it")
	if _, err := e.parse(f, args, 0); err != nil {
		return err
	}
	if *asJSON && *asCSV {
		return e.usageError("history: --json and --csv exclude each other")
	}
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	switch {
	case *asCSV:
		return e.trace(ctx, c, *domain)
	case *asJSON:
		out := json.NewEncoder(e.stdout)
		return pages(ctx, c, *domain, *after, func(r client.Record) error { return out.Encode(rowOf(*domain, r)) })
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SEQUENCE\tACCEPTED\tTRANSITION\tSTATUS\tTOOK\tUID\tCLIENT\tREQUEST\tREASON")
	err = pages(ctx, c, *domain, *after, func(r client.Record) error {
		_, err := fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.Seq, stamp(r.Accepted),
			transitionName(r.Transition), r.Status, took(r), r.UID, r.Client, r.Request, r.Reason)
		return err
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// pages calls each with every record above after, oldest first.
func pages(ctx context.Context, c *client.Client, domain int, after uint64, each func(client.Record) error) error {
	const page = 256
	for {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		records, err := c.History(ctx, domain, after, page)
		cancel()
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			if err := each(r); err != nil {
				return err
			}
			if r.Seq <= after {
				return fmt.Errorf("history of queue %d does not ascend at sequence %d", domain, r.Seq)
			}
			after = r.Seq
		}
	}
}

func (e *env) trace(ctx context.Context, c *client.Client, domain int) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	deliveries, err := c.Deliveries(ctx, domain)
	if err != nil {
		return err
	}
	logged := make([]queue.Logged, len(deliveries))
	for i, d := range deliveries {
		logged[i] = queue.Logged{At: state.Instant{Boot: d.Arrived}, Key: d.Key, Op: d.Op, Seq: d.Seq, Delayed: d.Delayed}
		if d.Repeat {
			logged[i].Outcome = queue.Repeat
		}
	}
	return queue.WriteTrace(e.stdout, logged)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

// took returns how long a request ran, "-" for one that never did.
func took(r client.Record) string {
	if r.Started.IsZero() || r.Ended.IsZero() {
		return "-"
	}
	return r.Ended.Sub(r.Started).Round(time.Millisecond).String()
}

// row is a record as JSON.
type row struct {
	Queue      int      `json:"queue"`
	Sequence   uint64   `json:"sequence"`
	ClientID   string   `json:"clientId"`
	RequestID  string   `json:"requestId"`
	UID        uint32   `json:"uid"`
	Transition string   `json:"transition"`
	Status     string   `json:"status"`
	Reason     string   `json:"reason,omitempty"`
	Accepted   string   `json:"accepted,omitempty"`
	Started    string   `json:"started,omitempty"`
	Ended      string   `json:"ended,omitempty"`
	Superseded []uint64 `json:"superseded,omitempty"`
}

func rowOf(domain int, r client.Record) row {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return row{
		Queue: domain, Sequence: r.Seq, ClientID: r.Client, RequestID: r.Request, UID: r.UID,
		Transition: r.Transition, Status: r.Status.String(), Reason: r.Reason,
		Accepted: at(r.Accepted), Started: at(r.Started), Ended: at(r.Ended), Superseded: r.Superseded,
	}
}
