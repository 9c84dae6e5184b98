package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/statetest"
)

const (
	settingsName = "xyz.openbmc_project.Settings"
	restoreIface = "xyz.openbmc_project.Control.Power.RestorePolicy"
	rebootIface  = "xyz.openbmc_project.Control.Boot.RebootPolicy"
	restorePath  = "/xyz/openbmc_project/control/host0/power_restore_policy"
	rebootPath   = "/xyz/openbmc_project/control/host0/auto_reboot"
	loggingName  = "xyz.openbmc_project.Logging"
)

const quickRestore = `{"settings": %q, "restoreSettle": "300ms", "settingsWait": "0s", "simulate": {"timings": {"guestShutdown": "100ms"}}}`

// settle waits until nothing runs and all that has happened is in the journal: it
// is written in order, and a setting is answered when it is on the disk. What has
// ended just before a kill may otherwise be taken up again after it.
func (d *daemon) settle() {
	d.t.Helper()
	d.idle()
	attempts, _ := d.get(hostName, hostPath, attemptsIface, "RetryAttempts").(uint32)
	require.NoError(d.t, d.set(hostName, hostPath, attemptsIface, "RetryAttempts", attempts+1))
}

// kill ends the daemon as power loss does.
func (d *daemon) kill() {
	require.NoError(d.t, d.cmd.Process.Signal(syscall.SIGKILL))
	<-d.exited
}

// acLoss takes the mains away and starts the BMC again.
func (d *daemon) acLoss() {
	d.kill()
	require.NoError(d.t, os.RemoveAll(d.runDir))
	d.start()
}

// bmcBoot restarts the BMC; the host's board goes on.
func (d *daemon) bmcBoot() {
	d.kill()
	require.NoError(d.t, os.Remove(filepath.Join(d.runDir, "boot")))
	d.start()
}

func policyName(p string) string { return restoreIface + ".Policy." + p }

func (d *daemon) setPolicy(policy, once string) {
	d.t.Helper()
	require.NoError(d.t, d.set(settingsName, restorePath, restoreIface, "PowerRestorePolicy", policyName(policy)))
	require.NoError(d.t, d.set(settingsName, restorePath+"/one_time", restoreIface, "PowerRestorePolicy", policyName(once)))
}

// untilSettings waits until somebody keeps the settings.
func (d *daemon) untilSettings() {
	d.t.Helper()
	d.untilOwner("the settings", func() bool { return d.owned(settingsName) })
}

// settingsDouble is the settings daemon.
type settingsDouble struct{ *prop.Properties }

func serveSettings(t *testing.T, conn *godbus.Conn) settingsDouble {
	t.Helper()
	p := func(v any) *prop.Prop { return &prop.Prop{Value: v, Writable: true, Emit: prop.EmitTrue} }
	var one *prop.Properties
	for path, m := range map[string]prop.Map{
		restorePath:               {restoreIface: {"PowerRestorePolicy": p(policyName("AlwaysOff")), "PowerRestoreDelay": p(uint64(0))}},
		restorePath + "/one_time": {restoreIface: {"PowerRestorePolicy": p(policyName("None")), "PowerRestoreDelay": p(uint64(0))}},
		rebootPath:                {rebootIface: {"AutoReboot": p(true)}},
		rebootPath + "/one_time":  {rebootIface: {"AutoReboot": p(true)}},
	} {
		exported, err := prop.Export(conn, godbus.ObjectPath(path), m)
		require.NoError(t, err)
		if path == restorePath {
			one = exported
		}
	}
	// As the reference's daemons ask for their names.
	_, err := conn.RequestName(settingsName, godbus.NameFlagAllowReplacement|godbus.NameFlagReplaceExisting)
	require.NoError(t, err)
	return settingsDouble{one}
}

