//go:build bed4

package cases

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProductOnOffReboots(t *testing.T) {
	p := newProduct(t, 0, nil)
	steps := []struct{ object, value, host, power, ran string }{
		{"host0", "On", "Running", "On", "power-on host-up"},
		{"host0", "Reboot", "Running", "On", "ask-os power-off power-on host-up"},
		{"host0", "GracefulWarmReboot", "Running", "On", "ask-os host-up"},
		{"host0", "ForceWarmReboot", "Running", "On", "host-up"},
		{"host0", "Off", "Off", "Off", "ask-os power-off"},
		{"chassis0", "On", "Off", "On", "power-on"},
		{"host0", "On", "Running", "On", "host-up"},
		{"chassis0", "PowerCycle", "Off", "On", "power-off power-on"},
		{"chassis0", "Off", "Off", "Off", "power-off"},
	}
	for i, s := range steps {
		p.request(s.object, s.value)
		p.success(i + 1)
		p.untilHost(s.host)
		p.untilPower(s.power)
		assert.Equal(t, s.ran, p.ran(), "%s %s", s.object, s.value)
	}
	p.request("host0", "Off")
	assert.Equal(t, "Noop", p.end(len(steps)+1).status)
	assert.Equal(t, "Off", p.get("chassis0", "RequestedPowerTransition"))
	assert.Equal(t, "Off", p.get("host0", "RequestedHostTransition"))
}

func TestProductQuiesce(t *testing.T) {
	p := newProduct(t, 0, hostUp("/bin/false"))
	p.request("host0", "On")
	r := p.end(1)
	assert.Equal(t, "Failed", r.status)
	assert.Contains(t, r.reason, "dependency")
	assert.Contains(t, r.reason, "obmc-host-start@0.target")
	p.untilHost("Quiesced")
	p.untilPower("On")
}

func TestProductQuiesceOfTheBMC(t *testing.T) {
	const quiesce = "obmc-bmc-service-quiesce@0.target"
	p := newProduct(t, 0, map[string]string{quiesce + ".d/bed.conf": "[Unit]\nRefuseManualStop=no\n"})
	shell(t, "systemctl", "start", quiesce)
	p.untilIs("bmc0", "CurrentBMCState", "Quiesced")
	shell(t, "systemctl", "stop", quiesce)
	eventually(t, quiesce+" is gone", func() bool { return read(t, p.u, quiesce).Active == "inactive" })
	p.on(1) // what came after it has been seen
	assert.Equal(t, "Quiesced", p.get("bmc0", "CurrentBMCState"), "only a boot mends it")
}

func TestProductFailingUnits(t *testing.T) {
	p := newProduct(t, 0, powerOnBy("/bin/false"))
	p.request("chassis0", "On")
	r := p.end(1)
	assert.Equal(t, "Failed", r.status)
	assert.Contains(t, r.reason, "the job of obmc-chassis-poweron@0.target ended: dependency")
	p.untilPower("Off")
	p.untilHost("Off")

	install(t, powerOnBy("/bin/true"))
	shell(t, "systemctl", "reset-failed")
	p.on(2)
}

func TestProductHangingUnit(t *testing.T) {
	p := newProduct(t, 0, hostUp("/bin/sleep 1000"))
	p.request("host0", "On")
	p.untilHost("TransitioningToRunning")
	p.untilPower("On")
	r := p.end(1)
	assert.Equal(t, "Failed", r.status)
	assert.Contains(t, r.reason, "did not end within jobTimeout")
	p.untilHost("Off")
	eventually(t, "no job is left", func() bool {
		return read(t, p.u, "obmc-host-start@0.target").Job == 0 && read(t, p.u, running).Job == 0
	})
	p.request("host0", "Off")
	p.success(2)
	p.untilPower("Off")
}

func TestProductMaskedUnit(t *testing.T) {
	p := newProduct(t, 0, nil)
	shell(t, "systemctl", "mask", "--runtime", "obmc-host-start@0.target")
	t.Cleanup(func() { shell(t, "systemctl", "unmask", "--runtime", "obmc-host-start@0.target") })
	left := attempts(t)
	p.request("host0", "On")
	r := p.end(1)
	assert.Equal(t, "Failed", r.status)
	assert.Contains(t, r.reason, "org.freedesktop.systemd1.UnitMasked")
	assert.Equal(t, "Off", p.get("host0", "CurrentHostState"))
	assert.Equal(t, left, attempts(t), "nothing was queued")
	shell(t, "systemctl", "unmask", "--runtime", "obmc-host-start@0.target")
	p.on(2)
}

func attempts(t *testing.T) string {
	t.Helper()
	out, err := busctl("get-property", ours+"Host", statePath+"host0", "xyz.openbmc_project.Control.Boot.RebootAttempts", "AttemptsLeft")
	require.NoError(t, err, out)
	return out
}

