package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/history"
	"github.com/bmcstate/bmcstate/state/slog"
)

// Board is a domain's hardware. Every method obeys its context's deadline even
// when the hardware hangs; all are safe for concurrent use.
type Board interface {
	// Read samples the inputs twice, settle apart (0: once), and reports
	// whether both samples agree.
	Read(ctx context.Context, settle time.Duration) (levels state.Levels, agreed bool, err error)
	// Pulse asserts an output, releases it after width or at Release, and
	// returns then. moved says whether the line was asserted at all. An urgent
	// pulse is a power off: a press of the power button that is under way
	// becomes its own, and what else could refuse it does not.
	Pulse(ctx context.Context, signal string, width time.Duration, urgent bool) (moved bool, err error)
	// SetLevel drives a level-type output.
	SetLevel(ctx context.Context, signal string, on bool) error
	// Release ends a pulse early.
	Release(signal string)
	// ReleaseAll de-asserts every pulse line, within a second.
	ReleaseAll()
	// Edges carries hints until it is closed.
	Edges() <-chan Edge
}

// Units starts the systemd units that do a domain's work.
type Units interface {
	// Start starts a unit and returns when its job has ended; queued says
	// whether systemd took the job. When ctx ends first it returns at once: with
	// the cause [ErrAbandoned] the job is cancelled, otherwise it goes on. A
	// start that is not urgent waits until the helpers of what was abandoned
	// before are stopped. over is called as soon as the job has ended, before
	// what became of it is known.
	Start(ctx context.Context, domain int, unit, mode string, urgent bool, over func()) (queued bool, err error)
	// Abandon has the helpers stopped that may still act for the domain's
	// earlier operations. It does not wait.
	Abandon(domain int)
	// Cancel ends a job that somebody else queued. It does not wait.
	Cancel(job Foreign, why string)
}

// Edge says that an input may have moved, or that a pulse has asserted its
// output. Without a signal it says only that the levels are to be read.
type Edge struct {
	_ state.Incomparable

	Signal   string
	Asserted bool
}

// Platform is the BMC that the daemon runs on.
type Platform interface {
	// Reboot starts a reboot of the BMC; hard does not wait for units to stop.
	Reboot(ctx context.Context, hard bool) error
	// ResetSystem starts chassis-system-reset.target and returns when its job has
	// ended.
	ResetSystem(ctx context.Context) error
}

// Options are what an [Engine] needs of the world.
type Options struct {
	Config   Config
	Boards   map[int]Board // by domain id
	Units    Units         // nil where no domain has targets
	Platform Platform
	Journal  history.Options // Commit and Report are the engine's
	Now      func() state.Instant
	Log      *slog.Logger
	// WriteSetting, where not nil, changes a setting that another daemon holds,
	// and Incident takes what belongs into the BMC's event log.
	// Both are called from the engine's loop and must not block.
	WriteSetting func(host int, what state.Setting, value uint64)
	Incident     func(Incident)
	// Beat, where not nil, is called from the engine's own loop at least every
	// Beats; a watchdog hangs on it.
	Beat  func()
	Beats time.Duration
	// Signs, where not nil, takes what the fault monitor has to know. It is called
	// from the engine's loop and must not block.
	Signs func(Sign)
	// Notice, where not nil, takes what is worth a line in a log. It is called
	// from New and from the engine's loop, and must not block.
	Notice func(Notice)
}

// Holder is implemented by boards that can hold an output at its idle level.
type Holder interface {
	Hold(ctx context.Context, signal string, hold bool) error
}

var errNoHold = errors.New("this board cannot hold a line")
