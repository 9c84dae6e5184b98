package queue_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// filled returns a queue with n finished keys.
func filled(b *testing.B, n int) *driver {
	d := newDriver(b, queue.Config{HistoryMax: 10 * n, LogMax: 1, HistoryTTL: queue.Unlimited})
	for i := range n {
		key := state.Key{Client: "bmcweb-4711", Request: fmt.Sprintf("%016d", i)}
		d.deliver(queue.Delivery{Key: key, Object: state.Object{Kind: state.KindHost}, Op: state.HostReboot}, false)
		d.at(d.now.Boot + 10*u)
	}
	return d
}

// BenchmarkAdmit prints the time of one admission, new and repeated, over the
// number of finished keys: it must not grow faster than the logarithm.
func BenchmarkAdmit(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		d := filled(b, n)
		b.Run(fmt.Sprintf("new/%d", n), func(b *testing.B) {
			for i := range b.N {
				key := state.Key{Client: "bench", Request: fmt.Sprintf("%d.%d", b.N, i)}
				a := d.q.Admit(d.now, queue.Delivery{Key: key, Op: state.HostOn}, d.next)
				d.q.Drop(a.Seq)
			}
		})
		b.Run(fmt.Sprintf("repeat/%d", n), func(b *testing.B) {
			for i := range b.N {
				key := state.Key{Client: "bmcweb-4711", Request: fmt.Sprintf("%016d", i*7919%n)}
				d.q.Admit(d.now, queue.Delivery{Key: key, Object: state.Object{Kind: state.KindHost}, Op: state.HostReboot}, d.next)
			}
		})
	}
}

// BenchmarkMemory prints the bytes that a finished key takes, its strings
// included, with 100,000 of them.
func BenchmarkMemory(b *testing.B) {
	const keys = 100_000
	for range b.N {
		before := heap()
		d := filled(b, keys)
		after := heap()
		b.ReportMetric(float64(after-before)/keys, "B/key")
		runtime.KeepAlive(d)
	}
}

// BenchmarkEvict prints the time of an admission that evicts, with a full
// history of 100,000 keys.
func BenchmarkEvict(b *testing.B) {
	d := newDriver(b, queue.Config{HistoryMax: 100_000, LogMax: 1, RepeatWindow: time.Second})
	next := func(i int) {
		d.now.Boot += time.Millisecond
		key := state.Key{UID: uint32(i % 3), Client: "bench", Request: fmt.Sprint(i)}
		d.deliver(queue.Delivery{Key: key, Op: state.HostOn, Object: state.Object{Kind: state.KindHost}}, false)
	}
	for i := range 100_000 {
		next(i)
	}
	b.ResetTimer()
	for i := range b.N {
		next(100_000 + i)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
