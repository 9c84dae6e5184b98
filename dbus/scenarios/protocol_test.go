package scenarios

import (
	"fmt"
	"testing"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/state/statetest"
)

func TestS10Get(t *testing.T) {
	statetest.Covers(t, "S10")
	d := boot(t, "")
	off := shorts.Replace("HS.Off")
	require.Equal(t, `s "`+off+`"`, d.bus.Busctl(t, "get-property", hostName, hostPath, hostName, "CurrentHostState"))
	require.Equal(t, `{"type":"s","data":"`+off+`"}`, d.bus.Busctl(t, "--json=short", "get-property", hostName, hostPath, hostName, "CurrentHostState"))
}

func TestS11UnknownProperty(t *testing.T) {
	statetest.Covers(t, "S11")
	d := boot(t, "")
	out := d.bus.Send(t, hostName, hostPath, propsIface+".Get", "string:"+hostName, "string:NoSuch")
	require.Equal(t, "org.freedesktop.DBus.Error.UnknownProperty", out.ErrorName())
	text := d.bus.Run(t, "busctl", "--system", "get-property", hostName, hostPath, hostName, "NoSuch").Stderr
	require.NotContains(t, text, "Input/output error")
}

func TestS12UnknownInterfaceAndPath(t *testing.T) {
	statetest.Covers(t, "S12")
	d := boot(t, "")
	ebadr := []string{"org.freedesktop.DBus.Error.UnknownInterface", "org.freedesktop.DBus.Error.UnknownProperty"}
	require.Contains(t, ebadr, d.bus.Send(t, hostName, hostPath, propsIface+".Get", "string:no.such", "string:X").ErrorName())
	require.Contains(t, ebadr, d.bus.Send(t, hostName, hostPath, propsIface+".GetAll", "string:no.such").ErrorName())
	require.Contains(t, ebadr, d.bus.Send(t, hostName, hostPath, propsIface+".Set", "string:no.such", "string:X", "variant:string:y").ErrorName())
	require.Contains(t, []string{"org.freedesktop.DBus.Error.UnknownObject", "org.freedesktop.DBus.Error.UnknownMethod", "org.freedesktop.DBus.Error.UnknownInterface"},
		d.bus.Send(t, hostName, "/no/such", propsIface+".Get", "string:"+hostName, "string:CurrentHostState").ErrorName())
	require.Equal(t, "org.freedesktop.DBus.Error.UnknownMethod", d.bus.Send(t, hostName, hostPath, hostName+".Nonsense").ErrorName())
}

func TestS14BadEnum(t *testing.T) {
	statetest.Covers(t, "S14", "C13")
	d := boot(t, "")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	for _, bad := range []string{hostName + ".Transition.Sideways", "On", "", chassisName + ".Transition.On"} {
		out := d.bus.Send(t, hostName, hostPath, propsIface+".Set", "string:"+hostName, "string:RequestedHostTransition", "variant:string:"+bad)
		require.Equal(t, "xyz.openbmc_project.Common.Error.InvalidArgument", out.ErrorName(), bad)
	}
	require.Error(t, d.cset("Reset"))
	require.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))
	require.Equal(t, uint32(3), d.get(hostName, hostPath, attemptsIface, "AttemptsLeft"))
	require.Zero(t, d.launches())
	require.Empty(t, d.drain(signals))
}

func TestWrongType(t *testing.T) {
	d := boot(t, "")
	for _, c := range []struct{ path, iface, prop, value string }{
		{hostPath, hostName, "RequestedHostTransition", "uint32:1"},
		{hostPath, attemptsIface, "RetryAttempts", "string:3"},
		{hostPath, attemptsIface, "RetryAttempts", "uint64:3"},
		{hostPath, progressIface, "BootProgressLastUpdate", "uint32:3"},
	} {
		out := d.bus.Send(t, hostName, c.path, propsIface+".Set", "string:"+c.iface, "string:"+c.prop, "variant:"+c.value)
		require.Equal(t, "org.freedesktop.DBus.Error.InvalidArgs", out.ErrorName(), "%v", c)
	}
}

