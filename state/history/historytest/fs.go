package historytest

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/bmcstate/bmcstate/state/history"
)

// Op is an operation of the file system.
type Op string

// The operations. Those from OpMkdir on change something.
const (
	OpRead     Op = "read"
	OpList     Op = "list"
	OpLock     Op = "lock"
	OpOpen     Op = "open"
	OpClose    Op = "close"
	OpMkdir    Op = "mkdir"
	OpCreate   Op = "create"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
	OpRename   Op = "rename"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "syncdir"
)

func (op Op) changes() bool {
	switch op {
	case OpRead, OpList, OpLock, OpOpen, OpClose:
		return false
	default:
		return true
	}
}

// ErrDead is what everything returns once the machine has stopped.
var ErrDead = errors.New("historytest: the machine has stopped")

// FS is a file system in memory. The zero value is not usable; see [New]. It is
// safe for concurrent use.
type FS struct {
	mu       sync.Mutex
	dirs     map[string]bool
	names    map[string]*inode // as a process sees them
	durable  map[string]*inode // as they are on the platter
	pending  []nameChange      // what separates the two
	volatile map[string]string // directory → file system type
	locks    map[string]bool

	fault    func(Op, string) error
	capacity int64 // bytes in all durable directories, 0 = no bound
	readOnly bool
	steps    int // changing operations so far
	dieAfter int // 0 = never
	counts   map[Op]int
	bytes    int64
}

// nameChange gives a name to a file, or with a nil inode takes it away. Two of a
// rename are one change.
type nameChange struct {
	dir string
	set map[string]*inode
}

// inode is a file's content.
type inode struct {
	data    []byte // as a process sees it
	synced  []byte // as it is on the platter
	pending []change
}

// change is a write at the end, or where cut is set a truncation to size.
type change struct {
	data []byte
	cut  bool
	size int64
	lost bool // a Sync of it failed
}

func (c change) apply(b []byte) []byte {
	if c.cut {
		return append([]byte(nil), b[:min(c.size, int64(len(b)))]...)
	}
	for int64(len(b)) < c.size { // what was lost before it reads as zeros
		b = append(b, 0)
	}
	return append(b[:c.size:c.size], c.data...)
}

// New returns an empty file system. Directories named in volatile are on a
// tmpfs and lose everything with power.
func New(volatile ...string) *FS {
	f := &FS{
		dirs: map[string]bool{}, names: map[string]*inode{}, durable: map[string]*inode{},
		volatile: map[string]string{}, locks: map[string]bool{}, counts: map[Op]int{},
	}
	for _, dir := range volatile {
		f.volatile[dir] = "tmpfs"
	}
	return f
}

var _ history.FS = (*FS)(nil)

// enter begins an operation; where it returns nil the caller holds the lock.
func (f *FS) enter(op Op, path string) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(op, path); err != nil {
			return &fs.PathError{Op: string(op), Path: path, Err: err}
		}
	}
	f.mu.Lock()
	if err := f.admit(op, path); err != nil {
		f.mu.Unlock()
		return &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return nil
}

func (f *FS) admit(op Op, path string) error {
	if f.dieAfter > 0 && f.steps >= f.dieAfter && op != OpClose {
		return ErrDead
	}
	f.counts[op]++
	if !op.changes() {
		return nil
	}
	if f.readOnly && f.volatileType(path) == "" && (op != OpMkdir || !f.dirs[path]) {
		return syscall.EROFS
	}
	f.steps++
	return nil
}

func (f *FS) volatileType(path string) string {
	for dir, name := range f.volatile {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return name
		}
	}
	return ""
}

// MkdirAll makes a directory, durably at once.
func (f *FS) MkdirAll(dir string) error {
	if err := f.enter(OpMkdir, dir); err != nil {
		return err
	}
	defer f.mu.Unlock()
	f.dirs[dir] = true
	return nil
}

// ReadDir lists a directory.
func (f *FS) ReadDir(dir string) ([]string, error) {
	if err := f.enter(OpList, dir); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if !f.dirs[dir] {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	var list []string
	for name := range f.names {
		if filepath.Dir(name) == dir {
			list = append(list, filepath.Base(name))
		}
	}
	return list, nil
}

// ReadFile returns a file's content as a process sees it.
func (f *FS) ReadFile(name string) ([]byte, error) {
	if err := f.enter(OpRead, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	node, ok := f.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(node.data), nil
}

// Create makes a new file.
func (f *FS) Create(name string) (history.File, error) {
	if err := f.enter(OpCreate, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if f.names[name] != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	return f.create(name)
}

func (f *FS) create(name string) (history.File, error) {
	if !f.dirs[filepath.Dir(name)] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	node := &inode{}
	f.rename(filepath.Dir(name), map[string]*inode{name: node})
	return &file{fs: f, name: name, node: node}, nil
}

// OpenAppend opens a file, or makes it.
func (f *FS) OpenAppend(name string) (history.File, error) {
	op := OpOpen
	f.mu.Lock()
	if f.names[name] == nil {
		op = OpCreate
	}
	f.mu.Unlock()
	if err := f.enter(op, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	node := f.names[name]
	if node == nil {
		return f.create(name)
	}
	if f.readOnly && f.volatileType(name) == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	return &file{fs: f, name: name, node: node}, nil
}

// rename carries out one change of names.
func (f *FS) rename(dir string, set map[string]*inode) {
	f.pending = append(f.pending, nameChange{dir: dir, set: set})
	setNames(f.names, set)
}

func setNames(names, set map[string]*inode) {
	for name, node := range set {
		if node == nil {
			delete(names, name)
		} else {
			names[name] = node
		}
	}
}

// Rename gives a file another name in the same directory.
func (f *FS) Rename(from, to string) error {
	if err := f.enter(OpRename, from); err != nil {
		return err
	}
	defer f.mu.Unlock()
	node := f.names[from]
	if node == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	f.rename(filepath.Dir(to), map[string]*inode{from: nil, to: node})
	return nil
}

// Remove takes a name away.
func (f *FS) Remove(name string) error {
	if err := f.enter(OpRemove, name); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	f.rename(filepath.Dir(name), map[string]*inode{name: nil})
	return nil
}

// SyncDir makes a directory's names durable.
func (f *FS) SyncDir(dir string) error {
	if err := f.enter(OpSyncDir, dir); err != nil {
		return err
	}
	defer f.mu.Unlock()
	f.pending = slices.DeleteFunc(f.pending, func(c nameChange) bool {
		if c.dir == dir {
			setNames(f.durable, c.set)
		}
		return c.dir == dir
	})
	return nil
}

// Lock takes a directory.
func (f *FS) Lock(dir string) (io.Closer, error) {
	if err := f.enter(OpLock, dir); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if f.locks[dir] {
		return nil, history.ErrLocked
	}
	f.locks[dir] = true
	return &lock{fs: f, dir: dir}, nil
}

type lock struct {
	fs  *FS
	dir string
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.dir)
	return nil
}

// Volatile returns "tmpfs" for the directories given to New.
func (f *FS) Volatile(dir string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.volatileType(dir), nil
}
