package gpio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/slog"
)

// Kinds of boards in a mark.
const (
	markChardev = "chardev"
	markVirtual = "virtual"
)

// mark describes an output that may be asserted, well enough for another
// process to release it.
type mark struct {
	_ [0]func() // see state.Incomparable

	Kind   string `json:"kind"`
	Board  int    `json:"board"` // host number
	Signal string `json:"signal"`
	PID    int    `json:"pid"`

	// Of a real line.
	Chip      string `json:"chip,omitempty"` // label
	Dev       string `json:"dev,omitempty"`  // character device
	Offset    int    `json:"offset,omitempty"`
	Line      string `json:"line,omitempty"` // name
	ActiveLow bool   `json:"activeLow,omitempty"`
	Drive     string `json:"drive,omitempty"`
	Bias      string `json:"bias,omitempty"`
}

// marks is the directory <run-dir>/pulses. Each pulse has a file of its own,
// so that no two of them share a write.
type marks struct{ dir string }

func newMarks(runDir string) marks { return marks{filepath.Join(runDir, "pulses")} }

func (m marks) path(board int, signal string) string {
	return filepath.Join(m.dir, strconv.Itoa(board)+"-"+signal+".json")
}

// put writes the mark before the line is asserted.
func (m marks) put(k mark) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return fmt.Errorf("pulse mark: %w", err)
	}
	k.PID = os.Getpid()
	return writeJSON(m.path(k.Board, k.Signal), k)
}

// drop removes the mark after the line is released.
func (m marks) drop(k mark) error {
	err := os.Remove(m.path(k.Board, k.Signal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// list returns the marks of all boards. Files that hold no mark are reported
// in the error, and do not hide the others.
func (m marks) list() ([]mark, error) {
	files, err := names(m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("gpio: pulse marks: %w", err)
	}
	var all []mark
	var errs []error
	for _, n := range files {
		if !strings.HasSuffix(n, ".json") {
			continue // half a write: its line was never asserted
		}
		var k mark
		raw, err := os.ReadFile(filepath.Join(m.dir, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // released meanwhile
		}
		if err == nil {
			err = jsonpos.Unmarshal(raw, &k)
		}
		if err != nil {
			// It stays: it may be the only word of a line that is asserted.
			errs = append(errs, fmt.Errorf("gpio: pulse mark %s: %w: remove it by hand once the line is released", filepath.Join(m.dir, n), err))
			continue
		}
		all = append(all, k)
	}
	return all, errors.Join(errs...)
}

// names returns the names in a directory, sorted. os.ReadDir and filepath.Glob
// would add eight kilobytes to the daemon.
func names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.Readdirnames(-1)
	sort.Strings(all)
	return all, err
}

// ReleaseMarked releases every line that a dead process left marked under
// runDir, real or simulated, and only then removes the marks. It touches no
// other line and needs no bus: it is `bmcstated --release-lines`, and the first
// act of the daemon itself, before it opens a [Board]. A mark whose line could
// not be released, for instance because a living process holds it ([ErrBusy]),
// stays, and its error is in the result.
func ReleaseMarked(runDir string, log *slog.Logger) error {
	return releaseMarked(runDir, log, linux{})
}

// releaseTime is what a line's release may take before it counts as hung. The
// lines are released side by side, so that is all it takes (DESIGN.md P6).
const releaseTime = 900 * time.Millisecond

func releaseMarked(runDir string, log *slog.Logger, k kernel) error {
	m := newMarks(runDir)
	all, err := m.list()
	errs := []error{err}
	results := make([]chan error, len(all))
	for i, mk := range all {
		results[i] = make(chan error, 1)
		go func() { results[i] <- releaseMark(runDir, mk, k) }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	for i, mk := range all {
		var err error
		select {
		case err = <-results[i]:
		case <-ctx.Done():
			err = ErrStuck
		}
		errs = append(errs, settle(m, mk, err, log))
	}
	return errors.Join(errs...)
}

// settle removes the mark of a line that is released.
func settle(m marks, k mark, err error, log *slog.Logger) error {
	if err != nil {
		log.Error("marked line not released", "signal", k.Signal, "host", k.Board, "err", err)
		return fmt.Errorf("gpio: release marked %s of host %d: %w", k.Signal, k.Board, err)
	}
	log.Warn("released a line that a dead process had marked", "signal", k.Signal, "host", k.Board, "pid", k.PID)
	if err := m.drop(k); err != nil {
		return fmt.Errorf("gpio: pulse mark of %s: %w", k.Signal, err)
	}
	return nil
}

func releaseMark(runDir string, m mark, k kernel) error {
	switch m.Kind {
	case markVirtual:
		return releaseVirtual(runDir, m)
	case markChardev:
		return releaseChardev(k, m)
	default:
		return fmt.Errorf("gpio: pulse mark of %s: unknown kind %q: remove it by hand once the line is released", m.Signal, m.Kind)
	}
}
