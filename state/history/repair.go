package history

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bmcstate/bmcstate/state"
)

// Replay is what Open found.
type Replay struct {
	Picture
	// HighWater is the highest sequence that may ever have been given out.
	HighWater uint64
	// Damaged is set where part of the history was lost; Reports say which, and
	// what was unfinished has ended INTERRUPTED.
	Damaged bool
	// Barriers are the Chassis Offs that were driven unrecorded. What they
	// superseded has ended already.
	Barriers []Barrier
	// Volatile is the type of a state directory that does not survive power
	// loss, "" for a durable one.
	Volatile string
	// Unwritable says why no commit will succeed for now, nil where one should.
	Unwritable error
	Reports    []Report
}

// repairs is what a crash or damage left to be done on disk.
type repairs struct {
	_ state.Incomparable

	late    bool     // the directory could not be made at Open
	rewrite *Picture // write a snapshot of this, in place of all files
	high    uint64   // the snapshot's place
	files   *scan
}

// open reads the directories and repairs what it can.
func (d *disk) open() (*Replay, error) {
	late := d.takeDir()
	if errors.Is(late, ErrLocked) {
		return nil, late
	}
	s := &scan{fold: newFolder()}
	if late == nil {
		var err error
		if s, err = scanDir(d.opts.FS, d.opts.Dir); err != nil {
			return nil, errors.Join(err, d.lock.Close())
		}
	}
	m, markReports := readMarks(d.opts.FS, d.opts.RunDir)
	rep := &Replay{
		Picture: s.fold.picture(), HighWater: max(s.high, m.high), Damaged: len(s.lost) > 0,
		Barriers: m.barriers, Reports: append(s.reports, markReports...),
	}
	ended := settle(&rep.Picture, &m, rep.Damaged, d.opts.BootID, d.opts.Now())
	rep.Reports = append(rep.Reports, ended...)
	for _, text := range rep.Ignored {
		rep.Reports = append(rep.Reports, Report{Kind: ReportIgnored, Text: text})
	}
	d.last, d.start = s.last, rep.HighWater+1
	d.logBytes, d.logFiles, d.snapBytes = s.logBytes, s.logFiles, s.snapBytes
	d.repairs = &repairs{late: late != nil, high: rep.HighWater, files: s}
	if rep.Damaged || len(ended) > 0 {
		// The engine goes on with its own copy while this waits for the disk.
		p := rep.Picture
		p.Requests = append([]Record(nil), p.Requests...)
		p.Counters = map[int]Counters{}
		for domain, c := range rep.Counters {
			p.Counters[domain] = c
		}
		d.repairs.rewrite = &p
	}
	d.finishOpen(rep)
	return rep, nil
}

func (d *disk) finishOpen(rep *Replay) {
	say := d.opts.Report
	d.opts.Report = func(r Report) { rep.Reports = append(rep.Reports, r) }
	if rep.Unwritable = d.repair(); rep.Unwritable != nil {
		d.report(ReportFailed, "", "%v", rep.Unwritable)
		d.failing = true
	}
	d.opts.Report = say
	if name, err := d.opts.FS.Volatile(d.opts.Dir); err == nil {
		rep.Volatile = name
	}
}

// repair does what is left to be done. Until it has succeeded nothing may be
// written: a record behind damage would be lost with it.
func (d *disk) repair() error {
	r := d.repairs
	if r == nil {
		return nil
	}
	if r.late {
		if err := d.takeLate(); err != nil {
			return err
		}
		r.late = false
	}
	var err error
	if r.rewrite != nil {
		err = d.rewrite(r)
	} else {
		err = d.tidy(r.files)
	}
	if err == nil {
		d.repairs = nil
	}
	return err
}

// takeLate makes the directory that could not be made at Open. What is found in
// it now was not replayed and must not be written over.
func (d *disk) takeLate() error {
	if d.lock == nil {
		if err := d.takeDir(); err != nil {
			return err
		}
	}
	names, err := d.opts.FS.ReadDir(d.opts.Dir)
	if err != nil {
		return &IOError{Op: "list", Path: d.opts.Dir, Err: err}
	}
	for _, name := range names {
		if _, _, ok := parseName(name); ok {
			return fmt.Errorf("history: %s: a journal has appeared since the start; restart bmcstated to use it", d.opts.Dir)
		}
	}
	return nil
}

// tidy cuts torn tails, removes what is obsolete, and makes durable what the
// last process may have written without fsync: replay shows it.
func (d *disk) tidy(s *scan) error {
	for _, c := range s.cuts {
		if err := d.truncate(c.name, c.size); err != nil {
			return err
		}
	}
	if err := d.secure(&s.newest, s.closed); err != nil {
		return err
	}
	for _, name := range s.damaged {
		if err := d.setAside(name); err != nil {
			return err
		}
	}
	if s.newest.name == "" && len(s.obsolete) == 0 && len(s.damaged) == 0 {
		return nil
	}
	return d.remove(s.obsolete...)
}

