package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// FuzzReplay gives replay a segment of any bytes, or with forged set a segment
// whose records have sound checksums around any payloads (a byte for the length
// before each). Replay must not panic, and what it says must hold: the next
// start says the same, and what has ended stays as it is.
func FuzzReplay(f *testing.F) {
	s := makeSample(f)
	for _, name := range s.files {
		f.Add(s.data[name], false)
		f.Add(payloads(s.data[name]), true)
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, data []byte, forged bool) {
		if forged {
			data = forge(data)
		}
		fs := newFS()
		fs.Put(dir+"/journal-00000000000000000001.log", data)
		opts := history.Options{Dir: dir, RunDir: run, FS: fs, BootID: "boot-b", Now: clock()}
		l, first, err := history.Open(opts)
		if err != nil {
			require.ErrorIs(t, err, history.ErrVersion)
			return
		}
		require.NoError(t, first.Unwritable)
		for _, r := range first.Requests {
			require.True(t, r.Status.Valid())
			require.True(t, r.Op.Valid())
			require.True(t, r.Status.Final() || !first.Damaged, "pending behind damage")
		}
		l.Compact(nil)
		require.NoError(t, l.Close())
		l, second, err := history.Open(opts)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.False(t, second.Damaged, "%v", second.Reports)
		require.Len(t, second.Requests, len(first.Requests))
		for i := range first.Requests {
			require.Equal(t, first.Requests[i], second.Requests[i])
		}
		require.GreaterOrEqual(t, second.HighWater, first.HighWater)
	})
}

// payloads takes the records of a segment out of their frames.
func payloads(data []byte) []byte {
	var out []byte
	bounds := history.Bounds(data)
	for i, end := range bounds[1:] {
		payload := data[bounds[i]+history.FrameHead : end-history.FrameTail]
		out = append(append(out, byte(len(payload))), payload...)
	}
	return out
}

func forge(payloads []byte) []byte {
	data, seed := history.FileHeader(1, 0, "boot-a", state.Instant{Boot: time.Hour, Wall: time.Unix(1_800_000_000, 0)})
	for len(payloads) > 0 {
		n := min(int(payloads[0]), len(payloads)-1)
		data = history.Frame(data, payloads[1:1+n], seed)
		payloads = payloads[1+n:]
	}
	return data
}

func TestForgedSampleIsWhole(t *testing.T) {
	s := makeSample(t)
	name := s.files[0]
	fs := newFS()
	fs.Put(dir+"/"+name, forge(payloads(s.data[name])))
	rep := open(t, fs, "boot-b").rep
	require.False(t, rep.Damaged)
	require.Equal(t, s.records[name], len(history.Bounds(fs.Content(dir+"/"+name)))-1)
}
