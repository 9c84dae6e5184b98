package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/dbustest"
	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/statetest"
)

// wide lets one client have thousands of requests waiting.
const wide = `{"depthLimit": 10000, "share": 10000, "connShare": 10000, "historyMax": 20000}`

// crowded is wide with a board whose button takes a press for a hold only after a
// time that a crowd of clients cannot stretch it to.
const crowded = `{"depthLimit": 10000, "share": 10000, "connShare": 10000, "historyMax": 20000, "simulate": {"timings": {"overrideHold": "9s"}}}`

// history returns the queue's records from a sequence on.
func (d *daemon) history(after uint64) []map[string]godbus.Variant {
	var all []map[string]godbus.Variant
	for {
		var page []map[string]godbus.Variant
		require.NoError(d.t, d.conn.Object(queueName, queuePath).Call(queueName+".History", 0, after, uint32(1000)).Store(&page))
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1]["Sequence"].Value().(uint64)
	}
}

// TestPipelinedWritesKeepTheirOrder: 5,000 alternating writes of one client,
// none of which waits for the reply of the one before, are admitted in the
// order in which they were sent (P10).
func TestPipelinedWritesKeepTheirOrder(t *testing.T) {
	d := boot(t, wide)
	const n = 5000
	host := d.conn.Object(hostName, hostPath)
	replies := make(chan *godbus.Call, n)
	for i := range n {
		op := []string{"HT.Off", "HT.On"}[i%2]
		host.Go(propsIface+".Set", 0, replies, hostName, "RequestedHostTransition", godbus.MakeVariant(shorts.Replace(op)))
	}
	for range n {
		select {
		case c := <-replies:
			require.NoError(t, c.Err)
		case <-time.After(patience):
			require.FailNow(t, "a write was not answered")
		}
	}
	all := d.history(0)
	require.Len(t, all, n)
	for i, r := range all {
		require.Equal(t, shorts.Replace([]string{"HT.Off", "HT.On"}[i%2]), r["Transition"].Value(), "request %d", i)
	}
	require.NoError(t, d.cset("Off"), "Chassis Off is exempt from every bound, and ends what waits")
	d.idle()
}

// TestFiftyClientsDuringStart reads, introspects and writes from 50 clients
// while the daemon comes up; it is built with the race detector.
func TestFiftyClientsDuringStart(t *testing.T) {
	statetest.Covers(t, "B45")
	d := prepare(t, crowded)
	var clients sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(stop)
		clients.Wait()
	})
	defer end()
	for i := range 50 {
		conn := d.bus.Connect(t)
		clients.Go(func() {
			host := conn.Object(hostName, hostPath)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				// Before the start these fail; what counts is that none hangs
				// and the daemon lives.
				switch (i + n) % 4 {
				case 0:
					_, _ = host.GetProperty(hostName + ".CurrentHostState")
				case 1:
					_ = host.Call("org.freedesktop.DBus.Introspectable.Introspect", 0).Err
				case 2:
					_ = conn.Object(hostName, "/xyz/openbmc_project/state").Call("org.freedesktop.DBus.ObjectManager.GetManagedObjects", 0).Err
				case 3:
					_ = host.SetProperty(hostName+".RestartCause", godbus.MakeVariant(shorts.Replace("RC.PowerButton")))
				}
			}
		})
	}
	d.start()
	require.NoError(t, d.hset("On"))
	d.untilHost("Running")
	end()
	require.Zero(t, d.stop())
}

// TestABadClientDisturbsNobody: one that never reads, one that floods with
// refused writes, one that goes away in the middle of a call.
func TestABadClientDisturbsNobody(t *testing.T) {
	d := boot(t, crowded)
	stop := make(chan struct{})
	var bad sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(stop)
		bad.Wait()
	})
	defer end()
	flood := d.bus.Connect(t)
	bad.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			host := flood.Object(hostName, hostPath)
			_ = host.SetProperty(hostName+".RequestedHostTransition", godbus.MakeVariant("nonsense"))
			_ = host.Call("org.freedesktop.DBus.Introspectable.Introspect", 0).Err
			_, _ = host.GetProperty(hostName + ".CurrentHostState")
		}
	})
	bad.Go(func() {
		for n := range 30 {
			select {
			case <-stop:
				return
			default:
			}
			conn := d.bus.Connect(t)
			for range 20 {
				conn.Object(hostName, hostPath).Go(propsIface+".Set", 0, make(chan *godbus.Call, 1), hostName, "RestartCause",
					godbus.MakeVariant(shorts.Replace("RC.PowerButton")))
			}
			_ = n
			_ = conn.Close()
		}
	})
	for range 3 {
		require.NoError(t, d.hset("On"))
		d.untilHost("Running")
		d.idle()
		require.NoError(t, d.hset("Off"))
		d.untilHost("Off")
		d.idle()
	}
	end()
	require.Equal(t, uint64(6), d.launches())
}

