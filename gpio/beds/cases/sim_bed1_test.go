//go:build bed1

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// simRoot is where the kernel takes orders for simulated chips.
const simRoot = "/sys/kernel/config/gpio-sim"

// chip is a gpio-sim chip: the far end of its lines are files in sysfs. It
// satisfies the board's Wires.
type chip struct {
	label string
	names []string

	mu   sync.Mutex
	dir  string         // of its lines in sysfs
	dev  string         // for example gpiochip0
	at   map[string]int // line name → offset
	open map[string]*os.File
}

// newChip makes a chip that is gone with the test.
func newChip(t *testing.T, label string, names ...string) *chip {
	t.Helper()
	c := &chip{label: label, names: names, at: map[string]int{}, open: map[string]*os.File{}}
	for i, name := range names {
		c.at[name] = i
	}
	bank := filepath.Join(c.config(), "bank0")
	require.NoError(t, os.MkdirAll(bank, 0o755))
	t.Cleanup(func() { c.destroy(t) })
	write(t, bank+"/num_lines", fmt.Sprint(len(names)))
	write(t, bank+"/label", label)
	for i, name := range names {
		line := fmt.Sprintf("%s/line%d", bank, i)
		require.NoError(t, os.Mkdir(line, 0o755))
		write(t, line+"/name", name)
	}
	c.plug(t)
	return c
}

func (c *chip) config() string { return filepath.Join(simRoot, c.label) }

// plug brings the chip to life. Every line is pulled high, which is how a board
// leaves a button's line alone.
func (c *chip) plug(t *testing.T) {
	t.Helper()
	write(t, c.config()+"/live", "1")
	c.mu.Lock()
	c.dev = read(t, c.config()+"/bank0/chip_name")
	c.dir = filepath.Join("/sys/devices/platform", read(t, c.config()+"/dev_name"), c.dev)
	c.mu.Unlock()
	for _, name := range c.names {
		require.NoError(t, c.Drive(name, true))
	}
}

// unplug takes the chip away, under whoever uses it.
func (c *chip) unplug(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.open {
		f.Close()
		delete(c.open, name)
	}
	write(t, c.config()+"/live", "0")
}

func (c *chip) destroy(t *testing.T) {
	if read(t, c.config()+"/live") == "1" {
		c.unplug(t)
	}
	lines, _ := filepath.Glob(c.config() + "/bank0/line*")
	for _, dir := range append(lines, c.config()+"/bank0", c.config()) {
		if err := os.Remove(dir); err != nil {
			t.Errorf("removing chip %s: %v", c.label, err)
		}
	}
}

// Read returns the level of a line as the far end sees it.
func (c *chip) Read(line string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.open[line]
	if f == nil {
		var err error
		if f, err = os.Open(fmt.Sprintf("%s/sim_gpio%d/value", c.dir, c.at[line])); err != nil {
			return false, err
		}
		c.open[line] = f
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return false, err
	}
	return b[0] == '1', nil
}

// Drive pulls a line. It has no effect on one that the near end drives.
func (c *chip) Drive(line string, high bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pull := "pull-down"
	if high {
		pull = "pull-up"
	}
	return os.WriteFile(fmt.Sprintf("%s/sim_gpio%d/pull", c.dir, c.at[line]), []byte(pull), 0)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}
