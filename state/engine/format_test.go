package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// olderNote is a note as version 1 wrote it when this test was written.
const olderNote = `{"v":1,"on":true,"run":true,"changed":1700000000000,"poh":4711,"pohRest":60000000000,"cause":1,"progress":8,` +
	`"progressAt":1700000000000001,"os":5,"left":2,"retry":6,"schedule":4000000000,"scheduleOp":2,"inherited":1,` +
	`"settings":{"restore":1,"restoreOnce":3,"delay":5000000000,"auto":false,"autoOnce":true},"boot":"boot-a","phase":2,` +
	`"wasOn":true,"lost":true,"slot":true,"slotAt":1700000000001,"outputs":true,"void":true,"offAt":7000000000,"wishes":2}`

func olderSaved() saved {
	on := true
	return saved{
		Version: 1, PowerOn: &on, Running: true, StateChange: 1700000000000, POH: 4711, POHRest: time.Minute,
		RestartCause: state.RestartCauseRemoteCommand, Progress: state.BootProgressOSRunning, ProgressAt: 1700000000000001,
		OS: state.OSStateBootComplete, AttemptsLeft: 2, Retry: 6, ScheduleTime: 4000000000, ScheduleOp: state.HostOff, Inherited: state.HostOn,
		Settings: state.Settings{Restore: state.RestoreAlwaysOn, RestoreOnce: state.RestorePrevious, RestoreDelay: 5 * time.Second, AutoRebootOnce: true},
		Boot:     "boot-a", Restore: restoreWait, WasOn: true, Lost: true, SlotOn: true, SlotChange: 1700000000001,
		OutputsReset: true, Void: true, OffAt: 7 * time.Second, Wish: wishOn,
	}
}

// What is stored is read by an older and by a newer daemon of the version: the
// bytes are what they were, fields that are missing have their defaults, and
// those that are not known are passed over.
func TestStoredValuesOfTheVersion(t *testing.T) {
	assert.Equal(t, olderNote, string(jsonpos.Marshal(olderSaved())), "raise savedVersion, and go on reading this")
	for name, c := range map[string]struct {
		note string
		want saved
	}{
		"older": {olderNote, olderSaved()},
		"fields missing": {`{"v":1,"poh":7}`, saved{
			Version: 1, POH: 7, OS: state.OSStateInactive, AttemptsLeft: 5, Retry: 5, ScheduleOp: state.HostOn, Settings: state.DefaultSettings(),
		}},
		"newer fields": {strings.Replace(olderNote, `"v":1`, `"new":{"a":[1,"x",null]},"v":1,"more":true`, 1), olderSaved()},
	} {
		v := newValues(DomainConfig{}, 5)
		require.NoError(t, v.restore(c.note), name)
		assert.Equal(t, c.want, v.saved, name)
	}
}

// The note fits the text of a journal's record, which is cut at 1024 bytes.
func TestLargestStoredValuesFit(t *testing.T) {
	s := olderSaved()
	s.Exhausted = true
	s.Boot = strings.Repeat("b", 36)
	s.StateChange, s.ProgressAt, s.ScheduleTime, s.SlotChange = math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64
	s.POHRest, s.OffAt, s.Settings.RestoreDelay = math.MinInt64, math.MinInt64, math.MinInt64
	s.POH, s.AttemptsLeft, s.Retry = math.MaxUint32, math.MaxUint32, math.MaxUint32
	require.LessOrEqual(t, len(jsonpos.Marshal(s)), 1024)
}

// Values that cannot be used are kept under another name and told of, and the
// hardware wins: power is shown as it is, and nothing is driven, even where the
// policy would power on.
func TestUnusableStoredValuesAreSetAside(t *testing.T) {
	for name, c := range map[string]struct{ note, why string }{
		"newer version":     {`{"v":2,"os":"Inactive"}`, "version 2, this program knows version 1"},
		"newer version, ok": {`{"v":2,"os":1}`, "version 2, this program knows version 1"},
		"no version":        {`{"os":1}`, "version 0, this program knows version 1"},
		"damaged":           {olderNote[:100], "1:101"},
		"not JSON":          {"values", "1:1"},
		"out of range":      {`{"v":1,"poh":-1}`, "1:14: a number does not fit uint32"},
		"unknown OS state":  {`{"v":1,"os":99}`, "a value that this program does not know"},
		"unknown operation": {`{"v":1,"scheduleOp":99}`, "a value that this program does not know"},
		"unknown policy":    {`{"v":1,"settings":{"restore":9}}`, "a value that this program does not know"},
	} {
		for _, host := range []string{"on", "off"} {
			r := settingsRig(t, false, state.Settings{Restore: state.RestoreAlwaysOn})
			r.bring(host)
			r.pulses = nil
			r.away(time.Second)
			problems := r.restartWith(c.note, r.boot())
			require.Len(t, problems, 1, name)
			require.ErrorContains(t, problems[0], c.why, name)
			require.ErrorContains(t, problems[0], "stored values of domain 0: ", name)
			require.ErrorContains(t, problems[0], `note "values.unreadable": `+c.note, name)
			r.tellSettings()
			r.pass(time.Hour)
			require.Equal(t, host == "on", r.chassis[len(r.chassis)-1].Current == state.PowerStateOn, name)
			require.Empty(t, r.pulses, name)

			r.write(state.ChassisOff)
			r.pass(time.Minute)
			picture := history.Fold(r.durable)
			aside, _ := picture.Note(0, asideNote)
			require.Equal(t, c.note, aside, name)
			now, _ := picture.Note(0, savedNote)
			require.NoError(t, new(values).restore(now), name)
			r.restart(true) // and is told of once
		}
	}
}

// restartWith restarts the daemon in a boot, with a note of that text in the
// journal.
func (r *rig) restartWith(note, boot string) []error {
	r.Append(history.Entry{Kind: history.KindNote, Note: history.Note{Name: savedNote, Text: note}})
	r.flush()
	r.bootID = boot
	picture := history.Fold(r.durable)
	r.host, r.chassis = nil, nil
	r.core = NewCore(r.core.cfg, r)
	problems := r.core.Recover(r.now, &picture, r.boot())
	r.step(tick{})
	return problems
}

// Each that was set aside stays, and the same one is not kept twice.
func TestUnusableStoredValuesAreNumbered(t *testing.T) {
	r := settingsRig(t, false, state.Settings{})
	r.pass(time.Minute)
	for _, c := range []struct{ note, name string }{
		{"{", "values.unreadable"}, {"{", "values.unreadable"}, {"[", "values.unreadable.1"}, {"x", "values.unreadable.2"}, {"[", "values.unreadable.1"},
	} {
		problems := r.restartWith(c.note, r.boot())
		require.Len(t, problems, 1)
		require.ErrorContains(t, problems[0], `as note "`+c.name+`": `+c.note)
		r.pass(time.Minute)
	}
	picture := history.Fold(r.durable)
	for name, want := range map[string]string{"": "{", ".1": "[", ".2": "x"} {
		got, _ := picture.Note(0, asideNote+name)
		require.Equal(t, want, got, name)
	}
}

// In a boot that the journal has not seen, the policy is not held back by a note
// that cannot be used.
func TestUnusableStoredValuesInAnotherBoot(t *testing.T) {
	r := settingsRig(t, false, state.Settings{Restore: state.RestoreAlwaysOn})
	r.bring("off")
	r.pulses = nil
	r.away(time.Second)
	require.Len(t, r.restartWith("{", "another"), 1)
	r.tellSettings()
	r.pass(time.Hour)
	require.Equal(t, state.PowerStateOn, r.chassis[len(r.chassis)-1].Current)
}
