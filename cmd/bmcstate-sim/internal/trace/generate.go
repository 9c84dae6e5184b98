package trace

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/gonum/mathext/prng"

	"github.com/bmcstate/bmcstate/state"
)

// Share is one operation of a mix and its weight.
type Share struct {
	Op     state.Operation
	Weight float64
}

// Params describes random traffic.
type Params struct {
	Lambda      float64 // original requests per u
	P           float64 // probability of one repeat
	F           float64 // probability of a delayed confirmation
	Requests    int     // original ones
	Clients     int
	Mix         []Share
	RepeatAfter float64 // u
	Seed        uint64
}

// Paper returns the paper's traffic: 300 requests of four clients, repeats after
// 10 u, 30 % ON, 30 % OFF, 40 % REBOOT.
func Paper(lambda, p, f float64, seed uint64) Params {
	return Params{
		Lambda: lambda, P: p, F: f, Requests: 300, Clients: 4, RepeatAfter: 10, Seed: seed,
		Mix: []Share{{state.HostOn, 0.3}, {state.HostOff, 0.3}, {state.HostReboot, 0.4}},
	}
}

// Limits of Params, so that a typing error does not fill the memory.
const (
	MaxRequests = 10_000_000
	MaxClients  = 1 << 20
)

// Check returns what is wrong with p, as an *InputError of the command line.
func (p Params) Check() error {
	checks := []struct {
		field   string
		value   float64
		ok      bool
		allowed string
	}{
		{"lambda", p.Lambda, p.Lambda > 0 && p.Lambda <= 1e6, "allowed is a number above 0, at most 1e6"},
		{"p", p.P, p.P >= 0 && p.P <= 1, "allowed is a probability from 0 to 1"},
		{"f", p.F, p.F >= 0 && p.F <= 1, "allowed is a probability from 0 to 1"},
		{"repeat-after", p.RepeatAfter, p.RepeatAfter >= 0 && p.RepeatAfter <= 1e6, "allowed is a number from 0 to 1e6"},
		{"requests", float64(p.Requests), p.Requests >= 1 && p.Requests <= MaxRequests, fmt.Sprintf("allowed is 1 to %d", MaxRequests)},
		{"clients", float64(p.Clients), p.Clients >= 1 && p.Clients <= MaxClients, fmt.Sprintf("allowed is 1 to %d", MaxClients)},
	}
	for _, c := range checks {
		if !c.ok {
			return &InputError{"command line", 0, "--" + c.field, strconv.FormatFloat(c.value, 'g', -1, 64), c.allowed}
		}
	}
	if p.weight() <= 0 {
		return &InputError{"command line", 0, "--mix", "", "the weights must not all be 0"}
	}
	return nil
}

func (p Params) weight() (sum float64) {
	for _, s := range p.Mix {
		sum += s.Weight
	}
	return sum
}

// Generate draws a trace. The draws and their order are those of the paper's
// experiment, so Paper's parameters give the paper's traces: per request the
// gap, the client, the operation, the delay, the repeat, each drawn whether it
// is needed or not.
func Generate(p Params) *Trace {
	rng := newPython(p.Seed)
	total := p.weight()
	clients := make([]string, p.Clients)
	for i := range clients {
		clients[i] = strconv.Itoa(i)
	}
	t := &Trace{Intents: p.Requests, Deliveries: make([]Delivery, 0, p.Requests+int(float64(p.Requests)*p.P*1.2))}
	at := 0.0
	for i := range p.Requests {
		at += rng.exponential(p.Lambda)
		d := Delivery{At: at, Intent: i, Key: state.Key{Client: clients[rng.below(p.Clients)], Request: strconv.Itoa(i)}}
		d.Op = rng.choice(p.Mix, total)
		d.Delayed = rng.float() < p.F
		repeat := rng.float() < p.P
		t.Deliveries = append(t.Deliveries, d)
		if repeat {
			d.At, d.Repeat = at+p.RepeatAfter, true
			t.Deliveries = append(t.Deliveries, d)
		}
	}
	sortByTime(t.Deliveries)
	return t
}

// python draws what CPython's random.Random draws.
type python struct{ mt *prng.MT19937 }

func newPython(seed uint64) python {
	mt := prng.NewMT19937()
	keys := []uint32{uint32(seed)}
	if high := uint32(seed >> 32); high != 0 {
		keys = append(keys, high)
	}
	mt.SeedFromKeys(keys)
	return python{mt}
}

// float is random(): 53 random bits below 1.
func (p python) float() float64 {
	a, b := p.mt.Uint32()>>5, p.mt.Uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

// exponential is expovariate(lambda).
func (p python) exponential(lambda float64) float64 { return -math.Log(1-p.float()) / lambda }

// below is randrange(n): as many bits as n has, drawn again until below n.
func (p python) below(n int) int {
	bits := 0
	for ; n>>bits > 0; bits++ {
	}
	for {
		if r := int(p.mt.Uint32() >> (32 - bits)); r < n {
			return r
		}
	}
}

// choice is choices(operations, weights)[0].
func (p python) choice(mix []Share, total float64) state.Operation {
	x, sum := p.float()*total, 0.0
	for _, s := range mix[:len(mix)-1] {
		if sum += s.Weight; x < sum {
			return s.Op
		}
	}
	return mix[len(mix)-1].Op
}
