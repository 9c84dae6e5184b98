package gpio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// Wire is one line of a board's wire log: a wire that moved.
type Wire struct {
	_ [0]func() // see state.Incomparable

	At       time.Duration // BootTime
	Signal   string
	Asserted bool
	PID      int // of the process that drove it; 0 = the board itself or its front panel
}

// errOtherBoot: the clock that the world is on has started anew.
var errOtherBoot = errors.New("its file is of another boot of this machine")

// boardFile is a virtual board on disk: its world, its lock and its wire log.
// Every access takes the lock, so any number of processes may share it.
type boardFile struct {
	dir string
	n   int
}

func (b boardFile) path(suffix string) string {
	return filepath.Join(b.dir, "board"+strconv.Itoa(b.n)+suffix)
}

// with runs fn on the world, brought to the present, and stores what changed.
// A board that does not exist comes from create; without create it is an error,
// and no file is made.
func (b boardFile) with(create func() (*world, error), fn func(*world)) error {
	unlock, err := lockFile(b.path(".lock"), create != nil)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := b.load()
	switch {
	case err == nil:
		if err := b.appendLog(w); err != nil {
			return err
		}
	case create == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errOtherBoot):
		return err
	default: // AC was lost
		if w, err = create(); err != nil {
			return err
		}
		if err := os.WriteFile(b.path(".wires"), nil, 0o644); err != nil {
			return fmt.Errorf("gpio: wire log: %w", err)
		}
	}
	w.advance(BootTime())
	fn(w)
	return b.save(w)
}

func (b boardFile) load() (*world, error) {
	raw, err := os.ReadFile(b.path(".json"))
	if err != nil {
		return nil, fmt.Errorf("gpio: virtual board %d: %w", b.n, err)
	}
	w := &world{}
	if err := jsonpos.Unmarshal(raw, w); err != nil {
		return nil, fmt.Errorf("gpio: virtual board %d: %s: %w", b.n, b.path(".json"), err)
	}
	machine, err := BootID()
	if err != nil {
		return nil, err
	}
	if w.Machine != machine || w.Wires == nil || w.Held == nil {
		return nil, fmt.Errorf("gpio: virtual board %d: %w", b.n, errOtherBoot)
	}
	return w, nil
}

// save stores the world and then the log. A process that dies in between is
// made up for by the next appendLog.
func (b boardFile) save(w *world) error {
	if !w.touched {
		return nil
	}
	if len(w.changes) > 0 {
		var s strings.Builder
		for _, c := range w.changes {
			level := 0
			if c.Asserted {
				level = 1
			}
			fmt.Fprintf(&s, "%d %s %d %d\n", c.At.Nanoseconds(), c.Signal, level, c.PID)
		}
		w.TailAt += int64(len(w.Tail))
		w.Tail = s.String()
	}
	if err := writeJSON(b.path(".json"), w); err != nil {
		return err
	}
	if len(w.changes) == 0 {
		return nil
	}
	return b.appendLog(w)
}

