package systemd

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// stderrIsJournal reports whether standard error goes to journald: systemd says
// so in JOURNAL_STREAM (systemd.exec(5)) by the stream's device and inode. A
// malformed variable means no. go-systemd's function does the same with fmt's
// scanner, which is 15 KB of a BMC's flash.
func stderrIsJournal() bool {
	dev, ino, found := strings.Cut(os.Getenv("JOURNAL_STREAM"), ":")
	wantDev, errDev := strconv.ParseUint(dev, 10, 64)
	wantIno, errIno := strconv.ParseUint(ino, 10, 64)
	var have syscall.Stat_t
	if !found || errDev != nil || errIno != nil || syscall.Fstat(syscall.Stderr, &have) != nil {
		return false
	}
	return have.Dev == wantDev && have.Ino == wantIno
}
