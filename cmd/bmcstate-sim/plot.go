package main

import (
	"context"
	"strconv"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/figure"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/paper"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
)

func runPlot(ctx context.Context, e *env, args []string) error {
	f := newFlags(e, "plot")
	file := f.String("trace", "", "draw the time line of this trace instead of the paper's figure")
	policies := f.policies("FIFO_DEDUP")
	w := worldFlags(f)
	from := f.number("from", 0, 0, "first u of the time line")
	to := f.number("to", 0, 0, "last u of the time line; 0 = the last arrival")
	out := f.String("out", "", "name of the pictures: .svg and .png are added (needed)")
	workers := f.workers()
	if err := f.parse(args); err != nil {
		return err
	}
	if *out == "" {
		return bad("--out", "", "needed is a file name without its ending")
	}
	if *file == "" {
		return plotSweep(ctx, e, *out, *workers)
	}
	if len(*policies) != 1 {
		return bad("--policy", "several", "allowed is one policy for a time line")
	}
	t, err := readTrace(*file)
	if err != nil {
		return err
	}
	if *to == 0 {
		*to = lastArrival(t)
	}
	if *to <= *from {
		return bad("--to", strconv.FormatFloat(*to, 'g', -1, 64), "allowed is a time after --from")
	}
	o, err := w.options((*policies)[0], t)
	if err != nil {
		return err
	}
	picture, err := figure.Timeline(t, o, *from, *to)
	if err != nil {
		return err
	}
	return savePicture(e, picture, *out)
}

func lastArrival(t *trace.Trace) float64 { return t.Deliveries[len(t.Deliveries)-1].At }

func plotSweep(ctx context.Context, e *env, out string, workers int) error {
	sweep := paper.Configs()[4:]
	runs, err := paper.Run(ctx, sweep, paper.FirstSeed, paper.Seeds, workers, e.progress)
	if err != nil {
		return err
	}
	picture, err := figure.Sweep(runs, sweep)
	if err != nil {
		return err
	}
	return savePicture(e, picture, out)
}

func savePicture(e *env, p *figure.Picture, out string) error {
	if err := e.output(out+".svg", p.WriteSVG); err != nil {
		return err
	}
	return e.output(out+".png", p.WritePNG)
}
