package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/dbus/inputs"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/sequence"
	"github.com/bmcstate/bmcstate/state/slog"
)

// openReal opens the board of every domain whose host has a file of
// x86-power-control's. Whatever is wrong with one leaves its objects served and
// its lines alone (DESIGN.md §7).
func (m *machine) openReal(f flags, cfg config.Config, inj injection, notes *notices) {
	log := notes.log
	kept := m.keptFiles(log)
	for _, d := range m.domains {
		if cfg.ExecutorOf(d.Number) == config.ExecutorSystemd {
			continue
		}
		host, pc := boardFile(cfg.PowerConfigDir, d, notes)
		if pc == nil {
			continue
		}
		c, err := gpio.OpenChardev(gpio.ChardevOptions{
			RunDir: f.runDir, Host: host, Lines: linesOf(pc), Hook: inj.hook(), Log: log,
			Inherited: takeHost(kept, host),
			Store: func(name string, file *os.File) {
				if err := m.notify.StoreFile(name, file); err != nil {
					log.Warn("a level-type output may lose its level if the daemon dies", "name", name, "err", err)
				}
			},
		})
		if err != nil {
			notes.undriven(host, err)
			continue
		}
		acts, awaits := powerOnOf(pc)
		b := newBoard(withProperties(c, pc, log), acts, awaits)
		m.boards[d.Number], m.power[d.Number] = b, pc
		m.signals[d.Number] = map[string]bool{}
		for name := range pc.Signals {
			m.signals[d.Number][name] = true
		}
		m.closers = append(m.closers, b.Close)
	}
	m.forget(kept, log)
}

// boardFile reads the file of the first host of a domain that has one.
func boardFile(dir string, d config.Domain, notes *notices) (host int, _ *powerconfig.Config) {
	log := notes.log
	for _, host := range d.Hosts {
		pc, warnings, err := powerconfig.Load(dir, host)
		for _, w := range warnings {
			log.Warn("power configuration", "at", w.String())
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			log.Info("the host has no power configuration: it is served and not driven", "host", host,
				"file", filepath.Join(dir, powerconfig.FileName(host)))
		case err != nil:
			notes.undriven(host, fmt.Errorf("the power configuration is wrong: %w", err))
			return host, nil
		default:
			if host != d.Hosts[len(d.Hosts)-1] {
				log.Warn("several hosts share a chassis: the lines of the first drive them all", "host", host, "hosts", d.Hosts)
			}
			withoutHalfSIO(&pc, log)
			return host, &pc
		}
	}
	return 0, nil
}

// withoutHalfSIO takes SIO inputs away where not all three are there: like
// x86-power-control we use all or none.
func withoutHalfSIO(pc *powerconfig.Config, log *slog.Logger) {
	if pc.HasSIO() {
		return
	}
	for _, name := range []string{gpio.SioPowerGood, gpio.SioOnControl, gpio.SIOS5} {
		if s, there := pc.Signals[name]; there {
			log.Warn("a SIO input is ignored: SioPowerGood, SioOnControl and SIOS5 must all be configured", "signal", name, "at", s.At.String())
			delete(pc.Signals, name)
		}
	}
}

// sayLevels says at a stop which level-type outputs may lose their level: theirs
// are the descriptors that systemd does not keep (DESIGN.md P6).
func (m *machine) sayLevels(log *slog.Logger) {
	if m.notify.KeepsFiles() {
		return
	}
	for _, id := range state.SortedKeys(m.power) {
		for _, l := range linesOf(m.power[id]) {
			if l.Level {
				log.Warn("a level-type output may lose its level while the daemon is stopped, unless its controller holds a released line: systemd before 254 does not keep its descriptor",
					"domain", id, "signal", l.Signal, "chip", l.Chip, "line", l.Name)
			}
		}
	}
}

