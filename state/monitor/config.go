package monitor

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// NeverAges as Config.RetryInterval keeps every failure and restart for ever.
// It is −1 s, so that it reads −1 in the unit of the D-Bus property.
const NeverAges = -time.Second

// Ranges of fault-monitor.md §3.
const (
	maxRetryCount    = 100
	maxRetryInterval = 24 * time.Hour
	minProbeInterval = 10 * time.Millisecond // below it the BMC would do little else
	maxProbeInterval = time.Hour
)

// Config is all that is set for one resource. Durations are on the boot clock.
// DefaultConfig gives the defaults named here.
type Config struct {
	Name      string   // unique in its Monitor
	DependsOn []string // parents: while one is bad this resource is not restarted

	Mode   Mode // Failover_mode; default NONE
	DryRun bool // decide as Mode says and log WOULD_…; do nothing

	RetryCount    int           // restarts within RetryInterval; −1 = unlimited, 0 = none, up to 100; default 2
	RetryInterval time.Duration // NeverAges, or 1 s to 24 h; default 360 s

	ThoroughProbe  time.Duration // from the end of a probe to the next; 10 ms to 1 h; default 60 s
	CheapProbe     time.Duration // the same for the cheap probe; 0 = none
	ProbeTimeout   time.Duration // default 30 s
	TimeoutWeight  int           // weight of a probe that misses its deadline, 1 to 100; default 100
	PartialWeights bool          // the probe can report 1 to 99

	StartGrace      time.Duration // after a start: probe failures do not count, deaths do; default 10 s
	RestartTimeout  time.Duration // a restart that has not ended by then has failed; default 300 s
	EscalateTimeout time.Duration // an escalation without an answer by then is denied; default 60 s

	Escalation    Escalation // default none
	Target        string     // of the escalation: a unit's name or an operation
	QuiesceTarget string     // unit for the last step; "" = only stop acting
	DenialLimit   int        // refused escalations until that step; −1 = never; default 3

	Backoff   Backoff       // between restarts and between refused escalations
	StableFor time.Duration // time without a failure that forgives back-off and denials; default 10 min
	Flap      FlapConfig

	GracefulTimeout time.Duration // how long a sign of an intended Off explains a loss of power good; default 300 s
	PowerDebounce   time.Duration // power good must be gone this long to be lost; default 0
}

// Backoff is the delay before a restart: Min × Factorⁿ up to Max, where n
// counts the restarts since the resource was last stable, and then ± Jitter.
// Jitter comes last, so that resources which reached Max together stay apart.
// The zero value is no delay.
type Backoff struct {
	_ state.Incomparable

	Min    time.Duration
	Max    time.Duration
	Factor float64 // ≥ 1
	Jitter float64 // share of the delay, 0 to 1
}

// FlapConfig is when a resource counts as flapping: from Count restarts within
// Window until no more than Clear are left in it. Count 0 turns it off.
type FlapConfig struct {
	Count  int
	Clear  int
	Window time.Duration
}

// DefaultConfig returns the defaults. They are DSDL's where it has any, but
// for RetryInterval: with DSDL's 300 s they would break the sizing rule.
func DefaultConfig(name string) Config {
	return Config{
		Name: name, RetryCount: 2, RetryInterval: 360 * time.Second,
		ThoroughProbe: time.Minute, ProbeTimeout: 30 * time.Second, TimeoutWeight: threshold,
		StartGrace: 10 * time.Second, RestartTimeout: 300 * time.Second, EscalateTimeout: time.Minute,
		DenialLimit:     3,
		Backoff:         Backoff{Min: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.2},
		StableFor:       10 * time.Minute,
		Flap:            FlapConfig{Count: 3, Clear: 1, Window: 10 * time.Minute},
		GracefulTimeout: 300 * time.Second,
	}
}

// FieldError names one field of a [Config] that is out of range.
type FieldError struct {
	_ state.Incomparable

	Resource string
	Field    string // as in Config
	Value    any
	Want     string // what is allowed
}

// Error says which field of which resource, its value and what is allowed.
func (e *FieldError) Error() string {
	return fmt.Sprintf("resource %q: %s is %v, want %s", e.Resource, e.Field, e.Value, e.Want)
}

// check is one range.
type check struct {
	_ state.Incomparable

	ok    bool
	field string
	value any
	want  string
}

