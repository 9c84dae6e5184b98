package systemd

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// watch is one watched unit; guarded by Units.mu.
type watch struct {
	name     string // as asked for
	id       string // as systemd calls it (an alias differs)
	path     godbus.ObjectPath
	rules    []string // match rules in force
	broken   bool     // the name is no unit name
	prepared bool     // path, id and rules are right
	dirty    bool     // something happened since the last reading began
	busy     bool     // being prepared or read
	retryAt  time.Time
	known    bool
	state    UnitState
}

// tornReads bounds how often a reading during which the unit changed is
// repeated before it is shown; the change itself has the unit read once more.
const tornReads = 3

// touch marks the units for reading; callers hold mu.
func (u *Units) touch(match func(*watch) bool) {
	hit := false
	for _, w := range u.watched {
		if match(w) {
			w.dirty, hit = true, true
		}
	}
	if hit {
		u.kick()
	}
}

// stepWatch starts what w needs; callers hold mu.
func (u *Units) stepWatch(l *link, w *watch, now time.Time) time.Time {
	never := now.Add(u.opt.Resync)
	switch {
	case w.broken || w.busy || l.reads >= maxReads:
		return never // the end of a reading kicks
	case now.Before(w.retryAt):
		return w.retryAt
	case !w.prepared:
		w.busy = true
		l.reads++
		l.spawn(func() { l.prepareWatch(w) })
	case l.tried && w.dirty:
		w.busy, w.dirty = true, false
		l.reads++
		l.spawn(func() { l.readWatch(w) })
	}
	return never
}

// release ends a turn of w; callers hold mu.
func (l *link) release(w *watch) {
	w.busy = false
	l.reads--
	l.u.kick()
}

