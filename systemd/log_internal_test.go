package systemd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bmcstate/bmcstate/state/slog"
)

func TestJournalFields(t *testing.T) {
	r := slog.Record{Message: "ended", Attrs: []slog.Attr{
		slog.String(LogMessageID, MsgEnded), slog.String(LogRequest, "ctl/7"), slog.String(LogTransition, "Host On"),
		slog.String("g.unit", "a.service"),
	}}
	assert.Equal(t, `ended request=ctl/7 transition="Host On" g.unit=a.service`, lineOf(r))
	assert.Equal(t, map[string]string{
		"SYSLOG_IDENTIFIER": "bmcstated", "MESSAGE_ID": MsgEnded, "BMCSTATE_REQUEST": "ctl/7",
		"BMCSTATE_TRANSITION": "Host On", "BMCSTATE_G_UNIT": "a.service",
	}, fieldsOf(r))
	assert.Len(t, fieldName(strings.Repeat("x", 100)), 64)
	assert.Equal(t, "REDFISH_MESSAGE_ID", fieldName(LogRedfish))
}
