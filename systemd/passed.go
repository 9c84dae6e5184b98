package systemd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// firstPassed is the first descriptor that systemd passes (sd_listen_fds(3)).
const firstPassed = 3

// passedFiles returns the descriptors that systemd kept or passed, named as it
// says, and clears what it said from the environment. It stands in for
// go-systemd's activation package, which links crypto/tls: 1 MB on a BMC's
// flash for servers that we do not run.
func passedFiles() []*os.File {
	pid, errPID := strconv.Atoi(os.Getenv("LISTEN_PID"))
	count, errCount := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if errPID != nil || errCount != nil || pid != os.Getpid() {
		return nil
	}
	files := make([]*os.File, 0, max(count, 0))
	for i := range count {
		syscall.CloseOnExec(firstPassed + i)
		name := fmt.Sprintf("LISTEN_FD_%d", firstPassed+i)
		if i < len(names) && names[i] != "" {
			name = names[i]
		}
		files = append(files, os.NewFile(uintptr(firstPassed+i), name))
	}
	return files
}
