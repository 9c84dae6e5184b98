package historytest

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// file is an open file.
type file struct {
	fs   *FS
	name string
	node *inode
}

// Write appends.
func (w *file) Write(b []byte) (int, error) {
	if err := w.fs.enter(OpWrite, w.name); err != nil {
		return 0, err
	}
	defer w.fs.mu.Unlock()
	var err error
	if room := w.fs.room(w.name); room < int64(len(b)) {
		b, err = b[:room], &fs.PathError{Op: "write", Path: w.name, Err: syscall.ENOSPC}
	}
	at := int64(len(w.node.data))
	w.node.change(change{data: slices.Clone(b), size: at})
	if w.fs.volatileType(w.name) == "" {
		w.fs.bytes += int64(len(b))
	}
	return len(b), err
}

// room returns how many bytes may still be written.
func (f *FS) room(name string) int64 {
	if f.capacity == 0 || f.volatileType(name) != "" {
		return 1 << 40
	}
	used := int64(0)
	for other, node := range f.names {
		if f.volatileType(other) == "" {
			used += int64(len(node.data))
		}
	}
	return max(0, f.capacity-used)
}

func (n *inode) change(c change) {
	n.data = c.apply(n.data)
	n.pending = append(n.pending, c)
}

// Truncate cuts the file.
func (w *file) Truncate(size int64) error {
	if err := w.fs.enter(OpTruncate, w.name); err != nil {
		return err
	}
	defer w.fs.mu.Unlock()
	w.node.change(change{cut: true, size: size})
	return nil
}

// Sync makes the content durable. Where it fails, what was written so far never
// becomes durable by a later Sync.
func (w *file) Sync() error {
	if err := w.fs.enter(OpSync, w.name); err != nil {
		if !errors.Is(err, ErrDead) { // a dead machine has not tried
			w.lose()
		}
		return err
	}
	defer w.fs.mu.Unlock()
	n := w.node
	for _, c := range n.pending {
		if !c.lost {
			n.synced = c.apply(n.synced)
		}
	}
	n.pending = nil
	return nil
}

func (w *file) lose() {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	for i := range w.node.pending {
		w.node.pending[i].lost = true
	}
}

// Close ends the use of the file; it makes nothing durable.
func (w *file) Close() error {
	if err := w.fs.enter(OpClose, w.name); err != nil {
		return err
	}
	w.fs.mu.Unlock()
	return nil
}
