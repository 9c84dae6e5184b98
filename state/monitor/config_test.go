package monitor_test

import (
	"testing"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultsAreValidWithoutAWarning(t *testing.T) {
	cfg := monitor.DefaultConfig("x")
	warnings, err := cfg.Validate()
	require.NoError(t, err)
	assert.Empty(t, warnings)
}

// TestConfig has the ranges of fault-monitor.md §3 and cases 19, 57 and 58.
func TestConfig(t *testing.T) {
	type config = *monitor.Config
	for name, c := range map[string]struct {
		change func(config)
		field  string // "" = valid
	}{
		"case 19: RI 0":              {func(c config) { c.RetryInterval = 0 }, "RetryInterval"},
		"RI -1":                      {func(c config) { c.RetryInterval = monitor.NeverAges }, ""},
		"RI -2":                      {func(c config) { c.RetryInterval = -2 * time.Second }, "RetryInterval"},
		"RI 1 s":                     {func(c config) { c.RetryInterval = time.Second }, ""},
		"RI below 1 s":               {func(c config) { c.RetryInterval = time.Millisecond }, "RetryInterval"},
		"RI 86400 s":                 {func(c config) { c.RetryInterval = 86400 * time.Second }, ""},
		"RI 86401 s":                 {func(c config) { c.RetryInterval = 86401 * time.Second }, "RetryInterval"},
		"RC -1":                      {func(c config) { c.RetryCount = -1 }, ""},
		"RC -2":                      {func(c config) { c.RetryCount = -2 }, "RetryCount"},
		"RC 100":                     {func(c config) { c.RetryCount = 100 }, ""},
		"RC 101":                     {func(c config) { c.RetryCount = 101 }, "RetryCount"},
		"TPI 0":                      {func(c config) { c.ThoroughProbe = 0 }, "ThoroughProbe"},
		"TPI 3600 s":                 {func(c config) { c.ThoroughProbe = time.Hour }, ""},
		"TPI above":                  {func(c config) { c.ThoroughProbe = time.Hour + 1 }, "ThoroughProbe"},
		"PT 0":                       {func(c config) { c.ProbeTimeout = 0 }, "ProbeTimeout"},
		"case 58: RI < TPI, partial": {func(c config) { c.RetryInterval, c.PartialWeights = 50*time.Second, true }, "RetryInterval"},
		"case 58: partial time-out":  {func(c config) { c.RetryInterval, c.TimeoutWeight = 50*time.Second, 34 }, "RetryInterval"},
		"RI < TPI, complete only":    {func(c config) { c.RetryInterval = 50 * time.Second }, ""},
		"weight 0":                   {func(c config) { c.TimeoutWeight = 0 }, "TimeoutWeight"},
		"weight 101":                 {func(c config) { c.TimeoutWeight = 101 }, "TimeoutWeight"},
		"unknown mode":               {func(c config) { c.Mode = 9 }, "Mode"},
		"no name":                    {func(c config) { c.Name = "" }, "Name"},
		"quiesce as first step":      {func(c config) { c.Escalation = monitor.EscalateQuiesce }, "Escalation"},
		"unit without a name":        {func(c config) { c.Escalation = monitor.EscalateUnit }, "Target"},
		"denial limit 0":             {func(c config) { c.DenialLimit = 0 }, "DenialLimit"},
		"back-off factor below 1":    {func(c config) { c.Backoff = monitor.Backoff{Min: 1, Max: 2, Factor: 0.5} }, "Backoff.Factor"},
		"back-off max below min":     {func(c config) { c.Backoff = monitor.Backoff{Min: 2, Max: 1, Factor: 1} }, "Backoff.Max"},
		"back-off jitter above 1":    {func(c config) { c.Backoff.Jitter = 1.5 }, "Backoff.Jitter"},
		"flap clears at its count":   {func(c config) { c.Flap = monitor.FlapConfig{Count: 3, Clear: 3, Window: 1} }, "Flap.Clear"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base()
			c.change(&cfg)
			_, err := cfg.Validate()
			if c.field == "" {
				require.NoError(t, err)
				return
			}
			var field *monitor.FieldError
			require.ErrorAs(t, err, &field)
			assert.Equal(t, c.field, field.Field)
			assert.Contains(t, err.Error(), "want ")
		})
	}
}

