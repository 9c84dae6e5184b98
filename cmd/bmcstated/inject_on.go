//go:build inject

package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bmcstate/bmcstate/gpio"
	"github.com/bmcstate/bmcstate/state/history"
)

// injection lets a test harness end or hang the daemon at a chosen moment. It
// is steered by the environment:
//
//	BMCSTATE_POINTS=FILE   append a line per point passed: its number and name
//	BMCSTATE_KILL_AT=N     SIGKILL this process at the N-th point
//	BMCSTATE_ARM=FILE      count points only while FILE exists
//	BMCSTATE_SYNC_HANG=FILE   fsync does not return while FILE exists
//	BMCSTATE_ENGINE_HANG=FILE the engine's loop does not go on while FILE exists
//
// The points are every step of a journal write and of a pulse, in the order in
// which the process passes them.
type injection struct {
	killAt     uint64
	arm        string
	points     *os.File
	syncHang   string
	engineHang string
	n          *atomic.Uint64
	mu         *sync.Mutex
}

func newInjection() injection {
	i := injection{
		arm: os.Getenv("BMCSTATE_ARM"), syncHang: os.Getenv("BMCSTATE_SYNC_HANG"), engineHang: os.Getenv("BMCSTATE_ENGINE_HANG"),
		n: new(atomic.Uint64), mu: new(sync.Mutex),
	}
	if s := os.Getenv("BMCSTATE_KILL_AT"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			panic("BMCSTATE_KILL_AT: " + err.Error())
		}
		i.killAt = n
	}
	if name := os.Getenv("BMCSTATE_POINTS"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic("BMCSTATE_POINTS: " + err.Error())
		}
		i.points = f
	}
	return i
}

// pass counts a point and ends the process where it is the chosen one.
func (i injection) pass(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.arm != "" && !exists(i.arm) {
		return
	}
	n := i.n.Add(1)
	if i.points != nil {
		fmt.Fprintf(i.points, "%d %s\n", n, name)
	}
	if n == i.killAt {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

func (i injection) point() func(history.Point) {
	return func(p history.Point) { i.pass("journal/" + string(p)) }
}

func (i injection) hook() gpio.Hook {
	return func(p gpio.Point, signal string) { i.pass("line/" + string(p) + "/" + signal) }
}

func (i injection) allowHung() bool { return true }

func (i injection) beat(next func()) func() {
	return func() {
		waitGone(i.engineHang)
		if next != nil {
			next()
		}
	}
}

func (i injection) fs() history.FS {
	if i.syncHang == "" {
		return nil
	}
	return slowFS{history.OS(), i.syncHang}
}

// waitGone returns when a file does not exist.
func waitGone(name string) {
	for name != "" && exists(name) {
		time.Sleep(5 * time.Millisecond)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// slowFS is a file system whose fsync hangs on command.
type slowFS struct {
	history.FS
	hang string
}

func (s slowFS) Create(name string) (history.File, error) {
	f, err := s.FS.Create(name)
	return slowFile{f, s.hang}, err
}

func (s slowFS) OpenAppend(name string) (history.File, error) {
	f, err := s.FS.OpenAppend(name)
	return slowFile{f, s.hang}, err
}

type slowFile struct {
	history.File
	hang string
}

func (f slowFile) Sync() error {
	waitGone(f.hang)
	return f.File.Sync()
}
