package gpio

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dirWatch waits for files of a directory to be replaced or deleted. It
// survives the directory itself.
type dirWatch struct {
	_ [0]func() // see state.Incomparable

	dir string
	f   *os.File // inotify
}

const watchMask = unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

func watchDir(dir string) (*dirWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("gpio: watch %s: %w", dir, err)
	}
	w := &dirWatch{dir: dir, f: os.NewFile(uintptr(fd), "inotify")}
	if _, err := unix.InotifyAddWatch(fd, dir, watchMask); err != nil {
		w.f.Close()
		return nil, fmt.Errorf("gpio: watch %s: %w", dir, err)
	}
	return w, nil
}

// wait returns after limit or as soon as something has changed; false once the
// watch is closed.
func (w *dirWatch) wait(limit time.Duration) bool {
	if err := w.f.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return false
	}
	var buf [4096]byte
	_, err := w.f.Read(buf[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	if err != nil {
		return false
	}
	return w.add()
}

// add watches the directory again if it has been replaced; for one that is
// watched already the call changes nothing.
func (w *dirWatch) add() bool {
	raw, err := w.f.SyscallConn()
	if err != nil {
		return false
	}
	// A directory that is gone for the moment is tried again at the next wait.
	err = raw.Control(func(fd uintptr) { _, _ = unix.InotifyAddWatch(int(fd), w.dir, watchMask) })
	return err == nil
}

func (w *dirWatch) close() { w.f.Close() }
