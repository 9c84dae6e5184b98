package history

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bmcstate/bmcstate/state"
)

// scan is what a state directory was found to hold.
type scan struct {
	fold *folder
	last uint64 // last sequence of the intact history
	high uint64 // no number up to here is free
	// closed: the last process ended in order, so high == last.
	closed bool

	cuts     []cut    // tails to cut off
	obsolete []string // files to remove
	damaged  []string // files to set aside
	lost     []string // those of them whose records are not in the fold
	kept     []string // files that the fold was made from
	newest   tail     // file that may not have been synced
	reports  []Report

	logBytes, logFiles, snapBytes int64 // of kept
}

// leftBy returns the files to remove once a snapshot of the fold has the given
// name.
func (s *scan) leftBy(snapshot string) []string {
	left := append([]string(nil), s.obsolete...)
	return state.Remove(append(left, s.kept...), snapshot)
}

// tail is the intact part of the segment that was written last.
type tail struct {
	name string // "" = none
	boot string // in which it was written
	data []byte
}

// cut is a file and the size to cut it to.
type cut struct {
	_ state.Incomparable

	name string
	size int64
}

func (s *scan) report(kind ReportKind, file, format string, args ...any) {
	s.reports = append(s.reports, Report{Kind: kind, File: file, Text: fmt.Sprintf(format, args...)})
}

// scanDir reads a state directory. It changes nothing. Its only errors are a
// directory that cannot be listed and a file of a future version; everything
// else is a finding.
func scanDir(fsys FS, dir string) (*scan, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, &IOError{Op: "list", Path: dir, Err: err}
	}
	s := &scan{fold: newFolder()}
	live, err := s.live(fsys, dir, names)
	if err != nil {
		return nil, err
	}
	for i := range live {
		if !s.file(live, i) {
			break
		}
	}
	if s.closed {
		s.high = s.last
	}
	s.high = max(s.high, s.last)
	return s, nil
}

// live loads the files that make up the history: the newest snapshot and every
// segment after it.
func (s *scan) live(fsys FS, dir string, names []string) ([]storedFile, error) {
	var files []storedFile
	for _, name := range names {
		f, other, ok := parseName(name)
		if !ok {
			continue
		}
		s.high = max(s.high, f.highest())
		switch other {
		case "":
			files = append(files, f)
		case tempSuffix:
			s.obsolete = append(s.obsolete, name)
		}
	}
	sortFiles(files)
	start := 0
	for i := range files {
		files[i].load(fsys, dir)
		var newer *versionError
		if errors.As(files[i].err, &newer) {
			return nil, fmt.Errorf("%w: %s: %w; install the newer bmcstated again, or move the file away and lose the history",
				ErrVersion, filepath.Join(dir, files[i].name), newer)
		}
		if files[i].kind == kindSnap {
			start = i
		}
	}
	for i := range files[:start] {
		s.replaced(&files[i])
	}
	return files[start:], nil
}

func (f *storedFile) load(fsys FS, dir string) {
	if f.data, f.err = fsys.ReadFile(filepath.Join(dir, f.name)); f.err != nil {
		f.err = fmt.Errorf("%w: cannot be read: %w", errDamaged, reason(f.err))
		return
	}
	f.hdr, f.body, f.err = readHeader(f.data)
	if f.err == nil && (f.hdr.kind != f.kind || f.hdr.first != f.first) {
		f.err = fmt.Errorf("%w: name and header disagree", errDamaged)
	}
}

// replaced disposes of a file that a snapshot has replaced: it goes, unless it
// was to be set aside when the last process ended.
func (s *scan) replaced(f *storedFile) {
	if errors.Is(f.err, errDamaged) || f.err == nil && errors.Is(walk(f, func([]byte) error { return nil }), errDamaged) {
		s.damaged = append(s.damaged, f.name)
		return
	}
	s.obsolete = append(s.obsolete, f.name)
}

// walk gives a file's records to take, until one is bad or take refuses it. It
// returns nil at the end of the file and leaves f.body behind the last record
// taken.
func walk(f *storedFile, take func(payload []byte) error) error {
	for f.body < len(f.data) {
		payload, n, err := nextFrame(f.data[f.body:], f.hdr.seed)
		if err != nil {
			return err
		}
		if err := take(payload); err != nil {
			return err
		}
		f.body += n
	}
	return nil
}

