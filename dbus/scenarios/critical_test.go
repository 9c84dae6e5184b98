package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// monitored is a daemon with files of phosphor's target monitor.
func monitored(t *testing.T) *targetsDaemon {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	targets := file("targets.json", `{"targets": {
		"obmc-chassis-poweron@0.target": {"errorsToMonitor": ["default"], "errorToLog": "xyz.openbmc_project.State.Chassis.Error.PowerOnFailure"}}}`)
	services := file("services.json", `{"services": ["bmcweb.service"], "immediate_quiesce_services": ["now.service"]}`)
	config := fmt.Sprintf(`{"executor": "systemd", "monitorTargets": [%q], "monitorServices": [%q]}`, targets, services)
	return prepareTargets(t, config)
}

// entry is what was written to the event log.
type logEntry struct {
	Message, Level string
	Data           map[string]string
}

type eventLog struct {
	entries chan logEntry
	hold    chan struct{} // Create answers when it is closed; nil = at once

	mu   sync.Mutex
	data [][]string // AdditionalData of each entry
}

// Create is xyz.openbmc_project.Logging.Create.
func (l *eventLog) Create(message, level string, data map[string]string) (godbus.ObjectPath, *godbus.Error) {
	var all []string
	for k, v := range data {
		all = append(all, k+"="+v)
	}
	l.mu.Lock()
	l.data = append(l.data, all)
	l.mu.Unlock()
	l.entries <- logEntry{message, level, data}
	if l.hold != nil {
		<-l.hold
	}
	return "/xyz/openbmc_project/logging/entry/1", nil
}

// GetManagedObjects is the object manager's.
func (l *eventLog) GetManagedObjects() (map[godbus.ObjectPath]map[string]map[string]godbus.Variant, *godbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[godbus.ObjectPath]map[string]map[string]godbus.Variant{}
	for i, data := range l.data {
		path := godbus.ObjectPath(fmt.Sprintf("/xyz/openbmc_project/logging/entry/%d", i))
		all[path] = map[string]map[string]godbus.Variant{loggingName + ".Entry": {"AdditionalData": godbus.MakeVariant(data)}}
	}
	return all, nil
}

func (d *daemon) serveEventLog() chan logEntry {
	l := &eventLog{entries: make(chan logEntry, 100)}
	d.serveLog(l)
	return l.entries
}

func (d *daemon) serveLog(l *eventLog) {
	conn := d.bus.Connect(d.t)
	require.NoError(d.t, conn.Export(l, "/xyz/openbmc_project/logging", loggingName+".Create"))
	require.NoError(d.t, conn.Export(l, "/xyz/openbmc_project/logging", "org.freedesktop.DBus.ObjectManager"))
	_, err := conn.RequestName(loggingName, godbus.NameFlagDoNotQueue)
	require.NoError(d.t, err)
}

// A daemon that dies before it is told that its entry was taken does not write it
// again; the next entry has another id.
func TestEntryIsWrittenOnce(t *testing.T) {
	d := monitored(t)
	log := &eventLog{entries: make(chan logEntry, 100), hold: make(chan struct{})}
	d.serveLog(log)
	d.start()
	d.untilBMC("Ready")
	fail := func(n int) {
		t.Helper()
		require.NoError(t, d.cset("On"))
		d.started(n)
		d.job(powerOn, "timeout")
		status, _ := d.untilRecord()
		require.Equal(t, "Failed", status)
		require.Len(t, d.records(), n)
	}
	fail(1)
	first := d.logged(log.entries)
	d.kill()
	close(log.hold)
	d.start()
	fail(2)
	second := d.logged(log.entries)
	assert.Equal(t, first.Message, second.Message)
	assert.NotEqual(t, first.Data["EVENT_ID"], second.Data["EVENT_ID"], "of the second failure")
	assert.NotEqual(t, first.Data["_PID"], second.Data["_PID"])
	spool := filepath.Join(d.runDir, "events.json")
	require.Eventually(t, func() bool { text, _ := os.ReadFile(spool); return len(text) <= 2 }, patience, 5*time.Millisecond)
	assert.Empty(t, log.entries)
}

