// Command bmcstatectl shows and requests state transitions of a machine that
// bmcstated runs. See bmcstatectl --help.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
