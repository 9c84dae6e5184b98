package sim

import (
	"sync/atomic"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
)

// Report starts the reports on a batch of worlds runs of which units are done.
func Report(t *trace.Trace, worlds, units int, p Progress) (stop func()) {
	var done atomic.Int64
	done.Store(int64(units))
	return report(&done, []Task{{Trace: t, Worlds: make([]Options, worlds)}}, p)
}
