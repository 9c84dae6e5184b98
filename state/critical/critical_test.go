package critical_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state/critical"
)

// The shape of phosphor's own files.
const (
	targetsFile = `{"targets": {
		"multi-user.target": {"errorsToMonitor": ["default"], "errorToLog": "xyz.openbmc_project.State.BMC.Error.MultiUserTargetFailure"},
		"obmc-chassis-poweron@0.target": {"errorsToMonitor": ["timeout", "failed"], "errorToLog": "xyz.openbmc_project.State.Chassis.Error.PowerOnFailure"},
		"obmc-host-startmin@0.target": {"errorsToMonitor": ["default"], "errorToLog": "xyz.openbmc_project.State.Host.Error.HostStartMinFailure"}
	}}`
	servicesFile = `{"services": ["bmcweb.service", "xyz.openbmc_project.Settings.service", "t@.service"], "immediate_quiesce_services": ["now.service"]}`
)

func newMonitor(t *testing.T) *critical.Monitor {
	var c critical.Config
	require.NoError(t, c.Add("targets.json", []byte(targetsFile)))
	require.NoError(t, c.Add("services.json", []byte(servicesFile)))
	require.False(t, c.Empty())
	return critical.New(c, []int{0, 1}, []int{0, 3})
}

func quiesce(unit string) []critical.Action {
	return []critical.Action{{Message: critical.Failure, Unit: unit, Result: "failed", Quiesce: true}}
}

func TestTargets(t *testing.T) {
	m := newMonitor(t)
	const multi, on = "multi-user.target", "obmc-chassis-poweron@0.target"
	for _, result := range []string{"failed", "timeout", "dependency"} {
		assert.Equal(t, []critical.Action{{Message: "xyz.openbmc_project.State.BMC.Error.MultiUserTargetFailure", Unit: multi, Result: result}},
			m.JobEnded(multi, "start", result))
	}
	for _, result := range []string{"done", "canceled", "skipped", "lost"} {
		assert.Empty(t, m.JobEnded(multi, "start", result))
	}
	assert.Len(t, m.JobEnded(on, "start", "timeout"), 1)
	assert.Empty(t, m.JobEnded(on, "start", "dependency"), "not listed")
	assert.Empty(t, m.JobEnded("other.target", "start", "failed"))
}

// openbmc-state-manager.md §4.1 no. 8: the stock file names instance 0 only.
func TestOtherInstancesAreMonitored(t *testing.T) {
	m := newMonitor(t)
	units := m.Units()
	for _, u := range []string{"obmc-chassis-poweron@0.target", "obmc-chassis-poweron@3.target", "obmc-host-startmin@1.target", "t@0.service", "t@3.service"} {
		assert.Contains(t, units, u)
	}
	assert.NotContains(t, units, "obmc-chassis-poweron@1.target", "there is no chassis 1")
	assert.NotContains(t, units, "t@.service")
	assert.Len(t, m.JobEnded("obmc-chassis-poweron@3.target", "start", "failed"), 1)

	var c critical.Config
	require.NoError(t, c.Add("f", []byte(`{"targets": {
		"obmc-host-start@0.target": {"errorsToMonitor": ["default"], "errorToLog": "a"},
		"obmc-host-start@1.target": {"errorsToMonitor": ["default"], "errorToLog": "b"}}}`)))
	m = critical.New(c, []int{0, 1}, nil)
	assert.Equal(t, "b", m.JobEnded("obmc-host-start@1.target", "start", "failed")[0].Message, "named itself")
}

// openbmc-state-manager.md §2.9: the stock file's name is in no interface.
func TestMisspeltMessage(t *testing.T) {
	m := newMonitor(t)
	assert.Equal(t, "xyz.openbmc_project.State.Host.Error.HostMinStartFailure", m.JobEnded("obmc-host-startmin@0.target", "start", "failed")[0].Message)
}

// openbmc-state-manager.md §4.1 no. 10: the end of a stop job is no failed start.
func TestStopJobsSayNothing(t *testing.T) {
	m := newMonitor(t)
	assert.Empty(t, m.JobEnded("obmc-chassis-poweron@0.target", "stop", "timeout"))
	assert.Empty(t, m.JobEnded("bmcweb.service", "stop", "failed"))
	assert.Len(t, m.JobEnded("bmcweb.service", "", "failed"), 1, "over before it could be read")
}

