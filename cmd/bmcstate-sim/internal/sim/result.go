package sim

import "github.com/bmcstate/bmcstate/state"

// Result is what one run measures. S, E, L and B are the paper's: see the
// documentation page.
type Result struct {
	S        float64 `json:"S_pct"`     // keys with a success, % of all keys
	E        float64 `json:"E_per100"`  // superfluous launches per 100 keys
	L        float64 `json:"L_u"`       // mean from first arrival to first success; 0 without any
	B        float64 `json:"B_pct"`     // BUSY answers, % of all deliveries
	MaxQueue int     `json:"max_queue"` // most requests that waited at once

	// LUrgent is L over the keys that ask for a forced or emergency operation.
	LUrgent float64 `json:"L_urgent_u"`

	Keys       int `json:"keys"`
	Deliveries int `json:"deliveries"`
	Launches   int `json:"launches"`
	Successes  int `json:"successes"` // keys
	NoopOK     int `json:"noop_ok"`   // successful keys without a completed transition
	Busy       int `json:"busy"`
	Full       int `json:"full"`
	Conflicts  int `json:"id_conflict"`
	Repeats    int `json:"repeats"` // deliveries answered from a record
	Lost       int `json:"lost"`    // deliveries while the daemon was dead

	Ended Endings `json:"ended"` // requests by final status

	End float64 `json:"end_u"` // when the last event happened
}

// Endings counts requests by final status; Forgotten are those that a crash
// without a journal lost.
type Endings struct {
	Success     int `json:"success"`
	Noop        int `json:"noop"`
	Invalid     int `json:"invalid"`
	Failed      int `json:"failed"`
	Superseded  int `json:"superseded"`
	Expired     int `json:"expired"`
	Interrupted int `json:"interrupted"`
	Forgotten   int `json:"forgotten"`
}

func (e *Endings) add(s state.Status) {
	switch s {
	case state.Success:
		e.Success++
	case state.Noop:
		e.Noop++
	case state.Invalid:
		e.Invalid++
	case state.Failed:
		e.Failed++
	case state.Superseded:
		e.Superseded++
	case state.Expired:
		e.Expired++
	case state.Interrupted:
		e.Interrupted++
	}
}

// intent is what a run knows of one key of the trace.
type intent struct {
	arrived   float64
	succeeded float64
	launches  int
	seen      bool
	urgent    bool
	ok        bool
	completed bool // a transition of it ended in SUCCESS
}

// finish computes the figures from the keys.
func (r *Result) finish(intents []intent) {
	var latency, urgentLatency float64
	extra, urgent := 0, 0
	for i := range intents {
		k := &intents[i]
		r.Launches += k.launches
		extra += max(k.launches-1, 0)
		if !k.ok {
			continue
		}
		r.Successes++
		latency += k.succeeded - k.arrived
		if k.urgent {
			urgent++
			urgentLatency += k.succeeded - k.arrived
		}
		if !k.completed {
			r.NoopOK++
		}
	}
	r.Keys = len(intents)
	r.S = 100 * float64(r.Successes) / float64(r.Keys)
	r.E = 100 * float64(extra) / float64(r.Keys)
	r.B = 100 * float64(r.Busy) / float64(r.Deliveries)
	if r.Successes > 0 {
		r.L = latency / float64(r.Successes)
	}
	if urgent > 0 {
		r.LUrgent = urgentLatency / float64(urgent)
	}
}
