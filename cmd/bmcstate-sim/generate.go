package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
)

func runGenerate(_ context.Context, e *env, args []string) error {
	f := newFlags(e, "generate")
	params := trafficFlags(f)
	out := f.String("out", "-", "file to write, - for the standard output")
	if err := f.parse(args); err != nil {
		return err
	}
	p, err := params()
	if err != nil {
		return err
	}
	return e.output(*out, trace.Generate(p).Write)
}

// trafficFlags defines the flags of random traffic; what it returns reads them.
func trafficFlags(f *flags) func() (trace.Params, error) {
	p := trace.Paper(0.2, 0.3, 0, 1000)
	f.Float64Var(&p.Lambda, "lambda", p.Lambda, "original requests per u")
	f.Float64Var(&p.P, "p", p.P, "probability that a request is repeated once")
	f.Float64Var(&p.F, "f", p.F, "probability that a confirmation is delayed")
	f.IntVar(&p.Requests, "requests", p.Requests, "original requests")
	f.IntVar(&p.Clients, "clients", p.Clients, "clients")
	f.Float64Var(&p.RepeatAfter, "repeat-after", p.RepeatAfter, "u from a request to its repeat")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "seed of the random stream")
	mix := f.String("mix", "ON=0.3,OFF=0.3,REBOOT=0.4", "operations and their weights")
	return func() (trace.Params, error) {
		var err error
		if p.Mix, err = parseMix(*mix); err != nil {
			return p, err
		}
		if err := p.Check(); err != nil {
			return p, badInput{err}
		}
		return p, nil
	}
}

func parseMix(text string) ([]trace.Share, error) {
	var out []trace.Share
	for _, part := range strings.Split(text, ",") {
		name, weight, _ := strings.Cut(part, "=")
		op, err := trace.ParseOperation(name)
		if err != nil {
			return nil, bad("--mix", part, err.Error())
		}
		w, err := strconv.ParseFloat(weight, 64)
		if err != nil || !(w >= 0 && w <= 1e9) {
			return nil, bad("--mix", part, "allowed is OPERATION=WEIGHT with a weight from 0 to 1e9")
		}
		out = append(out, trace.Share{Op: op, Weight: w})
	}
	return out, nil
}
