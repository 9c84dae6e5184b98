package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/dbus/peers"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// peerRetry is the time until a peer that has not answered is asked again.
const peerRetry = 10 * time.Second

// peerWorld is what the engine has to do with the BMC's other daemons.
type peerWorld struct {
	link       *peers.Link
	events     *peers.EventLog
	settings   *peers.Settings
	marks      []*peers.Marker
	watchers   []*peers.Watcher
	nmi        *peers.NMISource // nil where no host has an NMI output
	background sync.WaitGroup   // what goes on behind the engine
	markers    string           // directory of the marks that other daemons look at
	m          *machine
	log        *slog.Logger
}

func openPeers(f flags, m *machine, log *slog.Logger) *peerWorld {
	link := peers.Open("", log)
	spool := filepath.Join(f.runDir, "events.json")
	p := &peerWorld{link: link, markers: "/run/openbmc", m: m, log: log}
	o := peers.EventLogOptions{Retry: peerRetry, Log: log, Keep: func(entries []peers.Entry) { keepFile(spool, entries, log) }}
	readKept(spool, &o.Kept, log)
	p.events = peers.NewEventLog(link, o)
	if f.runDir != defaultRunDir { // a run beside the BMC's own
		p.markers = filepath.Join(f.runDir, "openbmc")
	}
	p.watchHosts()
	return p
}

// bootNoticed writes to the event log, once in a boot, that the pinhole button has
// reset the BMC.
func (p *peerWorld) bootNoticed(runDir string) {
	mark := filepath.Join(runDir, "pinhole")
	if _, err := os.Stat(mark); err == nil || p.m.cause != state.RebootCausePinholeReset {
		return
	}
	p.events.Add(peers.Entry{Message: "xyz.openbmc_project.State.PinholeReset", Notice: true,
		Data: map[string]string{peers.EventID: "pinhole-" + p.m.bootID}})
	keepFile(mark, p.m.bootID, p.log)
}

// watch begins to tell the engine, by post, what peers say.
func (p *peerWorld) watch(cfg config.Config, post func(engine.Event), server *dbus.Server) {
	p.settings = peers.NewSettings(p.link, peers.SettingsOptions{
		Mode: peers.Mode(cfg.Settings), Hosts: p.m.hosts(), Absent: cfg.SettingsWait, Retry: peerRetry,
		Post: post, Serve: server.ServeSettings, Log: p.log,
	})
	p.marks = []*peers.Marker{
		p.link.WatchMark(peers.MarkUpdate, peerRetry, func(on bool) { post(engine.Firmware{Updating: on}) }),
		p.link.WatchMark(peers.MarkError, peerRetry, func(on bool) { post(engine.ErrorBlock{Blocks: on}) }),
	}
	p.watchRole(cfg, post)
	p.watchers = append(p.watchers, p.link.WatchSupplies(p.m.chassis(), peerRetry, func(chassis int, s state.PowerStatus) {
		if id, ok := p.domainOf(chassis); ok {
			post(engine.Supplies{Domain: id, Status: s})
		}
	}))
	if len(p.m.systems(cfg)) > 0 || p.m.chassis0() {
		p.watchers = append(p.watchers, p.link.WatchPresence(p.m.chassis(), peerRetry, func(chassis int, absent bool) {
			if id, ok := p.domainOf(chassis); ok {
				post(engine.Presence{Domain: id, Absent: absent})
			}
		}))
	}
	if host, ok := p.m.nmiHost(); ok {
		p.nmi = peers.NewNMISource(p.link, host, peerRetry, post, p.log)
	}
}

// watchRole tells whether this BMC is the passive one, where that matters.
func (p *peerWorld) watchRole(cfg config.Config, post func(engine.Event)) {
	if !cfg.RequireActiveBMC {
		return
	}
	p.watchers = append(p.watchers, p.link.WatchRole(peerRetry, func(passive bool) { post(engine.BMCRole{Passive: passive}) }))
}

// domainOf returns the domain of a chassis, where it is its first: the supplies
// of that one count.
func (p *peerWorld) domainOf(chassis int) (id int, ok bool) {
	for _, d := range p.m.domains {
		if d.Number == chassis {
			return d.Number, true
		}
	}
	return 0, false
}

