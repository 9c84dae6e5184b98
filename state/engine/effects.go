package engine

import (
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Effect is something that [Core.Step] wants done. Effects are carried out in
// the order given.
type Effect interface{ isEffect() }

type (
	// replyEffect answers a call.
	replyEffect struct {
		reply  func(Answer)
		answer Answer
	}
	// probeEffect asks for a reading of all inputs; a [seen] event answers.
	probeEffect struct {
		domain int
		id     uint64
		settle time.Duration
	}
	// pulseEffect asserts an output for a while, or sets the level of one; an
	// [acted] event answers when the line is released, or has its level.
	pulseEffect struct {
		_ state.Incomparable

		domain   int
		request  uint64
		step     int
		entry    uint64 // the journal entry that must be durable
		barrier  bool   // the token is the barrier's
		signal   string
		set      bool // a level-type output: to is its level
		to       bool
		width    time.Duration
		takeOver bool // it goes on from a pulse that is asserted
		urgent   bool // a Chassis Off's
	}
	// startEffect starts a unit; an [acted] event answers when its job has
	// ended.
	startEffect struct {
		_ state.Incomparable

		domain  int
		request uint64
		step    int
		entry   uint64 // the journal entry that must be durable
		barrier bool   // the token is the barrier's
		unit    string
		mode    string
		urgent  bool // waits for nothing: power is to be cut
	}
	// abandonEffect cancels what a request's jobs have not done yet, and what
	// their helpers may still do.
	abandonEffect struct {
		domain  int
		request uint64
	}
	// cancelJobsEffect ends jobs that somebody else queued.
	cancelJobsEffect struct {
		domain int
		jobs   []Foreign
		why    string
	}
	// releaseEffect ends a pulse early.
	releaseEffect struct {
		_ state.Incomparable

		domain int
		signal string
	}
	// releaseAllEffect de-asserts every pulse line of every board.
	releaseAllEffect struct{}
	// barrierEffect lets a Chassis Off go ahead of a journal that does not
	// answer; a [barred] event answers.
	barrierEffect struct {
		domain  int
		request uint64
	}
	// voidEffect marks entries whose commit hangs, so that a replay does not
	// run them; a [voided] event answers.
	voidEffect struct{ entries []uint64 }
	// rebootEffect restarts the BMC.
	rebootEffect struct {
		_ state.Incomparable

		entry uint64
		hard  bool
		seq   uint64
	}

	// systemResetEffect starts what resets the whole machine; a [systemReset]
	// event answers.
	systemResetEffect struct {
		entry uint64
		seq   uint64
	}

	// holdEffect holds an output at its idle level, or ends that; a [controlled]
	// event answers.
	holdEffect struct {
		_ state.Incomparable

		domain int
		id     uint64
		signal string
		hold   bool
	}
	// levelEffect drives a level-type output for what is no transition; a
	// [controlled] event answers.
	levelEffect struct {
		_ state.Incomparable

		domain int
		id     uint64
		out    Output
		again  bool // it has failed before
	}
	// pressEffect pulses an output for what is no transition: an NMI, or a front
	// panel button that is passed on. A [controlled] event answers.
	pressEffect struct {
		_ state.Incomparable

		domain int
		id     uint64
		signal string
		width  time.Duration
	}

	publishPanel struct {
		_ state.Incomparable

		host  int
		panel state.Panel
	}
	publishHost struct {
		index int
		host  state.Host
	}
	publishChassis struct {
		_ state.Incomparable

		index   int
		chassis state.Chassis
	}
	publishSystem struct {
		_ state.Incomparable

		index   int
		chassis state.Chassis
	}
	publishBMC      struct{ bmc state.BMC }
	publishSchedule struct {
		_ state.Incomparable

		index    int
		schedule state.Schedule
	}
	publishQueue struct {
		_ state.Incomparable

		domain int
		queue  state.Queue
	}
	publishRequest struct {
		domain  int
		request state.Request
	}
	removeRequest struct {
		domain int
		seq    uint64
	}
)

func (replyEffect) isEffect()       {}
func (probeEffect) isEffect()       {}
func (pulseEffect) isEffect()       {}
func (startEffect) isEffect()       {}
func (abandonEffect) isEffect()     {}
func (cancelJobsEffect) isEffect()  {}
func (releaseEffect) isEffect()     {}
func (releaseAllEffect) isEffect()  {}
func (barrierEffect) isEffect()     {}
func (voidEffect) isEffect()        {}
func (rebootEffect) isEffect()      {}
func (systemResetEffect) isEffect() {}
func (holdEffect) isEffect()        {}
func (levelEffect) isEffect()       {}
func (pressEffect) isEffect()       {}
func (publishPanel) isEffect()      {}
func (publishHost) isEffect()       {}
func (publishChassis) isEffect()    {}
func (publishSystem) isEffect()     {}
func (publishBMC) isEffect()        {}
func (publishSchedule) isEffect()   {}
func (publishQueue) isEffect()      {}
func (publishRequest) isEffect()    {}
func (removeRequest) isEffect()     {}

// The events that the engine makes itself. They implement [Event] beside the
// calls of port.go.
type (
	// seen is a reading of a domain's inputs.
	seen struct {
		domain int
		id     uint64 // of the probe that it answers
		levels state.Levels
		agreed bool // both samples of a settled reading were equal
		err    error
	}
	// edge is a hint that an input moved; it also proves passages too short
	// for a reading.
	edge struct {
		domain   int
		signal   string
		asserted bool
	}
	// committed says how the journal fared with the entries first..last.
	committed struct {
		_ state.Incomparable

		first, last uint64
		err         error
	}
	// barred says that a barrier is in place.
	barred struct {
		_ state.Incomparable

		domain  int
		request uint64
		err     error
	}
	// voided says that entries are marked void.
	voided struct{ entries []uint64 }
	// acted says that a pulse has ended.
	acted struct {
		domain  int
		request uint64
		step    int
		moved   bool // the line was asserted
		err     error
	}
	// jobOver says that a unit's job has ended; acted says how.
	jobOver struct {
		domain  int
		request uint64
		step    int
	}
	// controlled says that a hold or an NMI has ended.
	controlled struct {
		domain int
		id     uint64
		err    error
	}
	// rebooting says that the platform refused to reboot.
	rebootFailed struct {
		seq uint64
		err error
	}
	// systemReset says that the job of a systemResetEffect has ended.
	systemReset struct {
		seq uint64
		err error
	}
	// tick says that time has passed.
	tick struct{}
)

func (seen) isEvent()         {}
func (edge) isEvent()         {}
func (committed) isEvent()    {}
func (barred) isEvent()       {}
func (voided) isEvent()       {}
func (acted) isEvent()        {}
func (jobOver) isEvent()      {}
func (controlled) isEvent()   {}
func (rebootFailed) isEvent() {}
func (systemReset) isEvent()  {}
func (tick) isEvent()         {}
