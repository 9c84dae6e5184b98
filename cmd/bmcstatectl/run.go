package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/bmcstate/bmcstate/dbus/client"
	"github.com/bmcstate/bmcstate/state"
)

// The exit codes. They are part of the interface: --help lists them.
const (
	exitOK      = 0
	exitError   = 1 // no bus, no daemon, or an error that has no code of its own
	exitUsage   = 2
	exitNoop    = 3
	exitInvalid = 4
	exitFailed  = 5
	exitUndone  = 6 // ended without a result
	exitTimeout = 7
	exitRefused = 8
)

const exitCodes = `Exit codes:
  0  done: the request was accepted, or with --wait has succeeded
  1  the bus or the daemon cannot be reached, or answered with an error
  2  wrong usage
  3  no-op: the machine was so already
  4  invalid: the request makes no sense in the machine's state
  5  failed
  6  ended without a result: cancelled, superseded, expired or interrupted
  7  timed out: --timeout is over; the request goes on
  8  refused: access denied, busy, full, conflicting id, unknown request, not allowed now
`

// statusCodes are the exit codes of final statuses.
var statusCodes = map[state.Status]int{
	state.Success: exitOK, state.Noop: exitNoop, state.Invalid: exitInvalid, state.Failed: exitFailed,
	state.Cancelled: exitUndone, state.Superseded: exitUndone, state.Expired: exitUndone, state.Interrupted: exitUndone,
}

// refusals are the error names that mean a refusal, not a fault.
var refusals = map[string]bool{
	"org.freedesktop.DBus.Error.AccessDenied":                        true,
	"xyz.openbmc_project.Common.Error.NotAllowed":                    true,
	"xyz.openbmc_project.Common.Error.Unavailable":                   true,
	"xyz.openbmc_project.State.Host.Error.BMCNotReady":               true,
	"xyz.openbmc_project.State.Chassis.Error.BMCNotReady":            true,
	"xyz.openbmc_project.State.TransitionQueue.Error.IdConflict":     true,
	"xyz.openbmc_project.State.TransitionQueue.Error.Busy":           true,
	"xyz.openbmc_project.State.TransitionQueue.Error.Full":           true,
	"xyz.openbmc_project.State.TransitionQueue.Error.UnknownRequest": true,
	"xyz.openbmc_project.State.TransitionQueue.Error.Running":        true,
}

// errUsage is an error in the arguments; its text has been shown.
var errUsage = errors.New("wrong usage")

// exitCode is an outcome that is no error and not 0 either.
type exitCode int

// Error is for the error chain only and never shown.
func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// command is one row of the table of sub-commands.
type command struct {
	name, summary string
	run           func(ctx context.Context, env *env, args []string) error
}

func commands() []command {
	all := []command{
		{"status", "show the state of the BMC, the chassis, the hosts and the queues", runStatus},
		{"watch", "print every change of state until interrupted", runWatch},
	}
	for _, t := range transitions {
		all = append(all, command{t.name, t.summary, t.run})
	}
	return append(all,
		command{"request", "list, show or cancel requests", runRequest},
		command{"faults", "show what the fault monitor watches; suspend, resume or reset it", runFaults},
		command{"lines", "have the lines driven, on behalf of a unit of a target", runLines},
		command{"history", "print what was requested, by whom, when, and how it ended", runHistory},
	)
}

// env is what a command works with.
type env struct {
	stdout, stderr io.Writer
	client         *client.Client // connected by connect
}

// callTimeout bounds a single exchange with the bus or the daemon.
const callTimeout = 25 * time.Second

// Run carries out one command line and returns the exit code. SIGINT and
// SIGTERM end it early; a request that was accepted goes on.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	e := &env{stdout: stdout, stderr: stderr}
	defer func() {
		if e.client != nil {
			_ = e.client.Close() // nothing is left to say
		}
	}()
	return e.code(e.dispatch(ctx, args))
}

func (e *env) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		e.usage(e.stderr)
		return errUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		e.usage(e.stdout)
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, e, args[1:])
		}
	}
	return e.usageError("unknown command %q; see bmcstatectl --help", args[0])
}

// code turns a command's error into the exit code, and says it on stderr where
// nobody has yet.
func (e *env) code(err error) int {
	var own exitCode
	var refused *client.Error
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &own):
		return int(own)
	case errors.Is(err, errUsage):
		return exitUsage
	}
	fmt.Fprintln(e.stderr, "bmcstatectl:", err)
	switch {
	case !errors.As(err, &refused):
	case refusals[refused.Name]:
		return exitRefused
	case refused.Absent():
		fmt.Fprintln(e.stderr, "bmcstatectl: is bmcstated running, and is this its bus?")
	}
	return exitError
}

func (e *env) usage(w io.Writer) {
	fmt.Fprint(w, "Usage: bmcstatectl COMMAND [OPTIONS]\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-18s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nbmcstatectl COMMAND --help shows a command's options.\n"+
		"The bus is the system bus, or $DBUS_SYSTEM_BUS_ADDRESS.\n\n"+exitCodes)
}

func (e *env) usageError(format string, args ...any) error {
	fmt.Fprintf(e.stderr, "bmcstatectl: "+format+"\n", args...)
	return errUsage
}

// flags returns a flag set whose help names the command and its operands.
func (e *env) flags(name, operands string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Usage = func() {
		if operands != "" {
			operands = " " + operands
		}
		fmt.Fprintf(f.Output(), "Usage: bmcstatectl %s [OPTIONS]%s\n", name, operands)
		f.PrintDefaults()
	}
	return f
}

// parse reads options and operands in any order. The number of operands must
// be exactly operands.
func (e *env) parse(f *flag.FlagSet, args []string, operands int) ([]string, error) {
	f.SetOutput(e.stderr)
	for _, a := range args {
		if a == "-h" || a == "-help" || a == "--help" {
			f.SetOutput(e.stdout)
		}
	}
	var found []string
	for {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, errUsage // the flag package has said it
		}
		if f.NArg() == 0 {
			break
		}
		found, args = append(found, f.Arg(0)), f.Args()[1:]
	}
	if len(found) != operands {
		f.Usage()
		return nil, e.usageError("%s takes %d operands, not %d", f.Name(), operands, len(found))
	}
	return found, nil
}

// connect returns the connection to the bus, which it makes on first use.
func (e *env) connect(ctx context.Context) (*client.Client, error) {
	if e.client != nil {
		return e.client, nil
	}
	c, err := client.Dial(ctx, "")
	if err != nil {
		return nil, err
	}
	e.client = c
	return c, nil
}
