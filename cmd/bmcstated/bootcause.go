package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
)

// The bits of a watchdog's boot status (linux/watchdog.h) that name a cause.
const (
	wdioExtern1   = 0x04 // a reset by software
	wdioCardReset = 0x20 // the watchdog's own
)

// pinholeLine is low after a reset by the pinhole button; not every board has it.
const pinholeLine = "reset-cause-pinhole"

// pinholeWithin bounds the look at that line: the bus names wait for it.
const pinholeWithin = time.Second

// rebootCause says why the BMC booted last (openbmc-state-manager.md §2.2): by the
// watchdog and, where that says a power-on, by the line of the pinhole button.
func rebootCause(root string, line func(string, time.Duration) (high bool, err error), log *slog.Logger) state.RebootCause {
	cause := watchdogCause(root, log)
	if cause != state.RebootCausePOR {
		return cause
	}
	high, err := line(pinholeLine, pinholeWithin)
	switch {
	case err == nil && !high:
		return state.RebootCausePinholeReset
	case err != nil && !errors.Is(err, gpio.ErrMissing):
		log.Warn("the line of the pinhole button cannot be read; the boot counts as power-on", "line", pinholeLine, "err", err)
	}
	return cause
}

// watchdogCause is the watchdog's part of it. Like the reference it takes only a
// status with a single bit set: two bits tell nothing. A watchdog that cannot be
// read means a power-on.
func watchdogCause(root string, log *slog.Logger) state.RebootCause {
	data, err := os.ReadFile(filepath.Join(root, "sys/class/watchdog/watchdog0/bootstatus"))
	if err != nil {
		log.Info("the cause of the BMC's boot is not known; it counts as power-on", "err", err)
		return state.RebootCausePOR
	}
	text := strings.TrimSpace(string(data))
	status, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), base(text), 32)
	switch {
	case err != nil:
		log.Warn("the watchdog's boot status is no number", "text", text)
	case status == wdioExtern1:
		return state.RebootCauseSoftware
	case status == wdioCardReset:
		return state.RebootCauseWatchdog
	}
	return state.RebootCausePOR
}

func base(text string) int {
	if strings.HasPrefix(text, "0x") {
		return 16
	}
	return 10
}

// simulatedCause is the cause of a simulated boot: without its file the BMC has
// rebooted, without the whole directory the mains were away (DESIGN.md §4). It
// stays the same while the boot lasts.
func simulatedCause(runDir string) (state.RebootCause, error) {
	name := filepath.Join(runDir, "cause")
	_, noBoot := os.Stat(filepath.Join(runDir, "boot"))
	text, err := os.ReadFile(name)
	cause := state.RebootCausePOR
	if err == nil && (noBoot != nil || string(text) == "software") {
		cause = state.RebootCauseSoftware
		text = []byte("software")
	}
	if err == nil && noBoot == nil {
		return cause, nil
	}
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return cause, err
	}
	return cause, os.WriteFile(name, text, 0o644)
}
