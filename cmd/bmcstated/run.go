package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/history"
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
	log := slog.New(slog.NewTextHandler(stderr, nil))
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

func checkConfig(f flags, stdout, stderr io.Writer) int {
	if _, err := config.Load(f.config); err != nil {
		fmt.Fprintln(stderr, err)
		return exitConfig
	}
	fmt.Fprintln(stdout, f.config+": no errors")
	return exitOK
}

// releaseLines is what ExecStopPost runs: it needs no bus and touches marked
// lines only (DESIGN.md P6).
func releaseLines(f flags, log *slog.Logger) int {
	if err := gpio.ReleaseMarked(f.runDir, log); err != nil {
		log.Error("lines could not be released", "err", err)
		return exitFailure
	}
	return exitOK
}

// serve runs the daemon until ctx ends or the bus is lost.
func serve(ctx context.Context, f flags, log *slog.Logger) int {
	cfg, err := config.Load(f.config)
	if err != nil {
		log.Error("the configuration is wrong: objects are served and nothing is driven", "err", err)
	}
	code, err := daemon(ctx, f, cfg, log)
	if err != nil {
		log.Error("stopping", "err", err)
	}
	return code
}

func daemon(ctx context.Context, f flags, cfg config.Config, log *slog.Logger) (int, error) {
	if err := gpio.ReleaseMarked(f.runDir, log); err != nil {
		log.Error("lines that an earlier run left asserted could not be released", "err", err)
	}
	inj := newInjection()
	m, err := openMachine(f, cfg, inj, log)
	if err != nil {
		return exitFailure, err
	}
	defer m.close()
	eng, err := engine.New(engine.Options{
		Config: engineConfig(cfg, m), Boards: m.boards, Platform: m, Now: m.now, Log: log,
		Journal: history.Options{Dir: f.stateDir, RunDir: f.runDir, BootID: m.bootID, FS: inj.fs(), Point: inj.point()},
		Beat:    inj.beat(nil), Beats: time.Second,
	})
	if err != nil {
		return exitStorage, err
	}
	server, err := dbus.New(context.Background(), dbus.Options{
		Backend: eng, Hosts: m.hosts(), Chassis: m.chassis(), Domains: m.domainIDs(),
		AllowedUIDs: cfg.AllowedUIDs, Logger: log,
	})
	if err != nil {
		return exitFailure, errors.Join(err, eng.Close())
	}
	return serveBus(ctx, eng, server, m, log)
}

// serveBus runs the engine, then the bus in front of it, and takes both down.
func serveBus(ctx context.Context, eng *engine.Engine, server *dbus.Server, m *machine, log *slog.Logger) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx, server) }()

	code, err := exitOK, waitReady(ctx, eng)
	if err == nil {
		err = server.Start(ctx)
	}
	switch {
	case err == nil:
		log.Info("ready")
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
			code, err = exitBus, fmt.Errorf("the bus is lost: %w", server.Err())
		}
	}
	cancel()
	err = errors.Join(err, <-ended, server.Close())
	return code, err
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
