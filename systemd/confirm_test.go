package systemd_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

// known waits until the states of units are known.
func known(t *testing.T, u *systemd.Units, units ...string) {
	t.Helper()
	u.Watch(units...)
	seen := map[string]bool{}
	await(t, u, "first states", func(c systemd.UnitChanged) bool {
		seen[c.State.Name] = true
		return len(seen) == len(units)
	})
}

func TestConfirm(t *testing.T) {
	sd, u := bed(t)
	sd.SetActive(powerOn, "active")
	known(t, u, powerOn, hostStop)
	states, err := u.Confirm(within(t), hostStop, powerOn, worker)
	require.NoError(t, err)
	assert.Equal(t, hostStop, states[0].Name)
	assert.Equal(t, "inactive", states[0].Active)
	assert.Equal(t, powerOn, states[1].Name)
	assert.Equal(t, "active", states[1].Active)
	assert.Equal(t, worker, states[2].Name, "one that nobody watches is read")

	// A change that no signal has told of.
	id := sd.Foreign(powerOn, "stop")
	await(t, u, "the job", func(c systemd.UnitChanged) bool { return c.State.Name == powerOn && c.State.Job == id })
	sd.Vanish(id, "inactive")
	states, err = u.Confirm(within(t), powerOn)
	require.NoError(t, err)
	assert.Equal(t, "inactive", states[0].Active)
	await(t, u, "the others are told", func(c systemd.UnitChanged) bool { return c.State.Name == powerOn && c.State.Active == "inactive" })

	sd.RefuseMethod("ListUnitsByNames", "org.freedesktop.DBus.Error.UnknownMethod")
	sd.SetActive(powerOn, "active")
	states, err = u.Confirm(within(t), powerOn)
	require.NoError(t, err, "an old systemd is asked for each")
	assert.Equal(t, "active", states[0].Active)

	sd.RefuseMethod("ListUnitsByNames", "org.freedesktop.DBus.Error.Failed")
	await(t, u, "known again", func(c systemd.UnitChanged) bool { return c.State.Name == powerOn && c.State.Active == "active" })
	_, err = u.Confirm(within(t), powerOn)
	assert.ErrorContains(t, err, "ListUnitsByNames")
}

func TestPulled(t *testing.T) {
	sd, u := bed(t)
	sd.Script(hostStart, systemdtest.Script{Unfinished: true, Pulls: []string{hostStartMin, powerOn}})
	sd.Script(hostStartMin, systemdtest.Script{Unfinished: true})
	known(t, u, hostStart, hostStartMin, powerOn)
	j, err := u.Start(within(t), hostStart, systemd.ModeReplace)
	require.NoError(t, err)
	await(t, u, "the job that was brought along", func(q systemd.JobQueued) bool { return q.Job.Unit == hostStartMin })
	jobs := u.Pulled(j.ID)
	var units []string
	for _, p := range jobs {
		units = append(units, p.Unit)
		assert.Equal(t, hostStart, p.ParentUnit)
	}
	assert.Contains(t, units, hostStartMin)
	assert.NotContains(t, units, hostStart)
	assert.Empty(t, u.Pulled(0))
}
