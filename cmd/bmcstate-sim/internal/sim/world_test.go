package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// events replays "time client#id op[!]" lines and returns the transitions as
// "op from-to status" and the result; "!" marks a delayed confirmation.
func events(t *testing.T, o sim.Options, deliveries string) (string, sim.Result) {
	t.Helper()
	csv := "arrival_u,client_id,request_id,op,is_repeat,delayed\n"
	for _, d := range strings.Split(deliveries, "; ") {
		at, rest, _ := strings.Cut(d, " ")
		key, op, _ := strings.Cut(rest, " ")
		client, id, _ := strings.Cut(key, "#")
		op, delayed := strings.CutSuffix(op, "!")
		flag := 0
		if delayed {
			flag = 1
		}
		csv += fmt.Sprintf("%s,%s,%s,%s,0,%d\n", at, client, id, op, flag)
	}
	tr, err := trace.Read("test", strings.NewReader(csv))
	require.NoError(t, err)
	var seen []string
	r, err := sim.Watch(tr, o, sim.Observer{Transition: func(from, to float64, op state.Operation, s state.Status) {
		seen = append(seen, fmt.Sprintf("%v %v-%v %v", op, from, to, s))
	}})
	require.NoError(t, err)
	return strings.Join(seen, ", "), r
}

func TestWorld(t *testing.T) {
	crash := func(o *sim.Options) { o.Crashes, o.Down = []float64{2}, 10 }
	other := func(o *sim.Options) { crash(o); o.OtherBoot = true }
	cases := []struct {
		name       string
		change     func(*sim.Options)
		deliveries string
		want       string
		ended      sim.Endings
	}{
		{"the paper's transitions", nil, "0 a#1 OFF; 0 a#2 ON; 0 a#3 REBOOT",
			"Host Off 0-3 Success, Host On 3-8 Success, Host Reboot 8-16 Success", sim.Endings{Success: 3}},
		{"late confirmation", nil, "0 a#1 OFF!", "Host Off 0-14 Success", sim.Endings{Success: 1}},
		{"confirmed while reconciling", func(o *sim.Options) { o.Durations.On = 13 }, "0 a#1 OFF; 3 a#2 ON",
			"Host Off 0-3 Success, Host On 3-16 Success", sim.Endings{Success: 2}},
		{"not confirmed", func(o *sim.Options) { o.Durations.On = 15 }, "0 a#1 OFF; 3 a#2 ON; 20 a#3 OFF",
			"Host Off 0-3 Success, Host On 3-17 Failed", sim.Endings{Success: 1, Failed: 1, Noop: 1}},
		{"expiry of what waits", func(o *sim.Options) { o.Queue.PendingTTL = 5 * time.Second }, "0 a#1 REBOOT; 1 a#2 OFF",
			"Host Reboot 0-8 Success", sim.Endings{Success: 1, Expired: 1}},
		{"eight operations", nil, "0 a#1 Chassis PowerCycle; 9 a#2 Chassis Off; 15 a#3 Chassis On; 25 a#4 Host ForceWarmReboot; 35 a#5 Host GracefulWarmReboot",
			"Chassis PowerCycle 0-8 Success, Chassis Off 9-12 Success, Chassis On 15-20 Success, Host ForceWarmReboot 25-30 Success, Host GracefulWarmReboot 35-43 Success",
			sim.Endings{Success: 5}},
		{"a forced request overtakes a graceful wait", func(o *sim.Options) { o.Overtaking = true },
			"0 a#1 OFF; 1 a#2 REBOOT; 2 a#3 Host ForceWarmReboot",
			"Host Off 0-2 Superseded, Host ForceWarmReboot 2-7 Success", sim.Endings{Success: 1, Superseded: 2}},
		{"a forced request cuts nothing else", func(o *sim.Options) { o.Overtaking = true },
			"0 a#1 Host ForceWarmReboot; 2 a#2 Chassis PowerCycle",
			"Host ForceWarmReboot 0-5 Success, Chassis PowerCycle 5-13 Success", sim.Endings{Success: 2}},
		{"Chassis Off takes over from a power-on", func(o *sim.Options) { o.Overtaking = true },
			"0 a#1 OFF; 4 a#2 ON; 6 a#3 Chassis Off",
			"Host Off 0-3 Success, Host On 4-6 Superseded, Chassis Off 6-9 Success", sim.Endings{Success: 2, Superseded: 1}},
		{"Chassis Off takes over from a cycle that applies power again", func(o *sim.Options) { o.Overtaking = true },
			"0 a#1 Chassis PowerCycle; 3 a#2 Chassis Off",
			"Chassis PowerCycle 0-3 Superseded, Chassis Off 3-6 Success", sim.Endings{Superseded: 1, Success: 1}},
		{"what could not be launched supersedes nothing", func(o *sim.Options) { o.Overtaking = true },
			"0 a#1 OFF; 3 a#2 Host ForceWarmReboot", "Host Off 0-3 Success", sim.Endings{Success: 1, Invalid: 1}},
		{"crash: a level that changed proves it", crash, "0 a#1 OFF; 1 a#2 ON",
			"Host Off 0-12 Success, Host On 12-17 Success", sim.Endings{Success: 2}},
		{"crash: the power-on of a reboot whose off is proven goes on", crash, "0 a#1 REBOOT",
			"Host Reboot 0-17 Success", sim.Endings{Success: 1}},
		{"crash after the off: the power-on ends by itself", func(o *sim.Options) { o.Crashes, o.Down = []float64{4}, 10 }, "0 a#1 REBOOT",
			"Host Reboot 0-14 Success", sim.Endings{Success: 1}},
		{"crash: a reset that nobody saw is not proven", crash, "0 a#1 Host ForceWarmReboot",
			"Host ForceWarmReboot 0-12 Interrupted", sim.Endings{Interrupted: 1}},
		{"crash: what is due while dead is UNKNOWN at the restart", func(o *sim.Options) { o.Crashes, o.Down = []float64{11}, 2 }, "0 a#1 OFF!",
			"Host Off 0-14 Success", sim.Endings{Success: 1}},
		{"other boot: waiting ones expire, a running one is not continued", other, "0 a#1 REBOOT; 1 a#2 OFF; 13 a#3 ON",
			"Host Reboot 0-12 Interrupted, Host On 13-18 Success", sim.Endings{Interrupted: 1, Expired: 1, Success: 1}},
		{"other boot: a change that was seen counts", other, "0 a#1 OFF; 1 a#2 ON",
			"Host Off 0-12 Success", sim.Endings{Success: 1, Expired: 1}},
		{"no journal: all is forgotten, and done twice", func(o *sim.Options) { crash(o); o.NoJournal = true }, "0 a#1 REBOOT; 1 a#2 OFF; 12 a#3 ON; 18 a#1 REBOOT",
			"Host Reboot 0-12 Interrupted, Host On 12-17 Success, Host Reboot 18-26 Success", sim.Endings{Success: 2, Forgotten: 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := sim.Paper(state.FIFODedup)
			if c.change != nil {
				c.change(&o)
			}
			got, r := events(t, o, c.deliveries)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.ended, r.Ended)
		})
	}
}

