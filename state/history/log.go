package history

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/bmcstate/bmcstate/state"
)

// DefaultSegmentSize is how large a segment grows before the next one is begun.
const DefaultSegmentSize = 64 << 10

// Options say where a journal is and who hears of it.
type Options struct {
	// Dir is the state directory; one process has it at a time.
	Dir string
	// RunDir is the directory of the marks. It must not outlive the boot.
	RunDir string
	// FS is the file system of both; nil stands for OS().
	FS FS
	// BootID identifies the present boot of the BMC. It must not be empty.
	BootID string
	// Now returns the present moment; it must be safe for concurrent use.
	Now func() state.Instant
	// SegmentSize in bytes; 0 stands for DefaultSegmentSize.
	SegmentSize int64
	// Commit hears of every commit, in order, from the journal's goroutine. It
	// must not block and must not call Close. It may be nil.
	Commit func(Commit)
	// Report hears of what an operator should know and happened after Open. It
	// is called like Commit. It may be nil.
	Report func(Report)
	// Point, where not nil, is called at the named points; a test ends the
	// process there.
	Point func(Point)
}

func (o *Options) complete() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("history: no state directory given")
	case o.RunDir == "":
		return fmt.Errorf("history: no run directory given")
	case o.BootID == "":
		return fmt.Errorf("history: no boot id given")
	case o.Now == nil:
		return fmt.Errorf("history: no clock given")
	}
	if o.FS == nil {
		o.FS = OS()
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = DefaultSegmentSize
	}
	if o.Commit == nil {
		o.Commit = func(Commit) {}
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	if o.Point == nil {
		o.Point = func(Point) {}
	}
	return nil
}

// Point is a place in the journal's work where the process may end.
type Point string

// The points, in the order in which they are passed.
const (
	PointBeforeWrite   Point = "before-write"   // of a commit
	PointAfterWrite    Point = "after-write"    // before its fsync
	PointAfterSync     Point = "after-sync"     // before its Commit is reported
	PointReported      Point = "reported"       // after that
	PointSnapWritten   Point = "snap-written"   // a snapshot is written, not synced
	PointSnapSynced    Point = "snap-synced"    // it is synced, not renamed
	PointSnapRenamed   Point = "snap-renamed"   // it has its name, not durably
	PointSnapDurable   Point = "snap-durable"   // what it replaces is not removed yet
	PointSnapCleared   Point = "snap-cleared"   // what it replaces is removed
	PointTailSynced    Point = "tail-synced"    // a copy of a killed process's last file is synced, not renamed
	PointTailRenamed   Point = "tail-renamed"   // it has its name, not durably
	PointMarkVoid      Point = "mark-void"      // a void mark is about to be written
	PointMarkedVoid    Point = "marked-void"    // it is written
	PointMarkBarrier   Point = "mark-barrier"   // a barrier is about to be written
	PointMarkedBarrier Point = "marked-barrier" // it is written
)

// Points returns all points.
func Points() []Point {
	return []Point{
		PointBeforeWrite, PointAfterWrite, PointAfterSync, PointReported,
		PointSnapWritten, PointSnapSynced, PointSnapRenamed, PointSnapDurable, PointSnapCleared,
		PointTailSynced, PointTailRenamed,
		PointMarkVoid, PointMarkedVoid, PointMarkBarrier, PointMarkedBarrier,
	}
}

// Log is an open journal. Its methods are safe for concurrent use.
type Log struct {
	opts Options
	done chan struct{} // closed when the journal's goroutine has ended

	mu      sync.Mutex
	wake    sync.Cond
	next    uint64 // next sequence
	queue   []Entry
	taken   []Entry           // the batch that is being written, or was last
	drop    func(uint64) bool // a compaction that was asked for
	closing bool
	durable uint64              // last durable sequence
	voids   map[uint64]struct{} // given up, not yet durable
	offs    map[uint64]int      // unfinished Chassis Off → domain

	// Owned by Open, then by the journal's goroutine.
	disk     disk
	closeErr error
}

