package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/paper"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
)

// badInput marks errors of the command line and of input files.
type badInput struct{ error }

func (b badInput) Unwrap() error { return b.error }

// bad returns the error of a value on the command line.
func bad(field, value, allowed string) error {
	return badInput{&trace.InputError{File: "command line", Field: field, Value: value, Allowed: allowed}}
}

// flags is a flag set whose errors name the flag, the value and what is allowed.
type flags struct {
	*flag.FlagSet
	checks []func() error
}

func newFlags(e *env, name string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet("bmcstate-sim "+name, flag.ContinueOnError)}
	f.SetOutput(e.err)
	return f
}

// parse parses args, then makes the checks of the values.
func (f *flags) parse(args []string) error {
	out := f.Output()
	f.SetOutput(io.Discard) // the error is reported once, by exit
	err := f.Parse(args)
	f.SetOutput(out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.Usage()
		return err
	case err != nil:
		return badInput{fmt.Errorf("command line: %w", err)}
	case f.NArg() > 0:
		return bad("argument", f.Arg(0), "allowed are flags only")
	}
	for _, check := range f.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// number defines a flag for a finite number that is at least low.
func (f *flags) number(name string, value, low float64, what string) *float64 {
	p := f.Float64(name, value, what)
	f.checks = append(f.checks, func() error {
		if !(*p >= low) || math.IsInf(*p, 0) || *p > 1e9 {
			return bad("--"+name, strconv.FormatFloat(*p, 'g', -1, 64), fmt.Sprintf("allowed is a number from %g to 1e9", low))
		}
		return nil
	})
	return p
}

// count defines a flag for a bound: 0 means none.
func (f *flags) count(name, what string) *int {
	p := f.Int(name, 0, what+"; 0 = unlimited")
	f.checks = append(f.checks, func() error {
		if *p < 0 {
			return bad("--"+name, strconv.Itoa(*p), "allowed is a whole number from 0, which means unlimited")
		}
		return nil
	})
	return p
}

// workers defines the flag for the number of parallel runs.
func (f *flags) workers() *int {
	return f.count("workers", "parallel runs; the result does not depend on it (here 0 = one per core)")
}

// policies defines the flag for a list of policies.
func (f *flags) policies(value string) *[]state.Policy {
	var out []state.Policy
	text := f.String("policy", value, "CHECK, DEDUP, FIFO, FIFO_DEDUP, several with commas between, or all")
	f.checks = append(f.checks, func() error {
		if *text == "all" {
			out = paper.Policies()
			return nil
		}
		for _, name := range strings.Split(*text, ",") {
			p, err := state.ParsePolicy(name)
			if err != nil {
				return bad("--policy", *text, "allowed is a list of CHECK, DEDUP, FIFO, FIFO_DEDUP, or all")
			}
			out = append(out, p)
		}
		return nil
	})
	return &out
}

// readTrace reads a trace file, "-" for the standard input.
func readTrace(file string) (*trace.Trace, error) {
	if file == "" {
		return nil, bad("--trace", "", "needed is a CSV file, or - for the standard input")
	}
	if file == "-" {
		return parseTrace("standard input", os.Stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, badInput{err}
	}
	defer f.Close() // read only: nothing to lose
	return parseTrace(file, f)
}

func parseTrace(name string, r io.Reader) (*trace.Trace, error) {
	t, err := trace.Read(name, r)
	if err != nil {
		return nil, badInput{err}
	}
	return t, nil
}

// output calls write with the file, or with the standard output where file is
// "" or "-". A file appears only when it is complete.
func (e *env) output(file string, write func(io.Writer) error) error {
	if file == "" || file == "-" {
		return write(e.out)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".bmcstate-sim-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // after the rename there is none
	err = errors.Join(write(tmp), tmp.Chmod(0o644), tmp.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(tmp.Name(), file)
}

// progress shows on a long run how far it is.
func (e *env) progress(share float64) {
	fmt.Fprintf(e.err, "bmcstate-sim: %.0f %% done\n", 100*share)
}
