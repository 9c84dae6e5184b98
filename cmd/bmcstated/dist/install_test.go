package dist_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// programs returns a directory with something in the place of the programs.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, p := range []string{"bmcstated", "bmcstatectl"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, p), []byte(p), 0o755))
	}
	return bin
}

func installer(t *testing.T, verb string, env ...string) {
	t.Helper()
	cmd := exec.Command("make", "-C", "../../..", "--no-print-directory", verb)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// tree lists what is below a directory: files with their permissions, and
// directories with a slash.
func tree(t *testing.T, root string) map[string]fs.FileMode {
	t.Helper()
	all := map[string]fs.FileMode{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		name := strings.TrimPrefix(path, root)
		if d.IsDir() {
			name += "/"
		}
		all[name] = info.Mode().Perm()
		return err
	}))
	return all
}

func TestInstallAndUninstall(t *testing.T) {
	for _, prefix := range []string{"/usr", "/opt/bmc"} {
		t.Run(prefix, func(t *testing.T) {
			root := t.TempDir()
			env := []string{"DESTDIR=" + root, "PREFIX=" + prefix, "BIN=" + programs(t)}
			installer(t, "install", env...)
			got := tree(t, filepath.Join(root, prefix))
			want := map[string]fs.FileMode{
				"/bin/bmcstated": 0o755, "/bin/bmcstatectl": 0o755,
				"/lib/systemd/system/bmcstated.service": 0o644, "/share/dbus-1/system.d/bmcstated.conf": 0o644,
				"/lib/tmpfiles.d/bmcstate.conf": 0o644, "/share/doc/bmcstate/examples/probes-net.conf": 0o644,
			}
			targets, err := os.ReadDir("../../../systemd/targets")
			require.NoError(t, err)
			assert.Greater(t, len(targets), 40)
			for _, u := range targets {
				want["/lib/systemd/system/"+u.Name()] = 0o644
			}
			files := map[string]fs.FileMode{}
			for name, mode := range got {
				if !strings.HasSuffix(name, "/") {
					files[name] = mode
				}
			}
			assert.Equal(t, want, files)
			for name := range files {
				if strings.HasSuffix(name, ".service") {
					text, err := os.ReadFile(filepath.Join(root, prefix, name))
					require.NoError(t, err)
					if prefix != "/usr" {
						assert.NotContains(t, string(text), "/usr/bin/bmcstate", name)
					}
				}
			}

			foreign := filepath.Join(root, prefix, "lib/systemd/system/other.service")
			require.NoError(t, os.WriteFile(foreign, nil, 0o644))
			installer(t, "uninstall", env...)
			assert.Equal(t, map[string]fs.FileMode{"/lib/": 0o755, "/lib/systemd/": 0o755, "/lib/systemd/system/": 0o755, "/lib/systemd/system/other.service": 0o644},
				tree(t, filepath.Join(root, prefix)), "nothing but what others have put there")
		})
	}
}

func TestInstallWithoutPrograms(t *testing.T) {
	cmd := exec.Command("./install.sh", "install")
	cmd.Env = append(os.Environ(), "DESTDIR="+t.TempDir(), "BIN="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "run make build")
}

// The directories exist with the rights that the daemon gives them.
func TestTmpfiles(t *testing.T) {
	tool, err := exec.LookPath("systemd-tmpfiles")
	if err != nil {
		t.Skipf("no systemd-tmpfiles: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("owners can be set by root only")
	}
	root := t.TempDir()
	out, err := exec.Command(tool, "--root="+root, "--create", mustAbs(t, "bmcstate.tmpfiles")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	got := tree(t, root)
	assert.Equal(t, fs.FileMode(0o755), got["/run/bmcstate/"])
	assert.Equal(t, fs.FileMode(0o755), got["/run/openbmc/"])
	assert.Equal(t, fs.FileMode(0o700), got["/var/lib/bmcstate/"])
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	require.NoError(t, err)
	return path
}
