package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// hint is a transitional value that another daemon wrote. It is shown until
// something is seen to change, and never drives anything (DESIGN.md P5).
type hint struct {
	value uint64
	until time.Duration // boot clock, 0 = none
}

// values are the published values that are not derived from levels. saved is
// what survives a restart of the daemon.
type values struct {
	_ state.Incomparable

	saved     saved
	written   saved // as last journalled
	hostHint  hint
	powerHint hint
	lastHost  state.HostState  // as last shown while the power state was known
	lastPower state.PowerState // likewise
	ownCause  bool             // RestartCause was written by a client since the host last came up
	causes    uint16           // of the restart to come, by RestartCause
}

// saved is the journalled part, one note of the domain. Enum values are kept
// as numbers in the order of the interface definitions; Version guards them.
type saved struct {
	_ state.Incomparable

	Version      int                `json:"v"`
	PowerOn      *bool              `json:"on,omitempty"` // as last seen
	Running      bool               `json:"run,omitempty"`
	StateChange  uint64             `json:"changed,omitempty"` // ms since the epoch
	POH          uint32             `json:"poh,omitempty"`     // hours
	POHRest      time.Duration      `json:"pohRest,omitempty"` // of an hour that is not full
	RestartCause state.RestartCause `json:"cause,omitempty"`
	Progress     state.BootProgress `json:"progress,omitempty"`
	ProgressAt   uint64             `json:"progressAt,omitempty"` // µs since the epoch
	OS           state.OSState      `json:"os"`
	AttemptsLeft uint32             `json:"left"`
	Retry        uint32             `json:"retry"`
	ScheduleTime uint64             `json:"schedule,omitempty"` // s since the epoch
	ScheduleOp   state.Operation    `json:"scheduleOp,omitempty"`

	Hypervisor bool `json:"hypervisor,omitempty"` // On is asked of the host's

	Inherited state.Operation `json:"inherited,omitempty"` // RequestedHostTransition of an earlier state manager
	Exhausted bool            `json:"exhausted,omitempty"` // no attempts were left: quiesced until somebody operates it

	Settings     state.Settings `json:"settings"`          // while nobody else keeps them
	Boot         string         `json:"boot,omitempty"`    // of the BMC
	Restore      restorePhase   `json:"phase,omitempty"`   // in that boot, as all of these
	WasOn        bool           `json:"wasOn,omitempty"`   // power was on when the boot before ended
	Lost         bool           `json:"lost,omitempty"`    // and off when this one began
	SlotOn       bool           `json:"slot,omitempty"`    // as last seen
	SlotChange   uint64         `json:"slotAt,omitempty"`  // ms since the epoch
	OutputsReset bool           `json:"outputs,omitempty"` // have their levels of the boot
	Void         bool           `json:"void,omitempty"`    // somebody has begun to operate the machine
	OffAt        time.Duration  `json:"offAt,omitempty"`   // power reads off since, by the boot clock
	Wish         wish           `json:"wishes,omitempty"`  // survives the boot
}

const (
	savedNote    = "values"
	asideNote    = "values.unreadable"
	savedVersion = 1
)

func newValues(cfg DomainConfig, retry uint32) values {
	s := saved{Version: savedVersion, OS: state.OSStateInactive, AttemptsLeft: retry, Retry: retry, ScheduleOp: state.HostOn,
		Settings: state.DefaultSettings()}
	return values{saved: s, written: s}
}

// restore takes the note of an earlier run. Of one that cannot be used it takes
// nothing: the hardware says what matters.
func (v *values) restore(text string) error {
	var of struct { // before the rest, which may have another form
		Version int `json:"v"`
	}
	if err := jsonpos.Unmarshal([]byte(text), &of); err != nil {
		return err
	}
	if of.Version != savedVersion {
		return fmt.Errorf("version %d, this program knows version %d", of.Version, savedVersion)
	}
	s := v.saved // the defaults: an older note lacks what was added since
	if err := jsonpos.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	if !s.known() {
		return errors.New("a value that this program does not know")
	}
	v.saved, v.written = s, s
	if s.Exhausted {
		v.lastHost = state.HostStateQuiesced
	}
	if s.PowerOn != nil && *s.PowerOn {
		v.lastPower = state.PowerStateOn
		if s.Running {
			v.lastHost = state.HostStateRunning
		}
	}
	return nil
}

// known reports whether every enum value is one of ours.
func (s *saved) known() bool {
	for _, op := range []state.Operation{s.ScheduleOp, s.Inherited} {
		if op != 0 && !op.Valid() {
			return false
		}
	}
	return s.RestartCause <= state.RestartCauseHostCrash && s.Progress <= state.BootProgressOEM && s.OS <= state.OSStateStandby &&
		s.Settings.Restore <= state.RestorePrevious && s.Settings.RestoreOnce <= state.RestorePrevious &&
		s.Restore <= restoreWait && s.Wish <= wishOn
}

// setAside keeps a note that cannot be used under another name, as what is
// saved from now on replaces it. In a boot that the journal has seen, that note
// had the restore policy's decision and the outputs' levels in it: they are
// taken as done, so that a restart of the daemon drives nothing.
func (d *domain) setAside(text string, why error, bootID string, p *history.Picture) error {
	for _, b := range p.Boots {
		if b.ID == bootID {
			d.values.saved.Boot, d.values.saved.OutputsReset = bootID, true
		}
	}
	name := asideNote
	for i := 1; ; i++ { // what was set aside before stays
		if old, taken := p.Note(d.cfg.ID, name); !taken || old == text {
			break
		}
		name = asideNote + "." + strconv.Itoa(i)
	}
	d.core.record(d, history.Entry{Kind: history.KindNote, Domain: d.cfg.ID, Note: history.Note{Name: name, Text: text}})
	return fmt.Errorf("stored values of domain %d: %w: attempts, schedule and settings start anew and are to be set again; the old ones stay in the journal, as note %q: %s",
		d.cfg.ID, why, name, text)
}

