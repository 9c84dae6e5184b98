package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// disk is the writing side of the journal. One goroutine owns it.
type disk struct {
	opts *Options
	lock io.Closer // nil until the directory could be made and locked

	repairs *repairs // what must be done before the next write; nil = nothing
	failing bool     // the last commit failed

	start uint64   // first number that this process gives out
	last  uint64   // last durable sequence
	seg   *segment // being written; nil = begin a new one

	logBytes, logFiles int64 // segments since the snapshot
	snapBytes          int64

	buf []byte
	w   writer
}

// segment is the file being written.
type segment struct {
	_ [0]func() // see state.Incomparable

	name string
	file File
	hdr  header
	size int64 // durable bytes; 0 = not even the header
}

func (d *disk) report(kind ReportKind, file, format string, args ...any) {
	d.opts.Report(Report{Kind: kind, File: file, Text: fmt.Sprintf(format, args...)})
}

// takeDir makes the state directory and locks it.
func (d *disk) takeDir() error {
	dir := d.opts.Dir
	if err := d.opts.FS.MkdirAll(dir); err != nil {
		return &IOError{Op: "make", Path: dir, Err: err}
	}
	lock, err := d.opts.FS.Lock(dir)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("history: state directory %s: %w; stop the other bmcstated, or give this one another --state-dir", dir, ErrLocked)
	}
	if err != nil {
		return &IOError{Op: "lock", Path: dir, Err: err}
	}
	d.lock = lock
	return nil
}

// write makes a batch durable, or takes back what it wrote of it.
func (d *disk) write(batch []Entry) error {
	err := d.tryWrite(batch)
	switch {
	case err != nil && !d.failing:
		d.report(ReportFailed, "", "%v", err)
	case err == nil && d.failing:
		d.report(ReportRepaired, "", "the journal can be written again")
	}
	d.failing = err != nil
	return err
}

func (d *disk) tryWrite(batch []Entry) error {
	if err := d.repair(); err != nil {
		return err
	}
	first, last := batch[0].Seq, batch[len(batch)-1].Seq
	if d.seg != nil && d.full(last) {
		d.seal()
	}
	d.buf = d.buf[:0]
	if d.seg == nil {
		if err := d.begin(first); err != nil {
			return err
		}
	}
	if err := d.encode(batch); err != nil {
		return d.abandon("encode", err, false)
	}
	d.opts.Point(PointBeforeWrite)
	n, err := d.seg.file.Write(d.buf)
	if err != nil {
		return d.abandon("write", err, n > 0)
	}
	d.opts.Point(PointAfterWrite)
	if err := d.seg.file.Sync(); err != nil {
		return d.abandon("sync", err, true)
	}
	if d.seg.size == 0 {
		if err := d.opts.FS.SyncDir(d.opts.Dir); err != nil {
			return d.abandon("sync directory of", err, true)
		}
	}
	d.opts.Point(PointAfterSync)
	d.seg.size += int64(n)
	d.logBytes += int64(n)
	d.last = last
	return nil
}

// full reports whether the next segment is due before a batch that ends with
// sequence last. The span keeps the number in the file's name true.
func (d *disk) full(last uint64) bool {
	return d.seg.size >= d.opts.SegmentSize || last-d.seg.hdr.first >= sequenceSpan/2
}

// begin creates the next segment and puts its header into the buffer.
func (d *disk) begin(first uint64) error {
	seg := &segment{
		name: fileName(first, kindLog),
		hdr:  header{kind: kindLog, first: first, prev: d.last, boot: d.opts.BootID, at: d.opts.Now()},
	}
	path := d.opts.path(seg.name)
	var err error
	if seg.file, err = d.opts.FS.Create(path); err != nil {
		return &IOError{Op: "create", Path: path, Err: err}
	}
	d.seg = seg
	d.logFiles++
	if d.buf, err = appendHeader(d.buf, &seg.hdr); err != nil {
		return d.abandon("encode", err, false)
	}
	return nil
}

func (d *disk) encode(batch []Entry) error {
	for i := range batch {
		putEntry(d.w.reset(), &batch[i], &d.seg.hdr)
		var err error
		if d.buf, err = appendFrame(d.buf, d.w.b, d.seg.hdr.seed); err != nil {
			return fmt.Errorf("entry %d: %w", batch[i].Seq, err)
		}
	}
	return nil
}

