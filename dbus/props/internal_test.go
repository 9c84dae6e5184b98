package props

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/slog"
)

var pacedInterface = &Interface{Name: "test.P", Properties: []Property{{Name: "Count", Type: "t", Paced: true}}}

// A value that has gone back before it was its time is not signalled.
func TestPacedValueThatWentBack(t *testing.T) {
	s := New(Options{Pace: time.Hour, Logger: slog.New(slog.NewTextHandler(io.Discard, slog.LevelInfo))})
	defer s.Close()
	o, err := s.Add("/p", Impl{Interface: pacedInterface, Values: []any{uint64(0)}})
	require.NoError(t, err)
	s.announce()
	update := func(n uint64) { o.Update(Change{Interface: "test.P", Property: "Count", Value: n}) }
	sent := func() (n int) {
		for _, ok := s.out.take(); ok; _, ok = s.out.take() {
			n++
		}
		return n
	}
	anHourLater := func() {
		for _, p := range o.paced {
			p.last = p.last.Add(-time.Hour)
		}
		o.catchUp(time.Now())
	}
	update(1)
	assert.Equal(t, 1, sent(), "the first change is signalled at once")
	update(2)
	update(1)
	assert.Zero(t, sent())
	wait, any := s.laggard.next()
	assert.True(t, any)
	assert.Greater(t, wait, 59*time.Minute)
	anHourLater()
	assert.Zero(t, sent(), "it is what the last signal said")
	update(3)
	assert.Equal(t, 1, sent())
	update(4)
	update(5)
	anHourLater()
	assert.Equal(t, 1, sent(), "the newest, once")
}

func TestCompacted(t *testing.T) {
	type item struct {
		kind kind
		path string
		n    int
	}
	tests := []struct {
		name     string
		in, want []item
	}{
		{"the newest change stays, in its place", []item{{changed, "/a", 1}, {reply, "", 2}, {changed, "/a", 3}, {changed, "/b", 4}}, []item{{reply, "", 2}, {changed, "/a", 3}, {changed, "/b", 4}}},
		{"come and gone", []item{{added, "/a", 1}, {changed, "/a", 2}, {removed, "/a", 3}}, nil},
		{"gone", []item{{changed, "/a", 1}, {removed, "/a", 2}}, []item{{removed, "/a", 2}}},
		{"gone and come", []item{{removed, "/a", 1}, {added, "/a", 2}, {changed, "/a", 3}}, []item{{removed, "/a", 1}, {added, "/a", 2}, {changed, "/a", 3}}},
		{"gone, come, gone", []item{{changed, "/a", 0}, {removed, "/a", 1}, {added, "/a", 2}, {removed, "/a", 3}}, []item{{removed, "/a", 1}}},
		{"come, gone, come", []item{{added, "/a", 1}, {removed, "/a", 2}, {added, "/a", 3}}, []item{{added, "/a", 3}}},
		{"replies stay", []item{{reply, "", 1}, {reply, "", 2}}, []item{{reply, "", 1}, {reply, "", 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in []outgoing
			for _, i := range tt.in {
				in = append(in, outgoing{kind: i.kind, path: godbus.ObjectPath(i.path), field: "f", msg: &godbus.Message{Body: []any{i.n}}})
			}
			var got []item
			for _, o := range compacted(in) {
				got = append(got, item{o.kind, string(o.path), o.msg.Body[0].(int)})
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// What waits for a bus that hangs is bounded by what there is to tell.
func TestOutboxIsBounded(t *testing.T) {
	o := newOutbox()
	longest := 0
	for i := range 100_000 {
		o.put(outgoing{kind: changed, path: "/a", field: fmt.Sprint(i % 10), msg: &godbus.Message{}})
		longest = max(longest, len(o.items))
	}
	assert.LessOrEqual(t, longest, compactAt)
}

func TestClosedOutboxReleasesWhatItIsGiven(t *testing.T) {
	o := newOutbox()
	o.close()
	released := false
	o.put(outgoing{msg: &godbus.Message{}, sent: func() { released = true }})
	assert.True(t, released)
}

func TestSocketPath(t *testing.T) {
	tests := []struct{ address, path string }{
		{"unix:path=/run/dbus/system_bus_socket", "/run/dbus/system_bus_socket"},
		{"unix:path=/a%20b,guid=1234", "/a b"},
		{"unix:guid=1234,path=/x", "/x"},
		{"unix:abstract=/tmp/y,guid=1", "@/tmp/y"},
	}
	for _, tt := range tests {
		got, err := socketPath(tt.address)
		require.NoError(t, err)
		assert.Equal(t, tt.path, got)
	}
	_, err := socketPath("unix:guid=1")
	assert.Error(t, err)
}

// TestErrorsRepeatLittle: what a caller sent need not all come back.
func TestErrorsRepeatLittle(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for name, err := range map[string]*godbus.Error{
		"a value": Errorf(ErrFailed, "%q is no value.", long), "an object": unknownObject(godbus.ObjectPath("/" + long)), "a member": unknownMethod(long, long),
	} {
		require.Less(t, len(err.Error()), 1000, name)
		require.True(t, utf8.ValidString(err.Error()), name)
	}
	require.Equal(t, `"x" is no value.`, Errorf(ErrFailed, "%q is no value.", "x").Error())
}