func TestS15ReadOnly(t *testing.T) {
	statetest.Covers(t, "S15")
	d := boot(t, "")
	err := d.set(hostName, hostPath, hostName, "AllowedHostTransitions", []string{"x"})
	require.Equal(t, "org.freedesktop.DBus.Error.PropertyReadOnly", errorName(err))
	err = d.set(queueName, queuePath, queueName, "Launches", uint64(9))
	require.Equal(t, "org.freedesktop.DBus.Error.PropertyReadOnly", errorName(err))
}

func errorName(err error) string {
	if e, ok := err.(godbus.Error); ok { //nolint:errorlint // godbus returns it bare
		return e.Name
	}
	return ""
}

func TestS16Allowed(t *testing.T) {
	statetest.Covers(t, "S16")
	d := boot(t, "")
	var want []string
	for _, v := range []string{"Off", "On", "Reboot", "GracefulWarmReboot", "ForceWarmReboot"} {
		want = append(want, shorts.Replace("HT."+v))
	}
	require.ElementsMatch(t, want, d.get(hostName, hostPath, hostName, "AllowedHostTransitions"))
}

func TestS17GetAll(t *testing.T) {
	statetest.Covers(t, "S17")
	d := boot(t, "")
	out := d.bus.Busctl(t, "call", hostName, hostPath, propsIface, "GetAll", "s", attemptsIface)
	require.Contains(t, []string{`a{sv} 2 "AttemptsLeft" u 3 "RetryAttempts" u 3`, `a{sv} 2 "RetryAttempts" u 3 "AttemptsLeft" u 3`}, out)
}

func TestS18SignalShape(t *testing.T) {
	statetest.Covers(t, "S18")
	d := boot(t, "")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.hset("On"))
	d.untilHost("Running")
	d.idle()
	var requested []*godbus.Signal
	for _, s := range d.drainSignals(signals) {
		require.Empty(t, s.Body[2], "nothing is invalidated: %v", s)
		require.Len(t, s.Body[1], 1, "one property per signal: %v", s)
		if changeOf(s)[0].prop == "RequestedHostTransition" {
			requested = append(requested, s)
		}
	}
	require.Len(t, requested, 1)
	require.Equal(t, godbus.ObjectPath(hostPath), requested[0].Path)
	require.Equal(t, []any{hostName, map[string]godbus.Variant{"RequestedHostTransition": godbus.MakeVariant(shorts.Replace("HT.On"))}, []string{}},
		requested[0].Body)
}

// TestOneSignalPerRealChange: an equal value is no change.
func TestOneSignalPerRealChange(t *testing.T) {
	d := boot(t, "")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	for range 3 {
		require.NoError(t, d.set(hostName, hostPath, hostName, "RestartCause", shorts.Replace("RC.PowerButton")))
	}
	var got []change
	for _, c := range d.drain(signals) {
		if c.path == hostPath { // x86-power-control's interface shows it too
			got = append(got, c)
		}
	}
	require.Equal(t, []change{{hostPath, hostName, "RestartCause", shorts.Replace("RC.PowerButton"), 0}}, got)
}

func TestS20ReadYourWrite(t *testing.T) {
	statetest.Covers(t, "S20")
	d := boot(t, "")
	other := d.bus.Connect(t)
	for i := range 1000 {
		want := shorts.Replace([]string{"RC.PowerButton", "RC.WatchdogTimer", "RC.Unknown"}[i%3])
		require.NoError(t, d.set(hostName, hostPath, hostName, "RestartCause", want))
		v, err := other.Object(hostName, hostPath).GetProperty(hostName + ".RestartCause")
		require.NoError(t, err)
		require.Equal(t, want, v.Value())
	}
}

func TestS21NoReplySet(t *testing.T) {
	statetest.Covers(t, "S21")
	d := boot(t, "")
	call := d.conn.Object(hostName, hostPath).Call(propsIface+".Set", godbus.FlagNoReplyExpected,
		hostName, "RequestedHostTransition", godbus.MakeVariant(shorts.Replace("HT.On")))
	require.NoError(t, call.Err)
	d.untilHost("Running")
	require.Equal(t, uint64(1), d.launches())
}

