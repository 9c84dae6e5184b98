package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bmcstate/bmcstate/state/monitor"
)

// Prober makes one probe. It returns when ctx ends at the latest; one that does
// not is counted as stuck, and only the end of the daemon waits for it.
type Prober interface {
	Probe(ctx context.Context, thorough bool) Result
}

// ProbeFunc is a function as a [Prober].
type ProbeFunc func(ctx context.Context, thorough bool) Result

// Probe implements [Prober].
func (f ProbeFunc) Probe(ctx context.Context, thorough bool) Result { return f(ctx, thorough) }

// Result is what a probe came to: a status of package monitor (0, 1 to 99, 100,
// 201 or ProbeMonitorError) and words for messages.
type Result struct {
	Status int
	Detail string
}

// The shares and weights of a probe over the network (fault-monitor.md §2.4).
const (
	connectShare  = 0.95
	weightLateEnd = 50 // connected, but the end of the conversation timed out
)

// Net is a probe over TCP. Every address that Host has is tried, each family
// side by side with the full connect share of the time-out.
type Net struct {
	Host string // name or address
	Port string

	// Lookup is asked for names that /etc/hosts does not have. Nil: there are
	// no others.
	Lookup Lookup

	// Send and Expect make a conversation: Send is written, then the first
	// line that comes back must begin with Expect. Both empty: connecting and
	// disconnecting is enough.
	Send   string
	Expect string

	// HTTPPath makes it a GET of this path, whose status must be 2xx or 3xx.
	// Send and Expect are not used.
	HTTPPath string

	// FamilyWeight is the weight of one family's failure where the other is
	// well, 1 to 100.
	FamilyWeight int
}

// Probe implements [Prober]. The cheap probe only connects.
func (n Net) Probe(ctx context.Context, thorough bool) Result {
	addresses, err := n.resolve(ctx)
	if err != nil {
		return failure(err, monitor.ProbeCompleteFailure)
	}
	port, err := strconv.ParseUint(n.Port, 10, 16)
	if err != nil {
		return failure(err, monitor.ProbeMonitorError)
	}
	results := make([]Result, len(addresses))
	var wg sync.WaitGroup
	for i, a := range addresses {
		wg.Go(func() { results[i] = n.talk(ctx, netip.AddrPortFrom(a, uint16(port)), thorough) })
	}
	wg.Wait()
	return n.combine(results)
}

// combine makes one result of one per family.
func (n Net) combine(results []Result) Result {
	worst, well := Result{}, 0
	for _, r := range results {
		switch {
		case r.Status == monitor.ProbeMonitorError:
			return r
		case r.Status == 0:
			well++
		case r.Status > worst.Status:
			worst = r
		}
	}
	if well > 0 && worst.Status > 0 && n.FamilyWeight > 0 {
		worst.Status = min(worst.Status, n.FamilyWeight)
	}
	return worst
}

// talk makes one conversation. The socket is closed on every path.
func (n Net) talk(ctx context.Context, address netip.AddrPort, thorough bool) Result {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute)
	}
	share := time.Duration(float64(time.Until(deadline)) * connectShare)
	c, err := dialTCP(ctx, time.Now().Add(share), address)
	if err != nil {
		return failure(err, monitor.ProbeCompleteFailure)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) })
	defer stop()
	if err := c.SetDeadline(deadline); err != nil {
		return failure(err, monitor.ProbeMonitorError)
	}
	if !thorough {
		return Result{}
	}
	if err := n.converse(c); err != nil {
		silent := n.Send == "" && n.Expect == "" && n.HTTPPath == ""
		if silent || errors.Is(err, os.ErrDeadlineExceeded) {
			return failure(err, weightLateEnd)
		}
		return failure(err, monitor.ProbeCompleteFailure)
	}
	return Result{}
}

// maxLine bounds what is read of an answer.
const maxLine = 4096

func (n Net) converse(c *os.File) error {
	send, expect := n.Send, n.Expect
	if n.HTTPPath != "" {
		send = "GET " + n.HTTPPath + " HTTP/1.0\r\nHost: " + n.Host + "\r\nConnection: close\r\n\r\n"
	}
	if send != "" {
		if _, err := io.WriteString(c, send); err != nil {
			return err
		}
	}
	if expect == "" && n.HTTPPath == "" {
		return n.disconnect(c)
	}
	line, err := bufio.NewReaderSize(io.LimitReader(c, maxLine), 256).ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return fmt.Errorf("no answer: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case n.HTTPPath == "" && !strings.HasPrefix(line, expect):
		return fmt.Errorf("the answer is %.60q, not %q", line, expect)
	case n.HTTPPath != "":
		return httpStatus(line)
	}
	return nil
}

// disconnect closes our half and waits for the other side to close its: a
// service that has hung accepts in the kernel and never closes.
func (n Net) disconnect(c *os.File) error {
	if err := closeWrite(c); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(c, maxLine)); err != nil {
		return fmt.Errorf("no disconnect: %w", err)
	}
	return nil
}

func httpStatus(line string) error {
	proto, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if !strings.HasPrefix(proto, "HTTP/1.") || err != nil {
		return fmt.Errorf("the answer is %.60q, not HTTP", line)
	}
	if status < 200 || status >= 400 {
		return fmt.Errorf("HTTP status %d", status)
	}
	return nil
}

// ours are errors of the machine that the monitor runs on: no descriptor, no
// memory, no port. They say nothing of the service.
var ours = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL}

func failure(err error, status int) Result {
	for _, e := range ours {
		if errors.Is(err, e) {
			status = monitor.ProbeMonitorError
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return Result{status, "no answer in time: " + err.Error()}
	}
	return Result{status, err.Error()}
}
