package historytest

import (
	"maps"
	"slices"
)

// Loss says how much of what was not synced survives a power loss.
type Loss struct {
	Names int  // changes of names that survive, oldest first
	Young bool // youngest first instead: the file system does not keep their order
	Bytes int  // of each file: bytes that survive; a truncation counts as one
	Zero  bool // the lost bytes read as zeros: the length got through first
}

// Everything is more than there is: Loss{Names: Everything, Bytes: Everything}
// loses nothing.
const Everything = 1 << 40

// Unsynced returns how many changes of names, and how many bytes of the file
// with the most of them, are not durable.
func (f *FS) Unsynced() (names, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, node := range f.names {
		if f.volatileType(name) != "" {
			continue
		}
		n := 0
		for _, c := range node.pending {
			n += c.weight()
		}
		bytes = max(bytes, n)
	}
	for _, c := range f.pending {
		if f.volatileType(c.dir) == "" {
			names++
		}
	}
	return names, bytes
}

func (c change) weight() int {
	if c.cut {
		return 1
	}
	return len(c.data)
}

// PowerLoss returns what a machine that lost power now finds when it starts
// again: no locks, no faults, nothing volatile, and of what was not synced what
// loss says. The receiver stays as it is.
func (f *FS) PowerLoss(loss Loss) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := New()
	maps.Copy(after.volatile, f.volatile)
	names := maps.Clone(f.durable)
	for _, c := range f.surviving(loss) {
		setNames(names, c.set)
	}
	for dir := range f.dirs {
		if f.volatileType(dir) == "" {
			after.dirs[dir] = true
		}
	}
	for name, node := range names {
		if f.volatileType(name) == "" {
			data := node.survivor(loss)
			fresh := &inode{data: data, synced: slices.Clone(data)}
			after.names[name], after.durable[name] = fresh, fresh
		}
	}
	return after
}

func (f *FS) surviving(loss Loss) []nameChange {
	var list []nameChange
	for _, c := range f.pending {
		if f.volatileType(c.dir) == "" {
			list = append(list, c)
		}
	}
	n := min(loss.Names, len(list))
	if loss.Young {
		return list[len(list)-n:]
	}
	return list[:n]
}

func (n *inode) survivor(loss Loss) []byte {
	b, left := slices.Clone(n.synced), loss.Bytes
	for _, c := range n.pending {
		if left <= 0 && !loss.Zero {
			break
		}
		weight := c.weight()
		switch {
		case left >= weight:
			b = c.apply(b)
		case c.cut:
			return b
		default:
			part := c
			part.data = slices.Clone(c.data[:max(left, 0)])
			if loss.Zero {
				part.data = append(part.data, make([]byte, len(c.data)-len(part.data))...)
			}
			b = part.apply(b)
		}
		left -= weight
	}
	return b
}

// Kill returns what the next process finds after this one was killed now: all
// that was written, no locks, no faults. What was not synced still is not.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := New()
	maps.Copy(after.volatile, f.volatile)
	maps.Copy(after.dirs, f.dirs)
	copies := map[*inode]*inode{}
	clone := func(n *inode) *inode {
		if n == nil {
			return nil
		}
		if copies[n] == nil {
			copies[n] = &inode{data: slices.Clone(n.data), synced: slices.Clone(n.synced), pending: slices.Clone(n.pending)}
		}
		return copies[n]
	}
	cloneAll := func(m map[string]*inode) map[string]*inode {
		to := map[string]*inode{}
		for name, n := range m {
			to[name] = clone(n)
		}
		return to
	}
	after.names, after.durable = cloneAll(f.names), cloneAll(f.durable)
	for _, c := range f.pending {
		after.pending = append(after.pending, nameChange{dir: c.dir, set: cloneAll(c.set)})
	}
	return after
}

// Flip changes one byte of a file on the platter and in memory.
func (f *FS) Flip(name string, at int, mask byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	n.data[at] ^= mask
	n.synced = slices.Clone(n.data)
	n.pending = nil
}