// run ends it all with ctx.
func (p *peerWorld) run(ctx context.Context) {
	<-ctx.Done()
	p.close()
}

func (p *peerWorld) close() {
	if p.settings != nil {
		p.settings.Close()
	}
	for _, m := range p.marks {
		m.Close()
	}
	if p.nmi != nil {
		p.nmi.Close()
	}
	for _, w := range p.watchers {
		w.Close()
	}
	p.background.Wait()
	p.events.Close()
	p.link.Close()
}

// write changes a setting that the settings daemon keeps.
func (p *peerWorld) write(host int, what state.Setting, value uint64) {
	p.settings.Write(host, what, value)
}

// notice has an NMI recorded where other daemons look for it.
func (p *peerWorld) notice(n engine.Notice) {
	switch {
	case p.nmi == nil:
	case n.Kind == engine.NoticeNMIButton:
		p.nmi.Pressed()
	case n.Kind == engine.NoticeNMI:
		p.nmi.Sent()
	}
}

// incident has an incident written to the event log.
func (p *peerWorld) incident(i engine.Incident) {
	switch i.Kind {
	case engine.IncidentPowerLost:
		p.powerLost(i.Domain)
	case engine.IncidentOverdue:
		p.log.Warn("a schedule is later than overdueMax and was dropped", "domain", i.Domain)
	case engine.IncidentGatesUnknown:
		p.log.Warn("nobody has said whether firmware is being updated or an error blocks power: requests go on")
	case engine.IncidentQuiesced:
		p.events.Add(peers.Entry{Message: "xyz.openbmc_project.State.Error.HostQuiesce", Critical: true, Dump: true,
			Data: map[string]string{"DOMAIN": strconv.Itoa(i.Domain)}})
	}
}

// powerLost records that power went while the BMC was away
// (openbmc-state-manager.md §2.4). The marker is for the daemons that look for
// it, and for whoever asks why the BMC booted.
func (p *peerWorld) powerLost(domain int) {
	for _, d := range p.m.domains {
		if d.Number != domain {
			continue
		}
		for _, c := range d.Chassis {
			lost := newMarker(p.markers, "chassis@", c, "-lost-power", p.log)
			lost.make()
			p.background.Go(func() { p.blackout(c, p.m.targets[domain] != nil) })
		}
	}
}

// blackout has the loss of a chassis' power logged and, where units do the work,
// the platform's own told.
func (p *peerWorld) blackout(chassis int, units bool) {
	line := gpio.ReadOnce
	if p.m.simulate {
		line = func(string, time.Duration) (bool, error) { return false, gpio.ErrMissing }
	}
	if e := lossError(p.m.cause, line); e != "" {
		p.events.Add(peers.Entry{Message: e, Critical: true, Data: map[string]string{
			"CHASSIS_ID": strconv.Itoa(chassis), peers.EventID: "chassis" + strconv.Itoa(chassis) + "-lost-power-" + p.m.bootID,
		}})
	}
	if !units {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), blackoutWithin)
	defer cancel()
	unit := "obmc-chassis-blackout@" + strconv.Itoa(chassis) + ".target"
	if _, err := p.m.units.units.Start(ctx, unit, systemd.ModeReplace); err != nil && systemd.ErrorName(err) != systemd.NameNoSuchUnit {
		p.log.Warn("the platform was not told that power was lost", "unit", unit, "err", err)
	}
}

const (
	blackoutWithin = 10 * time.Second // for systemd to take the job
	regulatorLine  = "regulator-standby-faulted"
)

// lossError names the loss of power (openbmc-state-manager.md §2.4). A pinhole
// reset takes power away by intention.
func lossError(cause state.RebootCause, line func(string, time.Duration) (high bool, err error)) string {
	const prefix = "xyz.openbmc_project.State.Shutdown.Power.Error."
	if cause == state.RebootCausePinholeReset {
		return ""
	}
	if high, err := line(regulatorLine, pinholeWithin); err == nil && high {
		return prefix + "Regulator"
	}
	return prefix + "Blackout"
}