// TestS31HintsOfUnitFiles: what PSM's unit files write is accepted and shown,
// and drives nothing.
func TestS31HintsOfUnitFiles(t *testing.T) {
	statetest.Covers(t, "S31", "C23")
	d := boot(t, "")
	signals := d.subscribe(propsIface, "PropertiesChanged")
	require.NoError(t, d.set(hostName, hostPath, hostName, "CurrentHostState", shorts.Replace("HS.TransitioningToOff")))
	require.Equal(t, shorts.Replace("HS.TransitioningToOff"), d.host())
	require.Equal(t, []change{{hostPath, hostName, "CurrentHostState", shorts.Replace("HS.TransitioningToOff"), 0}}, d.drain(signals))
	for _, v := range []string{"PS.TransitioningToOn", "PS.TransitioningToOff"} {
		require.NoError(t, d.set(chassisName, chassisPath, chassisName, "CurrentPowerState", shorts.Replace(v)))
		require.Equal(t, shorts.Replace(v), d.chassis())
	}
	require.Zero(t, d.launches())
	require.NoError(t, d.hset("On"))
	d.untilHost("Running")
}

// TestDefaults checks every property of a fresh start with its type and unit.
func TestDefaults(t *testing.T) {
	statetest.Covers(t, "B39")
	d := boot(t, "")
	d.untilPowerStatus("Good") // a slow reading leaves it undefined for a moment
	for _, c := range []struct {
		dest, path, iface, prop string
		want                    any
	}{
		{hostName, hostPath, hostName, "RequestedHostTransition", "HT.Off"},
		{hostName, hostPath, hostName, "CurrentHostState", "HS.Off"},
		{hostName, hostPath, hostName, "RestartCause", "RC.Unknown"},
		{hostName, hostPath, progressIface, "BootProgress", "PG.Unspecified"},
		{hostName, hostPath, progressIface, "BootProgressLastUpdate", uint64(0)},
		{hostName, hostPath, osIface, "OperatingSystemState", "OSS.Inactive"},
		{hostName, hostPath, attemptsIface, "AttemptsLeft", uint32(3)},
		{hostName, hostPath, attemptsIface, "RetryAttempts", uint32(3)},
		{chassisName, chassisPath, chassisName, "RequestedPowerTransition", "CT.Off"},
		{chassisName, chassisPath, chassisName, "CurrentPowerState", "PS.Off"},
		{chassisName, chassisPath, chassisName, "CurrentPowerStatus", chassisName + ".PowerStatus.Good"},
		{chassisName, chassisPath, chassisName, "LastStateChangeTime", uint64(0)},
		{chassisName, chassisPath, "xyz.openbmc_project.State.PowerOnHours", "POHCounter", uint32(0)},
		{bmcName, bmcPath, bmcName, "RequestedBMCTransition", "BT.None"},
		{bmcName, bmcPath, bmcName, "CurrentBMCState", "BS.Ready"},
		{schedName, schedPath, schedName, "ScheduledTime", uint64(0)},
		{schedName, schedPath, schedName, "ScheduledTransition", "HT.On"},
		{queueName, queuePath, queueName, "Policy", queueName + ".Policy.FifoDedup"},
		{queueName, queuePath, queueName, "DepthLimit", uint32(32)},
		{queueName, queuePath, queueName, "Depth", uint32(0)},
		{queueName, queuePath, queueName, "Running", godbus.ObjectPath("/")},
		{queueName, queuePath, queueName, "Launches", uint64(0)},
		{queueName, queuePath, queueName, "DuplicatesSuppressed", uint64(0)},
		{queueName, queuePath, queueName, "Refused", uint64(0)},
	} {
		want := c.want
		if s, ok := want.(string); ok {
			want = shorts.Replace(s)
		}
		require.Equal(t, want, d.get(c.dest, c.path, c.iface, c.prop), c.prop)
	}
}

