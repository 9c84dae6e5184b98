package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bmcstate/bmcstate/cmd/internal/aside"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/monitor"
)

// snapshotFile is the snapshot's name in the run directory.
const snapshotFile = "faults.json"

// maxSnapshot bounds what is read of it.
const maxSnapshot = 8 << 20

// save stores a snapshot. Its directory does not survive a boot, so it need not
// survive power loss either; the rename keeps it whole over a crash of the
// daemon.
func (l *Loop) save() {
	if l.opts.RunDir == "" {
		return
	}
	data := jsonpos.Marshal(l.mon.Snapshot(l.opts.Now(), l.opts.BootID))
	path := filepath.Join(l.opts.RunDir, snapshotFile)
	err := os.WriteFile(path+".new", data, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		l.opts.Log.Error("the fault monitor's history could not be stored: a restart of the daemon would forget it", "err", err)
	}
}

// restore takes what an earlier run stored. A file that is damaged, or of a newer
// version, is set aside: the next save would overwrite it.
func (l *Loop) restore(now state.Instant) {
	if l.opts.RunDir == "" {
		return
	}
	path := filepath.Join(l.opts.RunDir, snapshotFile)
	s, err := readSnapshot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var actions []monitor.Action
	if err == nil {
		actions, err = l.mon.Restore(now, l.opts.BootID, s)
	}
	if err != nil {
		to, moved := aside.Move(path)
		l.opts.Log.Warn("the fault monitor starts without its history; the file is set aside, and wishes of operators (off, suspensions) are to be made again",
			"file", path, "err", err, "as", to, "rename", moved)
		return
	}
	l.post(func() { l.carryOut(actions) })
}

func readSnapshot(path string) (s monitor.Snapshot, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	if info.Size() > maxSnapshot {
		return s, fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := jsonpos.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
