package main

import (
	"context"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/paper"
)

func runPaper(ctx context.Context, e *env, args []string) error {
	f := newFlags(e, "paper")
	workers := f.workers()
	if err := f.parse(args); err != nil {
		return err
	}
	runs, err := paper.Run(ctx, paper.Configs(), paper.FirstSeed, paper.Seeds, *workers, e.progress)
	if err != nil {
		return err
	}
	all, err := paper.Report(e.out, runs)
	if err == nil && !all {
		err = errDiffers
	}
	return err
}
