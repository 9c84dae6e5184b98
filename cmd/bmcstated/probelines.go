package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/cmd/internal/powerconfig"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/monitor"
	"github.com/bmcstate/bmcstate/state/slog"
)

// probeLines are the lines that probes read by their places. One that a host's
// power configuration names, too, is read through that host's board: a line can be
// requested once only. The others are a board of their own, which has inputs only.
type probeLines struct {
	lines []gpio.Line
	board *gpio.Chardev       // nil where there are none
	users map[string][]string // resources to be probed when a line moves, by its signal
	found map[string]onBoard  // of those that a board has, by resource
}

// onBoard is an input of a domain's board.
type onBoard struct {
	domain    int
	signal    string
	activeLow bool
	output    bool
}

// findLine returns the signal of some board that is on a line.
func findLine(power map[int]*powerconfig.Config, want gpio.Line, same func(a, b gpio.Line) bool) (at onBoard, ok bool) {
	for _, id := range state.SortedKeys(power) {
		for _, l := range linesOf(power[id]) {
			if same(l, want) {
				return onBoard{id, l.Signal, l.ActiveLow, l.Level || gpio.IsOutput(l.Signal)}, true
			}
		}
	}
	return onBoard{}, false
}

// lineAt is the line that a probe is of.
func lineAt(l *config.LineProbe) gpio.Line {
	return gpio.Line{Chip: l.Chip, Name: l.Name, Offset: max(l.Offset, 0), ActiveLow: l.ActiveLow}
}

// collect sorts the probes' lines. Two probes of one line share it.
func (p *probeLines) collect(all []config.Watched, power map[int]*powerconfig.Config, same func(a, b gpio.Line) bool) {
	p.users, p.found = map[string][]string{}, map[string]onBoard{}
	for _, w := range all {
		if w.Line == nil || w.Line.Signal != "" {
			continue
		}
		want, resource := lineAt(w.Line), w.Config.Name
		at, ok := findLine(power, want, same)
		if !ok {
			at = p.share(want, same)
			p.users[at.signal] = append(p.users[at.signal], resource)
		}
		p.found[resource] = at
	}
}

// ownBoard stands for the board of the probes' own lines.
const ownBoard = -1

// share returns the place of a line on the probes' own board.
func (p *probeLines) share(want gpio.Line, same func(a, b gpio.Line) bool) onBoard {
	for _, l := range p.lines {
		if same(l, want) {
			return onBoard{domain: ownBoard, signal: l.Signal, activeLow: l.ActiveLow}
		}
	}
	want.Signal = "probe" + strconv.Itoa(len(p.lines))
	p.lines = append(p.lines, want)
	return onBoard{domain: ownBoard, signal: want.Signal, activeLow: want.ActiveLow}
}

// openLines requests the lines that only probes read.
func (fm *faultMonitor) openLines(f flags, all []config.Watched, log *slog.Logger) {
	p := &fm.lines
	p.collect(all, fm.m.power, gpio.SameLine)
	if len(p.lines) == 0 || fm.m.simulate {
		return
	}
	board, err := gpio.OpenChardev(gpio.ChardevOptions{RunDir: f.runDir, Host: ownBoard, Lines: p.lines, Log: log})
	if err != nil {
		log.Error("the lines of probes cannot be requested", "err", err)
		return
	}
	p.board = board
}

// lineOf returns what reads a probe's line, and whether it is asserted while all
// is well.
func (fm *faultMonitor) lineOf(domain int, resource string, l *config.LineProbe) (read func(context.Context) (state.Level, error), asserted bool, err error) {
	if l.Signal != "" {
		return fm.m.line(domain, l.Signal), l.Asserted, nil
	}
	at := fm.lines.found[resource]
	asserted = l.Asserted != (at.activeLow != l.ActiveLow)
	switch {
	case at.output:
		return nil, false, fmt.Errorf("its line is the output %s of domain %d: a probe reads inputs", at.signal, at.domain)
	case at.domain != ownBoard:
		return fm.m.line(at.domain, at.signal), asserted, nil
	case fm.lines.board == nil:
		return nil, false, fmt.Errorf("there is no line %s here", l.Text())
	}
	return func(ctx context.Context) (state.Level, error) {
		all, err := fm.lines.board.Read(ctx, 0)
		return level(all, at.signal), err
	}, asserted, nil
}

// passLines has the resources of a line probed when it moves, until the board is
// closed.
func (fm *faultMonitor) passLines() {
	for e := range fm.lines.board.Events() {
		for _, resource := range fm.lines.users[e.Signal] {
			fm.loop.Tell(resource, monitor.ProbeNow{}, nil)
		}
	}
}
