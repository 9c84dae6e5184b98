package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/state"
)

// A job that somebody else queued in the moment of our call looks like one that
// our call brought along, unless it does the opposite.
func TestJobsThatNoCallOfOursBrings(t *testing.T) {
	tests := []struct {
		op     state.Operation
		parent string
		want   bool
	}{
		{state.HostOn, "obmc-chassis-hard-poweroff@0.target", true},
		{state.ChassisOn, "obmc-host-shutdown@0.target", true},
		{state.ChassisOff, "obmc-host-start@0.target", true},
		{state.ChassisOff, "obmc-chassis-hard-poweroff@0.target", false},
		{state.HostOn, "obmc-host-start@0.target", false},
		{state.ChassisOff, "obmc-host-reboot@0.target", false},
		{state.HostOn, "obmc-host-reboot@0.target", false},
		{state.HostOn, "", false},
		{state.HostOn, "bmcstate-lines-on@0.service", false},
	}
	for _, tc := range tests {
		assert.Equal(t, tc.want, contradicts(tc.op, tc.parent), "%s by %q", tc.op, tc.parent)
	}
}