func TestAnswersAreCounted(t *testing.T) {
	o := sim.Paper(state.FIFODedup)
	o.Queue.DepthLimit = 1
	_, r := events(t, o, "0 a#1 REBOOT; 1 a#2 OFF; 2 a#3 ON; 3 a#1 REBOOT; 4 a#1 OFF")
	assert.Equal(t, 1, r.Full)
	assert.Equal(t, 1, r.Repeats)
	assert.Equal(t, 1, r.Conflicts)

	o = sim.Paper(state.Dedup)
	o.Crashes, o.Down = []float64{3}, 2
	_, r = events(t, o, "0 a#1 REBOOT; 1 a#2 OFF; 4 a#3 ON")
	assert.Equal(t, 1, r.Busy)
	assert.Equal(t, 1, r.Lost)
	assert.InDelta(t, 100.0/3, r.B, 1e-9)
}

func TestPropertyWritesJoin(t *testing.T) {
	for _, p := range []state.Policy{state.Check, state.FIFO} {
		got, r := events(t, sim.Paper(p), "0 property#1 OFF; 1 7:property#2 OFF; 9 property#3 OFF")
		assert.Equal(t, "Host Off 0-3 Success", got, p)
		assert.Equal(t, 1, r.Repeats)
		assert.Equal(t, 3, r.Successes, "who joins succeeds with it")
		assert.InDelta(t, (3.0+2+0)/3, r.L, 1e-9)
	}
}

func TestRetryAfterInvalid(t *testing.T) {
	o := sim.Paper(state.FIFODedup)
	o.Queue.RetryInvalid = true
	got, _ := events(t, o, "0 a#1 OFF; 5 a#2 REBOOT; 6 a#3 ON; 15 a#2 REBOOT")
	assert.Contains(t, got, "Host Reboot 15-23 Success")
}

// TestReplayOfADaemonsTraffic: what the daemon's history writes, the simulator
// replays, with the keys of different uids apart.
func TestReplayOfADaemonsTraffic(t *testing.T) {
	q := queue.New(queue.Config{})
	seq := uint64(0)
	next := func() uint64 { seq++; return seq }
	admit := func(at time.Duration, d queue.Delivery) {
		d.Op, d.Object = state.HostReboot, state.Object{Kind: state.KindHost}
		a := q.Admit(state.Instant{Boot: at}, d, next)
		q.Durable(a.Seq)
	}
	submit := queue.Delivery{Key: state.Key{Client: "c:1", Request: "r"}}
	admit(time.Hour, submit)
	admit(time.Hour+time.Second, submit)
	submit.Key.UID = 7
	admit(time.Hour+2*time.Second, submit)
	admit(time.Hour+3*time.Second, queue.Delivery{Property: true}) // joins the one before
	var csv strings.Builder
	require.NoError(t, queue.WriteTrace(&csv, q.Deliveries()))
	tr, err := trace.Read("history", strings.NewReader(csv.String()))
	require.NoError(t, err)
	assert.Equal(t, 2, tr.Intents)
	r, err := sim.Run(tr, sim.Paper(state.FIFODedup))
	require.NoError(t, err)
	assert.Equal(t, 2, r.Launches)
	assert.Equal(t, 2, r.Repeats)
	fifo, err := sim.Run(tr, sim.Paper(state.FIFO))
	require.NoError(t, err)
	assert.Equal(t, 4, fifo.Launches)
}
