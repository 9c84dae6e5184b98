package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// ownNamesWithin is how long the bus names may wait for the first reading of
// the power state (DESIGN.md P7 allows 5 s).
const ownNamesWithin = 3 * time.Second

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, err := parseFlags(args, stderr)
	if err != nil {
		if code := usageCode(err); code != exitOK {
			fmt.Fprintln(stderr, "bmcstated:", err)
			return code
		}
		return exitOK
	}
	handler := systemd.NewLogHandler(systemd.LogOptions{Fallback: stderr})
	defer closeLog(handler)
	log := slog.New(handler)
	switch {
	case f.version:
		fmt.Fprintln(stdout, version())
		return exitOK
	case f.checkConfig:
		return checkConfig(f, stdout, stderr)
	case f.releaseLines:
		return releaseLines(f, log)
	default:
		return serve(ctx, f, log)
	}
}

// logWithin is how long the last records may take to be written.
const logWithin = 2 * time.Second

func closeLog(h *systemd.LogHandler) {
	ctx, cancel := context.WithTimeout(context.Background(), logWithin)
	defer cancel()
	_ = h.Close(ctx) // there is nowhere left to say so
}

func checkConfig(f flags, stdout, stderr io.Writer) int {
	cfg, err := config.Load(f.config)
	if err == nil {
		_, monitored := criticalConfig(cfg)
		err = errors.Join(checkBoards(cfg, stdout), monitored)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitConfig
	}
	fmt.Fprintln(stdout, f.config+": no errors")
	return exitOK
}

// checkBoards reads the files that name the lines of each host, and prints
// their warnings. A host may go without one, unless it is to be driven by lines.
func checkBoards(cfg config.Config, stdout io.Writer) error {
	var wrong []error
	for _, h := range cfg.Hosts {
		_, warnings, err := powerconfig.Load(cfg.PowerConfigDir, h.Host)
		for _, w := range warnings {
			fmt.Fprintln(stdout, w)
		}
		absent := errors.Is(err, fs.ErrNotExist)
		if err != nil && !(absent && cfg.ExecutorOf(h.Chassis) != config.ExecutorGPIO) {
			wrong = append(wrong, fmt.Errorf("host %d: %w", h.Host, err))
		}
	}
	return errors.Join(wrong...)
}

// releaseLines is what ExecStopPost runs: it needs no bus and touches marked
// lines only (DESIGN.md P6).
func releaseLines(f flags, log *slog.Logger) int {
	if err := gpio.ReleaseMarked(f.runDir, log.With(systemd.LogMessageID, systemd.MsgLinesReleased)); err != nil {
		log.Error("lines could not be released", "err", err)
		return exitFailure
	}
	return exitOK
}

// serve runs the daemon until ctx ends or the bus is lost.
func serve(ctx context.Context, f flags, log *slog.Logger) int {
	notify := systemd.NewNotifier()
	notes := newNotices(notify, log)
	cfg, err := config.Load(f.config)
	if err != nil {
		log.Error(wrongConfig, systemd.LogMessageID, systemd.MsgDegraded, "err", err)
		notes.problem(wrongConfig + ": " + err.Error())
	}
	code, err := daemon(ctx, f, cfg, notes)
	if err != nil {
		log.Error("stopping", "err", err)
	}
	return code
}

const wrongConfig = "the configuration is wrong: objects are served and nothing is driven"

