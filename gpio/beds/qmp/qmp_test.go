package qmp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/qmp"
)

// emulator answers one connection with what answer returns, until it returns "".
func emulator(t *testing.T, answer func(command string, arguments map[string]any) string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "qmp")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintln(conn, `{"QMP": {}}`)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var c struct {
				Execute   string
				Arguments map[string]any
			}
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			if c.Execute == "qmp_capabilities" {
				fmt.Fprintln(conn, `{"return": {}}`)
				continue
			}
			text := answer(c.Execute, c.Arguments)
			if text == "" {
				return
			}
			fmt.Fprintln(conn, text)
		}
	}()
	return socket
}

func TestPins(t *testing.T) {
	level := false
	socket := emulator(t, func(command string, arguments map[string]any) string {
		switch {
		case command == "system_reset":
			level = false
			return `{"event": "RESET"}` + "\n" + `{"return": {}}`
		case arguments["property"] != "gpioA3":
			return `{"error": {"class": "GenericError", "desc": "no such property"}}`
		case command == "qom-set":
			level = arguments["value"].(bool)
			return `{"return": {}}`
		default:
			return fmt.Sprintf(`{"return": %t}`, level)
		}
	})
	pins := &qmp.Pins{Path: "/gpio", Names: map[string]string{"A": "gpioA3", "B": "gpioB0"}, Idle: map[string]bool{"A": true}}
	var err error
	pins.Client, err = qmp.Dial(t.Context(), socket, func(name string) {
		if name == "RESET" {
			pins.Reset()
		}
	})
	require.NoError(t, err)
	defer pins.Client.Close()

	require.NoError(t, pins.Drive("A", true))
	high, err := pins.Read("A")
	require.NoError(t, err)
	assert.True(t, high)
	_, err = pins.Read("B")
	assert.ErrorContains(t, err, "no such property")

	// The controller says low after a reset; the resistor on the board, high.
	_, err = pins.Client.Execute("system_reset", nil)
	require.NoError(t, err)
	high, err = pins.Read("A")
	require.NoError(t, err)
	assert.True(t, high)
	pins.Driven()
	high, err = pins.Read("A")
	require.NoError(t, err)
	assert.False(t, high)
}

func TestGone(t *testing.T) {
	socket := emulator(t, func(string, map[string]any) string { return "" })
	c, err := qmp.Dial(t.Context(), socket, nil)
	require.NoError(t, err)
	_, err = c.Execute("stop", nil)
	assert.ErrorIs(t, err, qmp.ErrGone)
	c.Close()
}
