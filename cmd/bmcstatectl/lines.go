package main

import (
	"context"
	"fmt"
	"strconv"
)

// runLines is what bmcstate-lines-on@ and bmcstate-lines-off@ run. It takes as
// long as the lines take: the daemon has a deadline for each of its steps.
func runLines(ctx context.Context, e *env, args []string) error {
	words, err := e.parse(e.flags("lines", "on|off CHASSIS"), args, 2)
	if err != nil {
		return err
	}
	chassis, err := strconv.ParseUint(words[1], 10, 16)
	if err != nil || words[0] != "on" && words[0] != "off" {
		return e.usageError("lines takes \"on\" or \"off\" and the number of the queue, not %q %q", words[0], words[1])
	}
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	if err := c.DriveLines(ctx, int(chassis), words[0] == "on"); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "lines: power of chassis %d is %s\n", chassis, words[0])
	return nil
}
