package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func cli(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestPaperCommand(t *testing.T) {
	code, one, _ := cli("paper", "--workers", "1")
	assert.Equal(t, exitOK, code)
	assert.True(t, strings.HasSuffix(one, "\n28 of 28 EXACT\n"))
	_, three, _ := cli("paper", "--workers", "3")
	assert.Equal(t, one, three, "the same whatever the parallelism")
}

const s2 = "testdata/trace_S2_seed1000.csv"

func TestRunCommand(t *testing.T) {
	code, text, stderr := cli("run", "--trace", s2, "--policy", "FIFO_DEDUP")
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, text, "FIFO_DEDUP  80.33  0.00    6.54")

	_, text, _ = cli("run", "--trace", s2, "--csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	expected, err := os.ReadFile("testdata/expected_S2_seed1000.csv")
	require.NoError(t, err)
	want, err := csv.NewReader(bytes.NewReader(expected)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, len(want))
	for i := range want {
		assert.Equal(t, want[i], rows[i][:len(want[i])], "the first columns are those of the reference")
	}

	_, text, _ = cli("run", "--trace", s2, "--policy", "CHECK,FIFO", "--json")
	var parsed []map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &parsed))
	require.Len(t, parsed, 2)
	assert.Equal(t, "FIFO", parsed[1]["policy"])
	assert.EqualValues(t, 200, parsed[1]["launches"])
}

func TestRunOptionsMatter(t *testing.T) {
	_, plain, _ := cli("run", "--trace", s2, "--policy", "FIFO_DEDUP", "--csv")
	for _, option := range [][]string{
		{"--depth", "1"}, {"--share", "1"}, {"--retry-after-invalid"}, {"--reboot-when-off"}, {"--pending-ttl", "2"},
		{"--on", "6"}, {"--off", "4"}, {"--reboot", "9"}, {"--unknown-after", "4"}, {"--history-ttl", "5"},
		{"--history-max", "10"}, {"--history-max", "2", "--repeat-window", "1"},
		{"--crash-every", "50", "--down", "3"}, {"--crash-at", "30,60.5", "--down", "8", "--crash-boot", "other"},
		{"--crash-every", "50", "--no-journal"},
	} {
		code, changed, stderr := cli(append([]string{"run", "--trace", s2, "--policy", "FIFO_DEDUP", "--csv"}, option...)...)
		require.Equal(t, exitOK, code, stderr)
		assert.NotEqual(t, plain, changed, option)
	}
}

func TestGenerateCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	code, _, stderr := cli("generate", "--lambda", "0.2", "--p", "0.3", "--seed", "1000", "--out", file)
	require.Equal(t, exitOK, code, stderr)
	_, ours, _ := cli("run", "--trace", file, "--csv")
	_, theirs, _ := cli("run", "--trace", s2, "--csv")
	assert.Equal(t, theirs, ours)

	_, text, _ := cli("generate", "--requests", "50", "--clients", "1", "--mix", "Chassis Off=1,Host On=0")
	assert.NotContains(t, text, "ON")
	assert.Contains(t, text, ",0,49,Chassis Off,")
}

func TestPlotCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "picture")
	for _, args := range [][]string{
		{"--trace", s2, "--policy", "DEDUP", "--crash-every", "100", "--down", "9"},
		{"--trace", s2, "--depth", "1", "--from", "100", "--to", "200"},
		nil,
	} {
		code, _, stderr := cli(append([]string{"plot", "--out", out}, args...)...)
		require.Equal(t, exitOK, code, stderr)
		svg, err := os.ReadFile(out + ".svg")
		require.NoError(t, err)
		assert.Contains(t, string(svg), "</svg>")
		f, err := os.Open(out + ".png")
		require.NoError(t, err)
		picture, err := png.Decode(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		assert.Greater(t, picture.Bounds().Dx(), 1000)
	}
}

func TestBadCommandLines(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short.csv")
	require.NoError(t, os.WriteFile(short, []byte("arrival_u\n"), 0o600))
	cases := []struct {
		args string
		want string
	}{
		{"fly", `unknown command "fly"`},
		{"paper extra", `command line: argument: "extra": allowed are flags only`},
		{"paper --workers -1", `command line: --workers: "-1": allowed is a whole number from 0, which means unlimited`},
		{"run", `command line: --trace: "": needed is a CSV file, or - for the standard input`},
		{"run --trace /no/such/file", `no such file`},
		{"run --trace " + short, short + `:1: header: "arrival_u": column client_id is missing`},
		{"run --trace " + s2 + " --policy LIFO", `command line: --policy: "LIFO": allowed is a list of CHECK, DEDUP, FIFO, FIFO_DEDUP, or all`},
		{"run --trace " + s2 + " --on NaN", `command line: --on: "NaN": allowed is a number from 0 to 1e9`},
		{"run --trace " + s2 + " --on x", `invalid value "x" for flag -on`},
		{"run --trace " + s2 + " --json --csv", `command line: --json: "--csv": allowed is one of the two`},
		{"run --trace " + s2 + " --crash-at 5,4", `command line: --crash-at: "4": allowed are numbers of u from 0 to 1e9, rising`},
		{"run --trace " + s2 + " --crash-at 5 --crash-every 4", `allowed is one of --crash-at and --crash-every`},
		{"run --trace " + s2 + " --crash-every 0.000001", `that gives more than a million crashes`},
		{"run --trace " + s2 + " --crash-boot new", `command line: --crash-boot: "new": allowed is same or other`},
		{"generate --lambda 0", `command line: --lambda: "0": allowed is a number above 0, at most 1e6`},
		{"generate --lambda NaN", `command line: --lambda: "NaN": allowed is a number above 0, at most 1e6`},
		{"generate --p 2", `command line: --p: "2": allowed is a probability from 0 to 1`},
		{"generate --mix ON=-1", `command line: --mix: "ON=-1": allowed is OPERATION=WEIGHT with a weight from 0 to 1e9`},
		{"generate --mix UP=1", `command line: --mix: "UP=1": allowed is one of ON, OFF, REBOOT`},
		{"plot", `command line: --out: "": needed is a file name without its ending`},
		{"plot --out x --trace " + s2 + " --policy all", `allowed is one policy for a time line`},
		{"plot --out x --trace " + s2 + " --from 9 --to 3", `command line: --to: "3": allowed is a time after --from`},
	}
	for _, c := range cases {
		code, stdout, stderr := cli(strings.Fields(c.args)...)
		assert.Equal(t, exitUsage, code, c.args)
		assert.Empty(t, stdout, c.args)
		assert.Contains(t, stderr, c.want, c.args)
	}
}

func TestHelp(t *testing.T) {
	code, stdout, _ := cli("--help")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "generate")
	code, _, stderr := cli()
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "usage:")
	code, _, stderr = cli("run", "--help")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stderr, "-retry-after-invalid")
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	code, _, stderr := cli("generate", "--out", filepath.Join(t.TempDir(), "no", "such", "dir.csv"))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "no such file or directory")
}

// TestStudyIsTheDocumentation: the tables of the documentation page are what the
// command prints today.
func TestStudyIsTheDocumentation(t *testing.T) {
	code, text, stderr := cli("study")
	require.Equal(t, exitOK, code, stderr)
	page, err := os.ReadFile("doc/README.md")
	require.NoError(t, err)
	for _, table := range strings.Split(strings.TrimSpace(text), "\n\n") {
		assert.Contains(t, string(page), table)
	}
}
