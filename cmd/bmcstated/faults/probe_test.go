package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/cmd/bmcstated/faults"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// listen serves each connection with talk until the test's end.
func listen(t *testing.T, network, address string, talk func(c net.Conn)) (host, port string) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip("no such address here: ", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				talk(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	host, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return host, port
}

func echoEnd(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func probe(t *testing.T, n faults.Net, timeout time.Duration) (faults.Result, time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	began := time.Now()
	r := n.Probe(ctx, true)
	return r, time.Since(began)
}

// bound returns a socket that is bound and does not listen, and its port: nobody
// else gets it, and who connects to it is refused.
func bound(t *testing.T) (fd int, port string) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	sa, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fd, fmt.Sprint(sa.(*syscall.SockaddrInet4).Port)
}

func boundPort(t *testing.T) string {
	_, port := bound(t)
	return port
}

// blackhole is a port that answers no SYN: the queue of a socket that nobody
// accepts from is full.
func blackhole(t *testing.T) string {
	fd, port := bound(t)
	require.NoError(t, syscall.Listen(fd, 0))
	for range 8 {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, 100*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("the kernel accepts on")
	return ""
}

func TestCase39RefusedAndBlackholed(t *testing.T) {
	r, _ := probe(t, faults.Net{Host: "127.0.0.1", Port: boundPort(t)}, patience)
	assert.Equal(t, monitor.ProbeCompleteFailure, r.Status, r.Detail)
	assert.Contains(t, r.Detail, "refused")

	const timeout = 400 * time.Millisecond
	r, took := probe(t, faults.Net{Host: "127.0.0.1", Port: blackhole(t)}, timeout)
	assert.Equal(t, monitor.ProbeCompleteFailure, r.Status, r.Detail)
	assert.GreaterOrEqual(t, took, timeout*95/100-10*time.Millisecond, "the connect has 95 %% of the time-out")
}

func TestCase40ConnectsAndHangs(t *testing.T) {
	host, port := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c) // reads to our end and then stays
		<-t.Context().Done()
	})
	for what, n := range map[string]faults.Net{
		"disconnect": {Host: host, Port: port},
		"banner":     {Host: host, Port: port, Expect: "220"},
		"http":       {Host: host, Port: port, HTTPPath: "/"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, _ := probe(t, n, 3*time.Second) // in which even a busy machine connects
			assert.Equal(t, 50, r.Status, r.Detail)
		})
	}
}

func TestCase41DualStack(t *testing.T) {
	_, port := listen(t, "tcp4", "127.0.0.1:0", echoEnd)
	names, _ := net.DefaultResolver.LookupIPAddr(t.Context(), "localhost")
	r, _ := probe(t, faults.Net{Host: "127.0.0.1", Port: port}, patience)
	assert.Equal(t, faults.Result{}, r, "no IPv6 address: not applicable")
	if len(names) < 2 {
		t.Skip("localhost has one family here")
	}
	r, _ = probe(t, faults.Net{Host: "localhost", Port: port, FamilyWeight: 30}, patience)
	assert.Equal(t, 30, r.Status, "IPv6 refused: its weight")
	r, _ = probe(t, faults.Net{Host: "localhost", Port: port}, patience)
	assert.Equal(t, 100, r.Status, "IPv6 refused: complete where no weight is set")
}