// wasOn reports whether power was on when it was last seen.
func (v *values) wasOn() bool { return v.saved.PowerOn != nil && *v.saved.PowerOn }

// powerSeen takes the power state as seen, and reports whether it differs from
// what was last seen. Only then LastStateChangeTime moves, so a restart changes
// nothing.
func (v *values) powerSeen(on bool, now state.Instant) (moved bool) {
	s := &v.saved
	moved = s.PowerOn == nil && on || s.PowerOn != nil && *s.PowerOn != on
	if moved {
		s.StateChange = now.WallMillis()
	}
	s.PowerOn = &on
	return moved
}

// noCause takes a change of power that nothing here asked for. Unless a client
// explains it, its cause is not that of the restart before.
func (v *values) noCause() {
	if v.causes == 0 && !v.ownCause {
		v.saved.RestartCause = state.RestartCauseUnknown
	}
}

// hostGone clears what only a running host has.
func (v *values) hostGone() {
	v.progress(state.BootProgressUnspecified)
	v.saved.OS = state.OSStateInactive
}

// progress takes how far the host has booted. When it has gone, so has what was
// asked of its hypervisor (openbmc-state-manager.md §2.11).
func (v *values) progress(p state.BootProgress) {
	s := &v.saved
	s.Hypervisor = s.Hypervisor && (p != state.BootProgressUnspecified || p == s.Progress)
	s.Progress = p
}

// osStandby takes POST complete. Found asserted at start it says nothing new:
// what was stored may say more.
func (v *values) osStandby(first bool) {
	if !first || v.saved.OS == state.OSStateInactive {
		v.saved.OS = state.OSStateStandby
	}
}

func (v *values) nextHint() time.Duration {
	switch {
	case v.hostHint.until == 0:
		return v.powerHint.until
	case v.powerHint.until == 0:
		return v.hostHint.until
	default:
		return min(v.hostHint.until, v.powerHint.until)
	}
}

func (d *domain) clearHints() { d.values.hostHint, d.values.powerHint = hint{}, hint{} }

func (d *domain) expireHints() {
	for _, h := range []*hint{&d.values.hostHint, &d.values.powerHint} {
		if d.due(h.until) {
			*h = hint{}
		}
	}
}

// save journals the values if they have changed.
func (d *domain) save() {
	v := &d.values
	if equalSaved(v.saved, v.written) {
		return
	}
	text := jsonpos.Marshal(v.saved)
	v.written = v.saved
	if v.saved.PowerOn != nil {
		on := *v.saved.PowerOn
		v.written.PowerOn = &on
	}
	d.core.record(d, history.Entry{Kind: history.KindNote, Domain: d.cfg.ID, Note: history.Note{Name: savedNote, Text: string(text)}})
}

func equalSaved(a, b saved) bool {
	return reflect.DeepEqual(a, b)
}

// takeAttempt counts a launched host request. A fresh Host On from outside
// fills the attempts up first (DESIGN.md §3.2).
func (d *domain) takeAttempt(req state.Request) {
	if req.Object.Kind != state.KindHost || !req.Op.Raising() {
		return
	}
	s := &d.values.saved
	if req.Op == state.HostOn && d.run.verdict == state.VerdictPowerOn && !selfMade(req) {
		s.AttemptsLeft = s.Retry
	}
	d.run.attempt = s.AttemptsLeft > 0
	if d.run.attempt {
		s.AttemptsLeft--
	}
}

// selfMade reports whether the daemon asked to repair something; a schedule or
// a restore policy stands for a person.
func selfMade(req state.Request) bool {
	return req.Key.Client == state.InternalPrefix+rebootClient || req.Key.Client == FaultsClient
}

func (d *domain) refundAttempt() {
	if d.run.attempt {
		d.values.saved.AttemptsLeft++
	}
}

// setRestartCause says why the host comes up, before it shows Running.
func (d *domain) setRestartCause(req state.Request) {
	if !req.Op.Raising() || req.Object.Kind == state.KindSystem {
		return
	}
	cause := state.RestartCauseRemoteCommand
	if req.Internal() {
		n, err := strconv.Atoi(req.Cause)
		if err != nil {
			return
		}
		cause = state.RestartCause(n)
	}
	d.addCause(cause)
}

// causePriority orders the causes of one restart, the decisive first
// (power-sequencing.md §4.2; the two that it does not know stand beside those
// that they are like).
var causePriority = [...]state.RestartCause{
	state.RestartCauseWatchdogTimer, state.RestartCauseHostCrash,
	state.RestartCauseRemoteCommand, state.RestartCauseScheduledPowerOn,
	state.RestartCauseResetButton, state.RestartCausePowerButton,
	state.RestartCausePowerPolicyAlwaysOn, state.RestartCausePowerPolicyPreviousState,
	state.RestartCauseSoftReset,
}

// addCause adds to the causes of the restart to come. RestartCause shows the
// decisive one at once, so that it is there before Running is; one that a client
// wrote stands until the host has come up.
func (d *domain) addCause(c state.RestartCause) {
	if c == state.RestartCauseUnknown {
		return
	}
	v := &d.values
	v.causes |= 1 << c
	if v.ownCause {
		return
	}
	for _, c := range causePriority {
		if v.causes&(1<<c) != 0 {
			v.saved.RestartCause = c
			return
		}
	}
}

// hostCameUp ends the time in which causes add up: the next restart has its
// own.
func (v *values) hostCameUp() { v.causes, v.ownCause = 0, false }
