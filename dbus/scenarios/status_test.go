package scenarios

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// supervisor is the side of systemd that sd_notify(3) talks to.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
}

// supervise has the daemon believe that it is a service with Type=notify.
func (d *daemon) supervise() *supervisor {
	dir, err := os.MkdirTemp("", "sup") // short: a socket's path has a limit
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = conn.Close() })
	d.env = append(d.env, "NOTIFY_SOCKET="+path)
	return &supervisor{d.t, conn}
}

// status reads what the daemon says until a status line contains a text, and
// returns that line.
func (s *supervisor) status(text string) string {
	s.t.Helper()
	return s.statusThat(text, func(status string) bool { return strings.Contains(status, text) })
}

func (s *supervisor) statusThat(what string, fits func(status string) bool) string {
	s.t.Helper()
	require.NoError(s.t, s.conn.SetReadDeadline(time.Now().Add(patience)))
	var seen []string
	for buf := make([]byte, 8192); ; {
		n, err := s.conn.Read(buf)
		require.NoError(s.t, err, "no status with %q; seen %q", what, seen)
		for line := range strings.SplitSeq(string(buf[:n]), "\n") {
			if status, ok := strings.CutPrefix(line, "STATUS="); ok {
				if seen = append(seen, status); fits(status) {
					return status
				}
			}
		}
	}
}

func TestStatusTellsWhatIsGoingOn(t *testing.T) {
	d := prepareTargets(t, systemdConfig)
	sup := d.supervise()
	d.start()
	// A machine whose temporary files are on a tmpfs has that to say first.
	first := sup.status("")
	idle, lasting := "serving", strings.TrimSuffix(strings.TrimSuffix(first, "starting"), "serving")
	if lasting != "" {
		idle = strings.TrimSuffix(lasting, "; ")
	}
	serves := func() { sup.statusThat(idle, func(status string) bool { return status == idle }) }
	if first != idle {
		serves()
	}
	require.NoError(t, d.hset("On"))
	assert.Regexp(t, "^"+regexp.QuoteMeta(lasting)+"domain 0: Host On for property/[0-9]+$", sup.status("Host On"))
	d.started(1)
	require.NoError(t, d.cset("On"))
	assert.Contains(t, sup.status("waiting"), "Host On")
	d.done(powerOn, hostStartMin, hostStart)
	serves()
	d.untilLog("msg=\"transition launched\" request=property/")
	d.untilLog("result=Success")
	require.Equal(t, 0, d.stop())
	sup.status("stopping")
}

func TestStatusNamesAWrongConfiguration(t *testing.T) {
	d := prepare(t, "{\n  \"policy\": \"FIFO_DEDUP\",\n  \"intervl\": 3\n}")
	d.args = nil
	sup := d.supervise()
	d.start()
	line := sup.status("intervl")
	assert.Contains(t, line, d.config+":3:3")
	assert.Contains(t, line, "nothing is driven")
}

func TestStatusNamesAVolatileStateDirectory(t *testing.T) {
	const memory = "/dev/shm" // shm_overview(7): a tmpfs wherever there is one
	dir, err := os.MkdirTemp(memory, "bmcstate")
	if err != nil {
		t.Skipf("no %s: %v", memory, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := prepare(t, "")
	d.stateDir = dir
	sup := d.supervise()
	d.start()
	assert.Contains(t, sup.status("does not survive power loss"), dir+" is on tmpfs")
}

func TestStatusNamesStorageTrouble(t *testing.T) {
	d := prepare(t, "")
	require.NoError(t, os.RemoveAll(d.stateDir))
	require.NoError(t, os.WriteFile(d.stateDir, nil, 0o600))
	sup := d.supervise()
	d.launch()
	sup.status("requests are refused")
}