// The sample of TestPowerCutMatrix that runs on the real daemon: what the policy
// does to a host that ran when the mains, or the BMC, went.
func TestPowerCutOnTheDaemon(t *testing.T) {
	statetest.Covers(t, "S53", "S54", "B15", "B16", "C17")
	for _, c := range []struct {
		policy, once, event, host, request, cause string
	}{
		{"AlwaysOn", "None", "ac", "Running", "On", "PowerPolicyAlwaysOn"},
		{"AlwaysOff", "None", "ac", "Off", "Off", ""},
		{"Restore", "None", "ac", "Running", "On", "PowerPolicyPreviousState"},
		{"None", "None", "ac", "Off", "On", ""},
		{"AlwaysOff", "AlwaysOn", "ac", "Running", "On", "PowerPolicyAlwaysOn"},
		{"AlwaysOn", "AlwaysOff", "ac", "Off", "Off", ""},
		{"AlwaysOff", "AlwaysOn", "boot", "Running", "On", ""},
		{"AlwaysOff", "AlwaysOff", "crash", "Running", "On", ""},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.policy, c.once, c.event), func(t *testing.T) {
			d := boot(t, fmt.Sprintf(quickRestore, "serve"))
			d.untilSettings()
			require.NoError(t, d.hset("On"))
			d.untilHost("Running")
			d.setPolicy(c.policy, c.once)
			logged := d.serveLogging()
			switch c.event {
			case "ac":
				d.acLoss()
			case "boot":
				d.bmcBoot()
			case "crash":
				d.kill()
				d.start()
			}
			d.untilSettings()
			once := c.once
			if c.event == "ac" {
				require.Contains(t, d.entry(logged), "Blackout")
				require.FileExists(t, filepath.Join(d.runDir, "openbmc", "chassis@0-lost-power"))
				once = "None"
			}
			d.untilHost(c.host)
			d.until(hostName, hostPath, hostName, "RequestedHostTransition", "HT."+c.request)
			d.until(settingsName, restorePath+"/one_time", restoreIface, "PowerRestorePolicy", policyName(once))
			d.idle()
			if c.cause != "" {
				require.Equal(t, shorts.Replace("RC."+c.cause), d.get(hostName, hostPath, hostName, "RestartCause"))
			}
			d.untilHost(c.host)
			require.Equal(t, policyName(c.policy), d.get(settingsName, restorePath, restoreIface, "PowerRestorePolicy"))
		})
	}
}

