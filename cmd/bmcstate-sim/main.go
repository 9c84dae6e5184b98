// Command bmcstate-sim replays traces of power requests through the daemon's
// own admission, in virtual time, so that an operator can choose a policy and
// anyone can check the published figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // a figure differs, or a file could not be written
	exitUsage  = 2 // bad command line or input
)

// command is one sub-command.
type command struct {
	name, what string
	run        func(context.Context, *env, []string) error
}

// env is what a sub-command has.
type env struct {
	out, err io.Writer
}

func commands() []command {
	return []command{
		{"paper", "repeat the published experiment and compare its 28 figures", runPaper},
		{"run", "replay a trace under one or more policies", runRun},
		{"generate", "draw a new trace", runGenerate},
		{"plot", "draw the paper's figure, or the time line of a trace", runPlot},
		{"study", "measure what the paper leaves open", runStudy},
	}
}

// errDiffers is the failure that the output has already explained.
var errDiffers = errors.New("a figure differs")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	e := &env{out: stdout, err: stderr}
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(stdout)
		return exitOK
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return e.exit(c.run(ctx, e, args[1:]))
		}
	}
	fmt.Fprintf(stderr, "bmcstate-sim: unknown command %q\n", args[0])
	usage(stderr)
	return exitUsage
}

// exit reports err and returns the exit code.
func (e *env) exit(err error) int {
	var bad badInput
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errDiffers):
		return exitFailed
	case errors.As(err, &bad):
		fmt.Fprintln(e.err, "bmcstate-sim:", err)
		return exitUsage
	default:
		fmt.Fprintln(e.err, "bmcstate-sim:", err)
		return exitFailed
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: bmcstate-sim COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.what)
	}
	fmt.Fprint(w, "\nbmcstate-sim COMMAND --help lists the flags. cmd/bmcstate-sim/doc/README.md explains the figures.\n")
}