// TestSubmitRepeatsAnswerTheStoredStatus uses busctl alone, as an operator does.
func TestSubmitRepeatsAnswerTheStoredStatus(t *testing.T) {
	d := boot(t, "")
	d.stimulate(gpio.Stimulus{Do: gpio.DoFaults, Faults: &gpio.Faults{NeverPowerGood: true}})
	submit := func(request, transition string) string {
		return d.bus.Busctl(t, "call", queueName, queuePath, queueName, "Submit", "sssa{sv}", "test-1", request, shorts.Replace(transition), "0")
	}
	check := func(request, transition, status string, repeated bool) {
		t.Helper()
		out := submit(request, transition)
		require.True(t, strings.HasPrefix(out, `sob "xyz.openbmc_project.State.TransitionRequest.Status.`+status+`" "`), out)
		require.True(t, strings.HasSuffix(out, fmt.Sprint(" ", repeated)), out)
	}
	require.Contains(t, submit("a", "HT.On"), queuePath+"/request/")
	d.eventually("the launch", func() bool { return strings.Contains(submit("a", "HT.On"), "Status.Running") })
	check("a", "HT.On", "Running", true)
	check("b", "HT.Off", "Pending", false)
	check("b", "HT.Off", "Pending", true)
	require.Equal(t, uint64(1), d.launches())
	d.stimulate(gpio.Stimulus{Do: gpio.DoFaults})
	d.stimulate(gpio.Stimulus{Do: gpio.DoWake}) // what the press leads to
	d.idle()
	d.untilHost("Off")
	check("a", "HT.On", "Success", true)
	check("b", "HT.Off", "Success", true)
	require.Zero(t, d.stop())
	d.start()
	check("a", "HT.On", "Success", true)
	check("b", "HT.Off", "Success", true)
	require.Equal(t, uint64(2), d.launches())
	out := d.bus.Run(t, "busctl", "--system", "call", queueName, queuePath, queueName, "Submit", "sssa{sv}", "test-1", "a", shorts.Replace("HT.Off"), "0")
	require.NotZero(t, out.Exit)
	require.Contains(t, out.Stderr, "use a new request id")
	// What takes long to judge is Pending first.
	d.eventually("a no-op", func() bool { return strings.Contains(submit("c", "HT.Off"), `Status.Noop" "/" `) })
	require.Equal(t, uint64(2), d.launches())
}

func TestWrongConfigurationServesAndDrivesNothing(t *testing.T) {
	d := prepare(t, "{\n  \"policy\": \"FIFO_DEDUP\",\n  \"intervl\": 3\n}")
	d.args = nil
	d.start()
	d.untilLog(":3:3")
	d.untilLog("intervl")
	err := d.hset("On")
	require.Equal(t, "xyz.openbmc_project.Common.Error.Unavailable", errorName(err))
	require.Contains(t, fmt.Sprint(err), "driven")
	require.Equal(t, shorts.Replace("HT.Off"), d.get(hostName, hostPath, hostName, "RequestedHostTransition"))

	bin, err2 := binary()
	require.NoError(t, err2)
	out := d.bus.Run(t, bin, "--check-config", "--config", d.config)
	require.Equal(t, 78, out.Exit)
	require.Contains(t, out.Stderr, "intervl")
}

// TestCheckConfigReadsTheBoardFiles: a host that is to be driven by lines needs
// the file that names them.
func TestCheckConfigReadsTheBoardFiles(t *testing.T) {
	d := prepare(t, "")
	bin, err := binary()
	require.NoError(t, err)
	dir := t.TempDir()
	d.config = filepath.Join(dir, "bmcstate.json")
	file := filepath.Join(dir, "power-config-host0.json")
	check := func(executor string) dbustest.Output {
		require.NoError(t, os.WriteFile(d.config, fmt.Appendf(nil, `{"executor": %q, "powerConfigDir": %q}`, executor, dir), 0o600))
		return d.bus.Run(t, bin, "--check-config", "--config", d.config)
	}
	require.Equal(t, 0, check("auto").Exit)
	out := check("gpio")
	require.Equal(t, 78, out.Exit)
	require.Contains(t, out.Stderr, file)
	require.NoError(t, os.WriteFile(file, []byte(`{"gpio_configs": [}`), 0o600))
	out = check("auto")
	require.Equal(t, 78, out.Exit)
	require.Contains(t, out.Stderr, file)
}

func TestAnUnreadableConfigurationIsNamed(t *testing.T) {
	d := prepare(t, "")
	d.config = "/no/such/bmcstate.json"
	d.args = nil
	d.start()
	d.untilLog("/no/such/bmcstate.json")
}
