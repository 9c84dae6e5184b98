package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come; nothing is judged by it.
const patience = 2 * time.Minute

// screen keeps what was shown, and lets a test wait for it.
type screen struct {
	mu    sync.Mutex
	views map[string][]monitor.View
	news  chan struct{}
}

func newScreen() *screen {
	return &screen{views: map[string][]monitor.View{}, news: make(chan struct{}, 1)}
}

func (s *screen) ShowFault(v monitor.View, _ uint64) {
	s.mu.Lock()
	s.views[v.Name] = append(s.views[v.Name], v)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *screen) RemoveFault(string) {}

func (s *screen) all(name string) []monitor.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]monitor.View(nil), s.views[name]...)
}

// await waits for a view that fits and returns the newest.
func (s *screen) await(t *testing.T, name, what string, fits func(monitor.View) bool) monitor.View {
	t.Helper()
	late := time.After(patience)
	for {
		for _, v := range s.all(name) {
			if fits(v) {
				return v
			}
		}
		select {
		case <-s.news:
		case <-late:
			require.FailNow(t, "did not come: "+what, "shown: %+v", s.all(name))
		}
	}
}

func (s *screen) awaitStatus(t *testing.T, name string, st monitor.Status) monitor.View {
	t.Helper()
	return s.await(t, name, st.String(), func(v monitor.View) bool { return v.Status == st })
}

// quick is a resource without back-off and grace.
func quick(name string) monitor.Config {
	c := monitor.DefaultConfig(name)
	c.Backoff, c.StartGrace, c.Flap = monitor.Backoff{}, 0, monitor.FlapConfig{}
	return c
}

var began = time.Now()

func now() state.Instant {
	return state.Instant{Boot: time.Since(began) + time.Minute, Wall: time.Now()}
}

// start runs a loop until the test's end, or until stop.
func start(t *testing.T, o faults.Options) (l *faults.Loop, sc *screen, stop func()) {
	t.Helper()
	sc = newScreen()
	o.Show, o.Random = sc, func() float64 { return 0.5 }
	if o.Now == nil {
		o.Now = now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l, err := faults.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return l, sc, stop
}
