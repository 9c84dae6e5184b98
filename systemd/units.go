package systemd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/state/slog"
)

// The defaults of [Options].
const (
	DefaultCallTimeout = 25 * time.Second
	DefaultPatience    = 90 * time.Second
	DefaultResync      = 10 * time.Second
)

// Options configure [Open]. The zero value is right for a BMC.
type Options struct {
	_ [0]func() // see state.Incomparable

	// Address of the bus, for example "unix:path=/run/dbus/system_bus_socket";
	// "" = DBUS_SYSTEM_BUS_ADDRESS, else the system bus.
	Address string
	// CallTimeout bounds every call whose context has no earlier deadline;
	// 0 = DefaultCallTimeout.
	CallTimeout time.Duration
	// Patience bounds one call of Subscribe. In a busy boot systemd takes more
	// than 40 s to answer it (openbmc-state-manager.md §4.3, 48a4e5e5). It is
	// repeated until it succeeds. 0 = DefaultPatience.
	Patience time.Duration
	// Resync is the longest time between two looks at a watched unit (DESIGN.md
	// P5), and between two proofs that systemd still knows us as a subscriber;
	// 0 = DefaultResync.
	Resync time.Duration
	// Log takes messages about the link; nil = none.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Resync <= 0 {
		o.Resync = DefaultResync
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Units starts, stops and watches units of the running systemd. All methods are
// safe for concurrent use; none blocks on another's call, on an unread event or
// on an unread result.
type Units struct {
	opt    Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	events *eventQueue
	wake   chan struct{} // the link's loop has something to look at

	mu      sync.Mutex
	link    *link         // nil while there is no bus connection
	changed chan struct{} // closed and replaced whenever link or its owner changes
	up      bool          // as last reported by LinkChanged
	told    bool          // a LinkChanged was reported
	downErr string        // text of the last reported LinkChanged.Err
	watched map[string]*watch
	jobs    map[uint32]*job
	calls   map[*pendingCall]struct{} // enqueueing calls whose job id is not settled
	early   map[uint32]earlyEnd       // jobs that ended before a reply named them, kept while calls is not empty
}

// Open starts a connection that lives until [Units.Close]. It never fails: an
// absent bus or systemd is waited for, and [LinkChanged] tells.
func Open(o Options) *Units {
	ctx, cancel := context.WithCancel(context.Background())
	u := &Units{
		opt: o.withDefaults(), ctx: ctx, cancel: cancel,
		events:  newEventQueue(),
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}),
		watched: make(map[string]*watch),
		jobs:    make(map[uint32]*job),
		calls:   make(map[*pendingCall]struct{}),
		early:   make(map[uint32]earlyEnd),
	}
	u.wg.Go(func() { u.events.pump(ctx.Done()) })
	u.wg.Go(u.run)
	return u
}

// Close ends the connection, waits for every goroutine and closes the channel
// of [Units.Events]. Jobs go on in systemd; their results are not delivered.
func (u *Units) Close() {
	u.cancel()
	u.wg.Wait()
}

// Events returns the one channel of all events, in the order in which they were
// observed. Left unread it costs a bounded amount of memory: newer states
// replace older ones of the same unit.
func (u *Units) Events() <-chan Event { return u.events.out }

// Watch has the units' states and jobs reported until [Units.Unwatch]. The
// first [UnitChanged] of each comes as soon as systemd answers. Repeats are
// ignored. A unit that does not exist is watched too: it may be installed later.
func (u *Units) Watch(units ...string) {
	u.mu.Lock()
	for _, name := range units {
		if u.watched[name] != nil {
			continue
		}
		w := &watch{name: name}
		u.watched[name] = w
		if !ValidUnitName(name) {
			w.broken = true
			u.events.put(UnitChanged{
				State: UnitState{Name: name},
				Err:   &Error{Op: "Watch", Unit: name, Name: NameInvalidArgs, Err: fmt.Errorf("%q is not the name of a unit", name)},
			})
		}
	}
	u.mu.Unlock()
	u.kick()
}

// Unwatch ends what [Units.Watch] began. Events that are already queued still
// come.
func (u *Units) Unwatch(units ...string) {
	u.mu.Lock()
	for _, name := range units {
		if w := u.watched[name]; w != nil {
			delete(u.watched, name)
			u.releaseWatch(w)
		}
	}
	u.mu.Unlock()
}

// releaseWatch drops what hangs on w; callers hold mu. An own job that is still
// open takes the rule over that tells of its end.
func (u *Units) releaseWatch(w *watch) {
	rules := w.rules
	for id, j := range u.jobs {
		if j.watch != w {
			continue
		}
		j.watch = nil
		if len(j.results) == 0 {
			delete(u.jobs, id)
		} else if len(rules) > 1 {
			j.rules, j.ruleLink = append(j.rules, rules[1]), u.link
			rules = rules[:1]
		}
	}
	if u.link != nil {
		u.link.dropMatches(rules)
	}
}

// State returns a watched unit's state as last read; false before that.
func (u *Units) State(unit string) (UnitState, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.watched[unit]
	if w == nil || !w.known {
		return UnitState{}, false
	}
	return w.state, true
}

// Owes reports whether more than is told is known of a unit: an event waits to be
// taken, or a job to be announced.
func (u *Units) Owes(unit string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.watched[unit]
	return w != nil && u.jobComes(w) || u.events.holds(unit)
}

// Refresh has the units (all watched ones if none is named) read again. What
// differs comes as [UnitChanged].
func (u *Units) Refresh(units ...string) {
	u.mu.Lock()
	for name, w := range u.watched {
		if len(units) == 0 || contains(units, name) {
			w.dirty = true
		}
	}
	u.mu.Unlock()
	u.kick()
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// kick wakes the link's loop.
func (u *Units) kick() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// announce reports a change of the link once; callers hold mu.
func (u *Units) announce(up bool, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if u.told && u.up == up && u.downErr == text {
		return
	}
	u.told, u.up, u.downErr = true, up, text
	u.events.put(LinkChanged{Up: up, Err: err})
	if up {
		u.opt.Log.Info("systemd answers")
		return
	}
	u.opt.Log.Warn("systemd does not answer; states stay as last read", "error", text)
}

// notifyChanged wakes everyone in ready; callers hold mu.
func (u *Units) notifyChanged() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// ready waits until systemd is on the bus.
func (u *Units) ready(ctx context.Context) (*link, error) {
	for {
		u.mu.Lock()
		l, changed := u.link, u.changed
		if l != nil && l.owner != "" {
			u.mu.Unlock()
			return l, nil
		}
		u.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errNoLink
		case <-u.ctx.Done():
			return nil, errClosed
		}
	}
}

// deadline gives a context the default deadline where it has no earlier one.
func (u *Units) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, u.opt.CallTimeout)
}
