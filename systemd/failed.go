package systemd

import (
	"context"

	godbus "github.com/godbus/dbus/v5"
)

// maxBelow bounds how many units [Units.FailedBelow] looks at.
const maxBelow = 64

// FailedBelow names the units that have failed among those that a unit requires,
// itself included, however far below: why its job ended with [ResultDependency].
// What cannot be read is left out.
func (u *Units) FailedBelow(ctx context.Context, unit string) (failed []string) {
	ctx, cancel := u.deadline(ctx)
	defer cancel()
	l, err := u.ready(ctx)
	if err != nil {
		return nil
	}
	queue := []string{unit}
	for i := 0; i < len(queue) && i < maxBelow; i++ {
		active, below := l.requires(ctx, queue[i])
		if active == "failed" {
			failed = append(failed, queue[i])
		}
		for _, b := range below {
			if !contains(queue, b) {
				queue = append(queue, b)
			}
		}
	}
	return failed
}

// requires reads the state of a unit and what it requires.
func (l *link) requires(ctx context.Context, unit string) (active string, below []string) {
	var path godbus.ObjectPath
	var props map[string]godbus.Variant
	if l.call(ctx, managerPath, managerIface+".LoadUnit", unit).Store(&path) != nil ||
		l.call(ctx, path, propsIface+".GetAll", unitIface).Store(&props) != nil {
		return "", nil
	}
	active, _ = props["ActiveState"].Value().(string)
	below, _ = props["Requires"].Value().([]string)
	return active, below
}