// prepareWatch finds out what systemd calls the unit and listens to it.
func (l *link) prepareWatch(w *watch) {
	u := l.u
	ctx, cancel := u.deadline(l.ctx)
	defer cancel()
	var path godbus.ObjectPath
	err := wrap("LoadUnit", w.name, l.call(ctx, managerPath, managerIface+".LoadUnit", w.name).Store(&path))
	u.mu.Lock()
	old := w.path
	unchanged := len(w.rules) > 0
	u.mu.Unlock()
	unchanged = unchanged && old == path
	id := UnescapePath(strings.TrimPrefix(string(path), unitPrefix))
	var rules []string
	if err == nil && !unchanged {
		rules = unitRules(path, id)
		for _, rule := range rules {
			if err = wrap("AddMatch", w.name, l.addMatch(ctx, rule)); err != nil {
				break
			}
		}
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	if u.link != l {
		return
	}
	defer l.release(w)
	if u.watched[w.name] != w {
		l.dropMatches(rules)
		return
	}
	if err != nil {
		l.dropMatches(rules)
		u.unreadable(l, w, err)
		return
	}
	if !unchanged {
		l.dropMatches(w.rules)
		w.rules = rules
	}
	w.path, w.id, w.prepared, w.dirty = path, id, true, true
}

// unitRules are the two match rules of a unit: its own properties, and the
// manager's JobNew and JobRemoved, the only signals with a unit as third
// argument.
func unitRules(path godbus.ObjectPath, id string) []string {
	return []string{
		"type='signal',sender='" + busName + "',path='" + string(path) + "',interface='" + propsIface + "',member='PropertiesChanged'",
		jobRule(id),
	}
}

func jobRule(id string) string {
	return "type='signal',sender='" + busName + "',path='" + managerPath + "',interface='" + managerIface + "',arg2='" + id + "'"
}

// unreadable takes note of a failed attempt; callers hold mu.
func (u *Units) unreadable(l *link, w *watch, err error) {
	if ErrorName(err) == NameInvalidArgs {
		w.broken = true
		u.events.put(UnitChanged{State: UnitState{Name: w.name}, Err: err})
		return
	}
	w.dirty = true
	w.retryAt = time.Now().Add(time.Second)
	l.suspect(err)
}

// readWatch reads w until nothing happened meanwhile and reports a difference.
func (l *link) readWatch(w *watch) {
	u := l.u
	for try := 1; ; try++ {
		u.mu.Lock()
		path := w.path
		w.dirty = false
		before := u.openJobs(w)
		u.mu.Unlock()
		s, err := l.read(w.name, path)
		u.mu.Lock()
		if u.link != l {
			u.mu.Unlock()
			return
		}
		if err == nil && w.dirty && try < tornReads {
			u.mu.Unlock()
			continue
		}
		u.finishRead(l, w, s, err, before)
		l.release(w)
		u.mu.Unlock()
		return
	}
}

// finishRead publishes one reading; callers hold mu.
func (u *Units) finishRead(l *link, w *watch, s UnitState, err error, before []*job) {
	if u.watched[w.name] != w {
		return
	}
	if err != nil {
		w.prepared = w.prepared && ErrorName(err) == NameNoReply
		u.unreadable(l, w, err)
		return
	}
	u.reconcileJobs(w, s.Job, before)
	if w.known && reflect.DeepEqual(w.state, s) {
		return
	}
	w.known, w.state = true, s
	u.events.put(UnitChanged{State: s, JobComes: u.jobComes(w)})
}

// Read reads any unit now, watched or not. It is no substitute for
// [Units.Watch]: it costs a round trip to systemd and sees no jobs' ends.
func (u *Units) Read(ctx context.Context, unit string) (UnitState, error) {
	if !ValidUnitName(unit) {
		return UnitState{}, &Error{Op: "LoadUnit", Unit: unit, Name: NameInvalidArgs, Err: fmt.Errorf("%q is not the name of a unit", unit)}
	}
	ctx, cancel := u.deadline(ctx)
	defer cancel()
	l, err := u.ready(ctx)
	if err != nil {
		return UnitState{}, wrap("LoadUnit", unit, err)
	}
	var path godbus.ObjectPath
	if err := l.call(ctx, managerPath, managerIface+".LoadUnit", unit).Store(&path); err != nil {
		return UnitState{}, wrap("LoadUnit", unit, err)
	}
	return l.readAt(ctx, unit, path)
}

func (l *link) read(name string, path godbus.ObjectPath) (UnitState, error) {
	ctx, cancel := l.u.deadline(l.ctx)
	defer cancel()
	return l.readAt(ctx, name, path)
}

// readAt asks for everything in one go; systemd answers in order.
func (l *link) readAt(ctx context.Context, name string, path godbus.ObjectPath) (UnitState, error) {
	s := UnitState{Name: name}
	get := func(property string) <-chan *godbus.Call {
		return l.send(ctx, path, propsIface+".Get", serviceIface, property)
	}
	var result, restarts, pid <-chan *godbus.Call
	if isService(UnescapePath(string(path))) {
		result, restarts, pid = get("Result"), get("NRestarts"), get("MainPID")
	}
	all := l.send(ctx, path, propsIface+".GetAll", unitIface)
	if result != nil {
		// A unit that is not loaded has no service part to speak of.
		_ = storeProperty(<-result, &s.Result)
		_ = storeProperty(<-restarts, &s.NRestarts)
		_ = storeProperty(<-pid, &s.MainPID)
	}
	var props map[string]godbus.Variant
	if err := (<-all).Store(&props); err != nil {
		return UnitState{}, wrap("GetAll", name, err)
	}
	return s, fillUnit(&s, props)
}

func storeProperty[T any](c *godbus.Call, into *T) error {
	var v godbus.Variant
	if err := c.Store(&v); err != nil {
		return err
	}
	return v.Store(into)
}

func fillUnit(s *UnitState, props map[string]godbus.Variant) error {
	for _, p := range []struct {
		name string
		into *string
	}{{"LoadState", &s.Load}, {"ActiveState", &s.Active}, {"SubState", &s.Sub}} {
		v, ok := props[p.name].Value().(string)
		if !ok {
			return &Error{Op: "GetAll", Unit: s.Name, Name: nameFailed, Err: fmt.Errorf("systemd sent no %s", p.name)}
		}
		*p.into = v
	}
	if id, ok := props["InvocationID"].Value().([]byte); ok && strings.Trim(string(id), "\x00") != "" {
		s.InvocationID = hex.EncodeToString(id)
	}
	if us, ok := props["StateChangeTimestampMonotonic"].Value().(uint64); ok {
		s.StateChangeMonotonic = time.Duration(us) * time.Microsecond
	}
	if job, ok := props["Job"].Value().([]any); ok && len(job) > 0 {
		s.Job, _ = job[0].(uint32)
	}
	return nil
}
