package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// ruleChecks are the 26 cases of the admission model, section 7. A delivery is
// "time client#id op", with a trailing "!" where its confirmation is delayed.
var ruleChecks = []struct {
	name       string
	policy     state.Policy
	deliveries string
	replies    string
	launches   string
	final      string // "key=status", "max queue n"
}{
	{"01 ON at ON is a NOOP", state.FIFODedup, "0 a#1 ON", "NOOP", "", "a#1=NOOP"},
	{"02 OFF at OFF is a NOOP", state.FIFODedup, "0 a#1 OFF; 20 a#2 OFF", "PENDING, NOOP", "OFF@0", "a#1=SUCCESS; a#2=NOOP"},
	{"03 transition times", state.FIFO, "0 a#1 OFF; 0 a#2 ON; 0 a#3 REBOOT; 0 a#4 OFF", "PENDING, PENDING, PENDING, PENDING", "OFF@0, ON@3, REBOOT@8, OFF@16", ""},
	{"04 FIFO_DEDUP stores INVALID", state.FIFODedup, "0 a#1 OFF; 5 a#2 REBOOT; 6 a#3 ON; 15 a#2 REBOOT", "PENDING, INVALID, PENDING, INVALID", "OFF@0, ON@6", "a#2=INVALID"},
	{"05 FIFO launches the repeat after INVALID", state.FIFO, "0 a#1 OFF; 5 a#2 REBOOT; 6 a#3 ON; 15 a#2 REBOOT", "PENDING, INVALID, PENDING, PENDING", "OFF@0, ON@6, REBOOT@15", ""},
	{"06 DEDUP does not store early INVALID", state.Dedup, "0 a#1 OFF; 5 a#2 REBOOT; 6 a#3 ON; 15 a#2 REBOOT", "PENDING, INVALID, PENDING, PENDING", "OFF@0, ON@6, REBOOT@15", "a#2=SUCCESS"},
	{"07 DEDUP does not store BUSY", state.Dedup, "0 a#1 REBOOT; 2 a#2 OFF; 12 a#2 OFF", "PENDING, BUSY, PENDING", "REBOOT@0, OFF@12", "a#2=SUCCESS"},
	{"08 CHECK answers BUSY, to repeats too", state.Check, "0 a#1 REBOOT; 2 a#2 OFF; 7 a#1 REBOOT", "PENDING, BUSY, BUSY", "REBOOT@0", ""},
	{"09 CHECK relaunches a repeat", state.Check, "0 a#1 REBOOT; 10 a#1 REBOOT", "PENDING, PENDING", "REBOOT@0, REBOOT@10", ""},
	{"10 FIFO relaunches a repeat", state.FIFO, "0 a#1 REBOOT; 10 a#1 REBOOT", "PENDING, PENDING", "REBOOT@0, REBOOT@10", ""},
	{"11 FIFO_DEDUP answers a repeat after the end", state.FIFODedup, "0 a#1 REBOOT; 10 a#1 REBOOT", "PENDING, SUCCESS", "REBOOT@0", "a#1=SUCCESS"},
	{"12 DEDUP answers a repeat after the end", state.Dedup, "0 a#1 REBOOT; 10 a#1 REBOOT", "PENDING, SUCCESS", "REBOOT@0", "a#1=SUCCESS"},
	{"13 a waiting command is not queued twice", state.FIFODedup, "0 a#1 REBOOT; 1 a#2 OFF; 2 a#2 OFF", "PENDING, PENDING, PENDING", "REBOOT@0, OFF@8", "a#2=SUCCESS; max queue 1"},
	{"14 FIFO queues a waiting command twice", state.FIFO, "0 a#1 REBOOT; 1 a#2 OFF; 2 a#2 OFF", "PENDING, PENDING, PENDING", "REBOOT@0, OFF@8", "max queue 2"},
	{"15 repeat of a running command", state.FIFODedup, "0 a#1 REBOOT; 4 a#1 REBOOT", "PENDING, PENDING", "REBOOT@0", "a#1=SUCCESS; max queue 0"},
	{"16 DEDUP: repeat of the running command is not BUSY", state.Dedup, "0 a#1 REBOOT; 4 a#1 REBOOT", "PENDING, PENDING", "REBOOT@0", "a#1=SUCCESS"},
	{"17 same key, other operation", state.FIFODedup, "0 a#1 REBOOT; 4 a#1 OFF; 20 a#1 OFF", "PENDING, ID_CONFLICT, ID_CONFLICT", "REBOOT@0", "a#1=SUCCESS; max queue 0"},
	{"18 another client's id is another key", state.FIFODedup, "0 a#1 REBOOT; 10 b#1 REBOOT", "PENDING, PENDING", "REBOOT@0, REBOOT@10", "a#1=SUCCESS; b#1=SUCCESS"},
	{"19 a new id is a new intent", state.FIFODedup, "0 a#1 REBOOT; 10 a#2 REBOOT", "PENDING, PENDING", "REBOOT@0, REBOOT@10", ""},
	{"20 judged at dequeue: INVALID", state.FIFODedup, "0 a#1 OFF; 1 a#2 REBOOT; 2 a#2 REBOOT; 3.5 a#2 REBOOT", "PENDING, PENDING, PENDING, INVALID", "OFF@0", "a#2=INVALID"},
	{"21 judged at dequeue: launched", state.FIFODedup, "0 a#1 OFF; 5 a#2 ON; 6 a#3 REBOOT", "PENDING, PENDING, PENDING", "OFF@0, ON@5, REBOOT@10", "a#3=SUCCESS"},
	{"22 NOOP and INVALID take no time", state.FIFODedup, "0 a#1 OFF; 1 a#2 OFF; 1 a#3 REBOOT; 1 a#4 ON", "PENDING, PENDING, PENDING, PENDING", "OFF@0, ON@3", "a#2=NOOP; a#3=INVALID; a#4=SUCCESS; max queue 3"},
	{"23 delayed confirmation", state.FIFODedup, "0 a#1 OFF!; 1 a#2 ON; 11.5 a#1 OFF!; 12.5 a#1 OFF!; 14.5 a#1 OFF!", "PENDING, PENDING, PENDING, UNKNOWN, SUCCESS", "OFF@0, ON@14", "a#1=SUCCESS; a#2=SUCCESS"},
	{"24 delayed confirmation holds the executor", state.Check, "0 a#1 OFF!; 13.9 a#2 ON; 14 a#3 ON", "PENDING, BUSY, PENDING", "OFF@0, ON@14", ""},
	{"25 CHECK: BUSY before NOOP", state.Check, "0 a#1 REBOOT; 1 a#2 ON", "PENDING, BUSY", "REBOOT@0", ""},
	{"26 the end precedes an arrival", state.Dedup, "0 a#1 REBOOT; 8 a#2 OFF", "PENDING, PENDING", "REBOOT@0, OFF@8", ""},
}

