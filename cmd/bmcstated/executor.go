package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/sequence"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// openTargets has every domain run by systemd targets that is configured so, or
// that is driven by nothing else where its targets are there.
func (m *machine) openTargets(cfg config.Config, log *slog.Logger) {
	for _, d := range m.domains {
		_, lines := m.boards[d.Number]
		host, chassis := d.Hosts[0], d.Chassis[0]
		switch e := cfg.ExecutorOf(d.Number); {
		case e == config.ExecutorGPIOTargets && lines:
			m.lines[d.Number] = true
			m.targets[d.Number] = lineTargetsOf(host, chassis)
			m.units.add(&unitDomain{id: d.Number, host: host, chassis: chassis, lines: true})
			log.Info("systemd's targets carry the transitions out and have the lines driven", "domain", d.Number)
			continue
		case e == config.ExecutorGPIOTargets:
			log.Error("the executor is gpio-targets and there are no lines: the domain is served and not driven", "domain", d.Number)
			continue
		case m.simulate:
			continue
		case e == config.ExecutorSystemd:
		case e == config.ExecutorAuto && !lines && m.targetsLoaded(host, chassis):
		default:
			continue
		}
		if len(d.Hosts)+len(d.Chassis) > 2 {
			log.Warn("several hosts or chassis are one domain: the targets of the first run them all", "hosts", d.Hosts, "chassis", d.Chassis)
		}
		b := newUnitBoard(m.units.units, host, chassis)
		m.boards[d.Number] = b
		m.closers = append(m.closers, b.Close)
		m.targets[d.Number] = targetsOf(host, chassis, cfg.NoWarmReboot)
		m.units.add(&unitDomain{id: d.Number, host: host, chassis: chassis, board: b})
		log.Info("systemd's targets carry the transitions out", "domain", d.Number)
	}
}

// loadedWithin is how long systemd may take to say whether targets are there.
// The bus names must not wait for it (DESIGN.md P7).
const loadedWithin = 1500 * time.Millisecond

// targetsLoaded reports whether the targets of a host and its chassis are
// installed. A systemd that does not answer is not waited for: the files tell.
func (m *machine) targetsLoaded(host, chassis int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), loadedWithin)
	defer cancel()
	for unit, file := range map[string]string{
		"obmc-host-start@" + strconv.Itoa(host) + ".target":         "obmc-host-start@.target",
		"obmc-chassis-poweron@" + strconv.Itoa(chassis) + ".target": "obmc-chassis-poweron@.target",
	} {
		s, err := m.units.units.Read(ctx, unit)
		if err == nil && s.Load != "loaded" || err != nil && !(booted() && installed(file)) {
			return false
		}
	}
	return true
}

// booted reports whether systemd is PID 1 here (sd_booted(3)).
func booted() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// unitDirs are where systemd looks for units (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

func installed(unit string) bool {
	for _, dir := range unitDirs {
		if _, err := os.Stat(filepath.Join(dir, unit)); err == nil {
			return true
		}
	}
	return false
}

// lineTargetsOf is targetsOf where the units on the way have us drive the lines.
// A graceful warm reboot goes through power off there, as it does with lines
// alone; a forced one is a pulse of the reset line, for which there is no unit.
func lineTargetsOf(host, chassis int) *sequence.Targets {
	t := targetsOf(host, chassis, true)
	t.ForceWarmReboot = ""
	return t
}

// targetsOf names the units of a domain's transitions.
func targetsOf(host, chassis int, noWarmReboot bool) *sequence.Targets {
	unit := func(op state.Operation) string {
		instance := host
		if op.Kind() == state.KindChassis {
			instance = chassis
		}
		t, _ := systemd.TargetFor(op.String(), instance, systemd.Selection{NoWarmReboot: noWarmReboot})
		return t.Unit
	}
	return &sequence.Targets{
		HostOn: unit(state.HostOn), HostOff: unit(state.HostOff), HostReboot: unit(state.HostReboot),
		GracefulWarmReboot: unit(state.HostGracefulWarmReboot), ForceWarmReboot: unit(state.HostForceWarmReboot),
		ChassisOn: unit(state.ChassisOn), ChassisOff: "obmc-chassis-poweroff@" + strconv.Itoa(chassis) + ".target",
		HardOff: unit(state.ChassisOff), PowerCycle: unit(state.ChassisPowerCycle),
	}
}
