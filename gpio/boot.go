package gpio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bmcstate/bmcstate/state/jsonpos"
)

// BootTime is the machine's CLOCK_BOOTTIME: it counts while the machine
// sleeps and starts at 0 with each boot.
func BootTime() time.Duration {
	var ts unix.Timespec
	// The call cannot fail: the clock exists since Linux 2.6.39.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// BootID is the machine's boot id, which changes with each boot.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("gpio: boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// bootFile is the content of <run-dir>/boot, the simulated BMC's boot.
type bootFile struct {
	_ [0]func() // see state.Incomparable

	ID      string        `json:"id"`
	Anchor  time.Duration `json:"anchor"`  // BootTime at the simulated boot
	Machine string        `json:"machine"` // BootID of the machine
}

// OpenBoot returns the boot id and the boot clock of a simulated BMC, which
// live in <runDir>/boot (DESIGN.md §4). Without that file, or after a boot of
// the machine itself, a new boot begins: a new id, and a clock that starts at 0.
// Deleting the file is a reboot of the BMC alone; the virtual boards go on.
func OpenBoot(runDir string) (id string, now func() time.Duration, err error) {
	unlock, err := lockFile(filepath.Join(runDir, "boot.lock"), true)
	if err != nil {
		return "", nil, err
	}
	defer unlock()

	machine, err := BootID()
	if err != nil {
		return "", nil, err
	}
	path := filepath.Join(runDir, "boot")
	b, err := readBoot(path, machine)
	if err != nil {
		id, err := newBootID()
		if err != nil {
			return "", nil, err
		}
		b = bootFile{ID: id, Anchor: BootTime(), Machine: machine}
		if err := writeJSON(path, b); err != nil {
			return "", nil, err
		}
	}
	return b.ID, func() time.Duration { return BootTime() - b.Anchor }, nil
}

func readBoot(path, machine string) (bootFile, error) {
	var b bootFile
	raw, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	if err := jsonpos.Unmarshal(raw, &b); err != nil {
		return b, err
	}
	if b.ID == "" || b.Machine != machine {
		return b, errors.New("boot file of another boot")
	}
	return b, nil
}

// newBootID returns a random UUID in the kernel's form.
func newBootID() (string, error) {
	// The kernel's generator, as package crypto/rand is 200 KB of a BMC's flash.
	b, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return "", fmt.Errorf("gpio: a new boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// lockFile takes an exclusive lock on path, which is created with its
// directory if asked. The lock dies with the process.
func lockFile(path string, create bool) (unlock func(), err error) {
	flags := os.O_RDWR | unix.O_CLOEXEC
	if create {
		flags |= os.O_CREATE
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("gpio: lock: %w", err)
		}
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("gpio: lock: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("gpio: lock %s: %w", path, err)
		}
	}
}

// writeJSON replaces path at once: a reader, or a process that starts after a
// kill, sees the old content or the new. It is not synced, since the run
// directory does not outlive the kernel.
func writeJSON(path string, v any) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(jsonpos.Marshal(v), '\n'), 0o644); err != nil {
		return fmt.Errorf("gpio: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("gpio: %w", err)
	}
	return nil
}