// file adds one file to the history. It returns false where the history ends.
func (s *scan) file(live []storedFile, i int) bool {
	f := &live[i]
	s.keep(f)
	defer func() { f.data = nil }()
	limit, more := nextLimit(live[i+1:])
	switch {
	case errors.Is(f.err, errTorn) && (!more || limit == s.last):
		s.unborn(f, more)
		return true
	case f.err != nil:
		return s.damage(live[i:], f.err)
	case f.kind == kindSnap:
		return s.snapshot(live, i)
	case f.hdr.prev != s.last:
		return s.damage(live[i:], fmt.Errorf("%w: records %d to %d are missing before it", errDamaged, s.last+1, f.hdr.prev))
	default:
		return s.segment(live, i, limit, more)
	}
}

func (s *scan) keep(f *storedFile) {
	s.kept = append(s.kept, f.name)
	if f.kind == kindSnap {
		s.snapBytes = int64(len(f.data))
	} else {
		s.logBytes += int64(len(f.data))
		s.logFiles++
	}
}

// unborn disposes of a file whose header was never finished. The newest keeps
// its name, which says what numbers were given out.
func (s *scan) unborn(f *storedFile, more bool) {
	s.closed = false
	if more {
		s.obsolete = append(s.obsolete, f.name)
	} else if len(f.data) > 0 {
		s.cuts = append(s.cuts, cut{name: f.name})
	}
	if len(f.data) > 0 {
		s.report(ReportTorn, f.name, "unfinished file of %d bytes without a record emptied: %v", len(f.data), f.err)
	}
}

// nextLimit returns the last durable sequence before the next file, by that
// file's own word.
func nextLimit(rest []storedFile) (uint64, bool) {
	for i := range rest {
		if rest[i].err == nil {
			return rest[i].hdr.prev, true
		}
	}
	return 0, false
}

func (s *scan) snapshot(live []storedFile, i int) bool {
	f := &live[i]
	r := snapReader{fold: s.fold, last: f.hdr.prev}
	err := walk(f, r.take)
	if err == nil && !r.ended {
		err = fmt.Errorf("%w: its end is missing", errDamaged)
	}
	if err != nil {
		// A snapshot gets its name after it was synced: it is never torn.
		return s.damage(live[i:], fmt.Errorf("%w: snapshot: %w", errDamaged, err))
	}
	s.last = f.hdr.prev
	return true
}

// errVoid ends the walk through a segment at the first record that a later
// file's header disowns.
var errVoid = errors.New("answered with an error")

func (s *scan) segment(live []storedFile, i int, limit uint64, more bool) bool {
	f := &live[i]
	s.closed = false
	err := walk(f, func(payload []byte) error {
		e, err := getEntry(payload, &f.hdr)
		switch due := max(s.last+1, f.first); {
		case err != nil:
			return err
		case more && due > limit:
			return errVoid
		case e.Seq != due:
			return fmt.Errorf("%w: record %d where %d was due", errDamaged, e.Seq, due)
		}
		s.fold.add(&e)
		s.last, s.closed = e.Seq, e.Kind == kindClosed
		return nil
	})
	if err == nil && more && s.last < limit && live[i+1].err == nil {
		err = fmt.Errorf("%w: records %d to %d are missing at its end", errDamaged, s.last+1, limit)
	}
	s.newest = tail{name: f.name, boot: f.hdr.boot, data: f.data[:f.body]}
	switch {
	case err == nil:
		return true
	case more && s.last == limit:
		// Whatever is wrong here, the next file says it does not count.
		s.cut(f, f.body, ReportVoid, "%d bytes after record %d were never acknowledged and are dropped", len(f.data)-f.body, s.last)
		return true
	case errors.Is(err, errTorn) && !more:
		s.closed = false
		s.cut(f, f.body, ReportTorn, "unfinished tail of %d bytes after record %d cut: %v", len(f.data)-f.body, s.last, err)
		return true
	default:
		return s.damage(live[i:], err)
	}
}

func (s *scan) cut(f *storedFile, size int, kind ReportKind, format string, args ...any) {
	s.cuts = append(s.cuts, cut{name: f.name, size: int64(size)})
	s.report(kind, f.name, format, args...)
}

// damage ends the history before the first of files.
func (s *scan) damage(files []storedFile, why error) bool {
	s.closed = false
	s.report(ReportDamaged, files[0].name, "journal %v; the history ends with record %d", why, s.last)
	s.kept = state.Remove(s.kept, files[0].name)
	for i := range files {
		s.damaged = append(s.damaged, files[i].name)
		s.lost = append(s.lost, files[i].name)
		if i > 0 {
			s.report(ReportDamaged, files[i].name, "dropped, because it follows the damage")
		}
	}
	s.newest = tail{}
	return false
}
