//go:build bed1

package cases

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	buttonsName = "xyz.openbmc_project.Chassis.Buttons"
	nmiName     = "xyz.openbmc_project.Control.Host.NMI"
)

func buttonProperty(button, name string) property {
	return property{buttonsName, "/xyz/openbmc_project/chassis/buttons/" + button, buttonsName, name, ""}
}

// TestEveryButtonShowsOnTheBus presses the buttons of a host that is off, where
// none of them does anything by itself.
func TestEveryButtonShowsOnTheBus(t *testing.T) {
	s := off()
	b, _ := startedBMC(t, s)
	for button, line := range map[string]string{"id": "ID_BUTTON", "reset": "RESET_BUTTON", "nmi": "NMI_BUTTON"} {
		pressed := buttonProperty(button, "ButtonPressed")
		assert.Equal(t, "false", b.get(t, pressed), button)
		b.board.Press(line, true)
		b.await(t, pressed, "true")
		b.board.Press(line, false)
		b.await(t, pressed, "false")
	}
	b.await(t, hostState, "Off")
	assert.Empty(t, b.board.Pulses(0, "POWER_OUT"))
	assert.Empty(t, b.board.Pulses(0, "RESET_OUT"))
}

// TestNMI: the button and the method each pulse the output once.
func TestNMI(t *testing.T) {
	b, _ := startedBMC(t, on())
	mark := b.board.Mark()
	b.press(t, "NMI_BUTTON", 50*time.Millisecond)
	widths := b.awaitPulses(t, mark, "NMI_OUT", 1)
	assert.Len(t, widths, 1)
	about(t, 200*time.Millisecond, widths[0])

	mark = b.board.Mark()
	b.sh(t, "busctl call "+nmiName+" /xyz/openbmc_project/control/host0/nmi "+nmiName+" NMI")
	widths = b.awaitPulses(t, mark, "NMI_OUT", 1)
	assert.Len(t, widths, 1)
	about(t, 200*time.Millisecond, widths[0])
	b.await(t, hostState, "Running")
	assert.Empty(t, b.board.Pulses(0, "RESET_OUT"))
}

// TestButtonPassthrough: on a board that wires its buttons to the BMC alone, a press
// is passed on for as long as it lasts.
func TestButtonPassthrough(t *testing.T) {
	s := off()
	s.events = map[string]any{"ButtonPassthrough": true}
	b, c := startedBMC(t, s)
	mark := b.board.Mark()
	require.NoError(t, c.Drive("POWER_BUTTON", false)) // past the board, which would act on it
	b.awaitLine(t, "POWER_OUT", true)
	b.await(t, buttonProperty("power", "ButtonPressed"), "true")
	require.NoError(t, c.Drive("POWER_BUTTON", true))
	b.awaitLine(t, "POWER_OUT", false)
	b.await(t, hostState, "Running")
	b.await(t, restartCause, "PowerButton")
	assert.Len(t, b.board.Pulses(mark, "POWER_OUT"), 1)
}

// TestMaskedButton: the mask holds the output at its idle level, a request that
// would press it is refused, and a finger on the button is only shown.
func TestMaskedButton(t *testing.T) {
	b, c := startedBMC(t, on())
	mask := buttonProperty("power", "ButtonMasked")
	mark := b.board.Mark()
	assert.Empty(t, c.consumer(t, "POWER_OUT"), "free between pulses")

	b.sh(t, mask.busctl("set-property")+" b true")
	assert.Equal(t, "true", b.get(t, mask))
	assert.Equal(t, "bmcstated", c.consumer(t, "POWER_OUT"))
	_, err := b.try(t, hostRequest.busctl("set-property")+" s "+hostRequest.values+"Off")
	assert.ErrorContains(t, err, "masked")
	b.board.Unplug(true) // of this board the mask takes the button away
	require.NoError(t, c.Drive("POWER_BUTTON", false))
	b.await(t, buttonProperty("power", "ButtonPressed"), "true")
	require.NoError(t, c.Drive("POWER_BUTTON", true))
	b.await(t, buttonProperty("power", "ButtonPressed"), "false")
	b.board.Unplug(false)
	b.await(t, hostState, "Running")

	b.sh(t, mask.busctl("set-property")+" b false")
	assert.Empty(t, c.consumer(t, "POWER_OUT"))
	assert.Empty(t, b.board.Pulses(mark, "POWER_OUT"), "masking and unmasking moved the line")
	b.set(t, hostRequest, "Off")
	b.await(t, hostState, "Off")
}

// consumer says who has a line, by the name that it gave; empty if nobody.
func (c *chip) consumer(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("gpioinfo", c.dev).Output()
	require.NoError(t, err)
	for l := range strings.Lines(string(out)) {
		if m := regexp.MustCompile(`"` + line + `"\s+(?:"(.*?)"|unused)`).FindStringSubmatch(l); m != nil {
			return m[1]
		}
	}
	t.Fatalf("gpioinfo knows no line %s", line)
	return ""
}
