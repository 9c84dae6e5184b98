package gpio_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the process that the crash tests kill.
func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		if err := victim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Run directories are in memory, as /run is, so that a busy disk holds no line up.
	if dir, err := os.MkdirTemp("/dev/shm", "gpio"); err == nil { // shm_overview(7): a tmpfs
		_ = os.Setenv("TMPDIR", dir)
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(dir)
			os.Exit(code)
		}))
	}
	goleak.VerifyTestMain(m)
}
