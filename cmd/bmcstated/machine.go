package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/sequence"
	"github.com/bmcstate/bmcstate/systemd"
)

// machine is what the daemon runs on: its boot, its clock and its boards.
type machine struct {
	bootID   string
	boot     func() time.Duration
	domains  []config.Domain
	signals  map[int]map[string]bool // that a domain's board has
	boards   map[int]engine.Board
	power    map[int]*powerconfig.Config // of the real boards
	targets  map[int]*sequence.Targets   // of the domains that systemd runs
	lines    map[int]bool                // those of them whose units have us drive lines
	units    *unitWorld                  // nil where no part of the machine is systemd's
	cause    state.RebootCause           // of the BMC's boot
	notify   *systemd.Notifier
	closers  []func() error
	runDir   string
	simulate bool
	rebooted chan struct{} // closed when the simulated BMC was told to reboot
	once     sync.Once
	told     func(context.Context) // returns when the bus has the BMC's state
}

// openMachine opens the boards. It touches no line (DESIGN.md P7).
func openMachine(f flags, cfg config.Config, inj injection, notes *notices) (*machine, error) {
	log := notes.log
	m := &machine{
		boot: gpio.BootTime, boards: map[int]engine.Board{}, signals: map[int]map[string]bool{}, power: map[int]*powerconfig.Config{}, notify: notes.notify,
		targets: map[int]*sequence.Targets{}, lines: map[int]bool{}, cause: state.RebootCauseUnknown,
		runDir: f.runDir, simulate: f.simulate, rebooted: make(chan struct{}),
	}
	maps := cfg.Hosts
	if f.simulate {
		maps = cfg.SimulatedHosts()
	}
	m.domains = config.Domains(maps)
	var err error
	if !f.simulate {
		if m.bootID, err = gpio.BootID(); err != nil {
			return m, err
		}
		m.cause = rebootCause("/", gpio.ReadOnce, log)
		m.units = openUnits(true, log)
		m.closers = append(m.closers, m.units.close)
		if cfg.Driven {
			m.openReal(f, cfg, inj, notes)
			m.openTargets(cfg, log)
		}
		return m, nil
	}
	if m.cause, err = simulatedCause(f.runDir); err != nil {
		return nil, err
	}
	if m.bootID, m.boot, err = gpio.OpenBoot(f.runDir); err != nil {
		return nil, err
	}
	for _, d := range m.domains {
		v, err := gpio.OpenVirtual(gpio.VirtualOptions{RunDir: f.runDir, Board: d.Number, Config: cfg.Simulate.Board, Log: log,
			Hook: inj.hook(), AllowHung: inj.allowHung()})
		if err != nil {
			m.close()
			return nil, err
		}
		m.signals[d.Number] = virtualSignals(cfg)
		b := newBoard(v, nil, nil)
		m.boards[d.Number] = b
		m.closers = append(m.closers, b.Close)
	}
	if cfg.UsesLineTargets() {
		m.units = openUnits(false, log)
		m.closers = append(m.closers, m.units.close)
		m.openTargets(cfg, log)
	}
	return m, nil
}

func (m *machine) close() {
	for i := len(m.closers) - 1; i >= 0; i-- {
		_ = m.closers[i]() // lines are released; there is nobody left to tell
	}
}

func (m *machine) now() state.Instant {
	return state.Instant{Boot: m.boot(), Wall: time.Now()}
}

func (m *machine) hosts() (all []int) {
	for _, d := range m.domains {
		all = append(all, d.Hosts...)
	}
	return all
}

func (m *machine) chassis() (all []int) {
	for _, d := range m.domains {
		all = append(all, d.Chassis...)
	}
	return all
}

// servedChassis are the numbers of the chassis objects.
func (m *machine) servedChassis() []int {
	if m.chassis0() {
		return append([]int{0}, m.chassis()...)
	}
	return m.chassis()
}

func (m *machine) domainIDs() (all []int) {
	for _, d := range m.domains {
		all = append(all, d.Number)
	}
	return all
}

// tellWithin bounds how long a reboot waits for the bus.
const tellWithin = time.Second

// Reboot restarts the BMC. NotReady is on the bus before it begins, whichever of
// our connections the bus reads first; a hard one waits for nothing. A simulated
// BMC gets a new boot id at its next start, and the daemon ends.
func (m *machine) Reboot(ctx context.Context, hard bool) error {
	if !hard {
		ctx, cancel := context.WithTimeout(ctx, tellWithin)
		m.told(ctx)
		cancel()
	}
	if !m.simulate {
		return m.units.reboot(ctx, hard)
	}
	if err := os.Remove(filepath.Join(m.runDir, "boot")); err != nil {
		return fmt.Errorf("simulated reboot: %w", err)
	}
	m.once.Do(func() { close(m.rebooted) })
	return nil
}

// ResetSystem resets the whole machine.
func (m *machine) ResetSystem(ctx context.Context) error {
	if m.units == nil {
		return errors.New("there is no systemd that could start " + systemResetTarget)
	}
	return m.units.run(ctx, systemResetTarget)
}

// engineUnits is nil, and not a nil in an interface, where there is no systemd.
func (m *machine) engineUnits() engine.Units {
	if m.units == nil {
		return nil
	}
	return m.units
}