// appendLog makes sure that the newest piece of the log is on disk. It may run
// any number of times. A log that is gone is being deleted with its board.
func (b boardFile) appendLog(w *world) error {
	if w.Tail == "" {
		return nil
	}
	st, err := os.Stat(b.path(".wires"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() >= w.TailAt+int64(len(w.Tail)) {
		return nil
	}
	f, err := os.OpenFile(b.path(".wires"), os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("gpio: wire log: %w", err)
	}
	_, err = f.WriteAt([]byte(w.Tail), w.TailAt)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("gpio: wire log: %w", err)
	}
	return nil
}

// create returns the maker of a board to which AC is applied now.
func (b boardFile) create(cfg VirtualConfig) func() (*world, error) {
	return func() (*world, error) {
		machine, err := BootID()
		if err != nil {
			return nil, err
		}
		id, err := newBootID()
		if err != nil {
			return nil, err
		}
		return newWorld(id, machine, cfg, BootTime()), nil
	}
}

// configure gives an existing world the configuration of the process that
// opens it. Faults that were changed from outside stay, unless the
// configuration itself has changed.
func (w *world) configure(cfg VirtualConfig) {
	given := cfg.Faults
	if reflect.DeepEqual(given, w.Given) {
		cfg.Faults = w.Config.Faults
	}
	if reflect.DeepEqual(cfg, w.Config) && reflect.DeepEqual(given, w.Given) {
		return
	}
	w.Config, w.Given, w.touched = cfg, given, true
}

// ReadWires returns what moved on the wires of virtual board n since AC was
// applied, up to the present, oldest first. It works whether or not a daemon
// runs.
func ReadWires(runDir string, n int) ([]Wire, error) {
	b := boardFile{runDir, n}
	var all []Wire
	var parseErr error
	// The first access brings the log up to the present, the second reads it.
	err := b.with(nil, func(*world) {})
	if err != nil {
		return nil, err
	}
	err = b.with(nil, func(*world) { all, parseErr = parseWires(b.path(".wires")) })
	return all, errors.Join(err, parseErr)
}

func parseWires(path string) ([]Wire, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("gpio: wire log: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	var all []Wire
	for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		var w Wire
		var level int
		if _, err := fmt.Sscanf(line, "%d %s %d %d", (*int64)(&w.At), &w.Signal, &level, &w.PID); err != nil {
			return all, fmt.Errorf("gpio: wire log %s, line %d: %q: %w", path, i+1, line, err)
		}
		w.Asserted = level == 1
		all = append(all, w)
	}
	return all, nil
}

// Chassis is what an outside observer sees of a virtual board.
type Chassis struct {
	Wires   map[string]bool // every wire of the board
	Powered bool            // the board has power, whatever its wires say
	Guest   string          // one of the Guest constants
	Config  VirtualConfig   // with times scaled and faults as they are now
}

// ReadChassis looks at virtual board n. It works whether or not a daemon runs.
func ReadChassis(runDir string, n int) (Chassis, error) {
	var c Chassis
	err := boardFile{runDir, n}.with(nil, func(w *world) {
		c = Chassis{Wires: map[string]bool{}, Powered: w.On, Guest: w.Guest, Config: w.Config}
		for s := range signalKinds {
			if w.Config.has(s) {
				c.Wires[s] = w.Wires[s]
			}
		}
	})
	return c, err
}

// What a [Stimulus] does.
const (
	DoPress     = "press"     // presses front panel button Signal for Hold
	DoDropPower = "dropPower" // power is lost
	DoWake      = "wake"      // the board powers itself on, as by wake-on-LAN
	DoPowerOff  = "powerOff"  // the guest shuts down of itself
	DoReboot    = "reboot"    // the guest restarts of itself
	DoCrash     = "crash"     // the guest answers nothing any more
	DoFlicker   = "flicker"   // power good bounces Count times
	DoFaults    = "faults"    // Faults replaces the present faults
	DoWire      = "wire"      // input Signal shows Asserted, until the board moves it
)

// Stimulus is something that happens to a virtual board from outside.
type Stimulus struct {
	Do       string   `json:"do"`
	Signal   string   `json:"signal,omitempty"`
	Hold     Duration `json:"hold,omitempty"` // not scaled; 0 = 50 ms
	Count    int      `json:"count,omitempty"`
	Asserted bool     `json:"asserted,omitempty"`
	Faults   *Faults  `json:"faults,omitempty"`
}

// Stimulate does s to virtual board n. Any process may call it; a daemon that
// runs on the board sees the effect at once.
func Stimulate(runDir string, n int, s Stimulus) error {
	var bad error
	err := boardFile{runDir, n}.with(nil, func(w *world) { bad = w.stimulate(s) })
	return errors.Join(err, bad)
}

func (w *world) stimulate(s Stimulus) error {
	switch s.Do {
	case DoPress:
		if signalKinds[s.Signal] != kindButton || !w.Config.has(s.Signal) {
			return fmt.Errorf("gpio: stimulus press: %q is no button of this board", s.Signal)
		}
		if s.Hold == 0 {
			s.Hold = Duration(50 * time.Millisecond)
		}
		w.setWire(s.Signal, true)
		w.plan(due{Kind: dueUnpress, Signal: s.Signal}, s.Hold)
		w.react()
	case DoDropPower:
		w.powerOff(false)
	case DoWake:
		w.askPower()
	case DoPowerOff:
		w.askGuest(dueGuestDown)
	case DoReboot:
		w.askGuest(dueGuestBoot)
	case DoCrash:
		w.crash()
	case DoFlicker:
		if w.On && s.Count > 0 {
			w.flicker(s.Count)
		}
	case DoFaults:
		f := Faults{}
		if s.Faults != nil {
			f = *s.Faults
		}
		if err := f.Validate(); err != nil {
			return fmt.Errorf("gpio: stimulus: %w", err)
		}
		w.Config.Faults, w.touched = f, true
	case DoWire:
		if !IsInput(s.Signal) || !w.Config.has(s.Signal) {
			return fmt.Errorf("gpio: stimulus wire: %q is no input of this board", s.Signal)
		}
		w.setWire(s.Signal, s.Asserted)
		w.react()
	default:
		return fmt.Errorf("gpio: stimulus %q is not known", s.Do)
	}
	return nil
}

// hold tells other processes, until the end of this one at the latest, that the
// board's lines are held, as an open descriptor of a real line does.
func (b boardFile) hold() (letGo func(), err error) {
	f, err := b.flock(os.O_RDWR|os.O_CREATE, unix.LOCK_SH)
	if err != nil {
		return func() {}, err
	}
	return func() { _ = f.Close() }, nil
}

// flock takes a lock on the file that says who has the board open.
func (b boardFile) flock(flags, how int) (*os.File, error) {
	f, err := os.OpenFile(b.path(".open"), flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("gpio: lock: %w", err)
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("gpio: lock %s: %w", b.path(".open"), err)
	}
	return f, nil
}

// releaseVirtual releases a marked line of a virtual board. A board that is
// gone has no line to release, and what a living process has open is busy.
func releaseVirtual(runDir string, k mark) error {
	b := boardFile{runDir, k.Board}
	f, err := b.flock(os.O_RDWR, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		defer f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	err = b.with(nil, func(w *world) { w.drive(k.Signal, false, unix.Getpid()) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