// writes are all members that change something, with arguments of the right
// types.
var writes = []struct{ dest, path, iface, prop, value string }{
	{hostName, hostPath, hostName, "RequestedHostTransition", "string:HT.On"},
	{hostName, hostPath, hostName, "CurrentHostState", "string:HS.TransitioningToOff"},
	{hostName, hostPath, hostName, "RestartCause", "string:RC.PowerButton"},
	{hostName, hostPath, hostName, "AllowedHostTransitions", "string:x"},
	{hostName, hostPath, progressIface, "BootProgress", "string:PG.OSRunning"},
	{hostName, hostPath, progressIface, "BootProgressLastUpdate", "uint64:1"},
	{hostName, hostPath, osIface, "OperatingSystemState", "string:OSS.Standby"},
	{hostName, hostPath, attemptsIface, "AttemptsLeft", "uint32:1"},
	{hostName, hostPath, attemptsIface, "RetryAttempts", "uint32:1"},
	{chassisName, chassisPath, chassisName, "RequestedPowerTransition", "string:CT.On"},
	{chassisName, chassisPath, chassisName, "CurrentPowerState", "string:PS.TransitioningToOn"},
	{chassisName, chassisPath, chassisName, "LastStateChangeTime", "uint64:1"},
	{chassisName, chassisPath, "xyz.openbmc_project.State.PowerOnHours", "POHCounter", "uint32:7"},
	{bmcName, bmcPath, bmcName, "RequestedBMCTransition", "string:BT.Reboot"},
	{bmcName, bmcPath, bmcName, "CurrentBMCState", "string:BS.UpdateInProgress"},
	{schedName, schedPath, schedName, "ScheduledTime", "uint64:99999999999"},
	{schedName, schedPath, schedName, "ScheduledTransition", "string:HT.Off"},
}

// TestASecondUserMayReadEverythingAndChangeNothing runs on a bus whose policy
// allows everything.
func TestASecondUserMayReadEverythingAndChangeNothing(t *testing.T) {
	statetest.Covers(t, "C14")
	d := boot(t, "")
	send := func(args ...string) string {
		out := d.bus.RunAs(t, dbustest.OtherUID, "dbus-send", append([]string{"--system", "--print-reply"}, args...)...)
		if out.Exit == 0 {
			return ""
		}
		return out.ErrorName()
	}
	const denied = "org.freedesktop.DBus.Error.AccessDenied"
	for _, w := range writes {
		require.Empty(t, send("--dest="+w.dest, w.path, propsIface+".Get", "string:"+w.iface, "string:"+w.prop), w.prop)
		require.Equal(t, denied, send("--dest="+w.dest, w.path, propsIface+".Set", "string:"+w.iface, "string:"+w.prop,
			"variant:"+shorts.Replace(w.value)), w.prop)
	}
	other := d.bus.ConnectAs(t, dbustest.OtherUID).Object(queueName, queuePath)
	for method, args := range map[string][]any{
		"Submit":     {"c", "1", shorts.Replace("HT.On"), map[string]godbus.Variant{}},
		"Lookup":     {"c", "1"},
		"Cancel":     {"c", "1"},
		"History":    {uint64(0), uint32(10)},
		"Deliveries": nil,
	} {
		require.Equal(t, denied, errorName(other.Call(queueName+"."+method, 0, args...).Err), method)
	}
	require.Empty(t, send("--dest="+queueName, "/xyz/openbmc_project/state", "org.freedesktop.DBus.ObjectManager.GetManagedObjects"))
	require.Empty(t, send("--dest="+hostName, hostPath, "org.freedesktop.DBus.Introspectable.Introspect"))
	require.Zero(t, d.launches())
	require.Equal(t, shorts.Replace("HS.Off"), d.host())
}

func TestAnAllowedUserMayWrite(t *testing.T) {
	d := boot(t, fmt.Sprintf(`{"allowedUids": [%d]}`, dbustest.OtherUID))
	out := d.bus.RunAs(t, dbustest.OtherUID, "busctl", "--system", "set-property", hostName, hostPath, hostName,
		"RequestedHostTransition", "s", shorts.Replace("HT.On"))
	require.Zero(t, out.Exit, out.Stderr)
	d.untilHost("Running")
}