// powerOnOf returns a board's power-on sequence, and the inputs that it waits
// for by their numbers.
func powerOnOf(pc *powerconfig.Config) (acts []sequence.Action, awaits []string) {
	for _, a := range pc.PowerOn {
		act := sequence.Action{Signal: a.Set + a.Pulse + a.Await, On: a.To, Time: a.Time}
		switch {
		case a.Set != "":
			act.Kind = sequence.ActionSet
		case a.Pulse != "":
			act.Kind = sequence.ActionPulse
			if a.Time == 0 {
				act.Time = pc.Timings.PowerPulse
			}
		case a.Await != "":
			act.Kind = sequence.ActionAwait
			if act.Input = state.Index(awaits, a.Await); act.Input < 0 {
				act.Input = len(awaits)
				awaits = append(awaits, a.Await)
			}
		default:
			act.Kind = sequence.ActionDelay
		}
		acts = append(acts, act)
	}
	return acts, awaits
}

// resetsOf returns the levels that outputs get once per boot.
func resetsOf(pc *powerconfig.Config) (outs []engine.Output) {
	for _, name := range state.SortedKeys(pc.Signals) {
		if s := pc.Signals[name]; s.Level && s.Reset != powerconfig.ResetKeep {
			outs = append(outs, engine.Output{Signal: name, On: s.Reset == powerconfig.ResetOn})
		}
	}
	return outs
}

// linesOf returns the lines of a file in the terms of package gpio.
func linesOf(pc *powerconfig.Config) []gpio.Line {
	var lines []gpio.Line
	for _, name := range state.SortedKeys(pc.Signals) {
		s := pc.Signals[name]
		if s.DBus != nil {
			continue
		}
		lines = append(lines, gpio.Line{
			Signal: name, Chip: s.Chip, Name: s.Line, Offset: max(s.Offset, 0), ActiveLow: s.ActiveLow,
			Bias: biases[s.Bias], Drive: drives[s.Drive], Debounce: s.Debounce,
			Hold: s.Idle == powerconfig.IdleHold && !s.Level, Level: s.Level,
		})
	}
	return lines
}

var biases = [...]string{
	powerconfig.BiasDisabled: gpio.BiasDisabled, powerconfig.BiasPullUp: gpio.BiasPullUp, powerconfig.BiasPullDown: gpio.BiasPullDown,
}

var drives = [...]string{
	powerconfig.DriveOpenDrain: gpio.DriveOpenDrain, powerconfig.DriveOpenSource: gpio.DriveOpenSource,
}

// withProperties adds the inputs of Type "DBUS" to a board.
func withProperties(b gpio.Board, pc *powerconfig.Config, log *slog.Logger) gpio.Board {
	var list []inputs.Property
	for _, name := range state.SortedKeys(pc.Signals) {
		if p := pc.Signals[name].DBus; p != nil {
			in := inputs.Property{Signal: name, Service: p.Service, Path: p.Path, Interface: p.Interface, Name: p.Name}
			if p.Match != nil {
				in.Match = p.Match.Match
			}
			list = append(list, in)
		}
	}
	if len(list) == 0 {
		return b
	}
	return joinInputs(b, inputs.New(inputs.Options{Properties: list, Retry: pc.Timings.PropertyRetry, Log: log}))
}

// keptFiles returns the descriptors that systemd kept over a restart, by name.
// Where a name is there twice the newer one counts: both are of one line.
func (m *machine) keptFiles(log *slog.Logger) map[string]*os.File {
	kept := map[string]*os.File{}
	for name, files := range m.notify.Files() {
		if !strings.HasPrefix(name, "gpio-") {
			log.Warn("systemd passed a descriptor that nothing wants", "name", name)
			continue
		}
		for _, old := range files[:len(files)-1] {
			_ = old.Close() // another descriptor of the same line
		}
		kept[name] = files[len(files)-1]
	}
	return kept
}

// takeHost takes a host's descriptors out of kept. The board closes those that
// it has no use for.
func takeHost(kept map[string]*os.File, host int) map[string]*os.File {
	mine := map[string]*os.File{}
	for name, f := range kept {
		if strings.HasPrefix(name, gpio.FDPrefix(host)) {
			mine[name] = f
			delete(kept, name)
		}
	}
	return mine
}

// forget lets go of the descriptors of hosts that are not configured any more.
func (m *machine) forget(kept map[string]*os.File, log *slog.Logger) {
	for name, f := range kept {
		log.Warn("a level-type output that is not configured any more is let go", "name", name)
		_ = f.Close()
		if err := m.notify.RemoveFiles(name); err != nil {
			log.Warn("systemd keeps a descriptor that nothing wants", "name", name, "err", err)
		}
	}
}