var paperOps = map[string]state.Operation{"ON": state.HostOn, "OFF": state.HostOff, "REBOOT": state.HostReboot}

func TestRuleChecks(t *testing.T) {
	require.Len(t, ruleChecks, 26)
	for _, c := range ruleChecks {
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, queue.Config{Policy: c.policy})
			var replies []string
			for _, text := range strings.Split(c.deliveries, "; ") {
				replies = append(replies, d.play(text))
			}
			d.at(1000 * u)
			assert.Equal(t, c.replies, strings.Join(replies, ", "))
			assert.Equal(t, c.launches, d.launchText())
			for _, want := range strings.Split(c.final, "; ") {
				d.checkFinal(t, want)
			}
		})
	}
}

// play delivers "time client#id op" and returns the paper's name of the reply.
func (d *driver) play(text string) string {
	var at float64
	var key, opName string
	_, err := fmt.Sscan(text, &at, &key, &opName)
	require.NoError(d.t, err)
	d.at(time.Duration(at * float64(u)))
	opName, delayed := strings.CutSuffix(opName, "!")
	a := d.deliver(submit(key, paperOps[opName]), delayed)
	if a.Outcome != queue.Accepted && a.Outcome != queue.Repeat {
		return a.Outcome.String()
	}
	r, ok := d.q.Get(a.Seq)
	require.True(d.t, ok)
	if r.Status == state.Running {
		return "PENDING" // DESIGN.md §3.3
	}
	return strings.ToUpper(r.Status.String())
}

func (d *driver) launchText() string {
	var out []string
	for _, l := range d.launches {
		for name, op := range paperOps {
			if op == l.op {
				out = append(out, fmt.Sprintf("%s@%v", name, l.at.Seconds()))
			}
		}
	}
	return strings.Join(out, ", ")
}

func (d *driver) checkFinal(t *testing.T, want string) {
	if n, ok := strings.CutPrefix(want, "max queue "); ok {
		assert.Equal(t, n, fmt.Sprint(d.maxDepth))
		return
	}
	if key, status, ok := strings.Cut(want, "="); ok {
		r, found := d.q.Lookup(d.now, submit(key, state.HostOn).Key)
		require.True(t, found, key)
		assert.Equal(t, status, strings.ToUpper(r.Status.String()), key)
	}
}

// submit is a delivery with the key "client#id".
func submit(key string, op state.Operation) queue.Delivery {
	client, id, _ := strings.Cut(key, "#")
	return queue.Delivery{Key: state.Key{Client: client, Request: id}, Object: state.Object{Kind: op.Kind()}, Op: op}
}
