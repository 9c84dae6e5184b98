//go:build bed4

package cases

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
)

const sandboxRole = "BMCSTATE_BED_SANDBOX"

// TestSandboxRole runs inside bmcstated's own unit and tells in its status what
// it could not do.
func TestSandboxRole(t *testing.T) {
	if os.Getenv(sandboxRole) == "" {
		t.Skip("only as a service")
	}
	n := systemd.NewNotifier()
	var failed []string
	check := func(what string, err error) {
		if err != nil {
			failed = append(failed, what+": "+err.Error())
		}
	}
	u := systemd.Open(systemd.Options{})
	defer u.Close()
	j, err := u.Start(within(t), "t-sleep.service", systemd.ModeReplace)
	check("start", err)
	if err == nil {
		<-j.Result
	}
	_, err = os.ReadFile("/proc/sys/kernel/random/boot_id")
	check("boot id", err)
	for _, dir := range []string{"/run/bmcstate", "/run/openbmc", "/var/lib/bmcstate"} {
		check(dir, os.WriteFile(dir+"/bed", nil, 0o600))
	}
	for _, forbidden := range []string{"/etc/bed", "/usr/bed", "/var/lib/bed", "/sys/kernel/mm/ksm/run"} {
		if os.WriteFile(forbidden, []byte("0"), 0o600) == nil {
			failed = append(failed, forbidden+" could be written")
		}
	}
	if _, err := net.Dial("tcp", "127.0.0.1:9"); err == nil || !strings.Contains(err.Error(), "not supported by protocol") {
		failed = append(failed, "network: "+errors.Join(errors.New("reachable"), err).Error())
	}
	require.NoError(t, n.Ready("failed="+strings.Join(failed, "; ")))
	select {}
}

// The sandbox of the installed unit leaves what the daemon needs and nothing of
// what it does not.
func TestSandboxOfTheUnit(t *testing.T) {
	install(t, map[string]string{
		"t-sleep.service": sleeper,
		"bmcstated.service.d/bed.conf": "[Service]\nExecStart=\nExecStart=/bed/cases -test.run=^TestSandboxRole$\nExecStopPost=\n" +
			"Environment=" + sandboxRole + "=1\nWatchdogSec=0\n",
	})
	u := open(t)
	require.Equal(t, systemd.ResultDone, result(t, start(t, u, "bmcstated.service")))
	assert.Equal(t, "failed=", shell(t, "systemctl", "show", "-P", "StatusText", "bmcstated.service"))
	assert.Equal(t, "active", read(t, u, "t-sleep.service").Active)
	j, err := u.Stop(within(t), "bmcstated.service", systemd.ModeReplace)
	require.NoError(t, err)
	result(t, j)
	_, err = os.Stat("/run/bmcstate/bed")
	assert.NoError(t, err, "run-time marks outlive the daemon")
}
