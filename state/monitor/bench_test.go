package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// BenchmarkGoodProbe is what a healthy resource costs: one probe, with 200
// resources in the Monitor.
func BenchmarkGoodProbe(b *testing.B) {
	mon, err := monitor.New(monitor.Limits{}, func() float64 { return 0.5 })
	if err != nil {
		b.Fatal(err)
	}
	var cfgs []monitor.Config
	for i := range 200 {
		c := base()
		c.Name = fmt.Sprintf("unit%03d", i)
		cfgs = append(cfgs, c)
	}
	var now state.Instant
	if _, err := mon.Configure(now, cfgs); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	probes := 0
	for probes < b.N {
		now.Boot, _ = mon.NextDeadline()
		for _, a := range mon.Tick(now) {
			if p, ok := a.(monitor.StartProbe); ok {
				probes++
				if _, err := mon.Step(now, p.Resource, monitor.ProbeResult{Tag: p.Tag, Elapsed: time.Millisecond}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
