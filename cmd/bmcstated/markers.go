package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/slog"
	"github.com/bmcstate/bmcstate/systemd"
)

// marker is a file by which units of a platform tell that power or a host was on
// when the BMC booted: ConditionPathExists=! has them leave it alone
// (openbmc-state-manager.md §2.8). It is safe for concurrent use.
type marker struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	made bool // since it was last taken away
}

// ours is what is in a marker of ours. Others leave theirs empty.
const ours = "bmcstated\n"

func newMarker(dir, prefix string, n int, suffix string, log *slog.Logger) marker {
	return marker{path: filepath.Join(dir, prefix+strconv.Itoa(n)+suffix), log: log}
}

// make makes the marker, and the directory of the markers if nobody has made it
// yet (ibm-openbmc/dev#677). One that is there stays as it is.
func (m *marker) make() {
	if _, err := os.Stat(m.path); err == nil {
		return
	}
	next := m.path + ".new" // whoever reads it sees whose it is
	err := os.MkdirAll(filepath.Dir(m.path), 0o755)
	if err == nil {
		err = os.WriteFile(next, []byte(ours), 0o644)
	}
	if err == nil {
		err = os.Rename(next, m.path)
	}
	if err != nil {
		m.log.Warn("a marker for other daemons could not be made", "err", err)
	}
}

// keep makes the marker once where it is wanted, and takes away any where it is
// wrong: a unit that finds it then would do nothing, and say that it has.
func (m *marker) keep(want, wrong bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case wrong:
		m.made = false
		if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Error("units that find this marker do nothing, and it could not be removed", "err", err)
		}
	case want && !m.made:
		m.made = true
		m.make()
	}
}

// found reports whether the marker is there, and whether it is ours.
func (m *marker) found() (there, own bool) {
	text, err := os.ReadFile(m.path)
	return err == nil, string(text) == ours
}

// bootMarkers are the two markers of a domain that targets run.
type bootMarkers struct {
	units         *systemd.Units
	names         boardUnits
	host, chassis marker
}

func (p *peerWorld) bootMarkers(d config.Domain) *bootMarkers {
	h, c := d.Hosts[0], d.Chassis[0]
	return &bootMarkers{units: p.m.units.units, names: unitsOfBoard(h, c),
		host: newMarker(p.markers, "host@", h, "-on", p.log), chassis: newMarker(p.markers, "chassis@", c, "-on", p.log)}
}

// keep has the markers be there while nothing but what was found at the boot says
// that power, or the host, is on: not once a target has been reached, and not when
// it is off. proven says that power is off where it reads so.
func (b *bootMarkers) keep(l state.Levels, proven bool) {
	var units [4]systemd.UnitState
	var untouched [4]bool
	for i, name := range [...]string{b.names.powerOn, b.names.powerOff, b.names.running, b.names.stopped} {
		u, known := b.units.State(name)
		if !known {
			return
		}
		units[i], untouched[i] = u, u.StateChangeMonotonic == 0 && u.Job == 0
	}
	active := func(i int) bool { return units[i].Active == "active" }
	powered, cut := l.PowerGood == state.LevelOn, l.PowerGood == state.LevelOff && proven
	runs := l.HostActive == state.LevelOn || l.HostActive == state.LevelAbsent // which is that power shows it
	b.chassis.keep(powered && untouched[0] && untouched[1], cut || active(0))
	b.host.keep(powered && runs && untouched[2] && untouched[3], cut || active(2) || active(3) || powered && !runs)
}

// watchHosts lets the firmware's own word count for hosts whose units have not
// been up since the BMC booted, and has the markers kept.
func (p *peerWorld) watchHosts() {
	boards := map[int]*conditionBoard{}
	var hosts []int
	for _, d := range p.m.domains {
		switch b := p.m.boards[d.Number].(type) {
		case *unitBoard:
			h := d.Hosts[0]
			c := &conditionBoard{unitBoard: b, markers: p.bootMarkers(d)}
			p.m.boards[d.Number], boards[h] = c, c
			hosts = append(hosts, h)
		case *board: // lines show whether the host runs
			if p.m.lines[d.Number] {
				b.markers = p.bootMarkers(d)
			}
		}
	}
	if len(hosts) == 0 {
		return
	}
	p.watchers = append(p.watchers, p.link.WatchHosts(hosts, hostsEvery, func(h int, running bool) {
		boards[h].firmware.Store(uint32(state.LevelOf(running)))
	}))
}

// hostsEvery is the pace at which hosts' firmware is asked after: an object that
// comes late is seen within it.
const hostsEvery = 5 * time.Second

// conditionBoard is a board of units for a BMC that boots under power: none of
// its units has been up then, but the host's firmware may say that it runs.
type conditionBoard struct {
	*unitBoard
	firmware atomic.Uint32 // a state.Level: whether it says that the host runs
	markers  *bootMarkers
}

// Read asks the units first. A unit that was up in this boot knows better.
func (b *conditionBoard) Read(ctx context.Context, settle time.Duration) (state.Levels, bool, error) {
	l, agreed, err := b.unitBoard.Read(ctx, settle)
	if l.HostActive == state.LevelOff && l.HostSince == 0 && l.PowerGood == state.LevelOn && b.runs() {
		l.HostActive = state.LevelOn
	}
	if err == nil {
		b.markers.keep(l, b.proven())
	}
	return l, agreed, err
}

// runs reports whether somebody says that the host runs: its firmware, or the
// marker of those who find out on their own. Ours says only what the firmware
// did, and counts until that is asked again.
func (b *conditionBoard) runs() bool {
	firmware := state.Level(b.firmware.Load())
	there, own := b.markers.host.found()
	return firmware == state.LevelOn || there && (!own || firmware == state.LevelAbsent)
}
