package gpio

import (
	"context"
	"sync"
	"time"
)

// readTimeout is when reading a line counts as hung. Slow expanders answer in
// some milliseconds.
const readTimeout = 250 * time.Millisecond

// inputs reads lines in parallel, each by a call of its own.
type inputs struct {
	crew  *crew
	calls map[string]*call // read-only; the signals to read
	read  func(signal string) (bool, error)
	where func(op, signal string, err error) error
	limit time.Duration // when a reading counts as hung
}

func newInputs(signals []string, read func(string) (bool, error), where func(op, signal string, err error) error) *inputs {
	in := &inputs{crew: &crew{}, calls: map[string]*call{}, read: read, where: where, limit: readTimeout}
	for _, s := range signals {
		in.calls[s] = &call{}
	}
	return in
}

// levels implements Board.Read.
func (in *inputs) levels(ctx context.Context, settle time.Duration) (Levels, error) {
	all := make(Levels, len(in.calls))
	for s := range in.calls {
		all[s] = Level{}
	}
	if err := ctx.Err(); err != nil {
		return all, err
	}
	in.sample(ctx, all)
	if settle <= 0 {
		return all, nil
	}
	t := time.NewTimer(settle)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		for s, l := range all {
			l.Agreed = false
			all[s] = l
		}
		return all, ctx.Err()
	}
	first := make(Levels, len(all))
	for s, l := range all {
		if l.Known {
			first[s] = l
		}
	}
	in.sample(ctx, all)
	for s, l := range all {
		f := first[s]
		l.Agreed = f.Known && l.Known && f.Asserted == l.Asserted
		all[s] = l
	}
	return all, nil
}

// sample fills in all. A line that hung in the sample before is not tried
// again.
func (in *inputs) sample(ctx context.Context, all Levels) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all
	for s, c := range in.calls {
		mu.Lock()
		failed := all[s].Err != nil
		mu.Unlock()
		if failed {
			continue
		}
		wg.Go(func() {
			var v bool
			err := c.do(ctx, in.crew, in.limit, func() (err error) {
				v, err = in.read(s)
				return err
			})
			l := Level{Err: err}
			if err == nil {
				l = Level{Asserted: v, Known: true, Agreed: true}
			} else {
				l.Err = in.where("read", s, err)
			}
			mu.Lock()
			all[s] = l
			mu.Unlock()
		})
	}
	wg.Wait()
}