func daemon(ctx context.Context, f flags, cfg config.Config, notes *notices) (int, error) {
	log, notify := notes.log, notes.notify
	if err := gpio.ReleaseMarked(f.runDir, log.With(systemd.LogMessageID, systemd.MsgLinesReleased)); err != nil {
		log.Error("lines that an earlier run left asserted could not be released", "err", err)
	}
	inj := newInjection()
	m, err := openMachine(f, cfg, inj, notes)
	if err != nil {
		return exitFailure, err
	}
	defer m.close()
	notes.domains = m.domainIDs()
	var fm *faultMonitor // there before the engine runs
	p := openPeers(f, m, log)
	ec := engineConfig(cfg, m)
	takeOver(&ec, cfg, f.simulate, log)
	eng, err := engine.New(engine.Options{
		Config: ec, Boards: m.boards, Units: m.engineUnits(), Platform: m, Now: m.now, Log: log,
		Journal: history.Options{Dir: f.stateDir, RunDir: f.runDir, BootID: m.bootID, FS: inj.fs(), Point: inj.point()},
		Beat:    inj.beat(beat(notify)), Beats: beats(notify), Notice: func(n engine.Notice) { notes.take(n); p.notice(n) },
		Signs:        func(s engine.Sign) { fm.sign(s) },
		WriteSetting: p.write, Incident: p.incident,
	})
	if err != nil {
		p.close()
		return exitStorage, err
	}
	p.bootNoticed(f.runDir)
	openCritical(f, cfg, m, p.events.Add, log)
	if m.units != nil {
		m.units.attach(eng.Post)
	}
	fm = openFaultMonitor(f, cfg, m, eng.Post, log)
	server, err := dbus.New(context.Background(), dbus.Options{
		Backend: eng, Hosts: m.hosts(), Chassis: m.servedChassis(), Domains: m.domainIDs(), Systems: m.systems(cfg), Hypervisor: cfg.Hypervisor,
		Panels: m.panels(), FaultResources: fm.names, Faults: fm.call, AllowedUIDs: cfg.AllowedUIDs, Logger: log,
	})
	if err != nil {
		fm.close()
		p.close()
		return exitFailure, errors.Join(err, eng.Close())
	}
	fm.server, m.told = server, server.Told
	p.watch(cfg, eng.Post, server)
	return serveBus(ctx, eng, server, fm, p, m, notes)
}

// serveBus runs the engine, then the bus in front of it, and takes both down.
func serveBus(ctx context.Context, eng *engine.Engine, server *dbus.Server, fm *faultMonitor, p *peerWorld, m *machine, notes *notices) (int, error) {
	log := notes.log
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx, fm.publisher(server)) }()
	var others sync.WaitGroup
	others.Go(func() { fm.run(ctx) })
	others.Go(func() { notes.run(ctx) })
	others.Go(func() { p.run(ctx) })

	code, err := exitOK, waitReady(ctx, eng)
	if err == nil {
		err = server.Start(ctx)
	}
	switch {
	case err == nil:
		log.Info("ready")
		notes.enter("")
		tell(m.notify.Ready(notes.line()), log)
	case errors.Is(err, dbus.ErrNameTaken):
		code = exitNameUsed
	case ctx.Err() != nil:
		err = nil
	default:
		code = exitBus
	}
	if code == exitOK {
		select {
		case <-ctx.Done():
		case <-m.rebooted:
			log.Info("the simulated BMC reboots: start bmcstated again")
		case <-server.Done():
			if ctx.Err() == nil { // a stop amid the start closes the connections, too
				code, err = exitBus, fmt.Errorf("the bus is lost: %w", server.Err())
			}
		}
	}
	tell(m.notify.Stopping("stopping"), log)
	m.sayLevels(log)
	cancel()
	others.Wait()
	err = errors.Join(err, <-ended, server.Close())
	return code, err
}

// tell logs that systemd was not told something. Nothing depends on it but
// systemd's own view of the daemon.
func tell(err error, log *slog.Logger) {
	if err != nil {
		log.Warn("systemd was not told", "err", err)
	}
}

// beat is the sign of life that the engine's loop gives, and beats its pace.
func beat(n *systemd.Notifier) func() {
	if n.WatchdogInterval() == 0 {
		return nil
	}
	var last time.Time
	return func() {
		if now := time.Now(); now.Sub(last) >= beats(n) {
			last = now
			_ = n.Watchdog() // without it systemd acts: that is what it is for
		}
	}
}

func beats(n *systemd.Notifier) time.Duration {
	if w := n.WatchdogInterval(); w > 0 {
		return w / 4
	}
	return time.Second
}

// waitReady waits until the first values are seen, but not for ever: the names
// are owned whatever is missing.
func waitReady(ctx context.Context, eng *engine.Engine) error {
	t := time.NewTimer(ownNamesWithin)
	defer t.Stop()
	select {
	case <-eng.Ready():
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
