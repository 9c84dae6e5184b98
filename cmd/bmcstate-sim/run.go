package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
)

// outcome is one line of the output of run.
type outcome struct {
	Policy string `json:"policy"`
	sim.Result
}

func runRun(ctx context.Context, e *env, args []string) error {
	f := newFlags(e, "run")
	file := f.String("trace", "", "trace to replay: a CSV file, or - for the standard input")
	policies := f.policies("all")
	w := worldFlags(f)
	asJSON := f.Bool("json", false, "write JSON")
	asCSV := f.Bool("csv", false, "write CSV")
	out := f.String("out", "-", "file to write, - for the standard output")
	workers := f.workers()
	if err := f.parse(args); err != nil {
		return err
	}
	if *asJSON && *asCSV {
		return bad("--json", "--csv", "allowed is one of the two")
	}
	t, err := readTrace(*file)
	if err != nil {
		return err
	}
	var tasks []sim.Task
	for _, p := range *policies {
		o, err := w.options(p, t)
		if err != nil {
			return err
		}
		tasks = append(tasks, sim.Task{Trace: t, Worlds: []sim.Options{o}})
	}
	results, err := sim.Batch(ctx, tasks, *workers, e.progress)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for i, p := range *policies {
		outcomes = append(outcomes, outcome{p.String(), results[i][0]})
	}
	write := writeText
	switch {
	case *asJSON:
		write = writeJSON
	case *asCSV:
		write = writeCSV
	}
	return e.output(*out, func(w io.Writer) error { return write(w, outcomes) })
}

func writeJSON(w io.Writer, outcomes []outcome) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(outcomes)
}

// columns are those of the CSV; the first ones are also the text's.
var columns = []struct {
	name string
	of   func(outcome) string
}{
	{"policy", func(o outcome) string { return o.Policy }},
	{"S_pct", func(o outcome) string { return decimal(o.S) }},
	{"E_per100", func(o outcome) string { return decimal(o.E) }},
	{"L_u", func(o outcome) string { return decimal(o.L) }},
	{"B_pct", func(o outcome) string { return decimal(o.B) }},
	{"max_queue", func(o outcome) string { return strconv.Itoa(o.MaxQueue) }},
	{"launches", func(o outcome) string { return strconv.Itoa(o.Launches) }},
	{"successes", func(o outcome) string { return strconv.Itoa(o.Successes) }},
	{"noop_ok", func(o outcome) string { return strconv.Itoa(o.NoopOK) }},
	{"busy", func(o outcome) string { return strconv.Itoa(o.Busy) }},
	{"deliveries", func(o outcome) string { return strconv.Itoa(o.Deliveries) }},
	{"keys", func(o outcome) string { return strconv.Itoa(o.Keys) }},
	{"repeats", func(o outcome) string { return strconv.Itoa(o.Repeats) }},
	{"full", func(o outcome) string { return strconv.Itoa(o.Full) }},
	{"id_conflict", func(o outcome) string { return strconv.Itoa(o.Conflicts) }},
	{"lost", func(o outcome) string { return strconv.Itoa(o.Lost) }},
	{"invalid", func(o outcome) string { return strconv.Itoa(o.Ended.Invalid) }},
	{"failed", func(o outcome) string { return strconv.Itoa(o.Ended.Failed) }},
	{"superseded", func(o outcome) string { return strconv.Itoa(o.Ended.Superseded) }},
	{"expired", func(o outcome) string { return strconv.Itoa(o.Ended.Expired) }},
	{"interrupted", func(o outcome) string { return strconv.Itoa(o.Ended.Interrupted) }},
	{"forgotten", func(o outcome) string { return strconv.Itoa(o.Ended.Forgotten) }},
	{"L_urgent_u", func(o outcome) string { return decimal(o.LUrgent) }},
	{"end_u", func(o outcome) string { return decimal(o.End) }},
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 6, 64) }

func writeCSV(w io.Writer, outcomes []outcome) error {
	var header []string
	for _, c := range columns {
		header = append(header, c.name)
	}
	rows := [][]string{header}
	for _, o := range outcomes {
		var row []string
		for _, c := range columns {
			row = append(row, c.of(o))
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func writeText(w io.Writer, outcomes []outcome) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "policy\tS %\tE /100\tL u\tB %\tmax queue\tlaunches\trepeats\tbusy\tfull\tID_CONFLICT\tinvalid\tsuperseded\texpired\tlost")
	for _, o := range outcomes {
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
			o.Policy, o.S, o.E, o.L, o.B, o.MaxQueue, o.Launches, o.Repeats, o.Busy, o.Full, o.Conflicts,
			o.Ended.Invalid, o.Ended.Superseded, o.Ended.Expired, o.Lost)
	}
	return tw.Flush()
}