// secure makes the last segment durable. Where its process was killed in this
// boot, what was read may be pages whose fsync had failed, which the kernel
// calls clean: a further fsync proves nothing then, but a copy does.
func (d *disk) secure(t *tail, closed bool) error {
	if t.name == "" {
		return nil
	}
	if closed || t.boot != d.opts.BootID {
		return d.sync(t.name)
	}
	temp := t.name + tempSuffix
	if err := d.writeFile(temp, t.data); err != nil {
		return err
	}
	d.opts.Point(PointTailSynced)
	if err := d.opts.FS.Rename(d.opts.path(temp), d.opts.path(t.name)); err != nil {
		return &IOError{Op: "rename", Path: d.opts.path(temp), Err: err}
	}
	d.opts.Point(PointTailRenamed)
	return nil // the caller syncs the directory
}

// writeFile writes a new file in one piece and syncs it.
func (d *disk) writeFile(name string, data []byte) error {
	path := d.opts.path(name)
	if err := d.opts.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "remove", Path: path, Err: err}
	}
	f, err := d.opts.FS.Create(path)
	if err != nil {
		return &IOError{Op: "create", Path: path, Err: err}
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = d.opts.FS.Remove(path)
		return &IOError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// sync makes a file durable, which costs nothing where it is.
func (d *disk) sync(name string) error {
	path := d.opts.path(name)
	f, err := d.opts.FS.OpenAppend(path)
	if err != nil {
		return &IOError{Op: "open", Path: path, Err: err}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return &IOError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// rewrite replaces the whole directory by a snapshot, sets damaged files aside
// and removes the rest.
func (d *disk) rewrite(r *repairs) error {
	if err := d.snapshot(r.rewrite, r.high, r.high+1); err != nil {
		return err
	}
	d.last = r.high
	for _, name := range r.files.damaged {
		if err := d.setAside(name); err != nil {
			return err
		}
	}
	if err := d.remove(r.files.leftBy(fileName(r.high+1, kindSnap))...); err != nil {
		return err
	}
	d.opts.Point(PointSnapCleared)
	return nil
}

// setAside gives a damaged file a name under which nothing reads it.
func (d *disk) setAside(name string) error {
	names, err := d.opts.FS.ReadDir(d.opts.Dir)
	if err != nil {
		return &IOError{Op: "list", Path: d.opts.Dir, Err: err}
	}
	aside := name + damagedSuffix
	for i := 1; state.Contains(names, aside); i++ {
		aside = fmt.Sprintf("%s%s.%d", name, damagedSuffix, i)
	}
	if err := d.opts.FS.Rename(d.opts.path(name), d.opts.path(aside)); errors.Is(err, fs.ErrNotExist) {
		return nil // done before the repair failed further on
	} else if err != nil {
		return &IOError{Op: "rename", Path: d.opts.path(name), Err: err}
	}
	d.report(ReportSetAside, name, "damaged file set aside as %s", aside)
	return nil
}

// snapshot writes a picture of the history up to record prev: new file, fsync,
// rename, fsync of the directory.
func (d *disk) snapshot(p *Picture, prev, first uint64) error {
	name := fileName(first, kindSnap)
	temp := d.opts.path(name + tempSuffix)
	if err := d.opts.FS.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "remove", Path: temp, Err: err}
	}
	size, err := d.writeTemp(temp, p, header{kind: kindSnap, first: first, prev: prev, boot: d.opts.BootID, at: d.opts.Now()})
	if err != nil {
		_ = d.opts.FS.Remove(temp)
		return &IOError{Op: "write", Path: temp, Err: err}
	}
	d.opts.Point(PointSnapSynced)
	if err := d.opts.FS.Rename(temp, d.opts.path(name)); err != nil {
		return &IOError{Op: "rename", Path: temp, Err: err}
	}
	d.opts.Point(PointSnapRenamed)
	if err := d.syncDir(); err != nil {
		return err
	}
	d.opts.Point(PointSnapDurable)
	d.snapBytes, d.logBytes, d.logFiles = size, 0, 0
	return nil
}

// snapBuffer is how much of a snapshot goes to the disk in one write.
const snapBuffer = 64 << 10

func (d *disk) writeTemp(path string, p *Picture, h header) (size int64, err error) {
	f, err := d.opts.FS.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, snapBuffer)
	put := func(b []byte) error {
		size += int64(len(b))
		_, err := out.Write(b)
		return err
	}
	head, err := appendHeader(nil, &h)
	if err != nil {
		return 0, err
	}
	if err := put(head); err != nil {
		return 0, err
	}
	err = writeSnapshot(p, func(payload []byte) error {
		frame, err := appendFrame(d.buf[:0], payload, h.seed)
		if err != nil {
			return err
		}
		d.buf = frame
		return put(frame)
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return 0, err
	}
	d.opts.Point(PointSnapWritten)
	return size, f.Sync()
}
