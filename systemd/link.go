package systemd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 5 * time.Second
	// maxReads bounds the units that are read at the same time.
	maxReads = 8
)

// link is one bus connection. Its fields below mu's line are guarded by
// Units.mu.
type link struct {
	_ [0]func() // see state.Incomparable

	u    *Units
	ctx  context.Context // ends with the connection
	conn *godbus.Conn
	wg   sync.WaitGroup // the calls in flight

	owner       string // systemd's unique name; "" = not on the bus
	ownerSeq    godbus.Sequence
	tried       bool // a Subscribe has ended since owner came: units may be read
	subscribing bool
	subscribeAt time.Time // of the next Subscribe
	backoff     time.Duration
	reads       int // unit readings in flight
	surveying   bool
	surveyAt    time.Time // of the next survey
	reloading   bool
	dead        bool // detached: nothing new may be started
}

// run keeps a connection until Close.
func (u *Units) run() {
	backoff := minBackoff
	for {
		connected, err := u.serve()
		if u.ctx.Err() != nil {
			u.mu.Lock()
			for _, j := range u.jobs {
				u.deliver(j, ResultLost)
			}
			u.mu.Unlock()
			return
		}
		if connected {
			backoff = minBackoff
		}
		u.mu.Lock()
		u.announce(false, err)
		u.mu.Unlock()
		select {
		case <-time.After(backoff):
		case <-u.ctx.Done():
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// serve holds one connection from dialling to its end.
func (u *Units) serve() (connected bool, err error) {
	ctx, cancel := context.WithCancel(u.ctx)
	l := &link{u: u, ctx: ctx}
	defer l.wg.Wait()
	defer cancel()
	conn, err := dial(ctx, u.opt.Address, l)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	l.conn = conn
	if err := l.prepare(); err != nil {
		return true, err
	}
	defer u.detach()
	for {
		next := u.step(l)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-u.wake:
		case <-timer.C:
		case <-conn.Context().Done():
			timer.Stop()
			return true, errors.New("the bus closed the connection")
		case <-u.ctx.Done():
			timer.Stop()
			return true, errClosed
		}
		timer.Stop()
	}
}

// prepare sets up what is independent of single units and makes l the link.
func (l *link) prepare() error {
	ctx, cancel := l.u.deadline(l.ctx)
	defer cancel()
	for _, rule := range []string{
		"type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',interface='org.freedesktop.DBus'," +
			"member='NameOwnerChanged',arg0='" + busName + "'",
		"type='signal',sender='" + busName + "',path='" + managerPath + "',interface='" + managerIface + "',member='Reloading'",
	} {
		if err := l.addMatch(ctx, rule); err != nil {
			return err
		}
	}
	call := l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, busName)
	var owner string
	if err := call.Store(&owner); err != nil && ErrorName(wrap("GetNameOwner", "", err)) != NameNameHasNoOwner {
		return fmt.Errorf("GetNameOwner: %w", err)
	}
	u := l.u
	u.mu.Lock()
	defer u.mu.Unlock()
	u.link = l
	if owner == "" && l.owner == "" {
		u.announce(false, errNoLink)
	}
	l.setOwner(owner, call.ResponseSequence)
	return nil
}

// detach takes the link out of use: what hung on it is set up again on the next.
func (u *Units) detach() {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.link
	u.link = nil
	l.dead = true
	for _, w := range u.watched {
		w.prepared, w.busy, w.rules = false, false, nil
	}
	if l.reloading {
		u.events.put(Reloading{})
	}
	u.notifyChanged()
}

// setOwner takes note of who is systemd; callers hold mu.
func (l *link) setOwner(owner string, seq godbus.Sequence) {
	if seq < l.ownerSeq {
		return
	}
	l.ownerSeq = seq
	if owner == l.owner {
		return
	}
	u := l.u
	l.owner, l.tried, l.backoff, l.subscribeAt = owner, false, 0, time.Time{}
	if l.reloading {
		l.reloading = false
		u.events.put(Reloading{})
	}
	if owner == "" {
		u.announce(false, errNoLink)
	}
	u.invalidate()
	u.notifyChanged()
	u.kick()
}

// invalidate has every unit resolved and read, and every own job looked up,
// again; callers hold mu.
func (u *Units) invalidate() {
	for _, w := range u.watched {
		w.prepared, w.dirty, w.retryAt = false, true, time.Time{}
	}
	for _, j := range u.jobs {
		j.checkAt = time.Time{}
	}
}

// DeliverSignal is called by the connection's reader, in the order of arrival.
// It only takes notes.
func (l *link) DeliverSignal(_, _ string, s *godbus.Signal) {
	u := l.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.Name == "org.freedesktop.DBus.NameOwnerChanged" && s.Sender == "org.freedesktop.DBus" {
		if name, _, owner, ok := three[string, string, string](s.Body); ok && name == busName {
			l.setOwner(owner, s.Sequence)
		}
		return
	}
	// Anybody can send us a signal directly, without a match rule.
	if s.Sender != l.owner || l.owner == "" || u.link != l {
		return
	}
	switch s.Name {
	case propsIface + ".PropertiesChanged":
		u.touch(func(w *watch) bool { return w.path == s.Path })
	case managerIface + ".JobNew":
		if id, _, unit, ok := three[uint32, godbus.ObjectPath, string](s.Body); ok {
			u.jobNew(id, unit, s.Sequence)
		}
	case managerIface + ".JobRemoved":
		if id, _, unit, ok := three[uint32, godbus.ObjectPath, string](s.Body); ok && len(s.Body) > 3 {
			result, _ := s.Body[3].(string)
			u.jobRemoved(id, unit, result)
		}
	case managerIface + ".Reloading":
		if len(s.Body) > 0 {
			active, _ := s.Body[0].(bool)
			l.setReloading(active)
		}
	}
}

func three[A, B, C any](body []any) (a A, b B, c C, ok bool) {
	if len(body) < 3 {
		return a, b, c, false
	}
	a, okA := body[0].(A)
	b, okB := body[1].(B)
	c, okC := body[2].(C)
	return a, b, c, okA && okB && okC
}

func (l *link) setReloading(active bool) {
	l.reloading = active
	l.u.events.put(Reloading{Active: active})
	if !active {
		l.subscribeAt = time.Time{} // some versions forget subscribers over a reload
		l.u.invalidate()
		l.u.kick()
	}
}

// step starts whatever is due and returns when to look again.
func (u *Units) step(l *link) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	next := now.Add(u.opt.Resync)
	if l.owner == "" {
		return next
	}
	if !l.subscribing {
		next = earlier(next, l.subscribeAt)
		if !now.Before(l.subscribeAt) {
			l.subscribing = true
			owner := l.owner
			l.spawn(func() { l.subscribe(owner) })
		}
	}
	if l.tried && !l.surveying {
		next = earlier(next, l.surveyAt)
		if !now.Before(l.surveyAt) {
			l.surveying = true
			l.spawn(l.survey)
		}
	}
	for _, w := range u.watched {
		next = earlier(next, u.stepWatch(l, w, now))
	}
	for _, j := range u.jobs {
		next = earlier(next, u.stepJob(l, j, now))
	}
	return laterThan(next, now)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// laterThan keeps the loop from spinning on something that is due already and
// will be announced by a kick.
func laterThan(t, now time.Time) time.Time {
	if floor := now.Add(20 * time.Millisecond); t.Before(floor) {
		return floor
	}
	return t
}

// subscribe asks for signals, and does so again at every resync: a systemd that
// knows us already answers AlreadySubscribed, which makes it our proof of life.
func (l *link) subscribe(owner string) {
	u := l.u
	ctx, cancel := context.WithTimeout(l.ctx, u.opt.Patience)
	defer cancel()
	err := wrap("Subscribe", "", l.call(ctx, managerPath, managerIface+".Subscribe").Err)
	known := ErrorName(err) == NameAlreadySubscribed

	u.mu.Lock()
	defer u.mu.Unlock()
	l.subscribing = false
	defer u.kick()
	if l.owner != owner || u.link != l {
		return
	}
	if err != nil && !known {
		l.tried = true // reading by poll is better than not reading
		l.backoff = min(max(2*l.backoff, minBackoff), maxBackoff)
		l.subscribeAt = time.Now().Add(l.backoff)
		u.announce(false, err)
		return
	}
	if !known || !l.tried {
		u.invalidate() // subscribed now, so read now
	}
	if !l.tried {
		l.surveyAt = time.Now().Add(u.opt.Resync * 3 / 4)
	}
	l.tried, l.backoff = true, 0
	l.subscribeAt = time.Now().Add(u.opt.Resync)
	u.announce(true, nil)
}

// suspect has the link proved again at once; callers hold mu.
func (l *link) suspect(err error) {
	if ErrorName(err) == NameNoReply && l.ctx.Err() == nil {
		l.u.announce(false, err)
		l.subscribeAt = time.Time{}
	}
}

func (l *link) call(ctx context.Context, path godbus.ObjectPath, method string, args ...any) *godbus.Call {
	return l.conn.Object(busName, path).CallWithContext(ctx, method, godbus.FlagNoAutoStart, args...)
}

func (l *link) send(ctx context.Context, path godbus.ObjectPath, method string, args ...any) <-chan *godbus.Call {
	return l.conn.Object(busName, path).GoWithContext(ctx, method, godbus.FlagNoAutoStart, make(chan *godbus.Call, 1), args...).Done
}

func (l *link) addMatch(ctx context.Context, rule string) error {
	return l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.AddMatch", 0, rule).Err
}

// spawn runs f in a goroutine that the link's end waits for, false if the link
// has already ended; callers hold mu.
func (l *link) spawn(f func()) bool {
	if l.dead {
		return false
	}
	l.wg.Go(f)
	return true
}

// dropMatches works in the background; callers hold mu.
func (l *link) dropMatches(rules []string) {
	if len(rules) == 0 {
		return
	}
	l.spawn(func() {
		for _, rule := range rules {
			ctx, cancel := l.u.deadline(l.ctx)
			// A rule that stays costs a wake-up now and then, nothing else.
			_ = l.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.RemoveMatch", 0, rule).Err
			cancel()
		}
	})
}
