//go:build !faults

package main

import (
	"context"
	"log/slog"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
)

// faultMonitor is nothing in a daemon that is built without -tags faults.
type faultMonitor struct {
	names  []string
	server *dbus.Server
}

func openFaultMonitor(flags, config.Config, *machine, *slog.Logger) *faultMonitor {
	return &faultMonitor{}
}

func (*faultMonitor) run(context.Context) {}
func (*faultMonitor) close()              {}
func (*faultMonitor) call(dbus.FaultCall) {}