func (d *daemon) logged(entries chan logEntry) logEntry {
	d.t.Helper()
	select {
	case e := <-entries:
		return e
	case <-time.After(patience):
		require.FailNow(d.t, "nothing is logged", d.log.String())
		return logEntry{}
	}
}

const failure = "xyz.openbmc_project.State.Error.CriticalServiceFailure"

// What is to be logged survives the daemon while the event log is absent, in the
// order in which it happened.
func TestFailedTargetIsLoggedAcrossARestart(t *testing.T) {
	d := monitored(t)
	d.start()
	d.untilBMC("Ready")
	require.NoError(t, d.cset("On"))
	d.started(1)
	d.job(powerOn, "timeout")
	status, _ := d.untilRecord()
	assert.Equal(t, "Failed", status)
	spool := filepath.Join(d.runDir, "events.json")
	require.Eventually(t, func() bool { text, _ := os.ReadFile(spool); return len(text) > 2 }, patience, 5*time.Millisecond)
	require.NoError(t, d.cmd.Process.Kill())
	d.waitExit()

	d.start()
	entries := d.serveEventLog()
	e := d.logged(entries)
	assert.Equal(t, "xyz.openbmc_project.State.Chassis.Error.PowerOnFailure", e.Message)
	assert.Equal(t, "xyz.openbmc_project.Logging.Entry.Level.Critical", e.Level)
	assert.Equal(t, powerOn, e.Data["SYSTEMD_UNIT"])
	assert.Equal(t, "timeout", e.Data["SYSTEMD_RESULT"])
	assert.NotEmpty(t, e.Data["_PID"])
	require.Eventually(t, func() bool { text, _ := os.ReadFile(spool); return len(text) <= 2 }, patience, 5*time.Millisecond, "it is not kept any more")
	assert.Equal(t, shorts.Replace("BS.Ready"), d.get(bmcName, bmcPath, bmcName, "CurrentBMCState"), "a target quiesces nothing")
}

// A service that the BMC cannot do without fails: by its job, or by its state.
func TestFailedServiceQuiesces(t *testing.T) {
	for _, unit := range []string{"bmcweb.service", "now.service"} {
		t.Run(unit, func(t *testing.T) {
			d := monitored(t)
			d.sd.SetActive(unit, "active")
			entries := d.serveEventLog()
			d.start()
			d.untilBMC("Ready")
			d.sd.SetActive(unit, "failed")
			e := d.logged(entries)
			assert.Equal(t, failure, e.Message)
			assert.Equal(t, unit, e.Data["SYSTEMD_UNIT"])
			assert.Equal(t, []string{start(bmcQuiesce)}, d.started(1))
			d.untilBMC("Quiesced")

			d.sd.SetActive(bmcQuiesce, "inactive")
			require.Zero(t, d.stop())
			d.start()
			d.untilBMC("Quiesced")
			require.NoError(t, d.mset("None")) // a round trip
			assert.Empty(t, entries, "once for each failure")
		})
	}
}

// It is quiesced also where the target cannot be started.
func TestQuiescedWithoutItsTarget(t *testing.T) {
	d := monitored(t)
	d.sd.Script(bmcQuiesce, systemdtest.Script{Refuse: "org.freedesktop.systemd1.UnitMasked"})
	d.start()
	d.untilBMC("Ready")
	d.sd.Finish(d.sd.Foreign("bmcweb.service", "start"), "failed")
	d.started(1)
	d.untilBMC("Quiesced")
}

// A service that had failed before we looked has failed.
func TestServiceFoundFailed(t *testing.T) {
	d := monitored(t)
	d.sd.SetActive("bmcweb.service", "failed")
	entries := d.serveEventLog()
	d.start()
	d.untilBMC("Quiesced")
	assert.Equal(t, failure, d.logged(entries).Message)
}

func TestWrongMonitorFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"services": [3]}`), 0o600))
	d := prepareTargets(t, fmt.Sprintf(`{"executor": "systemd", "monitorServices": [%q, "/nowhere.json"]}`, file))
	d.start()
	d.untilBMC("Ready")
	d.untilLog(file + ":1:15: the name of a service is expected")
	d.untilLog("/nowhere.json")
}
