//go:build bed1

package cases

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTargetsThatDriveLines: the transition runs through systemd's targets, whose
// units have the daemon drive the lines; what hangs on the targets runs as well.
func TestTargetsThatDriveLines(t *testing.T) {
	s := off()
	s.daemon["executor"] = "gpio-targets"
	const units = "bmcstate-lines-on@0.service bmcstate-lines-off@0.service"
	b, _ := localBMC(t, s)
	t.Cleanup(func() {
		_, err := b.try(t, "systemctl disable -q "+units+"; systemctl stop 'obmc-*@0.target' 'bmcstate-lines-*@0.service'; "+
			"cd /run/systemd/system && rm -rf bed-hook.service obmc-chassis-poweron@0.target.wants /run/bed-hook; systemctl daemon-reload")
		assert.NoError(t, err)
	})
	hook := "[Unit]\nBefore=obmc-power-on@0.target\n[Service]\nType=oneshot\nExecStart=/bin/touch /run/bed-hook\n"
	b.sh(t, "mkdir -p /run/systemd/system/obmc-chassis-poweron@0.target.wants; cd /run/systemd/system"+
		here("bed-hook.service", hook)+"ln -sf ../bed-hook.service obmc-chassis-poweron@0.target.wants/\n"+
		"systemctl enable -q "+units)
	b.start(t, s)
	mark := b.board.Mark()
	b.set(t, hostRequest, "On")
	b.await(t, hostState, "Running")
	b.await(t, chassisState, "On")
	assert.Len(t, b.awaitPulses(t, mark, "POWER_OUT", 1), 1)
	assert.Equal(t, "active", b.sh(t, "systemctl is-active obmc-chassis-poweron@0.target"))
	b.sh(t, "test -e /run/bed-hook")

	mark = b.board.Mark()
	b.set(t, chassisRequest, "Off")
	b.await(t, chassisState, "Off")
	b.await(t, hostState, "Off")
	widths := b.awaitPulses(t, mark, "POWER_OUT", 1)
	assert.Len(t, widths, 1)
	assert.Greater(t, widths[0].Width, b.timing.ForceHold)
	assert.Equal(t, "active", b.sh(t, "systemctl is-active obmc-chassis-poweroff@0.target"))
}
