package trace_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
)

const header = "arrival_u,client_id,request_id,op,is_repeat,delayed\n"

func TestBadTraces(t *testing.T) {
	const ops = "allowed is one of ON, OFF, REBOOT, Host On, Host Off, Host Reboot, Host GracefulWarmReboot, " +
		"Host ForceWarmReboot, Chassis On, Chassis Off, Chassis PowerCycle"
	const columns = "needed is a header with the columns arrival_u, client_id, request_id, op, is_repeat, delayed"
	cases := []struct{ name, text, want string }{
		{"empty file", "", `t.csv:1: header: "": the file is empty: ` + columns},
		{"header only", header, `t.csv:2: rows: "": at least one delivery is needed`},
		{"missing column", "arrival_u,client_id,request_id,op,delayed\n", `t.csv:1: header: "arrival_u,client_id,request_id,op,delayed": column is_repeat is missing: ` + columns},
		{"column twice", "op,op\n", `t.csv:1: header: "op": the column stands twice: allowed is once`},
		{"unsorted", header + "2,0,0,ON,0,0\n1,0,1,ON,0,0\n", `t.csv:3: arrival_u: "1": the rows must be sorted by time: the one before has 2`},
		{"negative", header + "-1,0,0,ON,0,0\n", `t.csv:2: arrival_u: "-1": allowed is a number of u from 0 to 1e+09`},
		{"NaN", header + "NaN,0,0,ON,0,0\n", `t.csv:2: arrival_u: "NaN": allowed is a number of u from 0 to 1e+09`},
		{"infinite", header + "+Inf,0,0,ON,0,0\n", `t.csv:2: arrival_u: "+Inf": allowed is a number of u from 0 to 1e+09`},
		{"no number", header + "soon,0,0,ON,0,0\n", `t.csv:2: arrival_u: "soon": allowed is a number of u from 0 to 1e+09`},
		{"unknown op", header + "1,0,0,on,0,0\n", `t.csv:2: op: "on": ` + ops},
		{"op of the BMC", header + "1,0,0,BMC Reboot,0,0\n", `t.csv:2: op: "BMC Reboot": ` + ops},
		{"bad bit", header + "1,0,0,ON,yes,0\n", `t.csv:2: is_repeat: "yes": allowed is 0 or 1`},
		{"empty id", header + "1,0,,ON,0,0\n", `t.csv:2: request_id: "": allowed is any text but the empty one`},
		{"short row", header + "1,0,0,ON,0\n", `t.csv:2: row: "": a row has as many fields as the header, 6`},
		{"broken quotes", header + "1,\"0,0,ON,0,0\n", `t.csv:2: row: "": not CSV: extraneous or missing " in quoted-field`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := trace.Read("t.csv", strings.NewReader(c.text))
			require.EqualError(t, err, c.want)
			var bad *trace.InputError
			require.ErrorAs(t, err, &bad)
		})
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("input/output error")
	_, err := trace.Read("t.csv", io.MultiReader(strings.NewReader(header), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	_, err = trace.Read("t.csv", iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

func TestReadAccepts(t *testing.T) {
	tr, err := trace.Read("t.csv", strings.NewReader(
		"note,delayed,op,arrival_u,client_id,request_id,is_repeat\r\nx,1,Chassis PowerCycle,0,7:web,a,0\r\n,0,ON,0,7:web,a,1\r\n"))
	require.NoError(t, err)
	assert.Equal(t, 1, tr.Intents, "a key with another op is legal traffic")
	assert.EqualValues(t, 7, tr.Deliveries[0].Key.UID)
	assert.Equal(t, "web", tr.Deliveries[0].Key.Client)
	assert.True(t, tr.Deliveries[0].Delayed)
}

func TestParams(t *testing.T) {
	for _, c := range []struct {
		change func(*trace.Params)
		want   string
	}{
		{func(p *trace.Params) { p.Lambda = 0 }, `command line: --lambda: "0": allowed is a number above 0, at most 1e6`},
		{func(p *trace.Params) { p.P = 1.5 }, `command line: --p: "1.5": allowed is a probability from 0 to 1`},
		{func(p *trace.Params) { p.F = -0.1 }, `command line: --f: "-0.1": allowed is a probability from 0 to 1`},
		{func(p *trace.Params) { p.Requests = 0 }, `command line: --requests: "0": allowed is 1 to 10000000`},
		{func(p *trace.Params) { p.Clients = 0 }, `command line: --clients: "0": allowed is 1 to 1048576`},
		{func(p *trace.Params) { p.Mix = nil }, `command line: --mix: "": the weights must not all be 0`},
	} {
		p := trace.Paper(0.2, 0.3, 0, 1)
		require.NoError(t, p.Check())
		c.change(&p)
		require.EqualError(t, p.Check(), c.want)
	}
}

// FuzzRead: no input makes Read panic, and what it accepts survives Write.
func FuzzRead(f *testing.F) {
	f.Add(header + "1,0,0,ON,0,0\n")
	f.Add(header + "1,7:a b,\"x,y\",Chassis Off,1,1\n2,7:7:a,z,OFF,0,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := trace.Read("fuzz", strings.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		require.NoError(t, first.Write(&out))
		second, err := trace.Read("again", &out)
		require.NoError(t, err)
		assert.Equal(t, first, second)
	})
}