func TestNetConversations(t *testing.T) {
	answering := func(request, answer string) func(net.Conn) {
		return func(c net.Conn) {
			if request != "" {
				line, _ := bufio.NewReader(c).ReadString('\n')
				if !strings.HasPrefix(line, request) {
					answer = "unexpected " + line
				}
			}
			_, _ = io.WriteString(c, answer)
		}
	}
	for _, c := range []struct {
		name, request, answer string
		net                   faults.Net
		want                  int
	}{
		{"banner", "", "220 ready\r\n", faults.Net{Expect: "220"}, 0},
		{"wrong banner", "", "554 go away\r\n", faults.Net{Expect: "220"}, 100},
		{"closed without a banner", "", "", faults.Net{Expect: "220"}, 100},
		{"asked", "PING", "PONG\n", faults.Net{Send: "PING\n", Expect: "PONG"}, 0},
		{"http", "GET /health HTTP/1.0", "HTTP/1.1 204 No Content\r\n\r\n", faults.Net{HTTPPath: "/health"}, 0},
		{"http redirect", "GET / ", "HTTP/1.0 302 Found\r\n\r\n", faults.Net{HTTPPath: "/"}, 0},
		{"http error", "GET / ", "HTTP/1.1 503 Busy\r\n\r\n", faults.Net{HTTPPath: "/"}, 100},
		{"not http", "GET / ", "SSH-2.0\r\n", faults.Net{HTTPPath: "/"}, 100},
		{"endless line", "", strings.Repeat("x", 1<<16), faults.Net{Expect: "220"}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.net.Host, c.net.Port = listen(t, "tcp", "127.0.0.1:0", answering(c.request, c.answer))
			r, _ := probe(t, c.net, patience)
			assert.Equal(t, c.want, r.Status, r.Detail)
		})
	}
}

// descriptors counts ours.
func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// used is what a leak would show in.
type used struct {
	descriptors, goroutines int
	heap                    uint64 // bytes in use
}

func usage(t *testing.T) used {
	runtime.GC()
	runtime.GC() // a second time for what finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{descriptors(t), runtime.NumGoroutine(), m.HeapAlloc}
}

// probesOf is how many probes a test of leaks makes; all 100,000 with
// FAULTS_PROBES=100000.
func probesOf(t *testing.T) (n int) {
	if s := os.Getenv("FAULTS_PROBES"); s != "" {
		_, err := fmt.Sscan(s, &n)
		require.NoError(t, err)
		return n
	}
	return 5000
}

// noLeak compares what is used with what was before. The check itself has a
// goroutine.
func noLeak(t *testing.T, n int, before used) {
	t.Helper()
	const slack = 256 << 10
	var after used
	assert.Eventually(t, func() bool {
		after = usage(t)
		return after.descriptors <= before.descriptors+1 && after.goroutines <= before.goroutines+1 && after.heap <= before.heap+slack
	}, patience, 50*time.Millisecond)
	t.Logf("%d probes: descriptors %d -> %d, goroutines %d -> %d, heap %d -> %d bytes", n,
		before.descriptors, after.descriptors, before.goroutines, after.goroutines, before.heap, after.heap)
}

// The loop keeps nothing of the probes that it has made.
func TestLoopOfProbesLeaksNothing(t *testing.T) {
	cfg := quick("svc")
	cfg.ThoroughProbe = time.Hour
	probed := make(chan struct{}, 1)
	l, _, _ := start(t, faults.Options{Resources: []faults.Resource{{Config: cfg,
		Probe: faults.ProbeFunc(func(context.Context, bool) faults.Result { return faults.Result{} })}}})
	once := func() {
		l.Tell("svc", monitor.ProbeNow{}, nil)
		l.Inspect("svc", func(*monitor.Resource) { probed <- struct{}{} })
		<-probed
	}
	for range 200 {
		once()
	}
	before, n := usage(t), probesOf(t)
	count := func() (c uint64) {
		got := make(chan uint64)
		l.Inspect("svc", func(r *monitor.Resource) { got <- r.Counters().Probes })
		return <-got
	}
	for target := count() + uint64(n); count() < target; {
		once()
	}
	noLeak(t, n, before)
}

func TestCase42NoLeak(t *testing.T) {
	n := probesOf(t)
	refused := boundPort(t)
	host, port := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.WriteString(c, "220 x\r\n") })
	kinds := []faults.Net{{Host: host, Port: port}, {Host: host, Port: port, Expect: "220"},
		{Host: host, Port: port, Expect: "no"}, {Host: host, Port: port, HTTPPath: "/"}, {Host: host, Port: refused}}
	want := []int{0, 0, 100, 100, 100}
	round := func(i int) int {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return kinds[i%len(kinds)].Probe(ctx, true).Status
	}
	for i := range 200 { // pools and caches have filled then
		round(i)
	}
	before := usage(t)
	unlike := 0
	for i := range n {
		if round(i) != want[i%len(kinds)] {
			unlike++
		}
	}
	assert.Zero(t, unlike, "probes that said something else")
	noLeak(t, n, before)
}
