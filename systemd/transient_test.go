package systemd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/systemd"
	"github.com/bmcstate/bmcstate/systemd/systemdtest"
)

const probeUnit = "bmcstate-probe-web.service"

func TestRunTellsHowACommandEnded(t *testing.T) {
	address := systemdtest.StartBus(t)
	double := systemdtest.Start(t, address)
	u := systemd.Open(systemd.Options{Address: address})
	t.Cleanup(u.Close)
	for name, c := range map[string]struct {
		code, status int32
		script       systemdtest.Script
		want         systemd.Exit
	}{
		"well":   {1, 0, systemdtest.Script{Active: "inactive"}, systemd.Exit{}},
		"ill":    {1, 42, systemdtest.Script{Result: "failed"}, systemd.Exit{Status: 42}},
		"killed": {2, 9, systemdtest.Script{Result: "failed", EndBeforeReply: true}, systemd.Exit{Status: 9, Signalled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			double.ClearCalls()
			double.Script(probeUnit, c.script)
			double.Change(probeUnit, func(u *systemdtest.Unit) { u.ExecMainCode, u.ExecMainStatus = c.code, c.status })
			got, err := u.Run(t.Context(), probeUnit, []string{"/bin/check", "-v"}, time.Minute)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			double.WaitCalls("UnrefUnit", 1)
		})
	}
	double.Change(probeUnit, func(u *systemdtest.Unit) { u.ExecMainCode = 0 })
	_, err := u.Run(t.Context(), probeUnit, []string{"/bin/check"}, time.Minute)
	assert.ErrorContains(t, err, "was not started")
	double.Script(probeUnit, systemdtest.Script{Refuse: "org.freedesktop.systemd1.UnitExists"})
	_, err = u.Run(t.Context(), probeUnit, []string{"/bin/check"}, time.Minute)
	assert.Equal(t, "org.freedesktop.systemd1.UnitExists", systemd.ErrorName(err))
}

func TestRunThatNobodyWaitsForIsStopped(t *testing.T) {
	address := systemdtest.StartBus(t)
	double := systemdtest.Start(t, address)
	u := systemd.Open(systemd.Options{Address: address})
	t.Cleanup(u.Close)
	double.Script(probeUnit, systemdtest.Script{Unfinished: true, Once: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		double.WaitCalls("StartTransientUnit", 1)
		cancel()
	}()
	_, err := u.Run(ctx, probeUnit, []string{"/bin/check"}, time.Minute)
	require.Error(t, err)
	double.WaitCalls("StopUnit", 1)
}
