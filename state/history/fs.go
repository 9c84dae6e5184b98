package history

import (
	"errors"
	"io"
)

// FS is what the journal needs of a file system. [OS] is the real one; package
// historytest has one that fails on command. Errors are those of package os,
// so errors.Is works with fs.ErrNotExist and syscall numbers. Implementations
// are safe for concurrent use.
type FS interface {
	// MkdirAll makes a directory and its parents, readable by the owner only.
	MkdirAll(dir string) error
	// ReadDir returns the names of a directory's files, in no order.
	ReadDir(dir string) ([]string, error)
	// ReadFile returns a file's content.
	ReadFile(name string) ([]byte, error)
	// Create makes a file that must not exist.
	Create(name string) (File, error)
	// OpenAppend opens a file for writing at its end and makes it if need be.
	OpenAppend(name string) (File, error)
	// Rename gives a file another name, replacing one of that name.
	Rename(from, to string) error
	// Remove takes a file's name away.
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes a directory for this process until Close. It returns ErrLocked
	// at once where another process has it.
	Lock(dir string) (io.Closer, error)
	// Volatile returns the type of the file system that a directory is on where
	// that does not survive power loss, for example "tmpfs", else "".
	Volatile(dir string) (string, error)
}

// File is an open file for writing. It is used by one goroutine at a time.
type File interface {
	io.Writer
	// Truncate cuts the file to size bytes.
	Truncate(size int64) error
	// Sync returns when the content is durable (fsync).
	Sync() error
	Close() error
}

// ErrLocked says that another process has the directory.
var ErrLocked = errors.New("locked by another process")
