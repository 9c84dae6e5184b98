package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/state"
)

// transition is a command that requests one.
type transition struct {
	name    string
	op      state.Operation
	summary string
}

var transitions = []transition{
	{"on", state.HostOn, "power the host on"},
	{"off", state.HostOff, "ask the host's operating system to shut down, then power off"},
	{"reboot", state.HostReboot, "shut the host down, wait, power it on again"},
	{"warm-reboot", state.HostGracefulWarmReboot, "reboot gracefully, without a power cycle where the machine can"},
	{"force-warm-reboot", state.HostForceWarmReboot, "reset the host at once"},
	{"chassis-on", state.ChassisOn, "apply power to the chassis"},
	{"chassis-off", state.ChassisOff, "cut the chassis's power at once"},
	{"power-cycle", state.ChassisPowerCycle, "cut the chassis's power, wait, apply it again"},
}

// defaultWait is how long --wait waits. The daemon's own time-outs end every
// request long before, unless many are queued.
const defaultWait = 15 * time.Minute

func (t transition) run(ctx context.Context, e *env, args []string) error {
	f := e.flags(t.name, "")
	index := f.Int("host", 0, "the `number` of the queue: the host's own, or its chassis's lowest where they differ")
	wait := f.Bool("wait", false, "return when the request has ended; the exit code says how")
	timeout := f.Duration("timeout", defaultWait, "with --wait: longest wait")
	clientID := f.String("client-id", "", "the `id` of this run; by default a fresh one, or \"bmcstatectl\" with --request-id")
	requestID := f.String("request-id", "", "the `id` of this request: repeating it with the same client id never acts twice")
	cause := f.String("cause", "", "free `text` for the record")
	expires := f.Duration("expires", 0, "drop the request when it has not started this long after acceptance; 0 = the daemon's pendingTTL")
	if _, err := e.parse(f, args, 0); err != nil {
		return err
	}
	if *index < 0 || *timeout <= 0 || *expires < 0 {
		return e.usageError("%s: --host and --expires must not be negative, --timeout must be positive", t.name)
	}
	s := client.Submission{Domain: *index, Op: t.op, Cause: *cause, Expires: *expires}
	s.Client, s.Request = ids(*clientID, *requestID)

	if !*wait {
		*timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	if *wait {
		o, err := c.SubmitAndWait(ctx, s, e.accepted(t.name))
		return e.ended(t.name, *timeout, o, err)
	}
	o, err := c.Submit(ctx, s)
	if err != nil {
		return err
	}
	return e.answered(t.name, o)
}

// ids completes the pair of ids. Without a request id nothing can be repeated,
// so a fresh client id keeps this run apart from all others.
func ids(clientID, requestID string) (string, string) {
	switch {
	case clientID == "" && requestID == "":
		return "bmcstatectl-" + rand.Text()[:12], "1"
	case clientID == "":
		return "bmcstatectl", requestID
	case requestID == "":
		return clientID, rand.Text()[:12]
	}
	return clientID, requestID
}

func (e *env) accepted(name string) func(client.Outcome) {
	return func(o client.Outcome) {
		if !o.Status.Final() {
			fmt.Fprintln(e.stdout, name+":", describe(o))
		}
	}
}

// answered shows a submission's answer without waiting for the end.
func (e *env) answered(name string, o client.Outcome) error {
	fmt.Fprintln(e.stdout, name+":", describe(o))
	if code := statusCodes[o.Status]; code != exitOK {
		return exitCode(code)
	}
	return nil
}

// ended shows how a wait ended.
func (e *env) ended(name string, timeout time.Duration, o client.Outcome, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && o.Status != 0:
		fmt.Fprintf(e.stderr, "bmcstatectl: %s: still %s after %s; the request goes on\n", name, describe(o), timeout)
		return exitCode(exitTimeout)
	case errors.Is(err, context.Canceled) && o.Status != 0:
		return fmt.Errorf("%s: interrupted while %s; the request goes on", name, describe(o))
	case err != nil:
		return err
	}
	return e.answered(name, o)
}

// describe says where a request stands: "Success (request 12: reason)".
func describe(o client.Outcome) string {
	s := o.Status.String()
	if o.Repeated {
		s += ", repeated"
	}
	switch {
	case o.Seq != 0 && o.Reason != "":
		return fmt.Sprintf("%s (request %d: %s)", s, o.Seq, o.Reason)
	case o.Seq != 0:
		return fmt.Sprintf("%s (request %d)", s, o.Seq)
	}
	return s
}
