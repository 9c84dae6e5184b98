package powerconfig

import (
	"math"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// timing is one key of timing_configs.
type timing struct {
	key     string
	unit    time.Duration
	zero    bool   // 0 makes sense
	newName string // of a key that was renamed
	of      func(*Timings) *time.Duration
}

var timings = []timing{
	{"PowerPulseMs", time.Millisecond, false, "", func(t *Timings) *time.Duration { return &t.PowerPulse }},
	{"ForceOffPulseMs", time.Millisecond, false, "", func(t *Timings) *time.Duration { return &t.ForceOffPulse }},
	{"ResetPulseMs", time.Millisecond, false, "", func(t *Timings) *time.Duration { return &t.ResetPulse }},
	{"PowerCycleMs", time.Millisecond, true, "", func(t *Timings) *time.Duration { return &t.PowerCycle }},
	{"SioPowerGoodWatchdogMs", time.Millisecond, false, "", func(t *Timings) *time.Duration { return &t.SIOWatchdog }},
	{"PowerOKWatchdogMs", time.Millisecond, false, "", powerOKWatchdog},
	{"PsPowerOKWatchdogMs", time.Millisecond, false, "PowerOKWatchdogMs", powerOKWatchdog},
	{"GracefulPowerOffS", time.Second, false, "", func(t *Timings) *time.Duration { return &t.GracefulPowerOff }},
	{"WarmResetCheckMs", time.Millisecond, true, "", func(t *Timings) *time.Duration { return &t.WarmResetCheck }},
	{"PowerOffSaveMs", time.Millisecond, true, "", func(t *Timings) *time.Duration { return &t.PowerOffSave }},
	{"SlotPowerCycleMs", time.Millisecond, true, "", func(t *Timings) *time.Duration { return &t.SlotPowerCycle }},
	{"DbusGetPropertyRetry", time.Millisecond, false, "", func(t *Timings) *time.Duration { return &t.PropertyRetry }},
}

func powerOKWatchdog(t *Timings) *time.Duration { return &t.PowerOKWatchdog }

func (p *parser) timings(n *jsonpos.Node) {
	members := p.members(n)
	has := func(key string) bool {
		for _, m := range members {
			if m.Key == key {
				return true
			}
		}
		return false
	}
	for _, m := range members {
		i := 0
		for i < len(timings) && timings[i].key != m.Key {
			i++
		}
		if i == len(timings) {
			p.warn(m.Offset, "unknown key timing_configs.%s is ignored", m.Key)
			continue
		}
		t := timings[i]
		switch {
		case t.newName != "" && has(t.newName):
			p.warn(m.Offset, "timing_configs.%s is the old name of %s, which is there too and counts", t.key, t.newName)
			continue
		case t.newName != "":
			p.warn(m.Offset, "timing_configs.%s is the old name of %s and is read as that", t.key, t.newName)
		}
		p.timing(t, m.Value)
	}
}

func (p *parser) timing(t timing, n *jsonpos.Node) {
	to := t.of(&p.config.Timings)
	if n.Kind != jsonpos.Number {
		p.fail(n.Offset, "timing_configs.%s is %s, not a number", t.key, n.Kind)
		return
	}
	v, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || v < 0 || v > math.MaxInt32 || (v < 1 && !t.zero) {
		p.warn(n.Offset, "timing_configs.%s: %s makes no sense; the default of %s is kept", t.key, n.Text, *to)
		return
	}
	if whole := math.Trunc(v); whole != v {
		p.warn(n.Offset, "timing_configs.%s: %s is cut to %.0f", t.key, n.Text, whole)
	}
	*to = time.Duration(v) * t.unit
	if t.key == "GracefulPowerOffS" {
		p.config.GracefulSet = true
	}
}