// Validate returns what is out of range, one [FieldError] each, and warnings
// about what is allowed but will not work well (the sizing rule).
func (c *Config) Validate() (warnings []string, err error) {
	var errs []error
	for _, k := range append(c.countChecks(), c.timeChecks()...) {
		if !k.ok {
			errs = append(errs, &FieldError{Resource: c.Name, Field: k.field, Value: k.value, Want: k.want})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c.warnings(), nil
}

func (c *Config) countChecks() []check {
	b, f := c.Backoff, c.Flap
	return []check{
		{ok: c.Name != "", field: "Name", value: `""`, want: "a name"},
		{ok: c.Mode <= ModeLogOnly, field: "Mode", value: c.Mode, want: "NONE, SOFT, HARD, RESTART_ONLY or LOG_ONLY"},
		{ok: c.RetryCount >= -1 && c.RetryCount <= maxRetryCount, field: "RetryCount", value: c.RetryCount, want: "-1 (unlimited) to 100"},
		{ok: c.TimeoutWeight >= 1 && c.TimeoutWeight <= threshold, field: "TimeoutWeight", value: c.TimeoutWeight, want: "1 to 100"},
		{ok: c.Escalation < EscalateQuiesce, field: "Escalation", value: c.Escalation, want: "none, unit, transition or failover"},
		{ok: c.DenialLimit == -1 || c.DenialLimit >= 1, field: "DenialLimit", value: c.DenialLimit, want: "-1 (never quiesce) or at least 1"},
		{ok: c.Target != "" || c.Escalation != EscalateUnit && c.Escalation != EscalateTransition,
			field: "Target", value: `""`, want: "the unit or operation of the escalation"},
		{ok: b.Min == 0 || b.Factor >= 1 && !math.IsInf(b.Factor, 0), field: "Backoff.Factor", value: b.Factor, want: "at least 1"},
		{ok: b.Jitter >= 0 && b.Jitter <= 1, field: "Backoff.Jitter", value: b.Jitter, want: "0 to 1"},
		{ok: f.Count >= 0 && f.Count <= maxHistory, field: "Flap.Count", value: f.Count, want: fmt.Sprintf("0 (off) to %d", maxHistory)},
		{ok: f.Count == 0 || f.Clear >= 0 && f.Clear < f.Count, field: "Flap.Clear", value: f.Clear, want: "0 to Flap.Count - 1"},
	}
}

func (c *Config) timeChecks() []check {
	ri, b := c.RetryInterval, c.Backoff
	partial := c.PartialWeights || c.TimeoutWeight < threshold
	return []check{
		{ok: ri == NeverAges || ri >= time.Second && ri <= maxRetryInterval, field: "RetryInterval", value: ri, want: "-1s (never ages) or 1s to 24h"},
		// Partial failures one probe interval apart would never meet in the window.
		{ok: ri == NeverAges || !partial || ri >= c.ThoroughProbe, field: "RetryInterval", value: ri,
			want: "at least ThoroughProbe where partial weights are used"},
		{ok: c.ThoroughProbe >= minProbeInterval && c.ThoroughProbe <= maxProbeInterval, field: "ThoroughProbe", value: c.ThoroughProbe, want: "10ms to 1h"},
		{ok: c.CheapProbe == 0 || c.CheapProbe >= minProbeInterval && c.CheapProbe <= maxProbeInterval, field: "CheapProbe", value: c.CheapProbe,
			want: "0 (none), or 10ms to 1h"},
		{ok: c.ProbeTimeout > 0 && c.ProbeTimeout <= maxProbeInterval, field: "ProbeTimeout", value: c.ProbeTimeout, want: "above 0, up to 1h"},
		{ok: c.StartGrace >= 0, field: "StartGrace", value: c.StartGrace, want: "at least 0"},
		{ok: c.RestartTimeout > 0, field: "RestartTimeout", value: c.RestartTimeout, want: "above 0"},
		{ok: c.EscalateTimeout > 0, field: "EscalateTimeout", value: c.EscalateTimeout, want: "above 0"},
		{ok: b.Min >= 0, field: "Backoff.Min", value: b.Min, want: "at least 0"},
		{ok: b.Max >= b.Min, field: "Backoff.Max", value: b.Max, want: "at least Backoff.Min"},
		{ok: c.StableFor >= 0, field: "StableFor", value: c.StableFor, want: "at least 0"},
		{ok: c.Flap.Count == 0 || c.Flap.Window > 0, field: "Flap.Window", value: c.Flap.Window, want: "above 0"},
		{ok: c.GracefulTimeout >= 0, field: "GracefulTimeout", value: c.GracefulTimeout, want: "at least 0"},
		{ok: c.PowerDebounce >= 0, field: "PowerDebounce", value: c.PowerDebounce, want: "at least 0"},
	}
}

func (c *Config) warnings() []string {
	var w []string
	if c.RetryInterval != NeverAges && c.RetryCount > 0 {
		need := 2 * time.Duration(c.RetryCount) * (c.ThoroughProbe + c.ProbeTimeout)
		if c.RetryInterval < need {
			w = append(w, fmt.Sprintf("resource %q: RetryInterval %v is below 2 x RetryCount x (ThoroughProbe + ProbeTimeout) = %v: "+
				"failures may age out before the limit is reached", c.Name, c.RetryInterval, need))
		}
	}
	if c.ProbeTimeout > c.ThoroughProbe {
		w = append(w, fmt.Sprintf("resource %q: ProbeTimeout %v is above ThoroughProbe %v: a hung probe is noticed late",
			c.Name, c.ProbeTimeout, c.ThoroughProbe))
	}
	return w
}

// RetryMinutes returns RetryInterval for interfaces that count in minutes,
// rounded up so that a short interval never becomes 0, and −1 for NeverAges.
func (c *Config) RetryMinutes() int {
	if c.RetryInterval < 0 {
		return -1
	}
	return int((c.RetryInterval + time.Minute - 1) / time.Minute)
}

// delay returns the wait before attempt n (0 = the first), jittered by the
// random number u in [0,1).
func (b Backoff) delay(n int, u float64) time.Duration {
	if b.Min == 0 {
		return 0
	}
	d := min(float64(b.Min)*math.Pow(b.Factor, float64(n)), float64(b.Max))
	return time.Duration(d * (1 + b.Jitter*(2*u-1)))
}
