package history

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// sequenceSpan is how many sequence numbers a file stands for: whatever was
// given out while it was the newest is below first + sequenceSpan.
const sequenceSpan = 4096

const (
	filePrefix    = "journal-"
	logSuffix     = ".log"
	snapSuffix    = ".snap"
	tempSuffix    = ".tmp"
	damagedSuffix = ".damaged"
)

func fileName(first uint64, kind fileKind) string {
	suffix := logSuffix
	if kind == kindSnap {
		suffix = snapSuffix
	}
	return fmt.Sprintf("%s%020d%s", filePrefix, first, suffix)
}

// storedFile is one file of the state directory.
type storedFile struct {
	name  string
	first uint64
	kind  fileKind
	data  []byte
	hdr   header
	body  int   // where the records start
	err   error // why data or hdr cannot be used
}

// parseName returns the sequence and kind in a file's name; other is what
// follows it: "" for a live file, ".tmp", ".damaged" ….
func parseName(name string) (f storedFile, other string, ok bool) {
	rest, ok := strings.CutPrefix(name, filePrefix)
	if !ok || len(rest) < 20 {
		return f, "", false
	}
	first, err := strconv.ParseUint(rest[:20], 10, 64)
	if err != nil {
		return f, "", false
	}
	f.name, f.first = name, first
	rest = rest[20:]
	switch {
	case strings.HasPrefix(rest, logSuffix):
		f.kind, other = kindLog, rest[len(logSuffix):]
	case strings.HasPrefix(rest, snapSuffix):
		f.kind, other = kindSnap, rest[len(snapSuffix):]
	default:
		return f, "", false
	}
	return f, other, true
}

// highest returns the last sequence number that may have been given out while
// the file was the newest.
func (f *storedFile) highest() uint64 {
	return f.first + sequenceSpan - 1
}

// sortFiles puts files in the order in which they were written. A snapshot
// comes before the segment of the same number.
func sortFiles(files []storedFile) {
	sort.Slice(files, func(i, j int) bool {
		a, b := files[i], files[j]
		return a.first < b.first || a.first == b.first && b.kind < a.kind
	})
}
