//go:build bed1 || bed5

package cases

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// signal is one entry of gpio_configs, or of one of our own lists.
type signal map[string]any

// setup is the configuration of one case.
type setup struct {
	signals map[string]signal // by signal name
	own     map[string]signal // sequence_gpio_configs, likewise
	powerOn []signal          // power_on_sequence
	timings map[string]int    // timing_configs
	events  map[string]any    // event_configs
	daemon  map[string]any    // bmcstate.json
	host    int               // whose lines these are
	on      bool              // the host runs when the daemon starts
	unit    string            // a drop-in for the daemon's unit
}

func gpioSignal(line, polarity string) signal {
	return signal{"LineName": line, "Type": "GPIO", "Polarity": polarity}
}

// stock is x86-power-control's default wiring without SIO, with times that fit
// the boards of both beds.
func stock() setup {
	return setup{
		signals: map[string]signal{
			"PowerOut":     gpioSignal("POWER_OUT", "ActiveLow"),
			"ResetOut":     gpioSignal("RESET_OUT", "ActiveLow"),
			"NMIOut":       gpioSignal("NMI_OUT", "ActiveHigh"),
			"PowerOk":      gpioSignal("PS_PWROK", "ActiveHigh"),
			"PostComplete": gpioSignal("POST_COMPLETE", "ActiveLow"),
			"PowerButton":  gpioSignal("POWER_BUTTON", "ActiveLow"),
			"ResetButton":  gpioSignal("RESET_BUTTON", "ActiveLow"),
			"NMIButton":    gpioSignal("NMI_BUTTON", "ActiveLow"),
			"IdButton":     gpioSignal("ID_BUTTON", "ActiveLow"),
		},
		timings: map[string]int{
			"PowerPulseMs": 200, "ForceOffPulseMs": 6000, "ResetPulseMs": 200, "PowerCycleMs": 500,
			"PowerOKWatchdogMs": 4000, "GracefulPowerOffS": 4, "WarmResetCheckMs": 300, "PowerOffSaveMs": 500,
		},
		daemon: map[string]any{"gracefulTimeout": "4s", "confirmTimeout": "8s", "reconcileTimeout": "2s"},
	}
}

// dropIn is where a case changes the daemon's unit.
const dropIn = "/run/systemd/system/bmcstated.service.d"

// installed is the order that writes a configuration where the daemon looks for
// it.
func installed(t *testing.T, s setup) string {
	t.Helper()
	var file struct {
		Signals []signal       `json:"gpio_configs"`
		Timings map[string]int `json:"timing_configs"`
		Events  map[string]any `json:"event_configs,omitempty"`
		Own     []signal       `json:"sequence_gpio_configs,omitempty"`
		PowerOn []signal       `json:"power_on_sequence,omitempty"`
	}
	file.Timings, file.Events, file.PowerOn = s.timings, s.events, s.powerOn
	file.Signals, file.Own = named(s.signals), named(s.own)
	power, err := json.Marshal(file)
	require.NoError(t, err)
	daemon, err := json.Marshal(s.daemon)
	require.NoError(t, err)
	order := logFromNow + "; mkdir -p /etc/bmcstate /usr/share/x86-power-control; rm -f /usr/share/x86-power-control/*" +
		here(fmt.Sprintf("/usr/share/x86-power-control/power-config-host%d.json", s.host), string(power)) +
		here("/etc/bmcstate/bmcstate.json", string(daemon))
	// systemd reads all its units again, which takes an emulated machine seconds:
	// only where something changes.
	if s.unit == "" {
		return order + "! rm " + dropIn + "/bed.conf 2>/dev/null || systemctl daemon-reload"
	}
	return order + "mkdir -p " + dropIn + here(dropIn+"/bed.conf", s.unit) + "systemctl daemon-reload"
}

// named puts the names into the entries.
func named(signals map[string]signal) []signal {
	var all []signal
	for name, s := range signals {
		s["Name"] = name
		all = append(all, s)
	}
	return all
}

// here is the part of an order that writes a file.
func here(file, text string) string {
	return "\ncat >" + file + " <<'EOF'\n" + text + "\nEOF\n"
}

// forget removes what an earlier case left.
const forget = "rm -rf /var/lib/bmcstate /run/bmcstate\n"

// start installs a configuration and starts the daemon. It is stopped with the
// test, and its log is shown when that has failed.
func (b *bmc) start(t *testing.T, s setup) {
	t.Helper()
	t.Cleanup(func() { b.stop(t) })
	b.sh(t, forget+installed(t, s)+"\nsystemctl start bmcstated || exit\n"+watch)
	if s.on {
		b.await(t, chassisState, "On")
	} else {
		b.await(t, chassisState, "Off")
	}
}

func (b *bmc) stop(t *testing.T) {
	t.Helper()
	_, err := b.try(t, unwatch+"systemctl stop bmcstated; systemctl reset-failed bmcstated 2>/dev/null; true")
	if t.Failed() {
		text, _ := b.try(t, log+" -n 40")
		t.Logf("the daemon's log:\n%s\n(%v)", text, err)
	}
}
