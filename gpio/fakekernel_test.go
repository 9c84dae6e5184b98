package gpio

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"
)

// fakeKernel stands in for Linux's GPIO chips. A requested line is one end of
// a socket pair, so waiting for edges, closing and hanging up are real.
type fakeKernel struct {
	mu    sync.Mutex
	devs  map[string]*fakeChip
	fds   map[uintptr]*fakeLine
	reads int
}

type fakeChip struct {
	label string
	lines []*fakeLine
	gone  bool
}

type fakeLine struct {
	k        *fakeKernel
	chip     *fakeChip
	name     string
	high     bool // the wire
	moves    []bool
	consumer string // another process that holds it
	peer     int    // our end of the pair, -1 = not requested
	config   uapi.LineConfig
	buffer   uint32
	seq      uint32
	hang     chan struct{} // get and set block until it is closed
	times    []time.Time   // of moves
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{devs: map[string]*fakeChip{}, fds: map[uintptr]*fakeLine{}}
}

// add plugs a chip in.
func (k *fakeKernel) add(dev, label string, names ...string) *fakeChip {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &fakeChip{label: label}
	for _, n := range names {
		c.lines = append(c.lines, &fakeLine{k: k, chip: c, name: n, peer: -1})
	}
	k.devs[dev] = c
	return c
}

// remove unplugs a chip; plug puts it back with its wires as they are.
func (k *fakeKernel) remove(dev string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.devs[dev]
	delete(k.devs, dev)
	c.gone = true
	for _, l := range c.lines {
		l.hangUp()
	}
}

func (k *fakeKernel) plug(dev string, c *fakeChip) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.gone = false
	k.devs[dev] = c
	for fd, l := range k.fds {
		if l.chip == c {
			delete(k.fds, fd) // descriptors of before stay dead
		}
	}
}

// closeAll lets go of the peers at the end of a test.
func (k *fakeKernel) closeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.devs {
		for _, l := range c.lines {
			l.hangUp()
		}
	}
}

func (l *fakeLine) hangUp() {
	if l.peer >= 0 {
		_ = unix.Close(l.peer)
		l.peer = -1
	}
}

// requested reports whether the other end of the pair is still open.
func (l *fakeLine) requested() bool {
	if l.peer < 0 {
		return false
	}
	p := []unix.PollFd{{Fd: int32(l.peer)}}
	_, _ = unix.Poll(p, 0)
	if p[0].Revents&unix.POLLHUP != 0 {
		l.hangUp()
		return false
	}
	return true
}

func (l *fakeLine) isRequested() bool {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	return l.requested()
}

func (l *fakeLine) logical() bool { return l.high != (l.config.Flags&uapi.LineFlagV2ActiveLow != 0) }

// move sets the wire from the BMC's side.
func (l *fakeLine) move(asserted bool) {
	high := asserted != (l.config.Flags&uapi.LineFlagV2ActiveLow != 0)
	if high != l.high {
		l.high = high
		l.moves = append(l.moves, high)
		l.times = append(l.times, time.Now())
	}
}

// pull sets the wire from the board's side; lose edges are dropped before it.
func (l *fakeLine) pull(high bool, lose int) {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.high = high
	if !l.requested() {
		return
	}
	l.seq += uint32(lose) + 1
	e := uapi.LineEvent{ID: uapi.LineEventFallingEdge, Seqno: l.seq, LineSeqno: l.seq}
	if l.logical() {
		e.ID = uapi.LineEventRisingEdge
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, e)
	_, _ = unix.Write(l.peer, b.Bytes())
}

func (l *fakeLine) level() bool {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	return l.high
}

func (l *fakeLine) history() []bool {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	return slices.Clone(l.moves)
}

func (l *fakeLine) setConsumer(who string) {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	l.consumer = who
}

// hangs makes calls for the line block; the result lets them go on.
func (l *fakeLine) hangs() func() {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	c := make(chan struct{})
	l.hang = c
	return sync.OnceFunc(func() {
		l.k.mu.Lock()
		l.hang = nil
		l.k.mu.Unlock()
		close(c)
	})
}

func (k *fakeKernel) chips() ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.devs)), nil
}

func (k *fakeKernel) open(dev string) (chip, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.devs[dev]
	if c == nil {
		return nil, &fs.PathError{Op: "open", Path: dev, Err: unix.ENOENT}
	}
	return &fakeOpenChip{k, dev, c}, nil
}

// at returns the line of a descriptor, after its hang.
func (k *fakeKernel) at(fd uintptr) (*fakeLine, error) {
	k.mu.Lock()
	l := k.fds[fd]
	var hang chan struct{}
	if l != nil {
		hang = l.hang
	}
	k.mu.Unlock()
	if hang != nil {
		<-hang
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l == nil || l.chip.gone {
		return nil, unix.ENODEV
	}
	return l, nil
}

func (k *fakeKernel) configure(fd uintptr, cfg uapi.LineConfig) error {
	l, err := k.at(fd)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l.apply(cfg)
	return nil
}

// apply acts like the kernel: only an output is driven.
func (l *fakeLine) apply(cfg uapi.LineConfig) {
	l.config = cfg
	if cfg.Flags&uapi.LineFlagV2Output == 0 {
		return
	}
	for _, a := range cfg.Attrs[:cfg.NumAttrs] {
		if a.Attr.ID == uapi.LineAttributeIDOutputValues {
			l.move(a.Attr.Value64()&1 == 1)
		}
	}
}

func (k *fakeKernel) get(fd uintptr) (bool, error) {
	l, err := k.at(fd)
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.logical(), nil
}

func (k *fakeKernel) set(fd uintptr, asserted bool) error {
	l, err := k.at(fd)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.config.Flags&uapi.LineFlagV2Output == 0 {
		return unix.EPERM
	}
	l.move(asserted)
	return nil
}

func (k *fakeKernel) read(fd uintptr, buf []byte) (int, error) {
	k.mu.Lock()
	k.reads++
	l := k.fds[fd]
	dead := l == nil || l.chip.gone
	k.mu.Unlock()
	if dead {
		return 0, unix.ENODEV
	}
	return unix.Read(int(fd), buf)
}

func (k *fakeKernel) readCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads
}

type fakeOpenChip struct {
	k   *fakeKernel
	dev string
	c   *fakeChip
}

func (o *fakeOpenChip) info() (name, label string, lines int, err error) {
	return o.dev, o.c.label, len(o.c.lines), nil
}

func (o *fakeOpenChip) line(offset int) (name, consumer string, used bool, err error) {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	if offset >= len(o.c.lines) {
		return "", "", false, unix.EINVAL
	}
	l := o.c.lines[offset]
	return l.name, l.consumer, l.consumer != "" || l.requested(), nil
}

func (o *fakeOpenChip) request(req *uapi.LineRequest) error {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	l := o.c.lines[req.Offsets[0]]
	if l.consumer != "" || l.requested() {
		return unix.EBUSY
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.peer, l.seq, l.buffer = pair[0], 0, req.EventBufferSize
	l.apply(req.Config)
	req.Fd = int32(pair[1])
	o.k.fds[uintptr(pair[1])] = l
	return nil
}

func (o *fakeOpenChip) close() {}

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.NativeEndian, v))
	return b.Bytes()
}
