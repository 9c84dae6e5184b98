package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/state"
)

// flags are the command line.
type flags struct {
	_ state.Incomparable

	config       string
	simulate     bool
	stateDir     string
	runDir       string
	checkConfig  bool
	releaseLines bool
	version      bool
}

// option is one flag: a text or a switch. Package flag would be 28 KB of a BMC's
// flash.
type option struct {
	_ state.Incomparable

	name, value string // value is what --help calls a text
	text        *string
	on          *bool
	help        string
}

func (f *flags) options() []option {
	return []option{
		{name: "config", value: "FILE", text: &f.config, on: nil, help: "configuration FILE; missing at its default place, nothing is driven"},
		{name: "simulate", value: "", text: nil, on: &f.simulate, help: "drive a virtual chassis: needs no hardware and no configuration"},
		{name: "state-dir", value: "DIR", text: &f.stateDir, on: nil, help: "DIRectory of the journal; must survive power loss"},
		{name: "run-dir", value: "DIR", text: &f.runDir, on: nil, help: "DIRectory of run-time marks; must not survive a boot"},
		{name: "check-config", value: "", text: nil, on: &f.checkConfig, help: "check the configuration, say what is wrong, and exit"},
		{name: "release-lines", value: "", text: nil, on: &f.releaseLines, help: "release the lines that a dead daemon left asserted, and exit"},
		{name: "version", value: "", text: nil, on: &f.version, help: "print the version and exit"},
	}
}

func defaultFlags() flags {
	return flags{config: config.DefaultPath, stateDir: "/var/lib/bmcstate", runDir: defaultRunDir}
}

const usage = `usage: bmcstated [flags]

The state manager of a BMC. It serves the xyz.openbmc_project.State objects on
the system bus, or on DBUS_SYSTEM_BUS_ADDRESS where that is set.

`

func printUsage(out io.Writer) {
	f := defaultFlags()
	fmt.Fprint(out, usage)
	for _, o := range f.options() {
		fmt.Fprintf(out, "  --%s %s\n    \t%s", o.name, o.value, o.help)
		if o.text != nil {
			fmt.Fprintf(out, " (default %q)", *o.text)
		}
		fmt.Fprintln(out)
	}
}

// errHelp says that the usage was asked for, and printed.
var errHelp = errors.New("help requested")

// parseFlags reads flags as package flag does: with one dash or two, their text
// behind "=" or in the next argument. With an error the usage goes to stderr.
func parseFlags(args []string, stderr io.Writer) (flags, error) {
	f := defaultFlags()
	for len(args) > 0 {
		rest, err := f.take(args)
		if err != nil {
			printUsage(stderr)
			return f, err
		}
		args = rest
	}
	return f, nil
}

// take reads the first of args and returns the others.
func (f *flags) take(args []string) (rest []string, err error) {
	first, rest := args[0], args[1:]
	name := strings.TrimPrefix(strings.TrimPrefix(first, "-"), "-")
	if name == first || name == "" {
		return nil, fmt.Errorf("unexpected argument %q: bmcstated takes flags only, see --help", first)
	}
	name, text, given := strings.Cut(name, "=")
	if name == "help" || name == "h" {
		return nil, errHelp
	}
	for _, o := range f.options() {
		if o.name != name {
			continue
		}
		if o.on != nil {
			return rest, o.turn(text, given)
		}
		if !given {
			if len(rest) == 0 {
				return nil, fmt.Errorf("flag needs an argument: --%s %s", name, o.value)
			}
			text, rest = rest[0], rest[1:]
		}
		*o.text = text
		return rest, nil
	}
	return nil, fmt.Errorf("flag provided but not defined: --%s", name)
}

func (o option) turn(text string, given bool) error {
	on, err := true, error(nil)
	if given {
		on, err = strconv.ParseBool(text)
	}
	if err != nil {
		return fmt.Errorf("invalid value %q for --%s: true or false", text, o.name)
	}
	*o.on = on
	return nil
}

// exit codes, as sysexits.h has them where it has one.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitBus      = 69 // EX_UNAVAILABLE
	exitStorage  = 73 // EX_CANTCREAT
	exitConfig   = 78 // EX_CONFIG
	exitNameUsed = 75 // EX_TEMPFAIL
)

func usageCode(err error) int {
	if errors.Is(err, errHelp) {
		return exitOK
	}
	return exitUsage
}

// release is the version; the Makefile sets it with the linker's -X.
var release = "devel"

func version() string { return "bmcstated " + release }

// defaultRunDir is where the BMC's own run keeps its marks.
const defaultRunDir = "/run/bmcstate"
