package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
)

// flags are the command line.
type flags struct {
	config       string
	simulate     bool
	stateDir     string
	runDir       string
	checkConfig  bool
	releaseLines bool
	version      bool
}

const usage = `usage: bmcstated [flags]

The state manager of a BMC. It serves the xyz.openbmc_project.State objects on
the system bus, or on DBUS_SYSTEM_BUS_ADDRESS where that is set.

`

func parseFlags(args []string, stderr io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("bmcstated", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.config, "config", config.DefaultPath, "configuration `FILE`; missing at its default place, nothing is driven")
	set.BoolVar(&f.simulate, "simulate", false, "drive a virtual chassis: needs no hardware and no configuration")
	set.StringVar(&f.stateDir, "state-dir", "/var/lib/bmcstate", "`DIR`ectory of the journal; must survive power loss")
	set.StringVar(&f.runDir, "run-dir", "/run/bmcstate", "`DIR`ectory of run-time marks; must not survive a boot")
	set.BoolVar(&f.checkConfig, "check-config", false, "check the configuration, say what is wrong, and exit")
	set.BoolVar(&f.releaseLines, "release-lines", false, "release the lines that a dead daemon left asserted, and exit")
	set.BoolVar(&f.version, "version", false, "print the version and exit")
	set.Usage = func() {
		fmt.Fprint(stderr, usage)
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q: bmcstated takes flags only, see --help", set.Arg(0))
	}
	return f, nil
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
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	return exitUsage
}

// release is the version; the Makefile sets it with the linker's -X.
var release = "devel"

func version() string { return "bmcstated " + release }
