package dbustest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const driver = "org.freedesktop.DBus"

// The bus itself must be convinced of the uids that this package makes up.
func TestUIDs(t *testing.T) {
	b := dbustest.Start(t)
	uid := func(name string) (uid int) {
		require.NoError(t, b.Connect(t).BusObject().Call(driver+".GetConnectionUnixUser", 0, name).Store(&uid))
		return uid
	}
	assert.Equal(t, dbustest.OtherUID, uid(b.ConnectAs(t, dbustest.OtherUID).Names()[0]))
	assert.Equal(t, dbustest.OtherUID, uid(b.RawAs(t, dbustest.OtherUID).Name))
	assert.NotEqual(t, dbustest.OtherUID, uid(b.Connect(t).Names()[0]), "the thread has its own uid back")
}

func TestPrograms(t *testing.T) {
	b := dbustest.Start(t)
	assert.Equal(t, "b true", b.Busctl(t, "call", driver, "/org/freedesktop/DBus", driver, "NameHasOwner", "s", driver))
	out := b.Send(t, driver, "/org/freedesktop/DBus", driver+".GetNameOwner", "string:no.such")
	assert.Equal(t, "org.freedesktop.DBus.Error.NameHasNoOwner", out.ErrorName())
	assert.Equal(t, 1, out.Exit)
	assert.Empty(t, b.Send(t, driver, "/org/freedesktop/DBus", driver+".GetId").ErrorName())
	out = b.RunAs(t, dbustest.OtherUID, "busctl", "--system", "call", driver, "/org/freedesktop/DBus", driver, "GetId")
	assert.Zero(t, out.Exit, out.Stderr)
}

func TestRaw(t *testing.T) {
	b := dbustest.Start(t)
	r := b.Raw(t)
	assert.True(t, strings.HasPrefix(r.Name, ":"))
	reply := r.Reply(r.Call(driver, "/org/freedesktop/DBus", driver, "NameHasOwner", r.Name))
	assert.Equal(t, []any{true}, reply.Body)
	reply = r.Reply(r.CallBytes(driver, "/org/freedesktop/DBus", driver, "NameHasOwner", "s", []byte("\x01\x00\x00\x00x\x00")))
	assert.Equal(t, []any{false}, reply.Body)
}

// failing notes how a test would have ended.
type failing struct {
	testing.TB
	ended string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.ended = "failed: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (f *failing) Skipf(format string, args ...any) {
	f.ended = "skipped: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// A missing program is a failure where nobody would read of a skipped test.
func TestMissingProgram(t *testing.T) {
	ends := func() string {
		f := &failing{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			dbustest.Need(f, "no-such-program")
		}()
		<-done
		return f.ended
	}
	t.Setenv("CI", "")
	assert.Equal(t, "skipped: no-such-program is missing; install it (make test does)", ends())
	t.Setenv("CI", "true")
	assert.Equal(t, "failed: no-such-program is missing; install it (make test does)", ends())
}
