package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
)

// notifyTimeout bounds a message to a systemd that does not read: the sender is
// the engine's own loop.
const notifyTimeout = 200 * time.Millisecond

// Notifier tells systemd how the daemon is (sd_notify(3)). Outside a service
// with Type=notify every method does nothing and succeeds. It is safe for
// concurrent use.
type Notifier struct {
	socket   string // "" = nobody listens
	keeps    bool
	watchdog time.Duration
	files    []*os.File
}

// NewNotifier reads what systemd left in the environment and removes the part
// about passed descriptors, so that no child takes them for its own. Call it
// once, early.
func NewNotifier() *Notifier {
	// A malformed WATCHDOG_USEC is not ours to mend: no watchdog then.
	interval, _ := sddaemon.SdWatchdogEnabled(false)
	return &Notifier{
		socket:   os.Getenv("NOTIFY_SOCKET"),
		watchdog: interval,
		files:    passedFiles(),
		keeps:    os.Getenv("FDSTORE") != "",
	}
}

// KeepsFiles reports whether systemd, as far as it tells, keeps stored descriptors
// while the service is stopped. Before version 254, which sets $FDSTORE, it keeps
// them over a restart only.
func (n *Notifier) KeepsFiles() bool { return n.socket != "" && n.keeps }

// Ready says that start-up is finished and the names are owned.
func (n *Notifier) Ready(status string) error {
	return n.send(sddaemon.SdNotifyReady, statusLine(status))
}

// Status says in one line what the daemon is doing.
func (n *Notifier) Status(text string) error { return n.send(statusLine(text)) }

// Stopping says that the daemon is on its way down.
func (n *Notifier) Stopping(status string) error {
	return n.send(sddaemon.SdNotifyStopping, statusLine(status))
}

// Watchdog is the sign of life; the engine's loop gives it, never a timer.
func (n *Notifier) Watchdog() error { return n.send(sddaemon.SdNotifyWatchdog) }

// WatchdogInterval returns within which time systemd wants a sign of life; half
// of it is a good pace. 0 = none is wanted.
func (n *Notifier) WatchdogInterval() time.Duration { return n.watchdog }

// Files returns the descriptors that systemd kept or passed, by name. Their
// owner is the caller. Names need not be unique.
func (n *Notifier) Files() map[string][]*os.File {
	byName := make(map[string][]*os.File)
	for _, f := range n.files {
		byName[f.Name()] = append(byName[f.Name()], f)
	}
	return byName
}

// StoreFile gives a duplicate of f to systemd's descriptor store under a name,
// to be found in [Notifier.Files] after a restart (systemd 233 or newer). The
// descriptor stays there though its device may have gone; [Notifier.RemoveFiles]
// takes it out. A name is 1 to 255 printable ASCII characters without ":".
func (n *Notifier) StoreFile(name string, f *os.File) error {
	if err := checkFileName(name); err != nil {
		return err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("systemd: store %s: %w", name, err)
	}
	var sendErr error
	err = conn.Control(func(fd uintptr) {
		// FDPOLL=0: without it systemd drops a descriptor with a hang-up
		// pending, which is how a gpiochip shows that it was unbound.
		sendErr = n.sendWith(syscall.UnixRights(int(fd)), "FDSTORE=1", "FDNAME="+name, "FDPOLL=0")
	})
	return errors.Join(err, sendErr)
}

// RemoveFiles takes all descriptors of a name out of the store (systemd 236 or
// newer).
func (n *Notifier) RemoveFiles(name string) error {
	if err := checkFileName(name); err != nil {
		return err
	}
	return n.send("FDSTOREREMOVE=1", "FDNAME="+name)
}

func checkFileName(name string) error {
	ok := len(name) > 0 && len(name) <= 255
	for i := range len(name) {
		ok = ok && name[i] > ' ' && name[i] < 0x7f && name[i] != ':'
	}
	if !ok {
		return fmt.Errorf("systemd: %q cannot name a stored descriptor: 1 to 255 printable ASCII characters without colon and space", name)
	}
	return nil
}

func statusLine(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

func (n *Notifier) send(lines ...string) error { return n.sendWith(nil, lines...) }

// sendWith writes one datagram. The library's SdNotify would do for plain text,
// but passes no descriptors and may block for good.
func (n *Notifier) sendWith(rights []byte, lines ...string) error {
	if n.socket == "" {
		return nil
	}
	// Not dialled: a connected datagram socket of package net takes no rights.
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("systemd: notify: %w", err)
	}
	defer func() { _ = conn.Close() }()
	to := &net.UnixAddr{Name: n.socket, Net: "unixgram"}
	if err := conn.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return fmt.Errorf("systemd: notify: %w", err)
	}
	if _, _, err := conn.WriteMsgUnix([]byte(strings.Join(lines, "\n")), rights, to); err != nil {
		return fmt.Errorf("systemd: notify: %w", err)
	}
	return nil
}