// S53, S54: the policy brings back what was last asked for, whatever that was,
// and asks once. The cause is told before the request is.
func TestRestoreOfTheLastRequest(t *testing.T) {
	statetest.Covers(t, "S53", "S54")
	for _, c := range []struct{ last, policy, cause string }{
		{"Off", "AlwaysOn", "PowerPolicyAlwaysOn"},
		{"Reboot", "Restore", "PowerPolicyPreviousState"},
		{"Off", "Restore", ""},
	} {
		t.Run(c.last+"/"+c.policy, func(t *testing.T) {
			d := boot(t, fmt.Sprintf(quickRestore, "serve"))
			d.untilSettings()
			d.on()
			require.NoError(t, d.hset(c.last))
			d.idle()
			d.setPolicy("None", c.policy)
			launches := d.launches()
			signals := d.subscribe(propsIface, "PropertiesChanged")
			d.acLoss()
			d.untilSettings()
			d.until(settingsName, restorePath+"/one_time", restoreIface, "PowerRestorePolicy", policyName("None")) // it has decided
			if c.cause == "" {
				d.idle()
				require.Equal(t, launches, d.launches())
				require.Equal(t, shorts.Replace("HS.Off"), d.host())
				require.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
				return
			}
			d.untilHost("Running")
			d.idle()
			require.Equal(t, launches+1, d.launches())
			var told []string
			for _, ch := range d.drain(signals) {
				if ch.path == hostPath && (ch.prop == "RestartCause" || ch.prop == "RequestedHostTransition") {
					told = append(told, ch.value.(string))
				}
			}
			cause, request := shorts.Replace("RC."+c.cause), slices.Index(told, shorts.Replace("HT.On"))
			require.NotContains(t, told[request+1:], cause, "the cause comes first: %v", told) // or both before there was an object
			require.Equal(t, cause, d.get(hostName, hostPath, hostName, "RestartCause"))
			require.Equal(t, shorts.Replace("HT.On"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
		})
	}
}

// logging is the event log's double.
type logging struct{ entries chan string }

// Create is xyz.openbmc_project.Logging.Create.
func (l logging) Create(message, _ string, _ map[string]string) (godbus.ObjectPath, *godbus.Error) {
	l.entries <- message
	return "/xyz/openbmc_project/logging/entry/1", nil
}

func (d *daemon) serveLogging() chan string {
	l := logging{make(chan string, 100)}
	conn := d.bus.Connect(d.t)
	require.NoError(d.t, conn.Export(l, "/xyz/openbmc_project/logging", "xyz.openbmc_project.Logging.Create"))
	_, err := conn.RequestName(loggingName, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
	return l.entries
}

// entry waits for the next entry of the event log.
func (d *daemon) entry(logged <-chan string) string {
	d.t.Helper()
	return next(d.t, logged, "an entry of the event log")
}

// The settings are the settings daemon's where there is one: read, followed and
// written back.
func TestSettingsOfTheirDaemon(t *testing.T) {
	statetest.Covers(t, "B11")
	d := prepare(t, fmt.Sprintf(quickRestore, "client"))
	d.start()
	conn := d.bus.Connect(t)
	serveSettings(t, conn)
	d.setPolicy("AlwaysOff", "AlwaysOn")
	d.acLoss()
	d.untilHost("Running")
	require.Equal(t, shorts.Replace("RC.PowerPolicyAlwaysOn"), d.get(hostName, hostPath, hostName, "RestartCause"))
	d.until(settingsName, restorePath+"/one_time", restoreIface, "PowerRestorePolicy", policyName("None"))
	require.Equal(t, policyName("AlwaysOff"), d.get(settingsName, restorePath, restoreIface, "PowerRestorePolicy"))
}

// DESIGN §9: without a settings daemon we serve its objects, and give the name up
// when it comes; the values are kept over a restart.
func TestSettingsServedUntilTheirDaemonComes(t *testing.T) {
	d := boot(t, fmt.Sprintf(quickRestore, "auto"))
	d.untilSettings()
	require.Equal(t, policyName("AlwaysOff"), d.get(settingsName, restorePath, restoreIface, "PowerRestorePolicy"))
	require.Equal(t, true, d.get(settingsName, rebootPath, rebootIface, "AutoReboot"))
	require.NoError(t, d.set(settingsName, rebootPath+"/one_time", rebootIface, "AutoReboot", false))
	require.NoError(t, d.set(settingsName, restorePath, restoreIface, "PowerRestoreDelay", uint64(3_000_000)))
	d.setPolicy("Restore", "None")

	require.ErrorContains(t, d.set(settingsName, restorePath, restoreIface, "PowerRestorePolicy", "On"), "Invalid argument")
	require.ErrorContains(t, d.set(settingsName, restorePath+"/one_time", restoreIface, "PowerRestoreDelay", uint64(1)), "no delay of its own")

	require.Zero(t, d.stop())
	d.start()
	d.untilSettings()
	require.Equal(t, policyName("Restore"), d.get(settingsName, restorePath, restoreIface, "PowerRestorePolicy"))
	require.Equal(t, uint64(3_000_000), d.get(settingsName, restorePath, restoreIface, "PowerRestoreDelay"))
	require.Equal(t, false, d.get(settingsName, rebootPath+"/one_time", rebootIface, "AutoReboot"))

	conn := d.bus.Connect(t)
	serveSettings(t, conn)
	var owner string
	require.NoError(t, d.conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, settingsName).Store(&owner))
	require.Equal(t, conn.Names()[0], owner, "given up at once")

	require.NoError(t, conn.Close())
	d.untilOwner("the settings' next keeper", func() bool {
		var now string
		err := d.conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, settingsName).Store(&now)
		return err == nil && now != owner
	})
	require.Equal(t, policyName("Restore"), d.get(settingsName, restorePath, restoreIface, "PowerRestorePolicy"), "served again")
}
