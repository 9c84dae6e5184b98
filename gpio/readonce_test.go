package gpio

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadOnce(t *testing.T) {
	k := newFakeKernel()
	defer k.closeAll()
	c := k.add("/dev/gpiochip0", "one", "a", "reset-cause-pinhole")
	l := c.lines[1]
	for _, high := range []bool{false, true} {
		l.pull(high, 0)
		got, err := readOnce(k, "reset-cause-pinhole", time.Minute)
		require.NoError(t, err)
		require.Equal(t, high, got)
		require.False(t, l.isRequested(), "it is let go")
	}
	_, err := readOnce(k, "absent", time.Minute)
	require.ErrorIs(t, err, ErrMissing)
	l.setConsumer("somebody")
	_, err = readOnce(k, "reset-cause-pinhole", time.Minute)
	require.ErrorIs(t, err, ErrBusy)
	l.setConsumer("")
	release := l.hangs()
	defer release()
	_, err = readOnce(k, "reset-cause-pinhole", time.Millisecond)
	require.ErrorIs(t, err, ErrStuck)
}