// seal ends the current segment. Its content is durable, so an error of the
// descriptor means nothing any more.
func (d *disk) seal() {
	if d.seg != nil {
		_ = d.seg.file.Close()
		d.seg = nil
	}
}

// abandon gives up the current segment after a failure: the descriptor is not
// used again (after a failed fsync the kernel may call lost pages clean), and
// what it may have written beyond the last durable byte is taken back through a
// new one. It returns the error to answer.
func (d *disk) abandon(op string, cause error, touched bool) error {
	seg := d.seg
	d.seal()
	path := d.opts.path(seg.name)
	fail := &IOError{Op: op, Path: path, Err: cause}
	switch {
	case seg.size == 0:
		d.logFiles--
		fail.Uncertain = d.remove(seg.name) != nil && touched
	case touched:
		fail.Uncertain = d.truncate(seg.name, seg.size) != nil
	}
	return fail
}

// truncate cuts a file and makes that durable.
func (d *disk) truncate(name string, size int64) error {
	path := d.opts.path(name)
	f, err := d.opts.FS.OpenAppend(path)
	if err != nil {
		return &IOError{Op: "open", Path: path, Err: err}
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return &IOError{Op: "truncate", Path: path, Err: err}
	}
	return nil
}

// remove takes files away durably.
func (d *disk) remove(names ...string) error {
	for _, name := range names {
		path := d.opts.path(name)
		if err := d.opts.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &IOError{Op: "remove", Path: path, Err: err}
		}
	}
	return d.syncDir()
}

func (d *disk) syncDir() error {
	if err := d.opts.FS.SyncDir(d.opts.Dir); err != nil {
		return &IOError{Op: "sync", Path: d.opts.Dir, Err: err}
	}
	return nil
}

// remember puts into the run directory what a failed commit leaves behind: the
// numbers that are spent, and the requests that may be on disk all the same.
func (d *disk) remember(high uint64, batch []Entry, cause error) {
	fsys, dir := d.opts.FS, d.opts.RunDir
	err := setMark(fsys, dir, sequenceFile, mark{seq: high, boot: d.opts.BootID})
	var failed *IOError
	if errors.As(cause, &failed) && failed.Uncertain {
		for i := range batch {
			if batch[i].Kind == KindAccepted {
				err = errors.Join(err, addMark(fsys, dir, voidFile, mark{seq: batch[i].Request, boot: d.opts.BootID}))
			}
		}
	}
	if err != nil {
		d.report(ReportFailed, filepath.Base(dir), "%v", err)
	}
}

// close writes the last record, if any, and gives the directory back.
func (d *disk) close(last *Entry) error {
	var err error
	if last != nil {
		err = d.write([]Entry{*last})
	}
	d.seal()
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// Bounds of what is left to be compacted.
const (
	dueSegments = 4  // full ones
	dueFiles    = 32 // of any size: each start and each failure begins one
)

// due reports whether compaction is worth its writes: they are at most about
// as many as the journal has taken since the last one.
func (d *disk) due() bool {
	return d.logFiles > dueFiles || d.logBytes > max(dueSegments*d.opts.SegmentSize, d.snapBytes)
}

// compact writes the history anew from what is on disk.
func (d *disk) compact(drop func(uint64) bool) {
	if err := d.tryCompact(drop); err != nil {
		d.report(ReportCompact, "", "compaction: %v", err)
	}
}

func (d *disk) tryCompact(drop func(uint64) bool) error {
	if err := d.repair(); err != nil {
		return err
	}
	d.seal()
	s, err := scanDir(d.opts.FS, d.opts.Dir)
	if err != nil {
		return err
	}
	if len(s.damaged) > 0 || s.last != d.last {
		return fmt.Errorf("%w: the journal reads back up to record %d of %d; the next start deals with it", errDamaged, s.last, d.last)
	}
	p := s.fold.picture()
	kept := p.Requests[:0]
	for _, r := range p.Requests {
		if !r.Status.Final() || !drop(r.Seq) {
			kept = append(kept, r)
		}
	}
	p.Requests = kept
	if err := d.snapshot(&p, d.last, d.last+1); err != nil {
		return err
	}
	if err := d.remove(s.leftBy(fileName(d.last+1, kindSnap))...); err != nil {
		return err
	}
	d.opts.Point(PointSnapCleared)
	return nil
}
