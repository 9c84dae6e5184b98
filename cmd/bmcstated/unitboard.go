package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/systemd"
)

// unitBoard is a domain that has no lines of ours: its levels are what its units
// and, where there is one, the power service show (DESIGN.md §3.2).
type unitBoard struct {
	units  *systemd.Units
	power  *inputs.Source // pgood of org.openbmc.control.Power
	edges  chan engine.Edge
	names  boardUnits
	passed chan struct{} // closed when the power service's events have ended

	mu   sync.Mutex
	last state.Level // power by the targets, as last seen while neither was on its way
	sure bool        // something said how power is: a target that is up, or the power service
}

var _ engine.Board = (*unitBoard)(nil)

// boardUnits are the units that show how a domain is.
type boardUnits struct {
	_ state.Incomparable

	powerOn, powerOff, running, stopped, quiesced, diagnostic string
}

func unitsOfBoard(host, chassis int) boardUnits {
	h, c := strconv.Itoa(host)+".target", strconv.Itoa(chassis)+".target"
	return boardUnits{
		powerOn: "obmc-chassis-poweron@" + c, powerOff: "obmc-chassis-poweroff@" + c,
		running: "obmc-host-startmin@" + h, stopped: "obmc-host-stop@" + h,
		quiesced: "obmc-host-quiesce@" + h, diagnostic: "obmc-host-diagnostic-mode@" + h,
	}
}

// pgood names the input that the power service shows.
const pgood = "pgood"

// powerRetry is the time between two attempts to find the power service.
const powerRetry = 10 * time.Second

func newUnitBoard(units *systemd.Units, host, chassis int) *unitBoard {
	const name = "org.openbmc.control.Power"
	b := &unitBoard{units: units, edges: make(chan engine.Edge, 1), names: unitsOfBoard(host, chassis), passed: make(chan struct{})}
	b.power = inputs.New(inputs.Options{Retry: powerRetry, Properties: []inputs.Property{{
		Signal: pgood, Service: name, Path: "/org/openbmc/control/power" + strconv.Itoa(chassis), Interface: name, Name: pgood, Number: true,
	}}})
	go func() {
		defer close(b.passed)
		for range b.power.Events() {
			b.moved()
		}
	}()
	return b
}

// Close ends the connection to the power service. systemd's is another's.
func (b *unitBoard) Close() error {
	b.power.Close()
	<-b.passed
	return nil
}

// moved has the levels read.
func (b *unitBoard) moved() {
	select {
	case b.edges <- engine.Edge{}:
	default: // one is waiting, and it says the same
	}
}

func (b *unitBoard) Edges() <-chan engine.Edge { return b.edges }

// errNoAnswer is why nothing is known.
var errNoAnswer = errors.New("systemd has not answered yet: is the system bus up?")

// Read samples the units. A settled reading asks systemd anew, twice; without
// one what systemd last told is good enough: it tells of every change.
func (b *unitBoard) Read(ctx context.Context, settle time.Duration) (state.Levels, bool, error) {
	if settle <= 0 {
		l, err := b.sample(ctx, false)
		return l, true, err
	}
	first, err := b.sample(ctx, true)
	if err != nil || !pause(ctx, settle) {
		return first, false, errors.Join(err, ctx.Err())
	}
	second, err := b.sample(ctx, true)
	return second, first.PowerGood == second.PowerGood && first.HostActive == second.HostActive, err
}

func (b *unitBoard) sample(ctx context.Context, fresh bool) (state.Levels, error) {
	n := &b.names
	names := []string{n.powerOn, n.powerOff, n.running, n.stopped, n.quiesced, n.diagnostic}
	units, err := b.lookAt(ctx, names, fresh)
	power := b.power.Read(ctx)[pgood]

	l := state.Levels{PowerGood: state.LevelUnknown, HostActive: state.LevelUnknown}
	if err == nil {
		l.PowerGood = b.powerOf(units[0], units[1])
		if l.PowerGood == state.LevelOn && units[0].Active == "active" {
			l.PowerSince = units[0].StateChangeMonotonic
		}
		l.HostActive, l.HostSince = hostOf(units[2], units[3])
		l.Quiesced = state.LevelOf(units[4].Active == "active")
		l.Diagnostic = state.LevelOf(units[5].Active == "active")
	}
	if power.Err == nil {
		l.PowerGood, l.PowerSince = state.LevelOf(power.Asserted), 0
	}
	b.mu.Lock()
	b.sure = power.Err == nil || err == nil && (units[0].Active == "active" || units[1].Active == "active")
	b.mu.Unlock()
	return l, err
}

// lookAt returns the units' states: as they are now, or as systemd last told.
// What it told of one unit may be older than what it told of another: while one
// target has gone and the other has not come, only asking tells whether the other
// is on its way.
func (b *unitBoard) lookAt(ctx context.Context, names []string, fresh bool) ([]systemd.UnitState, error) {
	units := make([]systemd.UnitState, len(names))
	for i, name := range names {
		var known bool
		if units[i], known = b.units.State(name); !known {
			return nil, errNoAnswer
		}
	}
	if fresh || b.between(units[0], units[1]) {
		return b.units.Confirm(ctx, names...)
	}
	return units, nil
}

// between reports whether power was on and neither target says how it is now.
func (b *unitBoard) between(on, off systemd.UnitState) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last == state.LevelOn && on.Active != "active" && off.Active != "active" && off.Job == 0
}

// powerOf is the power state by the chassis' two targets. systemd never has both
// up, as they conflict; what was reached last counts. On the way from one to the
// other it is as it was: a target that is stopped has not cut power yet.
func (b *unitBoard) powerOf(on, off systemd.UnitState) state.Level {
	b.mu.Lock()
	defer b.mu.Unlock()
	isOn, isOff := on.Active == "active", off.Active == "active"
	switch {
	case isOn && isOff:
		b.last = state.LevelOf(on.StateChangeMonotonic >= off.StateChangeMonotonic)
	case isOn:
		b.last = state.LevelOn
	case !isOff && off.Job != 0:
		if b.last == state.LevelAbsent {
			return state.LevelOn // being switched off, so it is on
		}
	default:
		b.last = state.LevelOff
	}
	return b.last
}

// proven reports whether the last reading of power was more than that nothing
// says that it is on.
func (b *unitBoard) proven() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sure
}

// hostOf says whether the host runs, and since when that is so.
func hostOf(running, stopped systemd.UnitState) (state.Level, time.Duration) {
	up := running.Active == "active"
	if stopped.Active == "active" && (!up || stopped.StateChangeMonotonic > running.StateChangeMonotonic) {
		return state.LevelOff, max(running.StateChangeMonotonic, stopped.StateChangeMonotonic)
	}
	return state.LevelOf(up), running.StateChangeMonotonic
}

// errNoLines is the answer to a pulse, which no plan of such a board has.
var errNoLines = errors.New("this domain is run by systemd targets and has no lines")

func (b *unitBoard) Pulse(context.Context, string, time.Duration, bool) (bool, error) {
	return false, errNoLines
}
func (b *unitBoard) SetLevel(context.Context, string, bool) error { return errNoLines }
func (b *unitBoard) Release(string)                               {}
func (b *unitBoard) ReleaseAll()                                  {}
