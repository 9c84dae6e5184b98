package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bmcstate/bmcstate/cmd/internal/aside"
	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus/peers"
	"github.com/bmcstate/bmcstate/state/critical"
	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// bmcQuiesced is active while a service has failed that the BMC cannot do without.
const bmcQuiesced = "obmc-bmc-service-quiesce@0.target"

// criticalUnits carries out what package critical decides about the units of the
// monitor's files. It belongs to the goroutine that consumes systemd's events.
type criticalUnits struct {
	monitor *critical.Monitor
	add     func(peers.Entry)
	file    string // of what is dealt with, for a later run in this boot
	log     *slog.Logger
	kept    criticalKept
}

type criticalKept struct {
	Quiesced bool              `json:"quiesced"`
	Failed   map[string]string `json:"failed"` // unit → its invocation
}

// criticalConfig reads the files. What is wrong is told, and the rest is used.
func criticalConfig(cfg config.Config) (critical.Config, error) {
	var c critical.Config
	var errs []error
	for _, file := range append(append([]string(nil), cfg.MonitorTargets...), cfg.MonitorServices...) {
		data, err := os.ReadFile(file)
		if err == nil {
			err = c.Add(file, data)
		}
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

// openCritical begins to watch the units of the files.
func openCritical(f flags, cfg config.Config, m *machine, add func(peers.Entry), log *slog.Logger) {
	c, err := criticalConfig(cfg)
	if err != nil {
		log.Error("units that the files name are not monitored", systemd.LogMessageID, systemd.MsgDegraded, "err", err)
	}
	switch {
	case c.Empty():
		return
	case m.units == nil:
		log.Warn("a simulated machine has no units to monitor")
		return
	}
	w := &criticalUnits{
		monitor: critical.New(c, m.hosts(), m.chassis()), add: add,
		file: filepath.Join(f.runDir, "critical.json"), log: log,
	}
	readKept(w.file, &w.kept, log)
	w.monitor.Restore(w.kept.Failed)
	m.units.critical = w
	m.units.units.Watch(w.monitor.Units()...)
}

// take looks at an event, and reports whether the BMC is quiesced by it.
func (c *criticalUnits) take(ev systemd.Event) (quiesced bool) {
	var actions []critical.Action
	switch ev := ev.(type) {
	case systemd.UnitChanged:
		actions = c.monitor.Seen(ev.State.Name, ev.State.Active, ev.State.InvocationID)
	case systemd.JobEnded:
		actions = c.monitor.JobEnded(ev.Job.Unit, ev.Job.Type, ev.Result)
	default:
		return false
	}
	for _, a := range actions {
		c.add(peers.Entry{Message: a.Message, Critical: true, Dump: true,
			Data: map[string]string{"SYSTEMD_UNIT": a.Unit, "SYSTEMD_RESULT": a.Result}})
		quiesced = quiesced || a.Quiesce
	}
	c.kept.Quiesced = c.kept.Quiesced || quiesced
	if failed := c.monitor.Save(); len(actions) > 0 || !same(failed, c.kept.Failed) {
		c.kept.Failed = failed
		keepFile(c.file, c.kept, c.log)
	}
	return quiesced
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// quiesce starts the target that says so, and whatever a platform hooked to it.
// What is shown does not depend on that.
func (w *unitWorld) quiesce(ctx context.Context) {
	for range quiesceTries {
		_, err := w.units.Start(ctx, bmcQuiesced, systemd.ModeReplace)
		if err == nil {
			return
		}
		w.log.Error("the target of a quiesced BMC could not be started", "unit", bmcQuiesced, "err", err)
		if !pause(ctx, destructiveFor) {
			return
		}
	}
}

// quiesceTries bounds the attempts: a target that is masked or missing stays so.
const quiesceTries = 6

// keepFile writes what a later run in this boot needs. A crash leaves the old
// file or the new one.
func keepFile(path string, v any, log *slog.Logger) {
	next := path + ".new"
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(next, jsonpos.Marshal(v), 0o600)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		log.Warn("what has happened is forgotten if the daemon restarts", "file", path, "err", err)
	}
}

// readKept reads such a file. One that cannot be read is set aside, as the next
// keepFile would overwrite it.
func readKept(path string, to any, log *slog.Logger) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = jsonpos.Unmarshal(data, to)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		to, moved := aside.Move(path)
		log.Warn("what an earlier run has kept cannot be read; the file is set aside", "file", path, "err", err, "as", to, "rename", moved)
	}
}
