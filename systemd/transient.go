package systemd

import (
	"context"
	"fmt"
	"path"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// Exit is how a command ended.
type Exit struct {
	Status    int32 // of exit(3), or the number of the signal
	Signalled bool
}

// property is one of a transient unit's, and execStart one command of it
// (org.freedesktop.systemd1(5)).
type property struct {
	_ [0]func() // see state.Incomparable

	Name  string
	Value godbus.Variant
}

type execStart struct {
	Path   string
	Args   []string
	Ignore bool
}

// auxUnit is a further unit of a transient transaction; we make none.
type auxUnit struct {
	Name       string
	Properties []property
}

// cldExited is the si_code of a process that has called exit(3).
const cldExited = 1

// stopWithin bounds the stop of a command that nobody waits for any more.
const stopWithin = 5 * time.Second

// Run runs a command as a transient service of that name and returns how it
// ended. systemd ends it after limit; when ctx ends it is stopped at once. It
// runs as PID 1's child, outside our own sandbox. One of the same name must not
// be running.
func (u *Units) Run(ctx context.Context, unit string, argv []string, limit time.Duration) (Exit, error) {
	v := func(name string, value any) property { return property{Name: name, Value: godbus.MakeVariant(value)} }
	job, err := u.enqueue(ctx, "StartTransientUnit", "start", unit, ModeFail, []property{
		v("Description", "bmcstate probe "+path.Base(argv[0])), v("Type", "oneshot"),
		v("ExecStart", []execStart{{argv[0], argv, false}}),
		v("TimeoutStartUSec", uint64(limit.Microseconds())), v("TimeoutStopUSec", uint64(time.Second.Microseconds())),
		// Kept until we have read how it ended, and no longer.
		v("CollectMode", "inactive-or-failed"), v("AddRef", true),
	}, []auxUnit{})
	if err != nil {
		if ctx.Err() != nil {
			u.stopCommand(ctx, unit)
		}
		return Exit{}, err
	}
	defer func() { _ = u.manager(context.WithoutCancel(ctx), "UnrefUnit", unit, unit) }()
	select {
	case <-job.Result:
	case <-ctx.Done():
		u.stopCommand(ctx, unit)
		return Exit{}, wrap("Run", unit, ctx.Err())
	}
	return u.exit(ctx, unit)
}

// stopCommand ends a command early; where that fails, its own limit does.
func (u *Units) stopCommand(ctx context.Context, unit string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	_, _ = u.Stop(ctx, unit, ModeReplace)
}

// exit reads how a service's main process ended.
func (u *Units) exit(ctx context.Context, unit string) (Exit, error) {
	ctx, cancel := u.deadline(ctx)
	defer cancel()
	l, err := u.ready(ctx)
	if err != nil {
		return Exit{}, wrap("Run", unit, err)
	}
	get := func(name string, into any) error {
		var v godbus.Variant
		err := l.call(ctx, godbus.ObjectPath(unitPrefix+EscapePath(unit)), propsIface+".Get", serviceIface, name).Store(&v)
		if err == nil {
			err = v.Store(into)
		}
		return wrap("Run", unit, err)
	}
	var code, status int32
	if err := get("ExecMainCode", &code); err != nil {
		return Exit{}, err
	}
	if err := get("ExecMainStatus", &status); err != nil {
		return Exit{}, err
	}
	if code == 0 {
		return Exit{}, wrap("Run", unit, fmt.Errorf("%s was not started", unit))
	}
	return Exit{Status: status, Signalled: code != cldExited}, nil
}
