// Package dist_test checks the files that make bmcstated a service.
package dist_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/dbus/openbmc"
)

const unit = "bmcstated.service"

// instances is how many hosts and chassis the policy file provides for.
const instances = 16

func exposure(t *testing.T, unitFile string) float64 {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze") //nolint:misspell // the program is called so
	if err != nil {
		t.Skipf("no systemd to ask: %v", err)
	}
	out, err := exec.Command(tool, "security", "--offline=true", "--no-pager", unitFile).CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	level, err := strconv.ParseFloat(string(m[1]), 64)
	require.NoError(t, err)
	t.Logf("exposure %.1f", level)
	return level
}

// install copies the unit and drop-ins to where systemd finds them together.
func install(t *testing.T, dropIns ...string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(from, to string) {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, text, 0o644))
	}
	put(unit, filepath.Join(dir, unit))
	for _, d := range dropIns {
		put(d, filepath.Join(dir, unit+".d", d))
	}
	return filepath.Join(dir, unit)
}

func TestExposure(t *testing.T) {
	plain := exposure(t, install(t))
	assert.LessOrEqual(t, plain, 1.5)
	net := exposure(t, install(t, "probes-net.conf"))
	assert.LessOrEqual(t, net, 2.0)
	assert.Greater(t, net, plain, "the drop-in was not read")
}

// directives returns the unit file's settings; repeated keys keep every value.
func directives(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(unit)
	require.NoError(t, err)
	all := map[string][]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			all[key] = append(all[key], value)
		}
	}
	return all
}

func TestServiceKeepsItsPromises(t *testing.T) {
	d := directives(t)
	for key, want := range map[string]string{
		"Type":                        "notify",
		"Restart":                     "always",
		"StartLimitIntervalSec":       "0",
		"StateDirectory":              "bmcstate",
		"RuntimeDirectoryPreserve":    "yes",
		"FileDescriptorStorePreserve": "yes",
		"DeviceAllow":                 "char-gpiochip rw",
		"RestrictAddressFamilies":     "AF_UNIX",
	} {
		assert.Equal(t, []string{want}, d[key], key)
	}
	assert.Equal(t, []string{"-/usr/bin/bmcstated --release-lines", "/usr/bin/bmcstated --release-lines"}, d["ExecStopPost"],
		"a first attempt that fails does not keep the second from releasing")
	assert.Contains(t, strings.Fields(d["RuntimeDirectory"][0]), "bmcstate")
	assert.NotEmpty(t, d["WatchdogSec"])
	assert.NotEmpty(t, d["FileDescriptorStoreMax"])
	assert.Contains(t, d["Environment"][0], "GOMEMLIMIT=")
}

type policy struct {
	User    string `xml:"user,attr"`
	Context string `xml:"context,attr"`
	Allow   []struct {
		Own  string `xml:"own,attr"`
		Send string `xml:"send_destination,attr"`
	} `xml:"allow"`
	Deny []struct{} `xml:"deny"`
}

func TestPolicyCoversEveryName(t *testing.T) {
	text, err := os.ReadFile("bmcstated.conf")
	require.NoError(t, err)
	var doc struct {
		Policies []policy `xml:"policy"`
	}
	require.NoError(t, xml.Unmarshal(text, &doc))
	own, send := map[string]bool{}, map[string]bool{}
	for _, p := range doc.Policies {
		assert.Empty(t, p.Deny)
		for _, a := range p.Allow {
			if a.Own != "" {
				assert.Equal(t, "root", p.User, "only root owns %s", a.Own)
				own[a.Own] = true
			}
			if a.Send != "" {
				assert.Equal(t, "default", p.Context, "everyone reads %s", a.Send)
				send[a.Send] = true
			}
		}
	}
	assert.Equal(t, own, send)
	names := []string{"xyz.openbmc_project.State.FaultMonitor", openbmc.IfaceHypervisor, "xyz.openbmc_project.Settings"}
	for _, iface := range []string{openbmc.IfaceBMC, openbmc.IfaceQueue, openbmc.IfaceHost, openbmc.IfaceChassis, openbmc.IfaceSchedule,
		openbmc.IfaceButtons, openbmc.IfaceNMI, openbmc.IfaceRestartCause, openbmc.OSService} {
		for i := range instances {
			names = append(names, openbmc.ServiceNames(iface, i)...)
		}
	}
	for _, n := range names {
		assert.True(t, own[n], n)
	}
}
