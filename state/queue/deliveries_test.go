package queue_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

func TestDeliveriesAsATrace(t *testing.T) {
	d := newDriver(t, queue.Config{DepthLimit: 1})
	d.at(3 * u)
	d.deliver(submit("web, mail#r 1", state.HostOff), true)
	d.at(3*u + u/2)
	d.deliver(write(7, state.HostOff), false) // joins
	d.deliver(write(7, state.HostOn), false)  // waits
	d.deliver(write(8, state.HostOff), false) // Full
	d.deliver(write(8, state.HostOff), false) // Full: another intent
	d.at(16 * u)                              // became UNKNOWN
	d.deliver(submit("web, mail#r 1", state.HostOff), false)

	var out bytes.Buffer
	require.NoError(t, queue.WriteTrace(&out, d.q.Deliveries()))
	assert.Equal(t, `arrival_u,client_id,request_id,op,is_repeat,delayed
0,"0:web, mail",r 1,Host Off,0,1
0.5,"0:web, mail",r 1,Host Off,1,1
0.5,7:property,2,Host On,0,0
0.5,8:property,refused-1,Host Off,0,0
0.5,8:property,refused-2,Host Off,0,0
13,"0:web, mail",r 1,Host Off,1,1
`, out.String())
}

func TestOnlyTheLastDeliveriesAreKept(t *testing.T) {
	d := newDriver(t, queue.Config{LogMax: 3})
	var want []uint64
	for range 5 {
		want = append(want, d.deliver(d.from(0, "", state.HostOn), false).Seq)
	}
	var got []uint64
	for _, e := range d.q.Deliveries() {
		got = append(got, e.Seq)
	}
	assert.Equal(t, want[2:], got)
	none := newDriver(t, queue.Config{LogMax: queue.Unlimited})
	none.deliver(submit("a#1", state.HostOn), false)
	assert.Empty(t, none.q.Deliveries())
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWriteTraceReportsErrors(t *testing.T) {
	require.EqualError(t, queue.WriteTrace(fullDisk{}, nil), "queue: write trace: no space left on device")
}
