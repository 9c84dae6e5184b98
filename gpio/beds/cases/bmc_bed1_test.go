//go:build bed1

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
)

// patience bounds every wait, by the machine's own clock.
const patience = 30 * time.Second

// restartDelay is how long systemd waits before it starts a daemon that died.
const restartDelay = 5 * time.Second

// stretch is how many times as long as asked for a pulse may look to the board.
const stretch = 2

// lookEvery is how often the board looks at its wires. Each look costs the
// emulated processor something.
const lookEvery = 2 * time.Millisecond

// boardLines are the lines of the chip that the stock wiring is on.
var boardLines = []string{
	"POWER_OUT", "RESET_OUT", "PS_PWROK", "POST_COMPLETE", "POWER_BUTTON", "RESET_BUTTON",
	"NMI_OUT", "NMI_BUTTON", "ID_BUTTON", "SLOT_POWER", "SIO_POWER_GOOD", "SIO_ONCONTROL", "SIO_S5",
	"HPM_STBY_EN", "RAIL_EN", "RAIL_GOOD",
}

// pinout is the stock one, with the outputs that do nothing to the board.
func pinout() board.Pinout {
	p := board.Stock()
	p.Watched = []string{"NMI_OUT", "SLOT_POWER", "HPM_STBY_EN", "RAIL_EN"}
	for _, line := range p.Watched {
		p.High[line] = true
	}
	return p
}

// localBMC makes a chip with a board on it. The daemon is not started.
func localBMC(t *testing.T, s setup) (*bmc, *chip) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/bmcstated"); err != nil {
		t.Skip("bmcstated is not in this bed")
	}
	c := newChip(t, "bmc", boardLines...)
	return boardOn(t, c, s.on), c
}

// boardOn puts a board on a chip.
func boardOn(t *testing.T, c *chip, on bool) *bmc {
	t.Helper()
	server := board.New(board.Quick())
	if on {
		server.GainPower()
	}
	b := &bmc{
		board: board.NewPlayer(server, pinout(), c, lookEvery), timing: board.Quick(), run: shell, record: recorded,
	}
	b.board.Rest = 4
	require.NoError(t, b.board.Redrive())
	require.NoError(t, b.board.Step())

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.board.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended, "the board lost its wires")
	})
	return b
}

// startedBMC makes a chip with a board on it and starts the daemon.
func startedBMC(t *testing.T, s setup) (*bmc, *chip) {
	t.Helper()
	b, c := localBMC(t, s)
	b.start(t, s)
	return b, c
}

// recorded is empty while nothing is watched.
func recorded() string {
	text, _ := os.ReadFile(watched)
	return string(text)
}

func shell(ctx context.Context, order string) (string, error) {
	output, err := exec.CommandContext(ctx, "/bin/sh", "-c", order).CombinedOutput()
	text := strings.TrimRight(string(output), "\n")
	if err != nil {
		return text, fmt.Errorf("%q: %w: %s", order, err, text)
	}
	return text, nil
}

func TestScenarios(t *testing.T) {
	for _, s := range append(scenarios(), longScenarios()...) {
		t.Run(s.name, func(t *testing.T) {
			verdict(t)
			b, _ := startedBMC(t, s.setup())
			s.run(t, b)
		})
	}
}