func TestSizingRuleWarns(t *testing.T) {
	cfg := base() // DSDL's sample: 300 s < 2 x 2 x (60 + 30) s
	warnings, err := cfg.Validate()
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "6m0s")

	cfg.RetryInterval = 360 * time.Second
	warnings, _ = cfg.Validate()
	assert.Empty(t, warnings)

	cfg.RetryCount, cfg.ProbeTimeout = -1, 61*time.Second
	warnings, _ = cfg.Validate()
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "ProbeTimeout")
}

func TestRetryMinutesRoundsUp(t *testing.T) { // case 57
	for seconds, want := range map[int]int{50: 1, 60: 1, 61: 2, 300: 5, -1: -1} {
		cfg := base()
		cfg.RetryInterval = time.Duration(seconds) * time.Second
		assert.Equal(t, want, cfg.RetryMinutes(), "%d s", seconds)
	}
}

func TestEnumNames(t *testing.T) {
	for _, s := range []string{"NONE", "SOFT", "HARD", "RESTART_ONLY", "LOG_ONLY"} {
		m, err := monitor.ParseMode(s)
		require.NoError(t, err)
		assert.Equal(t, s, m.String())
	}
	for _, s := range []string{"none", "unit", "transition", "failover", "quiesce"} {
		e, err := monitor.ParseEscalation(s)
		require.NoError(t, err)
		assert.Equal(t, s, e.String())
	}
	_, err := monitor.ParseMode("soft")
	assert.ErrorContains(t, err, "LOG_ONLY")
	for s, want := range []string{"UNKNOWN", "OK", "DEGRADED", "FAULTED", "OFFLINE", "Status(5)"} {
		assert.Equal(t, want, monitor.Status(s).String())
	}
	for d := range monitor.LateLoop + 1 {
		assert.NotContains(t, d.String(), "(", "decision %d has a name", d)
	}
}

func TestDependencies(t *testing.T) {
	with := func(name string, parents ...string) monitor.Config {
		c := base()
		c.Name, c.DependsOn = name, parents
		return c
	}
	for name, c := range map[string]struct {
		cfgs []monitor.Config
		want string
	}{
		"twice":   {[]monitor.Config{with("a"), with("a")}, "configured twice"},
		"unknown": {[]monitor.Config{with("a", "b")}, "not configured"},
		"itself":  {[]monitor.Config{with("a", "a")}, "a → a"},
		"circle":  {[]monitor.Config{with("x", "a"), with("a", "b"), with("b", "c"), with("c", "a")}, "a → b → c → a"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := monitor.New(monitor.Limits{}, func() float64 { return 0 })
			require.NoError(t, err)
			_, err = m.Configure(newRig(t, base()).instant(), c.cfgs)
			require.ErrorContains(t, err, c.want)
			assert.Empty(t, m.Names())
		})
	}
}

func TestReloadKeepsHistories(t *testing.T) {
	a, b, c := base(), base(), base()
	a.Name, b.Name, c.Name = "a", "b", "c"
	b.DependsOn = []string{"a"}
	f := newFleet(t, monitor.Limits{}, a, b)
	f.report("b", 50)
	f.report("a", 100)
	assert.Contains(t, f.view("b").Message, "dependency a")

	b.DependsOn, b.RetryCount = nil, 7
	actions, err := f.mon.Configure(f.instant(), []monitor.Config{b, c})
	require.NoError(t, err)
	assert.Contains(t, actions, monitor.Action(monitor.Removed{Resource: "a"}))
	assert.Equal(t, []string{"b", "c"}, f.mon.Names())
	assert.EqualValues(t, 50, f.view("b").FailureSum)
	assert.EqualValues(t, 7, f.view("b").RetryCount)
	assert.Equal(t, []string{"RESTART"}, f.report("b", 50), "no longer a's child")

	_, err = f.mon.Step(f.instant(), "a", monitor.Tick{})
	require.ErrorIs(t, err, monitor.ErrUnknownResource)
}
