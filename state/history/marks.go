package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/state"
)

// Files of the run directory. A line is a sequence number, a blank, and the
// boot id. None of them is synced: the directory does not outlive the boot.
const (
	voidFile      = "void"
	barrierPrefix = "barrier-"
	sequenceFile  = "sequence"
)

// Barrier says that a Chassis Off was driven before its record was durable:
// every unfinished request of the domain that is older is dead.
type Barrier struct {
	Domain  int
	BootID  string
	Request uint64 // the Chassis Off
}

// mark is one line of a mark file.
type mark struct {
	_ state.Incomparable

	seq  uint64
	boot string
}

// marks is what the run directory holds.
type marks struct {
	voids    []mark
	barriers []Barrier
	high     uint64 // highest number in any of them
}

func (m mark) line() []byte { return fmt.Appendf(nil, "%d %s\n", m.seq, m.boot) }

// readMarks reads the run directory. What is unreadable there is reported and
// passed over: a torn line belongs to a caller that never got its answer.
func readMarks(fsys FS, dir string) (marks, []Report) {
	var m marks
	var reports []Report
	names, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		reports = append(reports, Report{Kind: ReportIgnored, Text: (&IOError{Op: "list", Path: dir, Err: err}).Error()})
	}
	state.Sort(names)
	for _, name := range names {
		domain, isBarrier := barrierDomain(name)
		if !isBarrier && name != voidFile && name != sequenceFile {
			continue
		}
		lines, err := readMarkFile(fsys, filepath.Join(dir, name))
		if err != nil {
			reports = append(reports, Report{Kind: ReportIgnored, File: name, Text: err.Error()})
		}
		for _, l := range lines {
			m.high = max(m.high, l.seq)
		}
		switch {
		case isBarrier && len(lines) > 0:
			last := lines[len(lines)-1]
			m.barriers = append(m.barriers, Barrier{Domain: domain, BootID: last.boot, Request: last.seq})
		case name == voidFile:
			m.voids = lines
		}
	}
	return m, reports
}

func barrierDomain(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, barrierPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil
}

func readMarkFile(fsys FS, path string) ([]mark, error) {
	data, err := fsys.ReadFile(path)
	if err != nil {
		return nil, &IOError{Op: "read", Path: path, Err: err}
	}
	var list []mark
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		number, boot, _ := strings.Cut(lines.Text(), " ")
		seq, bad := strconv.ParseUint(number, 10, 64)
		if bad != nil || boot == "" {
			err = fmt.Errorf("unreadable line %q passed over", lines.Text())
			continue
		}
		list = append(list, mark{seq: seq, boot: boot})
	}
	return list, errors.Join(err, lines.Err())
}

// addMark appends a line to a mark file.
func addMark(fsys FS, dir, name string, m mark) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return &IOError{Op: "make", Path: dir, Err: err}
	}
	return appendMark(fsys, filepath.Join(dir, name), m)
}

func appendMark(fsys FS, path string, m mark) error {
	f, err := fsys.OpenAppend(path)
	if err != nil {
		return &IOError{Op: "open", Path: path, Err: err}
	}
	_, err = f.Write(m.line())
	if err = errors.Join(err, f.Close()); err != nil {
		return &IOError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// setMark replaces a mark file by one line.
func setMark(fsys FS, dir, name string, m mark) error {
	path := filepath.Join(dir, name)
	if err := fsys.Remove(path + tempSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "remove", Path: path + tempSuffix, Err: err}
	}
	if err := addMark(fsys, dir, name+tempSuffix, m); err != nil {
		return err
	}
	if err := fsys.Rename(path+tempSuffix, path); err != nil {
		return &IOError{Op: "rename", Path: path, Err: err}
	}
	return nil
}

// Reasons that replay gives.
const (
	reasonDamaged = "journal damaged"
	reasonVoid    = "storage did not answer in time"
	reasonBarrier = "superseded by a Chassis Off that was driven while the storage did not answer"
)

// settle ends what the marks and damage say has ended. It returns a report for
// each request that it ended.
func settle(p *Picture, m *marks, damaged bool, bootID string, now state.Instant) []Report {
	var reports []Report
	end := func(r *Record, status state.Status, reason string) {
		r.Status, r.Reason, r.Ended, r.EndedBoot = status, reason, micro(now), bootID
		p.Boots = seenBoot(p.Boots, bootID, r.Ended.Boot)
		reports = append(reports, Report{Kind: ReportEnded,
			Text: fmt.Sprintf("request %d (%s) ends %s: %s", r.Seq, r.Op, status, reason)})
	}
	voids := map[uint64]string{}
	for _, v := range m.voids {
		voids[v.seq] = v.boot
	}
	for i := range p.Requests {
		r := &p.Requests[i]
		if r.Status.Final() {
			continue
		}
		boot, void := voids[r.Seq]
		switch {
		case void && boot == bootID:
			end(r, state.Interrupted, reasonVoid)
		case void:
			end(r, state.Expired, reasonVoid)
		case behind(m.barriers, r):
			end(r, state.Superseded, reasonBarrier)
		case damaged:
			end(r, state.Interrupted, reasonDamaged)
		}
	}
	return reports
}

func behind(barriers []Barrier, r *Record) bool {
	for _, b := range barriers {
		if b.Domain == r.Domain && r.Seq < b.Request {
			return true
		}
	}
	return false
}
