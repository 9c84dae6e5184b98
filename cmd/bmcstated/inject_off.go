//go:build !inject

package main

import (
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/history"
)

// injection is what a test build puts into the daemon. This build has none.
type injection struct{}

func newInjection() injection { return injection{} }

func (injection) fs() history.FS             { return nil }
func (injection) point() func(history.Point) { return nil }
func (injection) hook() gpio.Hook            { return nil }
func (injection) allowHung() bool            { return false }
func (injection) beat(next func()) func()    { return next }
