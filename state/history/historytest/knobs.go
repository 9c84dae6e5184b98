package historytest

import (
	"maps"
	"path/filepath"
	"slices"
)

// SetFault has fault called before every operation, with no lock held: it may
// return an error, sleep, or block. nil ends that.
func (f *FS) SetFault(fault func(op Op, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// SetCapacity bounds the bytes of all files outside volatile directories; a
// write beyond is done in part and fails with ENOSPC. 0 lifts the bound.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = bytes
}

// SetReadOnly has every change outside volatile directories fail with EROFS.
func (f *FS) SetReadOnly(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readOnly = on
}

// DieAfter stops the machine after n more changing operations.
func (f *FS) DieAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dieAfter = f.steps + n
}

// Steps returns how many changing operations were done.
func (f *FS) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// Count returns how many operations of a kind were done.
func (f *FS) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

// Bytes returns how many bytes were written outside volatile directories.
func (f *FS) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// Files returns the names in a directory, sorted.
func (f *FS) Files(dir string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.names)) {
		if filepath.Dir(name) == dir {
			list = append(list, filepath.Base(name))
		}
	}
	return list
}

// Content returns what a process reads from a file, nil where there is none.
func (f *FS) Content(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node := f.names[name]; node != nil {
		return slices.Clone(node.data)
	}
	return nil
}

// Put writes a file, durably, without counting.
func (f *FS) Put(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirs[filepath.Dir(name)] = true
	node := &inode{data: slices.Clone(data), synced: slices.Clone(data)}
	f.names[name], f.durable[name] = node, node
}

// Dead reports whether the machine has stopped.
func (f *FS) Dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dieAfter > 0 && f.steps >= f.dieAfter
}
