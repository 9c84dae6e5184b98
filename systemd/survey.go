package systemd

import (
	"time"

	godbus "github.com/godbus/dbus/v5"
)

const nameUnknownMethod = "org.freedesktop.DBus.Error.UnknownMethod"

// unitRow is one row of ListUnitsByNames, (ssssssouso).
type unitRow struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            godbus.ObjectPath
	JobID                                           uint32
	JobType                                         string
	JobPath                                         godbus.ObjectPath
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
		if w != nil && (w.state.Load != r.Load || w.state.Active != r.Active || w.state.Sub != r.Sub || w.state.Job != r.JobID) {
			w.dirty = true
		}
	}
}
