package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	f, err := parseFlags(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, defaultFlags(), f)

	f, err = parseFlags([]string{"--config", "a=b", "-state-dir=s", "--run-dir=", "-simulate", "--version=false", "--check-config=true", "--release-lines"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, flags{config: "a=b", simulate: true, stateDir: "s", checkConfig: true, releaseLines: true}, f)

	for arg, want := range map[string]string{
		"--no-such-flag":  "flag provided but not defined: --no-such-flag",
		"--config":        "flag needs an argument: --config FILE",
		"--simulate=much": `invalid value "much" for --simulate`,
		"extra":           `unexpected argument "extra"`,
		"-":               `unexpected argument "-"`,
		"--":              `unexpected argument "--"`,
		"":                `unexpected argument ""`,
	} {
		var out bytes.Buffer
		_, err := parseFlags([]string{"--simulate", arg}, &out)
		require.ErrorContains(t, err, want)
		assert.Equal(t, exitUsage, usageCode(err))
		assert.Contains(t, out.String(), "usage: bmcstated")
	}
	for _, arg := range []string{"-h", "--help"} {
		var out bytes.Buffer
		_, err := parseFlags([]string{arg}, &out)
		assert.Equal(t, exitOK, usageCode(err))
		assert.Contains(t, out.String(), "  --state-dir DIR\n    \tDIRectory of the journal; must survive power loss (default \"/var/lib/bmcstate\")\n")
	}
}
