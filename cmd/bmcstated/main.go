// Command bmcstated is the state manager of a BMC: it publishes the
// xyz.openbmc_project.State objects, admits every Requested…Transition write
// through a durable queue, carries transitions out and shows what it has seen.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
