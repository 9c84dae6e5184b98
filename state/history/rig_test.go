package history_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/history/historytest"
)

const (
	dir = "/var/lib/bmcstate"
	run = "/run/bmcstate"
)

// clock returns a clock that goes on by a millisecond with each reading.
func clock() func() state.Instant {
	var mu sync.Mutex
	up := time.Hour
	return func() state.Instant {
		mu.Lock()
		defer mu.Unlock()
		up += time.Millisecond
		return state.Instant{Boot: up, Wall: time.Unix(1_800_000_000, 0).Add(up).UTC()}
	}
}

// rig is a log on a file system in memory, and what it has said.
type rig struct {
	*history.Log
	rep *history.Replay
	fs  *historytest.FS

	mu      sync.Mutex
	commits []history.Commit
	reports []history.Report
	came    chan struct{}
}

type option func(*history.Options)

func segments(size int64) option { return func(o *history.Options) { o.SegmentSize = size } }

func (r *rig) options(boot string, opts []option) history.Options {
	o := history.Options{
		Dir: dir, RunDir: run, FS: r.fs, BootID: boot, Now: clock(),
		Commit: func(c history.Commit) {
			r.mu.Lock()
			r.commits = append(r.commits, c)
			r.mu.Unlock()
			r.came <- struct{}{}
		},
		Report: func(rep history.Report) {
			r.mu.Lock()
			r.reports = append(r.reports, rep)
			r.mu.Unlock()
			r.came <- struct{}{}
		},
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// open opens the journal on fs; the test closes it at its end.
func open(t testing.TB, fs *historytest.FS, boot string, opts ...option) *rig {
	t.Helper()
	r := &rig{fs: fs, came: make(chan struct{}, 1<<16)}
	var err error
	r.Log, r.rep, err = history.Open(r.options(boot, opts))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// commitOf waits for the commit of an entry.
func (r *rig) commitOf(seq uint64) history.Commit {
	for {
		r.mu.Lock()
		at := slices.IndexFunc(r.commits, func(c history.Commit) bool { return c.First <= seq && seq <= c.Last })
		if at >= 0 {
			defer r.mu.Unlock()
			return r.commits[at]
		}
		r.mu.Unlock()
		<-r.came
	}
}

// put appends an entry and waits until it is durable.
func (r *rig) put(t testing.TB, e history.Entry) uint64 {
	t.Helper()
	seq := r.Append(e)
	require.NoError(t, r.commitOf(seq).Err)
	return seq
}

func (r *rig) said() []history.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports)
}

// firstReport waits for a report.
func (r *rig) firstReport() history.Report {
	for len(r.said()) == 0 {
		<-r.came
	}
	return r.said()[0]
}

// reopen closes the log and opens it again.
func (r *rig) reopen(t testing.TB, boot string, opts ...option) *rig {
	t.Helper()
	require.NoError(t, r.Close())
	return open(t, r.fs, boot, opts...)
}

func kinds(reports []history.Report) []history.ReportKind {
	var list []history.ReportKind
	for _, r := range reports {
		list = append(list, r.Kind)
	}
	return list
}

func newFS() *historytest.FS { return historytest.New(run) }

func accept(domain int, client, request string, op state.Operation) history.Entry {
	return history.Entry{Kind: history.KindAccepted, Domain: domain, Accepted: state.Request{
		Key: state.Key{UID: 1000, Client: client, Request: request}, Op: op,
		Object: state.Object{Kind: op.Kind(), Index: domain},
	}}
}

func started(request uint64) history.Entry {
	return history.Entry{Kind: history.KindStarted, Request: request, Verdict: state.VerdictPowerOn}
}

func step(request uint64, index uint32, name string) history.Entry {
	return history.Entry{Kind: history.KindStep, Request: request, Step: history.Step{Index: index, Name: name}}
}

func status(request uint64, s state.Status, reason string) history.Entry {
	return history.Entry{Kind: history.KindStatus, Request: request, Status: s, Reason: reason}
}

func find(t testing.TB, requests []history.Record, seq uint64) history.Record {
	t.Helper()
	at := slices.IndexFunc(requests, func(r history.Record) bool { return r.Seq == seq })
	require.GreaterOrEqual(t, at, 0, "request %d is gone", seq)
	return requests[at]
}
