package systemd

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJournalFields(t *testing.T) {
	r := logRecord{message: "ended", attrs: []slog.Attr{
		slog.String(LogMessageID, MsgEnded), slog.String(LogRequest, "ctl/7"), slog.String(LogTransition, "Host On"),
		slog.String("g.unit", "a.service"),
	}}
	assert.Equal(t, `ended request=ctl/7 transition="Host On" g.unit=a.service`, r.line())
	assert.Equal(t, map[string]string{
		"SYSLOG_IDENTIFIER": "bmcstated", "MESSAGE_ID": MsgEnded, "BMCSTATE_REQUEST": "ctl/7",
		"BMCSTATE_TRANSITION": "Host On", "BMCSTATE_G_UNIT": "a.service",
	}, r.fields())
	assert.Len(t, fieldName(strings.Repeat("x", 100)), 64)
	assert.Equal(t, "REDFISH_MESSAGE_ID", fieldName(LogRedfish))
}
