package guestline_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/guestline"
)

func TestOrders(t *testing.T) {
	outer, inner := net.Pipe()
	served := make(chan error, 1)
	line := guestline.NewLine(outer)
	go func() { served <- guestline.Serve(inner, "boot-1") }()
	require.Equal(t, "boot-1", <-line.Boots())

	output, err := line.Run(t.Context(), "echo one; echo two >&2")
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo", output)

	_, err = line.Run(t.Context(), "echo why; exit 3")
	assert.ErrorContains(t, err, "status 3: why")

	// An order that hangs holds up no other.
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	go func() {
		_, err := line.Run(ctx, "sleep 2")
		hung <- err
	}()
	output, err = line.Run(t.Context(), "echo three")
	require.NoError(t, err)
	assert.Equal(t, "three", output)
	cancel()
	assert.ErrorIs(t, <-hung, context.Canceled)

	line.Close()
	select {
	case <-served:
	case <-time.After(10 * time.Second):
		t.Fatal("Serve did not end with its line")
	}
	_, err = line.Run(t.Context(), "true")
	assert.Error(t, err)
}
