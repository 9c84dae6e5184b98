package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bmcstate/bmcstate/cmd/internal/aside"
	"github.com/bmcstate/bmcstate/cmd/internal/config"
	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/engine"
	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/slog"
)

// legacy reads what phosphor-state-manager and x86-power-control have stored
// (openbmc-state-manager.md §2.3, §2.4, §2.10; power-sequencing.md §3.3). The
// engine takes it for a domain that has no values of its own yet, so once.
type legacy struct {
	_ state.Incomparable

	phosphor, xpc string // directories
	log           *slog.Logger
}

// of returns what is stored of a host and its chassis. Files that are absent say
// nothing; those that cannot be read are set aside and reported.
func (l legacy) of(host, chassis int) *engine.Legacy {
	out := &engine.Legacy{}
	name := func(stem string, index int, before string) []string {
		files := []string{stem}
		if index == 0 {
			files = append(files, before)
		}
		return files
	}
	h, c := "host"+strconv.Itoa(host)+"-", "chassis"+strconv.Itoa(chassis)+"-"
	l.read(l.phosphor, name(h+"PersistData", host, "requestedHostTransition"), func(n *jsonpos.Node) error { return persistData(n, out) })
	l.read(l.phosphor, name(c+"StateChangeTime", chassis, "chassisStateChangeTime"), func(n *jsonpos.Node) error { return stateChange(n, out) })
	l.read(l.phosphor, name(c+"POHCounter", chassis, "POHCounter"), func(n *jsonpos.Node) error {
		hours, err := numberAt(n, "value0")
		out.POH = uint32(hours)
		return err
	})
	if host == 0 { // one file for all hosts: the first has it
		l.read(l.phosphor, []string{"scheduledHostTransition"}, func(n *jsonpos.Node) error { return schedule(n, out) })
	}
	l.read(l.xpc, []string{"state.json"}, func(n *jsonpos.Node) error {
		p, ok := openbmc.PowerState.Parse(textAt(n, "PowerState"))
		if !ok {
			return errors.New("PowerState is no power state")
		}
		out.SetPower(p == state.PowerStateOn)
		return nil
	})
	return out
}

// read takes the first of the files that is there.
func (l legacy) read(dir string, names []string, take func(*jsonpos.Node) error) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			var root *jsonpos.Node
			if root, err = jsonpos.Parse(data); err == nil {
				err = take(root)
			}
		}
		if err == nil {
			l.log.Info("taken over from an earlier state manager", "file", path)
			return
		}
		to, moved := aside.Move(path)
		l.log.Warn("a file of an earlier state manager cannot be read and is set aside", "file", path, "err", err, "as", to, "rename", moved)
		return
	}
}

func member(n *jsonpos.Node, key string) *jsonpos.Node {
	for _, m := range n.Members {
		if m.Key == key {
			return m.Value
		}
	}
	return &jsonpos.Node{}
}

func textAt(n *jsonpos.Node, key string) string {
	if v := member(n, key); v.Kind == jsonpos.String {
		return v.Text
	}
	return ""
}

func numberAt(n *jsonpos.Node, key string) (uint64, error) {
	v := member(n, key)
	if v.Kind != jsonpos.Number {
		return 0, fmt.Errorf("%s is no number", key)
	}
	return strconv.ParseUint(v.Text, 10, 64)
}

// persistData reads a host's file. Its members are numbered, and version 1 lacks
// the first, so the values tell by themselves what they are.
func persistData(root *jsonpos.Node, out *engine.Legacy) error {
	values := member(root, "value0")
	if v, err := numberAt(values, "cereal_class_version"); err != nil || v < 1 || v > 2 {
		return errors.New("cereal_class_version is neither 1 nor 2")
	}
	for _, m := range values.Members {
		if m.Value.Kind == jsonpos.Number && m.Key != "cereal_class_version" {
			n, err := strconv.ParseUint(m.Value.Text, 10, 32)
			if err != nil {
				return err
			}
			out.Retry = uint32(n)
		}
		if op, ok := openbmc.HostTransition.Parse(m.Value.Text); ok {
			out.Requested = op
		}
		if p, ok := openbmc.BootProgress.Parse(m.Value.Text); ok {
			out.Progress = p
		}
		if s, ok := openbmc.OSState.Parse(m.Value.Text); ok {
			out.OS, out.HasOS = s, true
		}
	}
	if out.Requested == 0 {
		return errors.New("it has no RequestedHostTransition")
	}
	return nil
}

// stateChange reads a chassis' file. Only Off and On were ever stored; On is 2,
// and 1 in files from before TransitioningToOff was put in front of it
// (openbmc-state-manager.md §4.1 no. 17).
func stateChange(root *jsonpos.Node, out *engine.Legacy) error {
	at, err := numberAt(root, "value0")
	if err != nil {
		return err
	}
	power, err := numberAt(root, "value1")
	if err != nil {
		return err
	}
	if power > uint64(state.PowerStateOn) {
		return fmt.Errorf("%d is no power state that is stored", power)
	}
	out.StateChange = at
	out.SetPower(power != uint64(state.PowerStateOff))
	return nil
}

// schedule reads the scheduler's file. Its transitions are numbered in the order
// of the interface definition.
func schedule(root *jsonpos.Node, out *engine.Legacy) error {
	at, err := numberAt(root, "value0")
	if err != nil {
		return err
	}
	n, err := numberAt(root, "value1")
	order := [...]state.Operation{state.HostOff, state.HostOn, state.HostReboot, state.HostGracefulWarmReboot, state.HostForceWarmReboot}
	if err != nil || n >= uint64(len(order)) {
		return errors.New("value1 is no transition")
	}
	out.ScheduleTime, out.ScheduleOp = at, order[n]
	return nil
}

// takeOver adds to the engine's configuration what earlier state managers have
// stored, where they may have: a simulated machine has only what it is told of.
func takeOver(ec *engine.Config, cfg config.Config, simulate bool, log *slog.Logger) {
	l := legacy{phosphor: cfg.PhosphorDir, xpc: cfg.PowerControlDir, log: log}
	if d := config.Default(); simulate && l.phosphor == d.PhosphorDir && l.xpc == d.PowerControlDir {
		return
	}
	for i := range ec.Domains {
		d := &ec.Domains[i]
		d.Legacy = func() *engine.Legacy { return l.of(d.Hosts[0], d.Chassis[0]) }
	}
}
