package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/peers"
	"github.com/bmcstate/bmcstate/state/jsonpos"
	"github.com/bmcstate/bmcstate/state/slog"
)

// The spool of the event log and the kept failures as they were written when
// this test was.
const (
	olderSpool = `[{"message":"xyz.A","critical":true,"notice":true,"data":{"K":"v"},"dump":true}]`
	olderKept  = `{"quiesced":true,"failed":{"a.service":"1"}}`
)

func TestKeptFilesOfOlderAndNewerDaemons(t *testing.T) {
	spool := []peers.Entry{{Message: "xyz.A", Critical: true, Notice: true, Data: map[string]string{"K": "v"}, Dump: true}}
	kept := criticalKept{Quiesced: true, Failed: map[string]string{"a.service": "1"}}
	assert.Equal(t, olderSpool, string(jsonpos.Marshal(spool)), "an older daemon reads it")
	assert.Equal(t, olderKept, string(jsonpos.Marshal(kept)), "an older daemon reads it")

	for _, c := range []struct {
		name, text string
		to         any
		want       any
	}{
		{"older spool", olderSpool, new([]peers.Entry), &spool},
		{"newer fields of the spool", strings.Replace(olderSpool, `{"m`, `{"new":[1],"m`, 1), new([]peers.Entry), &spool},
		{"fields of the spool missing", `[{"message":"xyz.A"}]`, new([]peers.Entry), &[]peers.Entry{{Message: "xyz.A"}}},
		{"older failures", olderKept, new(criticalKept), &kept},
		{"newer fields of the failures", strings.Replace(olderKept, `{"q`, `{"new":{},"q`, 1), new(criticalKept), &kept},
		{"fields of the failures missing", `{"failed":{"a.service":"1"}}`, new(criticalKept), &criticalKept{Failed: kept.Failed}},
	} {
		path := filepath.Join(t.TempDir(), "kept.json")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		var log strings.Builder
		readKept(path, c.to, slog.New(slog.NewTextHandler(&log, slog.LevelInfo)))
		assert.Equal(t, c.want, c.to, c.name)
		assert.Empty(t, log.String(), c.name)
		assert.FileExists(t, path, c.name)
	}
}

// A file that is damaged, or of a form that this daemon does not know, is set
// aside and told of; what is kept next does not overwrite it.
func TestUnreadableKeptFileIsSetAside(t *testing.T) {
	for _, text := range []string{"", "[{", `{"version":2,"entries":[]}`, `[{"message":7}]`} {
		path := filepath.Join(t.TempDir(), "events.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, slog.LevelInfo))
		var got []peers.Entry
		readKept(path, &got, log)
		keepFile(path, []peers.Entry{{Message: "xyz.B"}}, log)
		assert.Empty(t, got, text)
		assert.Contains(t, said.String(), path, text)
		assert.Contains(t, said.String(), "set aside", text)
		aside, err := os.ReadFile(path + ".unreadable")
		require.NoError(t, err, text)
		assert.Equal(t, text, string(aside))
		said.Reset()
		readKept(path, &got, log)
		assert.Equal(t, []peers.Entry{{Message: "xyz.B"}}, got)
		assert.Empty(t, said.String(), text)
	}
	var said strings.Builder
	readKept(filepath.Join(t.TempDir(), "none"), new(criticalKept), slog.New(slog.NewTextHandler(&said, slog.LevelInfo)))
	assert.Empty(t, said.String())
}
