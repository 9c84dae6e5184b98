package sim

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
)

// Task is one trace and the worlds that it is replayed in.
type Task struct {
	Trace  *trace.Trace // nil: generate it from Params
	Params trace.Params
	Worlds []Options
}

// Progress is told how much is done, from 0 to 1, from another goroutine and at
// most once a second.
type Progress func(share float64)

// runUnits is what one run counts in the progress.
const runUnits = 1000

// Batch runs all tasks on workers goroutines, 0 for as many as there are cores.
// The results have the order of the tasks and of their worlds, and do not
// depend on workers.
func Batch(ctx context.Context, tasks []Task, workers int, progress Progress) ([][]Result, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	out := make([][]Result, len(tasks))
	errs := make([]error, len(tasks))
	var next, done atomic.Int64
	stop := report(&done, tasks, progress)
	defer stop()
	var wg sync.WaitGroup
	for range min(workers, len(tasks)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(tasks) {
					return
				}
				out[i], errs[i] = tasks[i].run(&done)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("task %d of %d: %w", i+1, len(tasks), err)
		}
	}
	return out, ctx.Err()
}

func (t *Task) run(done *atomic.Int64) ([]Result, error) {
	tr := t.Trace
	if tr == nil {
		tr = trace.Generate(t.Params)
	}
	out := make([]Result, len(t.Worlds))
	for i, w := range t.Worlds {
		told := int64(0)
		tell := func(share float64) {
			now := int64(share * runUnits)
			done.Add(now - told)
			told = now
		}
		var err error
		if out[i], err = Watch(tr, w, Observer{Progress: tell}); err != nil {
			return nil, err
		}
		tell(1)
	}
	return out, nil
}

// report calls progress once a second until the function that it returns is
// called; that one waits for it.
func report(done *atomic.Int64, tasks []Task, progress Progress) (stop func()) {
	if progress == nil {
		return func() {}
	}
	total := 0
	for _, t := range tasks {
		total += runUnits * len(t.Worlds)
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				progress(float64(done.Load()) / float64(total))
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}
