//go:build !faults

package main

import (
	"context"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
)

// faultMonitor is nothing in a daemon that is built without -tags faults.
type faultMonitor struct {
	names  []string
	server *dbus.Server
}

func openFaultMonitor(flags, config.Config, *machine, func(engine.Event), *slog.Logger) *faultMonitor {
	return &faultMonitor{}
}

func (*faultMonitor) run(context.Context)                           {}
func (*faultMonitor) close()                                        {}
func (*faultMonitor) sign(engine.Sign)                              {}
func (*faultMonitor) publisher(p engine.Publisher) engine.Publisher { return p }
func (*faultMonitor) call(dbus.FaultCall)                           {}