// Open locks the state directory, reads the journal, repairs what a crash or
// damage left behind, and starts the journal's goroutine.
//
// It fails where another process has the directory ([ErrLocked]), where a newer
// program wrote it ([ErrVersion]), or where it cannot be listed. A full or
// read-only disk is no failure: the log opens, Replay.Unwritable says why, and
// every commit fails until the disk takes writes again. Open does I/O and may
// hang with the storage.
func Open(opts Options) (*Log, *Replay, error) {
	if err := opts.complete(); err != nil {
		return nil, nil, err
	}
	l := &Log{opts: opts, done: make(chan struct{}), voids: map[uint64]struct{}{}, offs: map[uint64]int{}}
	l.wake.L = &l.mu
	l.disk = disk{opts: &l.opts}
	rep, err := l.disk.open()
	if err != nil {
		return nil, nil, err
	}
	l.next, l.durable = rep.HighWater+1, l.disk.last
	for i := range rep.Requests {
		if r := &rep.Requests[i]; r.Op == state.ChassisOff && !r.Status.Final() {
			l.offs[r.Seq] = r.Domain
		}
	}
	go l.run()
	return l, rep, nil
}

// Append gives an entry its sequence and queues it. It never waits for the disk.
// It fills in Seq, BootID, and Boot and Wall where Boot is 0; in an acceptance
// also Request, Accepted.Seq, an Accepted.Accepted that is zero, and an empty
// request id (which becomes the sequence number). It returns 0 and does nothing
// after Close, and for an entry of no known kind, an acceptance without a valid
// operation, or a Request that is still to come.
//
// An acceptance with Request set repeats one whose commit failed (a Chassis Off
// that was driven as NotDurable).
func (l *Log) Append(e Entry) uint64 {
	e.own()
	e.BootID = l.opts.BootID
	if e.Boot == 0 {
		now := l.opts.Now()
		e.Boot, e.Wall = now.Boot, now.Wall
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing || !e.storable(l.next) {
		return 0
	}
	return l.append(e)
}

func (l *Log) append(e Entry) uint64 {
	seq := l.next
	l.next++
	e.number(seq)
	l.trackOff(&e)
	l.queue = append(l.queue, e)
	l.wake.Signal()
	return seq
}

// trackOff remembers which requests NotDurable is for.
func (l *Log) trackOff(e *Entry) {
	switch {
	case e.Kind == KindAccepted && e.Accepted.Op == state.ChassisOff && !e.Accepted.Status.Final():
		l.offs[e.Request] = e.Domain
	case e.Kind == KindStatus && e.Status.Final():
		delete(l.offs, e.Request)
	}
}

// Committed returns the sequence up to which everything that did not fail is
// durable.
func (l *Log) Committed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// NotDurable lets an unfinished Chassis Off act before its records are durable:
// on a write error, or when the fsync takes too long. Before it returns the
// permit it writes the barrier to the run directory, so it does (tmpfs) I/O.
// Replay ends every unfinished older request of the domain SUPERSEDED.
func (l *Log) NotDurable(domain int, request uint64) (NotDurable, error) {
	l.mu.Lock()
	have, ok := l.offs[request]
	l.mu.Unlock()
	if !ok || have != domain {
		return NotDurable{}, fmt.Errorf("%w: request %d of domain %d", ErrNoBarrier, request, domain)
	}
	l.opts.Point(PointMarkBarrier)
	name := fmt.Sprintf("%s%d", barrierPrefix, domain)
	if err := setMark(l.opts.FS, l.opts.RunDir, name, mark{seq: request, boot: l.opts.BootID}); err != nil {
		return NotDurable{}, err
	}
	l.opts.Point(PointMarkedBarrier)
	return NotDurable{log: l, request: request}, nil
}

// Void gives up an acceptance whose commit hangs: its number goes to the run
// directory, so it does (tmpfs) I/O. From then on the request is dead: if it
// reaches the disk after all the log ends it INTERRUPTED itself, and replay does
// so in the same boot; another boot ends it EXPIRED. Its caller may be answered
// when Void has returned, whatever it returned. Entries of other kinds cannot be
// given up: for them Void does nothing.
func (l *Log) Void(seq uint64) error {
	if kind, ok := l.kindOf(seq); ok && kind != KindAccepted {
		return nil
	}
	l.opts.Point(PointMarkVoid)
	err := addMark(l.opts.FS, l.opts.RunDir, voidFile, mark{seq: seq, boot: l.opts.BootID})
	l.opts.Point(PointMarkedVoid)
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq > l.durable {
		l.voids[seq] = struct{}{}
	} else if !l.closing {
		l.interrupt(seq, 0)
	}
	return err
}

// kindOf looks for an entry that is on its way to the disk or has just got there.
func (l *Log) kindOf(seq uint64) (EntryKind, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, batch := range [][]Entry{l.taken, l.queue} {
		if n := len(batch); n > 0 && batch[0].Seq <= seq && seq <= batch[n-1].Seq {
			return batch[seq-batch[0].Seq].Kind, true
		}
	}
	return 0, false
}

// interrupt ends a voided acceptance that is durable.
func (l *Log) interrupt(seq uint64, domain int) {
	now := l.opts.Now()
	l.append(Entry{
		Kind: KindStatus, Domain: domain, Request: seq, BootID: l.opts.BootID, Boot: now.Boot, Wall: now.Wall,
		Status: state.Interrupted, Reason: reasonVoid,
	})
}

// Compact asks the journal's goroutine to write the history anew, without the
// finished requests for which drop returns true, and to remove what that
// replaces. It works from what is on disk, so nothing that is still on its way
// can be lost or added. Unfinished requests always stay. drop is called from
// the journal's goroutine. A failure is reported and harmless.
func (l *Log) Compact(drop func(request uint64) bool) {
	if drop == nil {
		drop = func(uint64) bool { return false }
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closing {
		l.drop = drop
		l.wake.Signal()
	}
}

// Close writes what was appended, ends the journal's goroutine and gives the
// directory back. It waits for the disk, for ever if that hangs.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.wake.Signal()
	l.mu.Unlock()
	<-l.done
	return l.closeErr
}

// work is what the goroutine does next.
type work struct {
	batch []Entry
	drop  func(uint64) bool
	last  bool
}

func (l *Log) take() work {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && l.drop == nil && !l.closing {
		l.wake.Wait()
	}
	w := work{batch: l.queue, drop: l.drop, last: l.closing}
	l.queue, l.drop = nil, nil
	if len(w.batch) > 0 {
		l.taken = w.batch
	}
	return w
}

func (l *Log) run() {
	defer close(l.done)
	for {
		w := l.take()
		if len(w.batch) > 0 {
			l.commit(w.batch)
		}
		if w.drop != nil {
			l.disk.compact(w.drop)
		}
		if w.last && len(w.batch) == 0 {
			l.closeErr = l.disk.close(l.sayClosed())
			return
		}
	}
}

// commit writes a batch and tells everybody.
func (l *Log) commit(batch []Entry) {
	c := Commit{First: batch[0].Seq, Last: batch[len(batch)-1].Seq}
	c.first, c.last = c.First, c.Last
	c.Err = l.disk.write(batch)
	l.mu.Lock()
	if c.Err == nil {
		c.log = l
		l.durable = c.Last
	}
	c.Voided = l.takeVoids(batch, c.Err == nil)
	high := l.next - 1
	l.mu.Unlock()
	if c.Err != nil {
		l.disk.remember(high, batch, c.Err)
	}
	c.Due = l.disk.due()
	l.opts.Commit(c)
	l.opts.Point(PointReported)
}

// takeVoids forgets the voids of a batch; it ends those that are durable.
func (l *Log) takeVoids(batch []Entry, durable bool) []uint64 {
	var voided []uint64
	for i := range batch {
		e := &batch[i]
		_, given := l.voids[e.Seq]
		delete(l.voids, e.Seq)
		if given && durable && e.Kind == KindAccepted {
			l.interrupt(e.Request, e.Domain)
			voided = append(voided, e.Seq)
		}
	}
	return voided
}

// sayClosed returns the last record, or nil where no number was given out.
func (l *Log) sayClosed() *Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == l.disk.start {
		return nil
	}
	now := l.opts.Now()
	e := Entry{Kind: kindClosed, BootID: l.opts.BootID, Boot: now.Boot, Wall: now.Wall}
	e.number(l.next)
	l.next++
	return &e
}

// Volatile returns the type of the file system that dir is on where its content
// does not survive power loss ("tmpfs", "ramfs"), else "". What lies below an
// overlay is not looked at.
func Volatile(fsys FS, dir string) (string, error) { return fsys.Volatile(dir) }

var _ io.Closer = (*Log)(nil)

func (o *Options) path(name string) string { return filepath.Join(o.Dir, name) }