func TestServices(t *testing.T) {
	m := newMonitor(t)
	const unit = "bmcweb.service"
	assert.Empty(t, m.JobEnded(unit, "start", "timeout"), "the unit's own time-outs end as failed")
	assert.Equal(t, quiesce(unit), m.JobEnded(unit, "start", "failed"))
	assert.Empty(t, m.Seen(unit, "failed", "1"), "the same failure")
	assert.Empty(t, m.Seen(unit, "failed", "1"))
	assert.Empty(t, m.Seen(unit, "active", "2"), "it came back")
	assert.Equal(t, quiesce(unit), m.Seen(unit, "failed", "2"))
	assert.Empty(t, m.JobEnded(unit, "start", "failed"), "the same failure")
	assert.Equal(t, quiesce(unit), m.Seen(unit, "failed", "3"), "started and failed again, unseen")
	assert.Empty(t, m.Seen("other.service", "failed", "1"))
}

// A start that failed and was repeated at once, so that the unit was never seen
// failed, explains no later failure.
func TestFailureBehindARepeatedStart(t *testing.T) {
	m := newMonitor(t)
	const unit = "bmcweb.service"
	assert.Equal(t, quiesce(unit), m.JobEnded(unit, "start", "failed"))
	assert.Empty(t, m.Seen(unit, "activating", "2"), "systemd's own restart")
	assert.Empty(t, m.Seen(unit, "active", "2"))
	assert.Equal(t, quiesce(unit), m.Seen(unit, "failed", "2"))
}

// A service that failed while nobody looked, or without a job, has failed.
func TestServiceFoundFailed(t *testing.T) {
	m := newMonitor(t)
	for _, unit := range []string{"now.service", "bmcweb.service"} {
		assert.Empty(t, m.Seen(unit, "active", "1"))
		assert.Empty(t, m.Seen(unit, "activating", "1"), "about to be restarted")
		assert.Equal(t, quiesce(unit), m.Seen(unit, "failed", "1"))
	}
}

// A failure is acted on once in a boot, however often the daemon restarts.
func TestOverARestart(t *testing.T) {
	m := newMonitor(t)
	m.Seen("bmcweb.service", "failed", "1")
	m.JobEnded("now.service", "start", "failed")
	again := newMonitor(t)
	again.Restore(m.Save())
	assert.Empty(t, again.Seen("bmcweb.service", "failed", "1"))
	assert.Empty(t, again.Seen("now.service", "failed", "9"), "its state was not seen before the restart")
	assert.Equal(t, quiesce("bmcweb.service"), again.Seen("bmcweb.service", "failed", "2"))
	again.Restore(map[string]string{"gone.service": "1"})
	assert.NotContains(t, again.Save(), "gone.service")
}

// What is wrong is named, and does not keep the rest (openbmc-state-manager.md
// §2.9: phosphor's parser throws).
func TestWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"targets": {"a.target": {"errorsToMonitor": ["default", "failed"], "errorToLog": "x"}}}`: `f:1:47: "default" stands for all`,
		`{"targets": {"a.target": {"errorsToMonitor": ["done"], "errorToLog": "x"}}}`:              `f:1:47: "done" is no result`,
		`{"targets": {"a.target": {"errorsToMonitor": [], "errorToLog": "x"}}}`:                    `f:1:14: "a.target" needs`,
		`{"targets": {"a.target": 3}}`: `f:1:14: "a.target" needs`,
		`{"targets": []}`:              `f:1:13: targets is a list`,
		`{"services": {}}`:             `f:1:14: a list of services is expected`,
		`{"services": [3]}`:            `f:1:15: the name of a service is expected, not 3`,
		`{}`:                           `f:1:1: the file names nothing`,
		`[]`:                           `f:1:1: the file is a list`,
		`{"services": ["a.service"]`:   `f:1:27: not valid JSON`,
	} {
		var c critical.Config
		err := c.Add("f", []byte(text))
		require.ErrorContains(t, err, want, text)
		assert.True(t, c.Empty())
	}
	var c critical.Config
	require.Error(t, c.Add("f", []byte(`{"targets": {"bad.target": {}, "good.target": {"errorsToMonitor": ["failed"], "errorToLog": "x"}}}`)))
	m := critical.New(c, nil, nil)
	assert.Equal(t, []string{"good.target"}, m.Units())
}
