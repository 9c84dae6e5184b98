package monitor

import (
	"fmt"
	"sort"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// snapshotVersion is the format of [Snapshot]. Fields are only ever added to a
// version.
const snapshotVersion = 1

// Snapshot is what survives a restart of the daemon. It is plain data for JSON,
// for which it has tags.
type Snapshot struct {
	Version   int                `json:"version"`
	BootID    string             `json:"bootId"`
	At        time.Duration      `json:"at"` // boot time
	Resources []ResourceSnapshot `json:"resources"`
}

// ResourceSnapshot is one resource of a [Snapshot]. What an operator has
// wished (Off, suspensions) also survives a boot, the rest does not.
type ResourceSnapshot struct {
	Name         string          `json:"name"`
	OperatorOff  bool            `json:"operatorOff,omitempty"`
	Absent       bool            `json:"absent,omitempty"`
	Suspensions  []Suspension    `json:"suspensions,omitempty"`
	Failures     []Failure       `json:"failures,omitempty"`
	Restarts     []Mark          `json:"restarts,omitempty"`
	FlapMarks    []time.Duration `json:"flapMarks,omitempty"`
	Flapping     bool            `json:"flapping,omitempty"`
	Frozen       time.Duration   `json:"frozen,omitempty"`
	RestartSince time.Duration   `json:"restartSince"`       // boot time; −1 = none in flight
	InFlight     bool            `json:"inFlight,omitempty"` // a restart or escalation decided, its outcome not known
	Ended        bool            `json:"ended,omitempty"`
	Quiesced     bool            `json:"quiesced,omitempty"`
	QuiesceDone  bool            `json:"quiesceDone,omitempty"`
	EscalateKind Escalation      `json:"escalateKind,omitempty"`
	Denials      int             `json:"denials,omitempty"`
	DeniedAt     time.Duration   `json:"deniedAt"`
	Generation   uint64          `json:"generation,omitempty"`
	Invocation   string          `json:"invocation,omitempty"`
	Dead         string          `json:"dead,omitempty"`
	Step         int             `json:"step,omitempty"`
	Stable       time.Duration   `json:"stable"`
	Status       Status          `json:"status"`
	Message      string          `json:"message,omitempty"`
	LastFailure  time.Duration   `json:"lastFailure"`
	Decision     Decision        `json:"decision,omitempty"`
	Decided      bool            `json:"decided,omitempty"`
	Ill          bool            `json:"ill,omitempty"`
	Bad          bool            `json:"bad,omitempty"`
	NextThorough time.Duration   `json:"nextThorough"`
	GraceUntil   time.Duration   `json:"graceUntil"`
	OffSign      time.Duration   `json:"offSign"`
	OffWhat      string          `json:"offWhat,omitempty"`
	Records      []Record        `json:"records,omitempty"`
}

// Snapshot returns a copy of what is to survive, as of the last step.
func (r *Resource) Snapshot() ResourceSnapshot {
	since := unset
	if r.phase == restarting {
		since = r.work.since
	}
	return ResourceSnapshot{
		Name: r.cfg.Name, OperatorOff: r.presence == operatorOff, Absent: r.presence == absent,
		Suspensions: r.Suspensions(), Failures: r.Failures(), Restarts: r.Restarts(),
		FlapMarks: append([]time.Duration(nil), r.flap.marks...), Flapping: r.flap.on,
		Frozen: r.frozen, RestartSince: since,
		InFlight: r.phase == restarting || r.phase == escalating || r.pending != nil, Ended: r.phase == ended,
		Quiesced: r.quiesced, QuiesceDone: r.escalation.quiesceDone, EscalateKind: r.escalation.kind,
		Denials: r.escalation.denials, DeniedAt: r.escalation.deniedAt,
		Generation: r.generation, Invocation: r.invocation, Dead: r.dead, Step: r.step, Stable: r.stable,
		Status: r.health.status, Message: r.health.message, LastFailure: r.health.lastFailure,
		Decision: r.health.decision, Decided: r.health.decided, Ill: r.health.ill, Bad: r.health.bad,
		NextThorough: r.probing.nextThorough, GraceUntil: r.probing.graceUntil,
		OffSign: r.power.offSign, OffWhat: r.power.what, Records: r.Records(0),
	}
}

// Invocation returns the invocation of the instance that is watched, "" = not
// known. After a restart of the daemon it shows whether the instance has
// changed meanwhile.
func (r *Resource) Invocation() string { return r.invocation }

// restore takes over a snapshot of the same boot.
func (r *Resource) restore(s ResourceSnapshot) {
	now := r.now.Boot
	r.hist = s.history(now)
	r.flap = flap{on: s.Flapping}
	for _, t := range s.FlapMarks[max(0, len(s.FlapMarks)-maxHistory):] {
		if t <= now {
			r.flap.marks = append(r.flap.marks, t)
		}
	}
	state.Sort(r.flap.marks)
	r.frozen = min(max(s.Frozen, 0), now)
	if s.RestartSince != unset { // it lasted at most until now: nothing has aged meanwhile
		r.frozen += max(now-s.RestartSince, 0)
	}
	r.suspensions = append([]Suspension(nil), s.Suspensions...)
	r.restorePhase(s)
	r.escalation.kind, r.escalation.denials = s.EscalateKind, max(s.Denials, 0)
	r.escalation.deniedAt, r.escalation.quiesceDone = min(s.DeniedAt, now), s.QuiesceDone
	r.generation, r.invocation, r.dead = s.Generation, s.Invocation, s.Dead
	r.step, r.stable = min(max(s.Step, 0), maxStep), min(s.Stable, now)
	r.health = health{
		status: s.Status, message: s.Message, since: now, lastFailure: min(s.LastFailure, now),
		decision: s.Decision, decided: s.Decided, ill: s.Ill, bad: s.Bad,
	}
	r.power.offSign, r.power.what = min(s.OffSign, now), s.OffWhat
	r.records = append([]Record(nil), s.Records[max(0, len(s.Records)-maxRecords):]...)
	r.restoreProbing(s)
}

// history returns F and R without what cannot be by now, in order of time.
func (s *ResourceSnapshot) history(now time.Duration) history {
	var h history
	for _, f := range s.Failures[max(0, len(s.Failures)-maxHistory):] {
		if f.by(now) && f.Weight >= 1 && f.Weight <= threshold {
			h.failures = append(h.failures, f)
		}
	}
	for _, m := range s.Restarts[max(0, len(s.Restarts)-maxHistory):] {
		if m.by(now) {
			h.restarts = append(h.restarts, m)
		}
	}
	sort.SliceStable(h.failures, func(i, j int) bool { return h.failures[i].Window < h.failures[j].Window })
	sort.SliceStable(h.restarts, func(i, j int) bool { return h.restarts[i].Window < h.restarts[j].Window })
	return h
}

func (r *Resource) restorePhase(s ResourceSnapshot) {
	switch {
	case s.OperatorOff:
		r.presence = operatorOff
	case s.Absent:
		r.presence = absent
	}
	if s.Ended {
		r.phase = ended
	}
	r.quiesced = s.Quiesced
}

// restoreProbing goes on where the old daemon stopped. What became of a restart
// that it had decided is not known: the next probe tells, after a new grace.
func (r *Resource) restoreProbing(s ResourceSnapshot) {
	now := r.now.Boot
	if s.InFlight {
		if !r.quiesced {
			r.set(StatusUnknown, "the monitor was restarted meanwhile: "+s.Message)
		}
		r.startGrace()
		return
	}
	r.probing.graceUntil = min(s.GraceUntil, now+r.cfg.StartGrace)
	r.probing.nextThorough = min(max(s.NextThorough, now), now+max(r.cfg.ThoroughProbe, r.cfg.StartGrace))
	r.probing.nextCheap = r.probing.nextThorough
}

// restoreIntent takes over, from another boot, only what operators have
// wished. A suspension keeps the time it had left when at was taken.
func (r *Resource) restoreIntent(s ResourceSnapshot, at time.Duration) {
	for _, p := range s.Suspensions {
		if p.Until != never {
			p.Until = r.now.Boot + max(p.Until-at, 0)
		}
		r.suspensions = append(r.suspensions, p)
	}
	if s.OperatorOff {
		r.presence = operatorOff
		r.health.status, r.health.message = StatusOffline, s.Message
	}
}

func (s *Snapshot) validate() error {
	if s.Version != snapshotVersion {
		return fmt.Errorf("monitor snapshot has version %d, this program knows %d: histories start empty", s.Version, snapshotVersion)
	}
	for _, r := range s.Resources {
		if r.Status > StatusOffline || r.EscalateKind > EscalateQuiesce {
			return fmt.Errorf("monitor snapshot of %q is damaged: histories start empty", r.Name)
		}
	}
	return nil
}

// Snapshot returns what is to survive a restart of the daemon. bootID tells
// boots apart.
func (m *Monitor) Snapshot(now state.Instant, bootID string) Snapshot {
	s := Snapshot{Version: snapshotVersion, BootID: bootID, At: now.Boot}
	for _, n := range m.names {
		s.Resources = append(s.Resources, m.resources[n].Snapshot())
	}
	return s
}

// Restore takes a snapshot over, after Configure and before any other step.
// Histories of another boot are dropped; resources that are no longer
// configured are skipped. An error leaves the Monitor as it was.
func (m *Monitor) Restore(now state.Instant, bootID string, s Snapshot) ([]Action, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	same := bootID != "" && s.BootID == bootID && s.At <= now.Boot
	for _, rs := range s.Resources {
		r, ok := m.resources[rs.Name]
		if !ok {
			continue
		}
		r.now = now
		switch {
		case same:
			r.restore(rs)
			m.gate.remember(now.Boot, r.flap.marks)
		default:
			r.restoreIntent(rs, s.At)
		}
	}
	var out []Action
	for _, n := range m.names {
		out = append(out, m.step(now, n, Tick{})...)
	}
	return append(out, m.pump(now)...), nil
}