func TestProductConflictingRequests(t *testing.T) {
	p := newProduct(t, 0, hostUp("/bin/sleep 1000"))
	p.request("host0", "On")
	p.untilPower("On")
	p.request("host0", "On") // a repeat
	p.request("host0", "Reboot")
	p.request("chassis0", "Off")
	var statuses []string
	for n := 1; n <= 3; n++ {
		r := p.end(n)
		statuses = append(statuses, r.transition+" "+r.status)
	}
	assert.Equal(t, []string{"On Superseded", "Reboot Superseded", "Off Success"}, statuses)
	p.untilPower("Off")
	p.untilHost("Off")
	assert.Equal(t, "power-on power-off", p.ran())
	assert.Len(t, p.records(), 3)
}

// A helper of a reboot, or of a cycle, sleeps before it applies power. Chassis
// Off comes, and power stays off.
func TestProductChassisOffWhileAHelperSleeps(t *testing.T) {
	const dwell = 8 // s: long enough to look in between on a busy machine
	p := newProduct(t, dwell, nil)
	for i, tc := range []struct{ object, value, helper string }{
		{"host0", "Reboot", "bmcstate-reboot-host@0.service"},
		{"chassis0", "PowerCycle", "bmcstate-power-cycle@0.service"},
	} {
		p.on(3*i + 1)
		p.request(tc.object, tc.value)
		eventually(t, tc.helper, func() bool { return read(t, p.u, tc.helper).Active == "active" })
		p.untilPower("Off")
		p.request("chassis0", "Off")
		assert.Equal(t, "Superseded", p.end(3*i+2).status)
		end := p.end(3*i + 3)
		assert.Contains(t, []string{"Success", "Noop"}, end.status, end.reason)
		eventually(t, tc.helper+" stopped", func() bool { return read(t, p.u, tc.helper).Active == "inactive" })
		time.Sleep((dwell + 1) * time.Second) // longer than the dwell: what must not happen has no event
		assert.NotContains(t, p.ran(), "power-on", tc.value)
		p.untilPower("Off")
	}
}

func TestProductForeignStart(t *testing.T) {
	p := newProduct(t, 0, nil)
	cmd := exec.Command("systemctl", "start", "obmc-host-start@0.target")
	require.NoError(t, cmd.Start())
	p.untilHost("Running")
	require.NoError(t, cmd.Wait())
	r := p.end(1)
	assert.Equal(t, "foreign", r.client)
	assert.Equal(t, "Success", r.status, r.reason)
	assert.Equal(t, "power-on host-up", p.ran())

	p.request("chassis0", "Off")
	p.success(2)
	out, err := exec.Command("systemctl", "start", "obmc-host-start@0.target").CombinedOutput()
	require.Error(t, err, "offGuard: %s", out)
	assert.NotContains(t, p.ran(), "host-up")
	p.untilPower("Off")
}

// systemd reads its units again, or is executed anew, in the middle of a
// transition.
func TestProductReloadAndReexec(t *testing.T) {
	p := newProduct(t, 0, hostUp("/bin/sleep 4"))
	for i, verb := range []string{"daemon-reload", "daemon-reexec"} {
		pid := p.show("MainPID")
		p.request("host0", "On")
		p.untilPower("On")
		p.untilHost("TransitioningToRunning")
		shell(t, "systemctl", verb)
		began := time.Now()
		assert.Equal(t, "TransitioningToRunning", p.get("host0", "CurrentHostState"))
		assert.Less(t, time.Since(began), 10*time.Second, "a Get waited for systemd")
		p.success(2*i + 1)
		p.untilHost("Running")
		p.request("host0", "Off")
		p.success(2*i + 2)
		assert.Equal(t, pid, p.show("MainPID"), "%s ended the daemon", verb)
	}
}

// What is in the journal can be found again by its message id, with its fields.
func TestProductRecordsInTheJournal(t *testing.T) {
	const ended = "e4c2a96b7d1f4b5f8a03c5d7196e2b84"
	p := newProduct(t, 0, nil)
	before := len(journal(t, ended))
	p.on(1)
	var last map[string]any
	eventually(t, "a record of the end", func() bool {
		all := journal(t, ended)
		if len(all) == before {
			return false
		}
		last = all[len(all)-1]
		return true
	})
	assert.Equal(t, "Host On", last["BMCSTATE_TRANSITION"])
	assert.Equal(t, "0", last["BMCSTATE_DOMAIN"])
	assert.Equal(t, "Success", last["BMCSTATE_RESULT"])
	assert.True(t, strings.HasPrefix(last["BMCSTATE_REQUEST"].(string), "property/"), last["BMCSTATE_REQUEST"])
	assert.Equal(t, unit, last["_SYSTEMD_UNIT"])
	eventually(t, "the status line", func() bool { return p.show("StatusText") == "serving" })
}
