package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStatusLine(t *testing.T) {
	busy := domainStatus{name: "domain 0", running: "Host On", by: "bmcweb/42"}
	tests := map[string]struct {
		snapshot
		want string
	}{
		"nothing to do": {snapshot{domains: []domainStatus{{name: "domain 0"}}}, "serving"},
		"starting":      {snapshot{phase: "starting"}, "starting"},
		"an operation":  {snapshot{domains: []domainStatus{busy}}, "domain 0: Host On for bmcweb/42"},
		"two domains": {snapshot{domains: []domainStatus{busy, {name: "domain 1"}, {name: "BMC", running: "BMC Reboot"}}},
			"domain 0: Host On for bmcweb/42; BMC: BMC Reboot"},
		"not confirmed": {snapshot{domains: []domainStatus{{name: "domain 0", running: "Host On", unknown: true, waiting: 2}}},
			"domain 0: Host On, not confirmed yet, 2 waiting"},
		"waiting only": {snapshot{domains: []domainStatus{{name: "domain 3", waiting: 1}}}, "domain 3: 1 waiting"},
		"wrong configuration": {snapshot{problems: []string{"nothing is driven: /etc/bmcstate/bmcstate.json:3:12: policy: unknown"}},
			"nothing is driven: /etc/bmcstate/bmcstate.json:3:12: policy: unknown"},
		"what is wrong comes first": {
			snapshot{
				storage: "fsync: no space left on device", problems: []string{"the state directory does not survive power loss: /run is on tmpfs"},
				domains: []domainStatus{{name: "domain 0", stuck: "line POWER_OUT did not answer", running: "Chassis Off"}},
			},
			"requests are refused: fsync: no space left on device; domain 0 got stuck: line POWER_OUT did not answer; " +
				"the state directory does not survive power loss: /run is on tmpfs; domain 0: Chassis Off"},
		"one line": {snapshot{storage: "a\nb"}, "requests are refused: a b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, statusLine(tc.snapshot)) })
	}
	long := statusLine(snapshot{problems: []string{strings.Repeat("ä", statusLimit)}})
	assert.Equal(t, strings.Repeat("ä", statusLimit/2)+"…", long)
}
