package openbmc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
	"github.com/bmcstate/bmcstate/state"
)

// roundTrip checks that each full string means one value, and nothing shorter
// does.
func roundTrip[T ~uint8](t *testing.T, e openbmc.Enum[T], members int) {
	t.Helper()
	all := e.Values()
	assert.Len(t, all, members)
	for _, s := range all {
		v, ok := e.Parse(s)
		assert.True(t, ok, s)
		assert.Equal(t, s, e.String(v))
		for cut := 1; cut < len(s); cut++ {
			_, ok := e.Parse(s[cut:])
			assert.False(t, ok, s[cut:])
		}
	}
	for _, s := range []string{"", ".", "xyz", all[0] + ".", all[0] + " "} {
		_, ok := e.Parse(s)
		assert.False(t, ok, s)
	}
	assert.Contains(t, all, e.String(T(250)), "what is no member reads as the default")
}

func TestEnums(t *testing.T) {
	roundTrip(t, openbmc.HostState, 7)
	roundTrip(t, openbmc.RestartCause, 10)
	roundTrip(t, openbmc.BootProgress, 12)
	roundTrip(t, openbmc.OSState, 8)
	roundTrip(t, openbmc.PowerState, 4)
	roundTrip(t, openbmc.PowerStatus, 4)
	roundTrip(t, openbmc.BMCState, 4)
	roundTrip(t, openbmc.RebootCause, 5)
	roundTrip(t, openbmc.RestorePolicies, 4)
	roundTrip(t, openbmc.HostTransition, 5)
	roundTrip(t, openbmc.ChassisTransition, 3)
	roundTrip(t, openbmc.BMCTransition, 3)
	roundTrip(t, openbmc.Policy, 4)
	roundTrip(t, openbmc.Status, 11)
}

// An operation is written as a member of its own object's enum.
func TestTransitions(t *testing.T) {
	for op := state.HostOn; op.Valid(); op++ {
		s := openbmc.Transition(op)
		assert.Contains(t, s, map[state.Kind]string{
			state.KindHost: openbmc.IfaceHost + ".", state.KindChassis: openbmc.IfaceChassis + ".", state.KindBMC: openbmc.IfaceBMC + ".",
		}[op.Kind()])
		got, ok := openbmc.ParseTransition(s)
		assert.Equal(t, op.Kind() != state.KindBMC, ok, "Submit takes no transition of the BMC")
		if ok {
			assert.Equal(t, op, got)
		}
	}
	assert.Equal(t, "xyz.openbmc_project.State.Host.Transition.Off", openbmc.HostTransition.String(state.ChassisOn), "another kind's operation is no member")
}

func TestOperationStatus(t *testing.T) {
	want := map[state.Status]string{
		state.Pending: "NotStarted", state.Running: "InProgress", state.Unknown: "InProgress", state.Success: "Completed", state.Noop: "Completed",
		state.Cancelled: "Aborted", state.Superseded: "Aborted", state.Expired: "Aborted",
		state.Invalid: "Failed", state.Failed: "Failed", state.Interrupted: "Failed", 0: "Failed", 99: "Failed",
	}
	for s, name := range want {
		assert.Equal(t, "xyz.openbmc_project.Common.Progress.OperationStatus."+name, openbmc.OperationStatus(s), s.String())
	}
}

func TestPathsAndNames(t *testing.T) {
	assert.EqualValues(t, "/xyz/openbmc_project/state/host3", openbmc.ObjectPath(state.Object{Kind: state.KindHost, Index: 3}))
	assert.EqualValues(t, "/xyz/openbmc_project/state/bmc0", openbmc.ObjectPath(state.Object{Kind: state.KindBMC}))
	assert.EqualValues(t, "/xyz/openbmc_project/scheduled/host3", openbmc.ObjectPath(state.Object{Kind: state.KindSchedule, Index: 3}))
	assert.EqualValues(t, "/xyz/openbmc_project/state/queue2", openbmc.QueuePath(2))
	assert.EqualValues(t, "/xyz/openbmc_project/state/queue2/request/7", openbmc.RequestPath(2, 7))
	assert.Equal(t, []string{openbmc.IfaceHost, openbmc.IfaceHost + "0"}, openbmc.ServiceNames(openbmc.IfaceHost, 0))
	assert.Equal(t, []string{openbmc.IfaceHost + "1"}, openbmc.ServiceNames(openbmc.IfaceHost, 1))
	assert.Equal(t, []string{openbmc.IfaceBMC}, openbmc.ServiceNames(openbmc.IfaceBMC, 0))
}

// Every host has settings of its own.
func TestPathsOfSettings(t *testing.T) {
	for host, want := range []string{"/xyz/openbmc_project/control/host0/", "/xyz/openbmc_project/control/host1/"} {
		assert.EqualValues(t, want+"power_restore_policy", openbmc.RestorePolicyPath(host, false))
		assert.EqualValues(t, want+"auto_reboot/one_time", openbmc.AutoRebootPath(host, true))
	}
}
