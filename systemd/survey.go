package systemd

import (
	"context"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

const nameUnknownMethod = "org.freedesktop.DBus.Error.UnknownMethod"

// unitRow is one row of ListUnitsByNames, (ssssssouso).
type unitRow struct {
	_ [0]func() // see state.Incomparable

	Name, Description, Load, Active, Sub, Following string
	Path                                            godbus.ObjectPath
	JobID                                           uint32
	JobType                                         string
	JobPath                                         godbus.ObjectPath
}

// differs reports whether a row tells something else than a state.
func (r *unitRow) differs(s *UnitState) bool {
	return s.Load != r.Load || s.Active != r.Active || s.Sub != r.Sub || s.Job != r.JobID
}

// survey compares all watched units with what is known of them, in one call: the
// reading that DESIGN.md P5 wants at least every ten seconds, at a price that two
// hundred units can pay. What differs is read in full.
func (l *link) survey() {
	u := l.u
	u.mu.Lock()
	byPath := make(map[godbus.ObjectPath]*watch, len(u.watched))
	names := make([]string, 0, len(u.watched))
	for _, w := range u.watched {
		if w.prepared && !w.busy && !w.dirty {
			byPath[w.path] = w
			names = append(names, w.id)
		}
	}
	u.mu.Unlock()

	var rows []unitRow
	var err error
	if len(names) > 0 {
		ctx, cancel := u.deadline(l.ctx)
		defer cancel()
		err = wrap("ListUnitsByNames", "", l.call(ctx, managerPath, managerIface+".ListUnitsByNames", names).Store(&rows))
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	l.surveying = false
	l.surveyAt = time.Now().Add(u.opt.Resync * 3 / 4)
	u.kick()
	if ErrorName(err) == nameUnknownMethod { // systemd before 230
		for _, w := range byPath {
			w.dirty = true
		}
		return
	}
	if err != nil {
		l.suspect(err)
		return
	}
	for _, r := range rows {
		w := byPath[r.Path]
		if w != nil && r.differs(&w.state) {
			w.dirty = true
		}
	}
}

// Confirm returns the states of watched units as they are now, in the order
// given. One call asks for all of them, so that they are of one moment and cost
// systemd little when it is busy; what differs from what is known, or is not
// known yet, is read in full.
func (u *Units) Confirm(ctx context.Context, units ...string) ([]UnitState, error) {
	ctx, cancel := u.deadline(ctx)
	defer cancel()
	l, err := u.ready(ctx)
	if err != nil {
		return nil, wrap("ListUnitsByNames", "", err)
	}
	states := make([]UnitState, len(units))
	asked := u.settled(units)
	var ids []string
	for _, w := range asked {
		ids = append(ids, w.id)
	}
	var rows []unitRow
	if len(ids) > 0 {
		err = wrap("ListUnitsByNames", "", l.call(ctx, managerPath, managerIface+".ListUnitsByNames", ids).Store(&rows))
	}
	if err != nil && ErrorName(err) != nameUnknownMethod { // systemd before 230 has no such method
		return nil, err
	}
	for i, name := range units {
		if known, ok := u.unchanged(name, rows, asked); ok {
			states[i] = known
		} else if states[i], err = u.Read(ctx, name); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// settled returns those of the units that are known, and of which no signal says
// that they have changed since.
func (u *Units) settled(units []string) map[string]*watch {
	u.mu.Lock()
	defer u.mu.Unlock()
	asked := make(map[string]*watch, len(units))
	for _, name := range units {
		if w := u.watched[name]; w != nil && w.prepared && w.known && !w.dirty && !w.busy {
			asked[name] = w
		}
	}
	return asked
}

// unchanged returns the known state of a unit that was asked about, if its row
// says the same and nothing has come in between. Else the unit is read again for
// everybody.
func (u *Units) unchanged(name string, rows []unitRow, asked map[string]*watch) (UnitState, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := asked[name]
	if w == nil || u.watched[name] != w {
		return UnitState{}, false
	}
	for i := range rows {
		if rows[i].Path == w.path && !rows[i].differs(&w.state) && !w.dirty && !w.busy {
			return w.state, true
		}
	}
	w.dirty = true
	u.kick()
	return UnitState{}, false
}

// Pulled returns the jobs on watched units that have not ended and that another
// job of ours brought with it.
func (u *Units) Pulled(parent uint32) (jobs []JobInfo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, j := range u.jobs {
		if j.parent == parent && parent != 0 && !j.ended {
			jobs = append(jobs, j.info())
		}
	}
	return jobs
}
