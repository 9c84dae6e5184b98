package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
)

// commits collects what a log reports.
type commits chan history.Commit

func (c commits) wait(t *testing.T, seq uint64) history.Commit {
	t.Helper()
	for commit := range c {
		if commit.Last >= seq {
			return commit
		}
	}
	t.Fatal("no commit")
	return history.Commit{}
}

func clock() func() state.Instant {
	start := time.Unix(1_800_000_000, 0).UTC()
	began := time.Now()
	return func() state.Instant {
		up := time.Hour + time.Since(began)
		return state.Instant{Boot: up, Wall: start.Add(up)}
	}
}

func accept(domain int, client, request string, op state.Operation) history.Entry {
	return history.Entry{Kind: history.KindAccepted, Domain: domain, Accepted: state.Request{
		Key: state.Key{UID: 1000, Client: client, Request: request}, Op: op,
		Object: state.Object{Kind: op.Kind(), Index: domain},
	}}
}

func TestLogComesBack(t *testing.T) {
	dir := t.TempDir()
	heard := make(commits, 16)
	opts := history.Options{Dir: dir + "/state", RunDir: dir + "/run", BootID: "boot-a", Now: clock(), Commit: func(c history.Commit) { heard <- c }}
	l, rep, err := history.Open(opts)
	require.NoError(t, err)
	require.Empty(t, rep.Requests)
	require.Zero(t, rep.HighWater)

	_, _, err = history.Open(opts)
	require.ErrorIs(t, err, history.ErrLocked)
	require.ErrorContains(t, err, dir)

	one := l.Append(accept(0, "bmcweb", "1", state.HostOn))
	require.Equal(t, uint64(1), one)
	c := heard.wait(t, one)
	require.NoError(t, c.Err)
	require.NoError(t, c.Durable(one).Covers(l, one))
	l.Append(history.Entry{Kind: history.KindStarted, Request: one, Verdict: state.VerdictPowerOn})
	l.Append(history.Entry{Kind: history.KindStep, Request: one, Step: history.Step{Index: 1, Name: "assert POWER_OUT"}})
	two := l.Append(accept(1, state.PropertyClient, "", state.ChassisOff))
	heard.wait(t, two)
	require.NoError(t, l.Close())

	opts.Commit = nil
	l, rep, err = history.Open(opts)
	require.NoError(t, err)
	require.Empty(t, rep.Reports)
	require.Len(t, rep.Requests, 2)
	require.Equal(t, state.Running, rep.Requests[0].Status)
	require.Equal(t, "assert POWER_OUT", rep.Requests[0].Step.Name)
	require.Equal(t, "4", rep.Requests[1].Key.Request)
	require.Equal(t, uint64(6), l.Append(accept(0, "bmcweb", "2", state.HostOff)))
	require.NoError(t, l.Close())
}
