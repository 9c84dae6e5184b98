package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
)

// The bits of a watchdog's boot status (linux/watchdog.h) that name a cause.
const (
	wdioExtern1   = 0x04 // a reset by software
	wdioCardReset = 0x20 // the watchdog's own
)

// rebootCause says why the BMC booted last (openbmc-state-manager.md §2.2). Like
// the reference it takes only a status with a single bit set: two bits tell
// nothing. A watchdog that cannot be read means a power-on.
func rebootCause(root string, log *slog.Logger) state.RebootCause {
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
